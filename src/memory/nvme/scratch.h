// A pool whose bytes end with the daemon: pages of extents (pages.h) in slots of the device, which they keep, with their
// checksums in memory.
//
// Invariants, beside those of its pages
//   X1 A slot is in use by one page, or free, or bad; a bad one is not used again.
//   X2 After writes that failed, in kTries other slots too, the pool takes no more writes and makes no more extents, and
//      what it has can be read: also the page whose write failed, where its slot is as it was.
// Threads: any. The pool outlives its backings; its queue's threads call.
#pragma once

#include <mutex>
#include <vector>

#include "memory/nvme/pages.h"

namespace ocm::memory::nvme {

class ScratchPool final : public PagePool {
 public:
  /// More slots than the budget has pages are for what goes bad. The others: PagePool.
  ScratchPool(Queue& queue, uint64_t first_byte, uint32_t slots, uint64_t page_bytes);
  ~ScratchPool();

  /// Errors: kNoMemory (also: more than there are slots), kIo (X2; says what failed).
  Result<std::unique_ptr<Backing>> make(uint64_t bytes);

  struct State {
    uint64_t slots = 0, free_slots = 0, bad_slots = 0;
    uint64_t lost_pages = 0;  // so far
    Status writable;          // X2
  };
  State state() const;
  /// X1, of what is free, and the buffers; O(slots that were used).
  bool is_valid() const;

 private:
  Status writable() const override {
    std::lock_guard lock(mutex_);
    return writable_;
  }
  std::optional<MaybeSlot> take_slot(OwnSlot own, std::function<void(MaybeSlot)> then) override;
  Status written(const PageId& page, OwnSlot own, uint32_t slot, uint32_t crc) override;
  void not_written(OwnSlot own, uint32_t slot) override;
  Status stop_writes(const Status& why) override;
  void lost(uint32_t slot) override;
  void gone(uint32_t slot) override;
  void ended(const ExtentId&) override {}
  /// One that is never given back.
  void slot_is_bad();

  mutable std::mutex mutex_;  // guards what follows
  std::vector<uint32_t> free_;
  uint32_t fresh_ =
      0;  // slots from here on were never used: a pool of millions needs no list of them at its start
  uint64_t bad_ = 0;
  uint64_t lost_ = 0;
  Status writable_;
};

}  // namespace ocm::memory::nvme
