/* One way to time an operation, shared by every C program here, so that the numbers compare.
 *
 * A subject hands over a function that performs `count` operations one after the other, each complete
 * before the next starts. It is warmed up, sized so that one sample is long beside the clock, and
 * sampled until its time is used up; the result is the median time of one operation.
 */
#ifndef ONCILLA_BENCH_MEASURE_H
#define ONCILLA_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMeasureSamplesMax = 4096, kMeasureSizesMax = 32 };

typedef void (*measure_batch)(void* context, long count);

typedef struct measure_result {
  double us; /* median of the samples, for one operation */
  double us_min;
  double us_max;
  long operations;
} measure_result;

static inline double measure_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int measure_compare(const void* a, const void* b) {
  double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static inline measure_result measure_run(measure_batch batch, void* context, double seconds) {
  static double samples[kMeasureSamplesMax];
  const double sample_seconds = seconds / 32;
  double start = measure_now_s(), took;
  long count = 1, done = 0;
  batch(context, 1);
  /* Warm up with growing batches until one fills a sample. */
  while ((start = measure_now_s(), batch(context, count), took = measure_now_s() - start) < sample_seconds &&
         count < (1L << 40)) {
    if (took < sample_seconds / 16) {
      count *= 8;
    } else {
      count = (long)((double)count * sample_seconds / took * 1.1) + 1;
    }
  }
  int taken = 0;
  const double end = measure_now_s() + seconds;
  while (taken < kMeasureSamplesMax && (taken < 3 || measure_now_s() < end)) {
    start = measure_now_s();
    batch(context, count);
    samples[taken++] = (measure_now_s() - start) / (double)count;
    done += count;
  }
  qsort(samples, (size_t)taken, sizeof samples[0], measure_compare);
  measure_result result = {samples[taken / 2] * 1e6, samples[0] * 1e6, samples[taken - 1] * 1e6, done};
  return result;
}

/* Each result is one line of JSON on stdout. */
static inline void measure_print(const char* operation, uint64_t bytes, measure_result result) {
  printf("{\"op\":\"%s\",\"bytes\":%llu,\"us\":%.6g,\"us_min\":%.6g,\"us_max\":%.6g,\"n\":%ld}\n", operation,
         (unsigned long long)bytes, result.us, result.us_min, result.us_max, result.operations);
  fflush(stdout);
}

/* "64,4096,1048576" into `sizes`; the number of them. */
static inline int measure_sizes(const char* text, uint64_t* sizes) {
  int count = 0;
  while (*text && count < kMeasureSizesMax) {
    char* end;
    sizes[count++] = strtoull(text, &end, 0);
    text = *end == ',' ? end + 1 : end;
    if (end == text && *end != '\0') break;
  }
  return count;
}

static inline uint64_t measure_largest(const uint64_t* sizes, int count) {
  uint64_t largest = 0;
  for (int i = 0; i < count; i++) {
    if (sizes[i] > largest) largest = sizes[i];
  }
  return largest;
}

/* The value after `name` in the arguments, or `fallback`. */
static inline const char* measure_argument(int argc, char** argv, const char* name, const char* fallback) {
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return fallback;
}

#endif
