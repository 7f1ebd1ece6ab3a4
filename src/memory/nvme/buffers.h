// Memory for the pages that are between callers and a device: so many, and who finds none waits for its turn.
//
// Invariants
//   B1 At most count() pages are between memory and device.
//   B2 Who waits is served in order, and nobody who comes later before it; on a stack that does not grow with those who
//      wait.
// Threads: any.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "memory/nvme/block.h"

namespace ocm::memory::nvme {

class Buffers {
 public:
  static constexpr uint64_t kBytes = uint64_t{16} << 20;

  /// Throws std::bad_alloc.
  explicit Buffers(uint64_t page_bytes);
  ~Buffers() { OCM_ASSERT(free_.size() == count_); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  uint32_t count() const { return count_; }
  /// Null: none is free, or others wait for one.
  std::byte* try_take();
  /// Calls `use` with one when it is its turn, maybe now.
  void await(std::function<void(std::byte*)> use);
  void give(std::byte* buffer);
  bool is_valid() const {
    std::lock_guard lock(mutex_);
    return free_.size() <= count_;
  }

 private:
  void hand_out();

  const uint32_t count_;
  const Buffer memory_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::byte*> free_;
  std::deque<std::function<void(std::byte*)>> waiting_;
  bool handing_out_ = false;
};

}  // namespace ocm::memory::nvme
