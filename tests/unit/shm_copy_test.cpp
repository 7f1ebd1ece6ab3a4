// fabric/shm/copy: every length and alignment arrives whole, and nothing beside it.
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "fabric/shm/copy.h"

namespace ocm::fabric::shm {
namespace {

std::vector<uint32_t> numbers(uint64_t bytes) {
  std::vector<uint32_t> words(bytes / 4 + 2);
  std::iota(words.begin(), words.end(), 7u);
  return words;
}

bool copies(uint64_t bytes, uint64_t target_skew, uint64_t source_skew) {
  const std::vector<uint32_t> source = numbers(bytes + 64);
  std::vector<std::byte> target(bytes + 128, std::byte{0xEE});
  const auto* from = reinterpret_cast<const std::byte*>(source.data()) + source_skew;
  copy_bytes(target.data() + target_skew, from, bytes);
  return std::memcmp(target.data() + target_skew, from, bytes) == 0 &&
         target[target_skew + bytes] == std::byte{0xEE} &&
         (target_skew == 0 || target[target_skew - 1] == std::byte{0xEE});
}

TEST(ShmCopy, EveryLengthAndAlignmentArrivesWhole) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{4097}, kStreamBytes - 1,
                               kStreamBytes, kStreamBytes + 1, 2 * kStreamBytes + 12345}) {
    for (const uint64_t skew : {0, 1, 31, 63}) {
      EXPECT_TRUE(copies(bytes, skew, 0)) << bytes << " " << skew;
      EXPECT_TRUE(copies(bytes, 0, skew)) << bytes << " " << skew;
    }
  }
}

}  // namespace
}  // namespace ocm::fabric::shm
