/* Offsets and lengths above 4 GiB. Only the pages that are touched take memory. Exit code 77: there is
 * no node that offers so much. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const uint64_t four_gib = 1ull << 32, bytes = four_gib + (64 << 20), around = 1 << 20;
  struct ocm_alloc_params params;
  struct ocm_params p;
  ocm_alloc_t a;
  size_t len;
  void* buf;
  char* local;
  if (ocm_init()) return 1;
  params.local_alloc_bytes = bytes;
  params.rem_alloc_bytes = bytes;
  params.kind = OCM_REMOTE_RDMA;
  if (!(a = ocm_alloc(&params))) return 77;
  if (ocm_localbuf(a, &buf, &len) || len != bytes) return 2;
  if (ocm_remote_sz(a, &len) || len != bytes) return 3;
  local = buf;
  memset(local + four_gib - around, 'a', around);
  memset(local + four_gib, 'b', around);
  memset(&p, 0, sizeof(p));
  p.src_offset = p.dest_offset = four_gib - around;
  p.bytes = 2 * around;
  p.op_flag = 1;
  if (ocm_copy_onesided(a, &p)) return 4;
  p.dest_offset = four_gib - 1;
  p.src_offset = 0;
  p.bytes = 2;
  p.op_flag = 0;
  if (ocm_copy_onesided(a, &p) || local[0] != 'a' || local[1] != 'b') return 5;
  /* A length whose low 32 bits would fit is an overrun all the same. */
  p.dest_offset = bytes - 16;
  p.bytes = four_gib + 16;
  if (ocm_copy_onesided(a, &p) >= 0) return 6;
  if (ocm_free(a) || ocm_tini()) return 7;
  return 0;
}
