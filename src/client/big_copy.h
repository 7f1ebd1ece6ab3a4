// Copies between memory of this process, by several threads where that is faster.
#pragma once

#include <cstddef>
#include <cstring>

namespace ocm::client {

/// Below this a single thread's copy stays in its cache and beats any hand-over.
inline constexpr size_t kParallelBytesMin = size_t{4} << 20;

void parallel_copy(void* target, const void* source, size_t bytes);

/// memcpy for ranges that do not overlap. Cost: that of memcpy below kParallelBytesMin.
inline void big_copy(void* target, const void* source, size_t bytes) {
  if (bytes < kParallelBytesMin) {
    std::memcpy(target, source, bytes);
  } else {
    parallel_copy(target, source, bytes);
  }
}

/// The same for ranges that may overlap.
inline void big_move(void* target, const void* source, size_t bytes) {
  const auto* to = static_cast<const char*>(target);
  const auto* from = static_cast<const char*>(source);
  if (to + bytes <= from || from + bytes <= to) return big_copy(target, source, bytes);
  std::memmove(target, source, bytes);
}

}  // namespace ocm::client
