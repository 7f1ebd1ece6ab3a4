// The pages of extents: between callers, who read, write and change any bytes of them, and the slots of a pool's device.
//
//   page: never written --write--> in a slot --read twice wrong--> lost --written whole--> in a slot
//
// A page that was never written is zeros, and costs neither a slot nor a request. What touches one page goes one after
// another; pages are independent. A piece of a page is written by reading the page first. Which slot a page's new bytes go
// to, and what becomes of the others, is the pool's to say.
//
// Invariants
//   P1 What is read had the checksum that it was written with: never old bytes, never zeros in their place.
//   P2 A write that failed went to another slot, kTries of them; where all fail the pool is told to stop, and the page is
//      in its own slot as before.
//   P3 The pool hears of each slot that a page got: written(), not_written(), then lost() or gone().
// Threads: any. The pool outlives its backings; its queue's threads call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/ids.h"
#include "memory/nvme/buffers.h"
#include "memory/nvme/queue.h"
#include "memory/nvme/records.h"
#include "memory/pool.h"

namespace ocm::memory::nvme {

struct PageId {
  ExtentId extent;
  uint64_t page = 0;
};

/// A pool, as its pages see it. Calls about one page come one after another, without locks.
class PagePool {
 public:
  static constexpr uint64_t kSlotsMax = (uint64_t{1} << 32) - 2;
  static constexpr uint32_t kTries = 3;  // slots, beside the first

  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  uint64_t slots() const { return slots_; }
  uint64_t page_bytes() const { return page_bytes_; }
  uint32_t buffers() const { return buffers_.count(); }

 protected:
  using MaybeSlot = Result<uint32_t>;
  using OwnSlot = std::optional<uint32_t>;  // none: never written, or lost

  /// Slot i lies at `first_byte` + i * page_bytes, a power of two from 4 KiB to 4 MiB. Throws std::bad_alloc: no memory for
  /// the buffers.
  PagePool(Queue& queue, uint64_t first_byte, uint64_t slots, uint64_t page_bytes);
  ~PagePool() = default;

  /// `pages`: those that were written. Errors: kNoMemory.
  Result<std::unique_ptr<Backing>> make_pages(const ExtentId& extent, uint64_t bytes,
                                              const std::unordered_map<uint64_t, PageAt>& pages);
  uint64_t count_of(uint64_t bytes) const { return (bytes + page_bytes_ - 1) / page_bytes_; }
  /// What a pool says from now on that takes no more writes.
  static Status read_only(const Status& why);
  /// So many so far.
  static void tell_lost(uint64_t pages, uint64_t bad_slots);
  bool buffers_are_valid() const { return buffers_.is_valid(); }

 private:
  class Pages;

  /// Errors: kIo: it takes no more writes, and why.
  virtual Status writable() const = 0;
  /// Where the page's bytes go now; `own` itself may be the answer, if there is one. None yet: `then` gets it, when it is
  /// its turn. Errors: those of writable(), or no slot is left.
  virtual std::optional<MaybeSlot> take_slot(OwnSlot own, std::function<void(MaybeSlot)> then) = 0;
  /// They are in `slot`, and no more in `own`. After an error they are not.
  virtual Status written(const PageId& page, OwnSlot own, uint32_t slot, uint32_t crc) = 0;
  /// The device failed to: nobody knows what is in `slot`.
  virtual void not_written(OwnSlot own, uint32_t slot) = 0;
  /// P2. The error for who wrote.
  virtual Status stop_writes(const Status& why) = 0;
  /// What is in `slot` is not what was written there.
  virtual void lost(uint32_t slot) = 0;
  /// Nobody wants the bytes of the slot any more.
  virtual void gone(uint32_t slot) = 0;
  /// The backing's end.
  virtual void ended(const ExtentId& extent) = 0;
  /// gone() gives the slot back.
  virtual bool frees_slots() const { return true; }

  uint64_t offset_of(uint32_t slot) const {
    OCM_DASSERT(slot < slots_);
    return first_byte_ + slot * page_bytes_;
  }

  Queue& queue_;
  const uint64_t first_byte_;
  const uint64_t slots_;
  const uint64_t page_bytes_;
  Buffers buffers_;
};

}  // namespace ocm::memory::nvme
