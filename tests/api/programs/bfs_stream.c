/* Breadth-first search whose edges lie in remote memory and are streamed through a local allocation,
 * piece by piece, as the graph benchmarks on Oncilla did. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 20000, DEGREE = 8, EDGES = NODES * DEGREE, EDGES_PER_PIECE = 4096 };

/* The j-th neighbour of node i; the graph is connected through j == 0. */
static uint32_t neighbour(uint32_t i, uint32_t j) {
  return j == 0 ? (i + 1) % NODES : (uint32_t)(((uint64_t)i * 48271u + j * 7919u) % NODES);
}

static ocm_alloc_t allocate(enum ocm_kind kind, uint64_t local_bytes, uint64_t remote_bytes) {
  struct ocm_alloc_params params;
  params.local_alloc_bytes = local_bytes;
  params.rem_alloc_bytes = remote_bytes;
  params.kind = kind;
  return ocm_alloc(&params);
}

/* One sweep relaxes every edge once: levels settle after as many sweeps as the graph is deep. */
static int relax(const uint32_t* targets, uint32_t first, uint32_t count, int* level) {
  int changed = 0;
  uint32_t e;
  for (e = 0; e < count; e++) {
    int from = level[(first + e) / DEGREE];
    if (from >= 0 && (level[targets[e]] < 0 || level[targets[e]] > from + 1)) {
      level[targets[e]] = from + 1;
      changed = 1;
    }
  }
  return changed;
}

int main(void) {
  static uint32_t all[EDGES];
  static int streamed[NODES], expected[NODES];
  const uint64_t piece_bytes = EDGES_PER_PIECE * sizeof(uint32_t);
  ocm_alloc_t edges, piece;
  struct ocm_params p;
  void *edges_buf, *piece_buf;
  size_t len;
  uint32_t i, at;
  int changed, sweeps = 0;

  if (ocm_init()) return 1;
  edges = allocate(OCM_REMOTE_RDMA, piece_bytes, sizeof(all));
  piece = allocate(OCM_LOCAL_HOST, piece_bytes, 0);
  if (!edges || !piece) return 2;
  if (ocm_localbuf(edges, &edges_buf, &len) || ocm_localbuf(piece, &piece_buf, &len)) return 3;

  memset(&p, 0, sizeof(p));
  for (i = 0; i < EDGES; i++) all[i] = neighbour(i / DEGREE, i % DEGREE);
  for (at = 0; at < EDGES; at += EDGES_PER_PIECE) {
    uint32_t count = EDGES - at < EDGES_PER_PIECE ? EDGES - at : EDGES_PER_PIECE;
    memcpy(edges_buf, all + at, count * sizeof(uint32_t));
    p.src_offset = 0;
    p.dest_offset = at * sizeof(uint32_t);
    p.bytes = count * sizeof(uint32_t);
    p.op_flag = 1;
    if (ocm_copy_onesided(edges, &p)) return 4;
  }

  memset(streamed, -1, sizeof(streamed));
  memset(expected, -1, sizeof(expected));
  streamed[0] = expected[0] = 0;
  do {
    changed = 0;
    for (at = 0; at < EDGES; at += EDGES_PER_PIECE) {
      uint32_t count = EDGES - at < EDGES_PER_PIECE ? EDGES - at : EDGES_PER_PIECE;
      p.src_offset = 0;
      p.dest_offset = at * sizeof(uint32_t);
      p.bytes = count * sizeof(uint32_t);
      p.op_flag = 0; /* remote -> the pair's local buffer */
      if (ocm_copy_onesided(edges, &p)) return 5;
      changed |= relax(edges_buf, at, count, streamed);
    }
    sweeps++;
  } while (changed);
  while (relax(all, 0, EDGES, expected)) {
  }
  if (memcmp(streamed, expected, sizeof(expected))) return 6;
  for (i = 0; i < NODES; i++)
    if (streamed[i] < 0) return 7;

  /* The whole of the first piece by one two-sided copy: remote -> local buffer -> local allocation. */
  memset(piece_buf, 0, len);
  p.src_offset = p.dest_offset = 0;
  p.bytes = piece_bytes;
  p.op_flag = 1;
  if (ocm_copy(piece, edges, &p) || memcmp(piece_buf, all, piece_bytes)) return 8;
  if (ocm_tini()) return 9;
  printf("%d nodes, %d edges, %d sweeps\n", NODES, EDGES, sweeps);
  return 0;
}
