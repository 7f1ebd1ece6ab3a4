// A pool whose bytes end with the daemon: pages of extents in slots of the device, with their checksums in memory.
//
//   page: never written --write--> in a slot --read twice wrong--> lost --written whole--> in a slot
//
// A page that was never written is zeros, and costs neither a slot nor a request. What touches one page goes one after
// another; pages are independent. A piece of a page is written by reading the page first.
//
// Invariants
//   X1 A slot is in use by one page, or free, or bad; a bad one is not used again.
//   X2 What is read had the checksum that it was written with: never old bytes, never zeros in their place.
//   X3 A write that failed went to another slot, kTries of them; where all fail the pool takes no more writes and makes no
//      more extents, and what it has can be read: also the page whose write failed, where its slot is as it was.
//   X4 At most buffers() pages are between memory and device.
// Threads: any. The pool outlives its backings; its queue's threads call.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/nvme/queue.h"
#include "memory/pool.h"

namespace ocm::memory::nvme {

class ScratchPool {
 public:
  static constexpr uint64_t kSlotsMax = (uint64_t{1} << 32) - 2;
  static constexpr uint32_t kTries = 3;  // slots, beside the first
  static constexpr uint64_t kBuffersBytes = uint64_t{16} << 20;

  /// Slot i lies at `first_byte` + i * page_bytes, a power of two from 4 KiB to 4 MiB. More slots than the budget has pages
  /// are for what goes bad. Throws std::bad_alloc: no memory for the buffers.
  ScratchPool(Queue& queue, uint64_t first_byte, uint32_t slots, uint64_t page_bytes);
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Errors: kNoMemory (also: more than there are slots), kIo (X3; says what failed).
  Result<std::unique_ptr<Backing>> make(uint64_t bytes);

  struct State {
    uint64_t slots = 0, free_slots = 0, bad_slots = 0;
    uint64_t lost_pages = 0;  // so far
    Status writable;          // X3
  };
  State state() const;
  uint32_t buffers() const { return buffers_; }
  /// X1 and X4, of what is free; O(slots that were used).
  bool is_valid() const;

 private:
  class Pages;

  uint64_t offset_of(uint32_t slot) const {
    OCM_DASSERT(slot < slots_);
    return first_byte_ + slot * page_bytes_;
  }
  /// Errors: kIo (X3), also where no slot is left.
  Result<uint32_t> take_slot();
  void give_slot(uint32_t slot);
  /// One that is never given back.
  void slot_is_bad();
  void page_is_lost();
  /// X3.
  Status writable() const {
    std::lock_guard lock(mutex_);
    return writable_;
  }
  Status stop_writes(const Status& why);
  /// Null: none is free, or others wait for one.
  std::byte* try_buffer();
  /// Calls `use` with one when it is its turn, maybe now.
  void await_buffer(std::function<void(std::byte*)> use);
  void give_buffer(std::byte* buffer);
  void hand_out_buffers();

  Queue& queue_;
  const uint64_t first_byte_;
  const uint32_t slots_;
  const uint64_t page_bytes_;
  const uint32_t buffers_;
  const Buffer memory_;  // of the buffers

  mutable std::mutex mutex_;  // guards what follows
  std::vector<uint32_t> free_;
  uint32_t fresh_ =
      0;  // slots from here on were never used: a pool of millions needs no list of them at its start
  uint64_t bad_ = 0;
  uint64_t lost_ = 0;
  Status writable_;
  std::vector<std::byte*> free_buffers_;
  std::deque<std::function<void(std::byte*)>> want_buffer_;
  bool handing_out_ = false;
};

}  // namespace ocm::memory::nvme
