#include "cli/pattern.h"

#include <string.h>

#include "base/assert.h"

namespace ocm::cli {
namespace {

/// One multiplication and a fold: no two words of a gigabyte are alike, at several GB/s.
uint64_t word_at(uint64_t index, uint64_t seed) {
  const uint64_t mixed = (index + seed) * 0x9E3779B97F4A7C15ull;
  return mixed ^ (mixed >> 32);
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, uint64_t offset, uint64_t seed) {
  OCM_ASSERT(offset % 8 == 0 && bytes.size() % 8 == 0);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = word_at((offset + i) / 8, seed);
    memcpy(bytes.data() + i, &word, 8);
  }
}

size_t check_pattern(std::span<const std::byte> bytes, uint64_t offset, uint64_t seed) {
  OCM_ASSERT(offset % 8 == 0 && bytes.size() % 8 == 0);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes.data() + i, 8);
    const uint64_t difference = word ^ word_at((offset + i) / 8, seed);
    if (difference != 0) [[unlikely]]
      return i + static_cast<size_t>(__builtin_ctzll(difference)) / 8;
  }
  return bytes.size();
}

}  // namespace ocm::cli
