// Copies between a program's memory and a mapping by one thread, the fastest way for their length. Splitting
// a long copy over several threads is the client's (client/big_copy.h).
//
//   below kStreamBytes     memcpy: the bytes stay in the cache, where the next reader finds them
//   from kStreamBytes on   stores around the cache: no line is read before it is overwritten
#pragma once

#include <cstdint>
#include <cstring>

namespace ocm::fabric::shm {

/// Where streaming begins to pay: half of a common last-level cache (measured).
inline constexpr uint64_t kStreamBytes = uint64_t{16} << 20;

/// Copies with stores around the cache where the processor has them, else memcpy. Ordered before every later
/// store of this thread.
void copy_streaming(void* target, const void* source, uint64_t bytes);

/// Copies [source, source + bytes) to `target`; they do not overlap.
/// Cost: below kStreamBytes one memcpy.
inline void copy_bytes(void* target, const void* source, uint64_t bytes) {
  if (bytes >= kStreamBytes) [[unlikely]] {
    copy_streaming(target, source, bytes);
  } else if (bytes > 0) {  // of nothing both may be null
    std::memcpy(target, source, bytes);
  }
}

}  // namespace ocm::fabric::shm
