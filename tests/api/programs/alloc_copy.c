/* The allocation and copy test that came with such a library in 2013: every call once, by command line.
 *   alloc_copy [1|2|3 [local MB [remote MB]]]     1: allocation, 2: one-sided, 3: two-sided; none: all */
#include <math.h>
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>

#ifdef EXTOLL
#define REMOTE_KIND OCM_REMOTE_RMA
#else
#define REMOTE_KIND OCM_REMOTE_RDMA
#endif

static ocm_alloc_t allocate(enum ocm_kind kind, uint64_t local_bytes, uint64_t remote_bytes) {
  ocm_alloc_t a;
  ocm_alloc_param_t params = calloc(1, sizeof(struct ocm_alloc_params));
  params->local_alloc_bytes = local_bytes;
  params->rem_alloc_bytes = remote_bytes;
  params->kind = kind;
  a = ocm_alloc(params);
  free(params);
  if (!a) printf("ocm_alloc of kind %d failed\n", (int)kind);
  return a;
}

static int alloc_test(uint64_t local_bytes, uint64_t remote_bytes) {
  enum ocm_kind kinds[] = {OCM_LOCAL_HOST, OCM_REMOTE_RDMA, OCM_REMOTE_RMA};
  size_t i;
  for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    void* buf;
    size_t len, remote_len = 0;
    ocm_alloc_t a = allocate(kinds[i], local_bytes, remote_bytes);
    if (!a || ocm_localbuf(a, &buf, &len) || len != local_bytes) return -1;
    memset(buf, 1, len);
    if (ocm_alloc_kind(a) != kinds[i]) return -1;
    if (ocm_is_remote(a)) {
      if (ocm_remote_sz(a, &remote_len) || remote_len != remote_bytes) return -1;
    } else if (kinds[i] != OCM_LOCAL_HOST) {
      return -1;
    }
    printf("kind %d: local buffer of %lu bytes at %p, remote of %lu\n", (int)kinds[i], (unsigned long)len,
           buf, (unsigned long)remote_len);
    if (ocm_free(a)) return -1;
  }
  return 0;
}

static int copy_onesided_test(uint64_t local_bytes, uint64_t remote_bytes) {
  void* buf;
  size_t len;
  ocm_param_t params = calloc(1, sizeof(struct ocm_params));
  ocm_alloc_t a = allocate(REMOTE_KIND, local_bytes, remote_bytes);
  if (!a || ocm_localbuf(a, &buf, &len)) return -1;
  memset(buf, 'w', len);
  params->bytes = local_bytes;
  params->op_flag = 1;
  if (ocm_copy_onesided(a, params)) return -1;
  memset(buf, 0, len);
  params->op_flag = 0;
  if (ocm_copy_onesided(a, params)) return -1;
  if (((char*)buf)[0] != 'w' || ((char*)buf)[len - 1] != 'w') return -1;
  free(params);
  return ocm_free(a);
}

static int copy_twosided_test(uint64_t local_bytes, uint64_t remote_bytes) {
  void *first_buf, *second_buf;
  size_t len;
  ocm_param_t params = calloc(1, sizeof(struct ocm_params));
  ocm_alloc_t first = allocate(OCM_LOCAL_HOST, local_bytes, 0);
  ocm_alloc_t second = allocate(OCM_LOCAL_HOST, local_bytes, 0);
  ocm_alloc_t remote = allocate(REMOTE_KIND, local_bytes, remote_bytes);
  ocm_alloc_t other = allocate(REMOTE_KIND, local_bytes, remote_bytes);
  if (!first || !second || !remote || !other) return -1;
  if (ocm_localbuf(first, &first_buf, &len) || ocm_localbuf(second, &second_buf, &len)) return -1;
  params->bytes = local_bytes;
  params->op_flag = 1;
  memset(first_buf, 'a', len);
  if (ocm_copy(second, first, params)) return -1; /* host -> host */
  if (memcmp(first_buf, second_buf, len)) return -1;
  if (ocm_copy(remote, first, params)) return -1; /* host -> remote */
  if (ocm_copy(other, remote, params)) return -1; /* remote -> remote */
  memset(second_buf, 0, len);
  if (ocm_copy(second, other, params)) return -1; /* remote -> host */
  if (memcmp(first_buf, second_buf, len)) return -1;
  memset(first_buf, 0, len);
  params->op_flag = 0;
  if (ocm_copy(other, first, params)) return -1; /* read: the same, exchanged */
  if (memcmp(first_buf, second_buf, len)) return -1;
  free(params);
  return ocm_free(first) || ocm_free(second) || ocm_free(remote) || ocm_free(other);
}

int main(int argc, char* argv[]) {
  int which = argc > 1 ? atoi(argv[1]) : 0;
  uint64_t local_bytes = (uint64_t)((argc > 2 ? strtod(argv[2], 0) : 1) * pow(2, 20));
  uint64_t remote_bytes = (uint64_t)((argc > 3 ? strtod(argv[3], 0) : 4) * pow(2, 20));
  if (0 > ocm_init()) {
    printf("Cannot connect to OCM\n");
    return 1;
  }
  if ((!which || which == 1) && alloc_test(local_bytes, remote_bytes)) return printf("FAIL: allocation\n"), 1;
  if ((!which || which == 2) && copy_onesided_test(local_bytes, remote_bytes))
    return printf("FAIL: one-sided copy\n"), 1;
  if ((!which || which == 3) && copy_twosided_test(local_bytes, remote_bytes))
    return printf("FAIL: two-sided copy\n"), 1;
  if (0 > ocm_tini()) return printf("ocm_tini failed\n"), 1;
  printf("pass\n");
  return 0;
}
