/* Reads and writes between the two buffers of a pair, at all the offsets that matter, and their rate.
 *   read_write [remote MB] */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned char pattern(uint64_t position) { return (unsigned char)(position * 2654435761u >> 13); }

int main(int argc, char* argv[]) {
  struct ocm_alloc_params alloc_params;
  struct ocm_params p;
  const uint64_t chunk = 1 << 20;
  uint64_t remote_bytes = (uint64_t)(argc > 1 ? atoi(argv[1]) : 32) << 20, at, i;
  unsigned char* local;
  size_t len;
  void* buf;
  double start, wrote, read;
  ocm_alloc_t a;

  if (ocm_init()) return 1;
  alloc_params.local_alloc_bytes = chunk;
  alloc_params.rem_alloc_bytes = remote_bytes;
  alloc_params.kind = OCM_REMOTE_RDMA;
  if (!(a = ocm_alloc(&alloc_params))) return 2;
  if (ocm_localbuf(a, &buf, &len)) return 3;
  local = buf;

  memset(&p, 0, sizeof(p));
  start = now();
  for (at = 0; at < remote_bytes; at += chunk) {
    for (i = 0; i < chunk; i++) local[i] = pattern(at + i);
    p.dest_offset = at;
    p.bytes = chunk;
    p.op_flag = 1;
    if (ocm_copy_onesided(a, &p)) return 4;
  }
  wrote = now() - start;

  start = now();
  for (at = 0; at < remote_bytes; at += chunk) {
    memset(local, 0, chunk);
    p.dest_offset = at;
    p.op_flag = 0;
    if (ocm_copy_onesided(a, &p)) return 5;
    for (i = 0; i < chunk; i++)
      if (local[i] != pattern(at + i)) return printf("byte %lu differs\n", (unsigned long)(at + i)), 6;
  }
  read = now() - start;

  /* Small and unaligned pieces, across the borders of the large ones. */
  for (at = 1; at + 777 < remote_bytes; at += 99991) {
    p.src_offset = at % 1000;
    p.dest_offset = at;
    p.bytes = 777;
    if (ocm_copy_onesided(a, &p)) return 7;
    for (i = 0; i < 777; i++)
      if (local[p.src_offset + i] != pattern(at + i)) return 8;
  }
  /* Both ends, and one byte further. */
  p.src_offset = chunk - 16;
  p.dest_offset = remote_bytes - 16;
  p.bytes = 16;
  p.op_flag = 1;
  if (ocm_copy_onesided(a, &p)) return 9;
  p.bytes = 17;
  if (ocm_copy_onesided(a, &p) >= 0) return 10;
  if (ocm_free(a) || ocm_tini()) return 11;
  printf("wrote %.0f MB/s, read %.0f MB/s, patterns included\n", remote_bytes / wrote / 1e6,
         remote_bytes / read / 1e6);
  return 0;
}
