#include "fabric/shm/copy.h"

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ocm::fabric::shm {

#if defined(__x86_64__)
namespace {

__attribute__((target("avx2"))) void stream(std::byte* target, const std::byte* source, uint64_t bytes) {
  constexpr uint64_t kAheadBytes = 1024;
  const uint64_t head = std::min<uint64_t>((64 - reinterpret_cast<uintptr_t>(target) % 64) % 64, bytes);
  std::memcpy(target, source, head);
  uint64_t i = head;
  for (; i + 128 <= bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(source + i + kAheadBytes), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(source + i + kAheadBytes + 64), _MM_HINT_T0);
    const auto* from = reinterpret_cast<const __m256i*>(source + i);
    auto* to = reinterpret_cast<__m256i*>(target + i);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    const __m256i c = _mm256_loadu_si256(from + 2), d = _mm256_loadu_si256(from + 3);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
    _mm256_stream_si256(to + 2, c);
    _mm256_stream_si256(to + 3, d);
  }
  std::memcpy(target + i, source + i, bytes - i);
  _mm_sfence();  // streaming stores are not ordered by themselves
}

}  // namespace

void copy_streaming(void* target, const void* source, uint64_t bytes) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) {
    stream(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes);
  } else {
    std::memcpy(target, source, bytes);
  }
}
#else
void copy_streaming(void* target, const void* source, uint64_t bytes) { std::memcpy(target, source, bytes); }
#endif

}  // namespace ocm::fabric::shm
