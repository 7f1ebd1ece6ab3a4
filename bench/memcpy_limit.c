/* The limit of a put and a get on shared memory: memcpy between a private buffer and a shared mapping
 * (memfd, as an extent is), by 1 or N threads.
 *
 * usage: memcpy_limit --threads N --sizes 64,4096 --seconds 0.2
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure.h"

enum { kThreadsMax = 16 };

static struct {
  char* target;
  const char* source;
  uint64_t bytes;
  int threads;
  atomic_long round; /* incremented by the caller: workers copy their part once a round */
  atomic_int done;   /* workers that finished the current round */
  atomic_bool stop;
} work;

static void copy_part(int index) {
  const uint64_t part = ((work.bytes / (uint64_t)work.threads) + 63) & ~63ull;
  const uint64_t from = part * (uint64_t)index;
  const uint64_t end = from + part < work.bytes ? from + part : work.bytes;
  if (from < end) memcpy(work.target + from, work.source + from, end - from);
}

static void* worker(void* argument) {
  const int index = (int)(intptr_t)argument;
  long seen = 0;
  while (!atomic_load(&work.stop)) {
    const long now = atomic_load(&work.round);
    if (now == seen) {
      __builtin_ia32_pause();
      continue;
    }
    seen = now;
    copy_part(index);
    atomic_fetch_add(&work.done, 1);
  }
  return NULL;
}

static void copy_alone(void* context, long count) {
  (void)context;
  for (long i = 0; i < count; i++) {
    memcpy(work.target, work.source, work.bytes);
    __asm__ volatile("" ::: "memory");
  }
}

static void copy_together(void* context, long count) {
  (void)context;
  for (long i = 0; i < count; i++) {
    atomic_store(&work.done, 0);
    atomic_fetch_add(&work.round, 1);
    copy_part(0);
    while (atomic_load(&work.done) != work.threads - 1) __builtin_ia32_pause();
  }
}

int main(int argc, char** argv) {
  uint64_t sizes[kMeasureSizesMax];
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  work.threads = atoi(measure_argument(argc, argv, "--threads", "1"));
  if (work.threads < 1 || work.threads > kThreadsMax) return 2;

  const uint64_t largest = measure_largest(sizes, count);
  const int fd = memfd_create("memcpy_limit", 0);
  if (fd < 0 || ftruncate(fd, (off_t)largest) != 0) return 1;
  char* shared = mmap(NULL, largest, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char* local = aligned_alloc(4096, (largest + 4095) & ~4095ull);
  if (shared == MAP_FAILED || local == NULL) return 1;
  memset(shared, 1, largest);
  memset(local, 2, largest);

  pthread_t threads[kThreadsMax];
  for (int i = 1; i < work.threads; i++) {
    pthread_create(&threads[i], NULL, worker, (void*)(intptr_t)i);
  }
  for (int i = 0; i < count; i++) {
    for (int get = 0; get < 2; get++) {
      work.bytes = sizes[i];
      work.target = get ? local : shared;
      work.source = get ? shared : local;
      measure_print(get ? "get" : "put", sizes[i],
                    measure_run(work.threads == 1 ? copy_alone : copy_together, NULL, seconds));
    }
  }
  atomic_store(&work.stop, true);
  for (int i = 1; i < work.threads; i++) pthread_join(threads[i], NULL);
  return 0;
}
