/* Threads that share one session and one pair: each its own part of it, and allocations of its own. */
#include <oncillamem.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 50, PART_BYTES = 65536 };

static ocm_alloc_t shared;

static ocm_alloc_t pair_of(uint64_t bytes) {
  struct ocm_alloc_params params;
  params.local_alloc_bytes = params.rem_alloc_bytes = bytes;
  params.kind = OCM_REMOTE_RDMA;
  return ocm_alloc(&params);
}

static void* work(void* argument) {
  uint64_t part = (uint64_t)(uintptr_t)argument;
  void *buf, *own_buf;
  size_t len;
  int round;
  if (ocm_localbuf(shared, &buf, &len)) return "localbuf";
  for (round = 1; round <= ROUNDS; round++) {
    unsigned char* bytes = (unsigned char*)buf + part * PART_BYTES;
    struct ocm_params p;
    ocm_alloc_t own = pair_of(PART_BYTES);
    if (!own || ocm_localbuf(own, &own_buf, &len)) return "alloc";
    memset(&p, 0, sizeof(p));
    memset(bytes, (int)part + round, PART_BYTES);
    p.src_offset = p.dest_offset = part * PART_BYTES;
    p.bytes = PART_BYTES;
    p.op_flag = 1;
    if (ocm_copy_onesided(shared, &p)) return "write";
    p.dest_offset = 0; /* its part of the shared remote buffer -> the start of its own */
    if (ocm_copy(own, shared, &p)) return "copy";
    p.src_offset = 0;
    p.op_flag = 0;
    if (ocm_copy_onesided(own, &p)) return "read";
    if (memcmp(own_buf, bytes, PART_BYTES)) return "bytes";
    if (ocm_free(own)) return "free";
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  uintptr_t i;
  int failed = 0;
  if (ocm_init() || !(shared = pair_of(THREADS * PART_BYTES))) return 1;
  for (i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (i = 0; i < THREADS; i++) {
    void* fault;
    pthread_join(threads[i], &fault);
    if (fault) failed = printf("thread %d: %s\n", (int)i, (const char*)fault);
  }
  return failed || ocm_free(shared) || ocm_tini() ? 2 : 0;
}
