/* The 2013 API over a real node: the direction of every copy, errors, and what ends with what. A plain C
 * program, built as an outside one: cc oncillamem_test.c -locm -lm. Its exit code is 1 if a check failed. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>

int ocm_extoll_disconnect(ocm_alloc_t); /* in the library of 2013, in none of its headers */

static int failed;
#define CHECK(condition) \
  ((condition) ? (void)0 : (void)(failed = 1, fprintf(stderr, "line %d: %s\n", __LINE__, #condition)))

static ocm_alloc_t allocate(int kind, uint64_t local_bytes, uint64_t remote_bytes) {
  struct ocm_alloc_params params;
  params.local_alloc_bytes = local_bytes;
  params.rem_alloc_bytes = remote_bytes;
  params.kind = (enum ocm_kind)kind;
  return ocm_alloc(&params);
}

static char* local(ocm_alloc_t a) {
  void* buf = NULL;
  size_t len = 0;
  CHECK(ocm_localbuf(a, &buf, &len) == 0);
  return buf;
}

static struct ocm_params make(uint64_t src, uint64_t dest, uint64_t src_2, uint64_t dest_2, uint64_t bytes,
                              int op_flag) {
  struct ocm_params p;
  memset(&p, 0, sizeof(p));
  p.src_offset = src;
  p.dest_offset = dest;
  p.src_offset_2 = src_2;
  p.dest_offset_2 = dest_2;
  p.bytes = bytes;
  p.op_flag = op_flag;
  return p;
}

static void four_directions(void) {
  ocm_alloc_t host = allocate(OCM_LOCAL_HOST, 4096, 0), host_2 = allocate(OCM_LOCAL_HOST, 4096, 0);
  ocm_alloc_t far = allocate(OCM_REMOTE_RDMA, 8192, 1 << 20), far_2 = allocate(OCM_REMOTE_RMA, 8192, 1 << 20);
  struct ocm_params p = make(100, 200, 200, 70000, 64, 1), before = p;
  CHECK(host && host_2 && far && far_2);
  if (!host || !host_2 || !far || !far_2) return;

  memset(local(host) + 100, 'x', 64); /* local -> remote, through far's local buffer */
  CHECK(ocm_copy(far, host, &p) == 0);
  CHECK(memcmp(&p, &before, sizeof(p)) == 0);
  CHECK(memcmp(local(far) + 200, local(host) + 100, 64) == 0);

  p = make(70000, 300, 0, 0, 64, 1); /* remote -> remote */
  CHECK(ocm_copy(far_2, far, &p) == 0);

  p = make(500, 300, 0, 0, 64, 1); /* remote -> local, through far_2's local buffer */
  CHECK(ocm_copy(host_2, far_2, &p) == 0);
  CHECK(memcmp(local(far_2) + 500, local(host) + 100, 64) == 0);
  CHECK(memcmp(local(host_2) + 300, local(host) + 100, 64) == 0);

  p = make(0, 300, 0, 0, 64, 0); /* local -> local, as a read: host[300] <- host_2[0] */
  memset(local(host_2), 'y', 64);
  before = p;
  CHECK(ocm_copy(host_2, host, &p) == 0);
  CHECK(memcmp(&p, &before, sizeof(p)) == 0);
  CHECK(memcmp(local(host) + 300, local(host_2), 64) == 0);

  p = make(0, 1 << 19, 0, 0, 64, 0); /* one-sided: never written, so zeros */
  CHECK(ocm_copy_onesided(far, &p) == 0);
  CHECK(local(far)[0] == 0 && memcmp(local(far), local(far) + 1, 63) == 0);
  CHECK(ocm_free(host) == 0 && ocm_free(host_2) == 0 && ocm_free(far) == 0 && ocm_free(far_2) == 0);
}

static void within_one_remote_buffer(void) {
  ocm_alloc_t far = allocate(OCM_REMOTE_RDMA, 64, 64);
  struct ocm_params p = make(0, 0, 0, 0, 16, 1);
  memcpy(local(far), "0123456789abcdef", 16);
  CHECK(ocm_copy_onesided(far, &p) == 0);
  p = make(0, 4, 0, 0, 16, 1);
  CHECK(ocm_copy(far, far, &p) == 0);
  p = make(0, 0, 0, 0, 20, 0);
  CHECK(ocm_copy_onesided(far, &p) == 0);
  CHECK(memcmp(local(far), "01230123456789abcdef", 20) == 0);
  CHECK(ocm_free(far) == 0);
}

static void whole_buffer_in_and_out(void) {
  static char in[10000], out[10000];
  ocm_alloc_t far = allocate(OCM_REMOTE_RDMA, sizeof(in), sizeof(in));
  memset(in, 'q', sizeof(in));
  CHECK(ocm_copy_in(far, in) == 0);
  CHECK(ocm_copy_out(out, far) == 0);
  CHECK(memcmp(in, out, sizeof(in)) == 0);
  CHECK(ocm_free(far) == 0);
}

static void bad_calls(void) {
  ocm_alloc_t far = allocate(OCM_REMOTE_RDMA, 4096, 4096), host = allocate(OCM_LOCAL_HOST, 4096, 0);
  struct ocm_params p = make(0, 1, 0, 0, 4096, 1);
  size_t len = 7;
  char byte;
  CHECK(ocm_copy_onesided(far, &p) < 0); /* leaves the remote buffer */
  p = make(1, 0, 0, 0, 4096, 1);
  CHECK(ocm_copy_onesided(far, &p) < 0); /* leaves the local buffer */
  p = make(0, UINT64_MAX, 0, 0, 2, 0);
  CHECK(ocm_copy_onesided(far, &p) < 0); /* overflows */
  p = make(0, 0, 0, 0, 16, 1);
  CHECK(ocm_copy_onesided(host, &p) < 0); /* there is no remote buffer */
  CHECK(ocm_remote_sz(host, &len) < 0 && len == 7);
  CHECK(!ocm_is_remote(host) && ocm_is_remote(far));
  CHECK(ocm_copy(far, NULL, &p) < 0 && ocm_copy(NULL, far, &p) < 0 && ocm_copy(far, host, NULL) < 0);
  CHECK(ocm_copy_onesided(NULL, &p) < 0 && ocm_copy_onesided(far, NULL) < 0);
  CHECK(ocm_copy_in(NULL, &byte) < 0 && ocm_copy_in(far, NULL) < 0);
  CHECK(ocm_copy_out(NULL, far) < 0 && ocm_copy_out(&byte, NULL) < 0);
  CHECK(ocm_localbuf(NULL, NULL, NULL) < 0 && ocm_localbuf(far, NULL, &len) < 0);
  CHECK(!ocm_is_remote(NULL) && (int)ocm_alloc_kind(NULL) == 0 && ocm_free(NULL) < 0);
  CHECK(!ocm_alloc(NULL) && !allocate(OCM_LOCAL_GPU, 64, 64) && !allocate(OCM_REMOTE_GPU, 64, 64));
  CHECK(!allocate(0, 64, 64) && !allocate(99, 64, 64) && !allocate(OCM_REMOTE_RDMA, 64, 0));
  CHECK(!allocate(OCM_REMOTE_RDMA, 4096, 1ull << 62)); /* more than any cluster has */
  CHECK(ocm_extoll_disconnect(far) == 0 && ocm_extoll_disconnect(NULL) < 0);
  CHECK(ocm_free(far) == 0 && ocm_free(far) < 0 && ocm_copy_onesided(far, &p) < 0);
  CHECK(ocm_free((ocm_alloc_t)(void*)&byte) < 0);
  CHECK(ocm_free(host) == 0);
}

int main(void) {
  ocm_alloc_t held;
  CHECK(ocm_tini() < 0 && !allocate(OCM_LOCAL_HOST, 64, 0));
  if (ocm_init()) return 1;
  CHECK(ocm_init() == 0 && ocm_tini() == 0); /* nested */
  four_directions();
  within_one_remote_buffer();
  whole_buffer_in_and_out();
  bad_calls();
  held = allocate(OCM_REMOTE_RDMA, 4096, 4096);
  CHECK(held && ocm_tini() == 0);
  CHECK(ocm_free(held) < 0 && ocm_tini() < 0);
  CHECK(ocm_init() == 0); /* again; and the program ends with it open */
  held = allocate(OCM_REMOTE_RMA, 4096, 4096);
  CHECK(held != NULL);
  return failed;
}
