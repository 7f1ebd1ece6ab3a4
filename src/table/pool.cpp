#include "table/pool.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <new>

#include "base/assert.h"
#include "table/fork.h"

namespace ocm::table {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kMappedBytesMin = uint64_t{1} << 20;
constexpr uint64_t kPaddingBytes = 64;
static_assert(kMappedBytesMin <= kHugePage && std::has_single_bit(kHugePage));
static_assert(Pool::kIdleBytesMax >= kHugePage, "something can lie idle");

/// Sizes are few, so that what is given back fits the next one.
uint64_t capacity_for(uint64_t bytes) {
  bytes += kPaddingBytes;
  if (bytes >= kMappedBytesMin) return (bytes + kHugePage - 1) & ~(kHugePage - 1);
  uint64_t capacity = 4096;
  while (capacity < bytes) capacity *= 2;
  OCM_DASSERT(capacity <= kMappedBytesMin);
  return capacity;
}

}  // namespace

Pool::~Pool() {
  for (const auto& [capacity, data] : idle_) end({data, capacity});
}

Pool::Block Pool::make(uint64_t capacity) {
  if (capacity < kMappedBytesMin) {
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kPaddingBytes, capacity));
    if (data == nullptr) throw std::bad_alloc();
    return {data, capacity};
  }
  // One huge page more, to begin at a whole one.
  const uint64_t mapped = capacity + kHugePage;
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(memory);
  OCM_DASSERT(capacity % 4096 == 0);
  const uint64_t skip = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (skip > 0) ::munmap(begin, skip);
  ::munmap(begin + skip + capacity, kHugePage - skip);
  (void)::madvise(begin + skip, capacity, MADV_HUGEPAGE);
  return {begin + skip, capacity};
}

void Pool::end(Block block) {
  if (block.capacity_bytes < kMappedBytesMin) {
    std::free(block.data);
  } else {
    ::munmap(block.data, block.capacity_bytes);
  }
}

std::shared_ptr<std::byte> Pool::take(uint64_t bytes) {
  const uint64_t capacity = capacity_for(bytes);
  Block block{nullptr, 0};
  {
    std::lock_guard lock(mutex_);
    const auto found = idle_.lower_bound(capacity);
    // Up to twice as large, so that little columns do not sit in large memory.
    if (found != idle_.end() && found->first <= capacity * 2) {
      block = {found->second, found->first};
      OCM_DASSERT(idle_bytes_ >= found->first);
      idle_bytes_ -= found->first;
      idle_.erase(found);
    }
  }
  if (block.data == nullptr) block = make(capacity);
  OCM_DASSERT(block.capacity_bytes >= bytes + kPaddingBytes);
  OCM_DASSERT(reinterpret_cast<uintptr_t>(block.data) % kPaddingBytes == 0);
  return {block.data, [pool = shared_from_this(), block, born = fork_generation()](std::byte*) {
            if (born == fork_generation()) {
              pool->give_back(block);
            } else {
              end(block);
            }
          }};
}

void Pool::give_back(Block block) {
  {
    std::lock_guard lock(mutex_);
    if (idle_bytes_ + block.capacity_bytes <= kIdleBytesMax) {
      // In front of its equals: what was used last is taken first, and is perhaps still in the cache.
      idle_.emplace_hint(idle_.lower_bound(block.capacity_bytes), block.capacity_bytes, block.data);
      idle_bytes_ += block.capacity_bytes;
      OCM_DASSERT(idle_bytes_ <= kIdleBytesMax && idle_bytes_ >= idle_.size() * 4096);
      return;
    }
  }
  end(block);
}

}  // namespace ocm::table
