// A pool whose named extents are there after a crash: pages (pages.h) in the slots of a store (store.h), each written to a
// new one.
//
//   write: a free slot gets the page's bytes -> a change of the next group, which readers see -> the group is committed:
//          it is promised, and the slot that the page lay in before is free
//   promise(): everything that completed before is committed; callers that come meanwhile share the next group
//
// The pool's own thread commits: at once where somebody asked for a promise or waits for a slot; where fewer than one of
// kShortOf spare slots are free; else kPromisedWithin after the first change.
//
// Invariants, beside those of its pages and of its store
//   R1 A slot has a page, or had one until a change that is not committed, or is free, or is being written, or is bad; a bad
//      one is not used again in this run.
//   R2 What completed before a promise() that was kept is there after a crash, or what was written later to the same page:
//      whole pages.
//   R3 After a write that failed in kTries other slots too, or a commit that failed, nothing is promised any more and nothing
//      changes; what it has can be read.
//   R4 A write waits for a slot as long as a commit or a write under way will free one. Extents have at most as many pages
//      as there are slots that are not spare: so it ends, unless so many slots are bad.
//   R5 A page whose bytes are not those of its checksum is lost, also in the next run, until it is written whole.
// Threads: any. The pool outlives its backings; its queue's threads and its own call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "memory/nvme/pages.h"
#include "memory/nvme/store.h"

namespace ocm::memory::nvme {

class DurablePool final : public PagePool {
 public:
  static constexpr std::chrono::milliseconds kPromisedWithin{1000};
  static constexpr uint64_t kShortOf = 4;

  /// `queue` is of the device that `store` was opened on; both it and the device outlive the pool. Errors:
  /// kInvalidArgument (more slots than kSlotsMax), kNoMemory.
  static Result<std::unique_ptr<DurablePool>> open(Queue& queue, std::unique_ptr<Store> store,
                                                   std::chrono::milliseconds within = kPromisedWithin);
  /// Commits what there is.
  ~DurablePool();

  struct Extent {
    ExtentId id;
    uint64_t bytes = 0;
    std::string description;  // empty: it has no name, and ends with this run
  };
  /// After open(), those that survived.
  std::vector<Extent> extents() const;
  /// Of one that survived; there is one at a time. Errors: kNotFound, kNoMemory.
  Result<std::unique_ptr<Backing>> backing_of(const ExtentId& id);
  /// A new one. Errors: kNoMemory (R4 too), kLimit (more than a checkpoint holds), kProtocol (it is there, or has no
  /// bytes), kIo (R3).
  Result<std::unique_ptr<Backing>> make(const ExtentId& id, uint64_t bytes);
  /// What `pages`, of make() or backing_of(), has is promised when a write of it is done, and it can be kept: lasting().
  std::unique_ptr<Backing> lasting(const ExtentId& id, std::unique_ptr<Backing> pages);
  /// It survives from the next promise on, with what its home needs to know of it, not empty. Errors: kProtocol (it is not
  /// there), kLimit, kIo (R3).
  Status named(const ExtentId& id, std::string description);
  /// It is freed with its backing, or now if that is gone. Errors: kProtocol, kIo.
  Status unnamed(const ExtentId& id);

  /// kOk: R2. kIo: R3. `done` is called once, by the pool's thread, and must not wait.
  void promise(std::function<void(Status)> done);

  struct State {
    uint64_t slots = 0, free_slots = 0, bad_slots = 0;
    uint64_t pages = 0;       // of all extents
    uint64_t lost_pages = 0;  // so far
    uint64_t commits = 0;
    Status writable;  // R3
  };
  State state() const;
  /// R1, R4, and the store; O(everything).
  bool is_valid() const;

 private:
  DurablePool(Queue& queue, std::unique_ptr<Store> store, std::chrono::milliseconds within);

  Status writable() const override;
  std::optional<MaybeSlot> take_slot(OwnSlot own, std::function<void(MaybeSlot)> then) override;
  Status written(const PageId& page, OwnSlot own, uint32_t slot, uint32_t crc) override;
  void not_written(OwnSlot own, uint32_t slot) override;
  Status stop_writes(const Status& why) override;
  void lost(uint32_t slot) override;
  void gone(uint32_t) override {}  // the extent's end frees them
  void ended(const ExtentId& id) override;
  bool frees_slots() const override { return false; }

  class LastingPages;

  // Of these the lock is held.
  Status add(const Record& record);
  /// If it has neither a name nor a backing.
  Status free_if_over(const ExtentId& id);
  std::optional<uint32_t> next_free();
  Status stop(const Status& why);
  bool is_short() const;
  bool has_work() const;
  // And let go of in between.
  using Lock = std::unique_lock<std::mutex>;
  void commit(Lock& lock);
  void hand_out_slots(Lock& lock);
  void loop();

  const std::chrono::milliseconds within_;
  const Geometry geometry_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const std::unique_ptr<Store> store_;  // but for its write(), which the pool's thread alone calls
  std::set<ExtentId> backed_;
  uint64_t pages_ = 0;
  uint64_t writing_ = 0;                    // slots that were taken and of which nothing was heard yet
  uint64_t releasing_ = 0;                  // slots that the group under way frees
  uint64_t bad_ = 0;                        // slots that nothing knows any more
  std::unordered_set<uint32_t> bad_later_;  // when the page that was lost in it is written elsewhere
  uint64_t lost_ = 0;
  uint64_t commits_ = 0;
  std::chrono::steady_clock::time_point due_;  // where there are changes
  std::deque<std::function<void(MaybeSlot)>> want_slot_;
  std::vector<std::function<void(Status)>> want_promise_;
  Status writable_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ocm::memory::nvme
