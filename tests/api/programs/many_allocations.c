/* Hundreds of pairs at once, each with bytes of its own, freed in another order than allocated.
 *   many_allocations [count] */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 8192, ROUNDS = 3 };

int main(int argc, char* argv[]) {
  int count = argc > 1 ? atoi(argv[1]) : 300, round, i;
  ocm_alloc_t* pairs = calloc((size_t)count, sizeof(*pairs));
  if (ocm_init()) return 1;
  for (round = 0; round < ROUNDS; round++) {
    for (i = 0; i < count; i++) {
      struct ocm_alloc_params params;
      struct ocm_params p;
      void* buf;
      size_t len;
      if (pairs[i]) continue;
      params.local_alloc_bytes = BYTES;
      params.rem_alloc_bytes = BYTES + 64 * (uint64_t)i;
      params.kind = i % 2 ? OCM_REMOTE_RDMA : OCM_REMOTE_RMA;
      if (!(pairs[i] = ocm_alloc(&params))) return printf("pair %d of round %d\n", i, round), 2;
      if (ocm_localbuf(pairs[i], &buf, &len)) return 3;
      memset(&p, 0, sizeof(p));
      p.dest_offset = 64 * (uint64_t)i;
      p.bytes = BYTES;
      /* Memory that another pair had before reads as zeros. */
      if (ocm_copy_onesided(pairs[i], &p)) return 4;
      if (((char*)buf)[0] || memcmp(buf, (char*)buf + 1, BYTES - 1)) return 5;
      memset(buf, i % 251 + 1, BYTES);
      p.op_flag = 1;
      if (ocm_copy_onesided(pairs[i], &p)) return 6;
      memset(buf, 0, BYTES);
    }
    for (i = 0; i < count; i++) {
      struct ocm_params p;
      unsigned char* bytes;
      void* buf;
      size_t len;
      memset(&p, 0, sizeof(p));
      p.dest_offset = 64 * (uint64_t)i;
      p.bytes = BYTES;
      if (ocm_localbuf(pairs[i], &buf, &len) || ocm_copy_onesided(pairs[i], &p)) return 7;
      bytes = buf;
      if (bytes[0] != i % 251 + 1 || memcmp(bytes, bytes + 1, BYTES - 1))
        return printf("pair %d has another's bytes\n", i), 8;
    }
    for (i = count - 1; i >= 0; i -= 1 + round) {
      ocm_alloc_t stale = pairs[i];
      if (ocm_free(pairs[i])) return 9;
      pairs[i] = NULL;
      if (ocm_free(stale) >= 0) return 10;
    }
  }
  for (i = 0; i < count; i++)
    if (pairs[i] && ocm_free(pairs[i])) return 11;
  if (ocm_tini()) return 12;
  free(pairs);
  printf("%d pairs, %d rounds\n", count, ROUNDS);
  return 0;
}
