// The extents of one node: which offsets of its partition live, whose budget they take, and in which life.
//
// A removed extent leaves the table at once; its pages go when the last holder lets go, in a thread of their
// own, because giving gigabytes back takes the kernel long: piece by piece, by turns with what others freed. The budget is
// given back with the pages, whether programs of this host still map them or not: they compare the generation after they
// read.
//
//   create ----> live ----remove----> held by ops ----last holder----> reclaimed by the reaper
//   [creating]   [used]               [reclaiming .......................]   budget given back
//                  \------retire----> kept by the caller ------------------------/
//                                     [retired: counts as used]
//
// share() gives the bytes of an extent a second id: one of the two pays, and the pages go with the last of them.
// suspend() makes an extent answer as if it were removed, until resume().
//
// Invariants (is_valid() holds them at every moment)
//   T1 for each kind: budget.used_bytes() = creating + used + retired + reclaiming <= budget.budget_bytes()
//   T2 free offsets + sum of page-rounded lengths of extents being made or live = the partition
//   T3 generations[slot] is the generation of the live extent in that slot, else 0; 0 while it is suspended. It is
//      stored (release) after the extent is complete, and cleared before the extent leaves the table.
//   T4 no generation is used twice in 2^32 - 1 creations of one table; the first is random.
//   T5 offsets are given by next-fit around the ring: a freed one is used again as late as possible.
//
// Threads: any. Nothing is held over a system call except the reaper's own work.
// Lifetime: extents may outlive the table; what is let go after it is freed by the thread that lets go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/ids.h"
#include "memory/pool.h"
#include "os/clock.h"

namespace ocm::memory {

/// One extent, from create() until the last holder lets go.
class Extent {
 public:
  ExtentId id;
  Kind kind = Kind::kDram;
  uint32_t slot = 0;            // in the generation table
  uint64_t bytes = 0;           // as asked; the bound of every access
  uint64_t span_bytes = 0;      // of addresses: rounded up to the backend's pages
  uint64_t reserved_bytes = 0;  // what the budget pays: the same, or 0 where another id of the bytes pays
  Capability capability;        // read-write
  std::unique_ptr<Backing> backing;

  bool revoked() const { return revoked_.load(std::memory_order_acquire); }
  bool suspended() const { return suspended_.load(std::memory_order_acquire); }
  /// Calls `run` once, when the extent is removed, or now if it was. `run` must not keep the extent alive
  /// (hold a weak_ptr) and must not call the table. Called by the thread that removes, without locks.
  void on_revoke(std::function<void()> run);
  /// The table's; once.
  void revoke();

 private:
  friend class ExtentTable;
  bool retired_ = false;          // the table's
  std::weak_ptr<Extent> sharer_;  // the table's
  std::atomic<bool> suspended_{false};
  std::atomic<bool> revoked_{false};
  std::mutex mutex_;  // guards hooks_ and the step to revoked
  std::vector<std::function<void()>> hooks_;
};

/// One pool of the table.
struct PoolConfig {
  std::unique_ptr<KindBackend> backend;
  uint64_t budget_bytes = 0;
};

/// A pool's use at one moment. free = budget - used - reclaiming.
struct PoolUse {
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;        // live, being made, and retired
  uint64_t reclaiming_bytes = 0;  // removed, pages not back yet
  uint64_t ready_bytes = 0;       // of what is free: held for extents to come (KindBackend::ready_bytes())
  uint64_t free_bytes() const {
    OCM_DASSERT(used_bytes + reclaiming_bytes <= budget_bytes);  // T1
    return budget_bytes - used_bytes - reclaiming_bytes;
  }
};

class ExtentTable {
 public:
  /// `generations`: the table that programs of this host map (fabric/shm/tables.h), as a plain span since
  /// memory knows no fabric; zeros; outlives this. Its length bounds the extents. Without `reaper` pages are
  /// given back by the thread that lets go.
  ExtentTable(uint32_t partition, std::vector<PoolConfig> pools, std::span<std::atomic<uint32_t>> generations,
              bool reaper = true);
  /// Removes every extent and waits for those that nobody holds.
  ~ExtentTable();
  ExtentTable(const ExtentTable&) = delete;
  ExtentTable& operator=(const ExtentTable&) = delete;

  /// `bytes` zeros. Never waits: an asynchronous caller tries again while may_fit_soon().
  /// Errors: kInvalidArgument (0), kPoolFull (says what is free), kLimit (slots), kUnsupported (kind), and
  /// the backend's kNoMemory, kNoFds.
  Result<std::shared_ptr<Extent>> try_create(uint64_t bytes, Kind kind, const ExtentOptions& options = {});
  /// The same; waits at most `wait_ns` for bytes that are being reclaimed, if they would make it fit.
  Result<std::shared_ptr<Extent>> create(uint64_t bytes, Kind kind, const ExtentOptions& options = {},
                                         uint64_t wait_ns = kReclaimWaitNs);
  static constexpr uint64_t kReclaimWaitNs = 1'000'000'000;

  /// An extent of `bytes` that a pool kept (survivors()). Errors: kInvalidArgument (they are not the backing's, but for the
  /// rest of its last page), kPoolFull, kLimit.
  Result<std::shared_ptr<Extent>> adopt(uint64_t bytes, Kind kind, std::unique_ptr<Backing> backing);
  /// As of the kind's backend; `kind` has one.
  bool lasts(Kind kind) const;
  Result<std::vector<KindBackend::Survivor>> survivors(Kind kind);
  void promise(Kind kind, std::function<void(Status)> done);

  /// Errors: kRevoked (another life of that address, or a life that is over), kNotFound.
  Result<std::shared_ptr<Extent>> find(ExtentId id) const;
  /// Whether find() has it; cheaper where it does not.
  bool is_live(ExtentId id) const;
  /// Ends the extent: from here on no new op passes. Waits for nobody. Errors: as find().
  Status remove(ExtentId id);
  /// The same, but its pages stay, and count as used, until the caller lets go of what it gets.
  Result<std::shared_ptr<Extent>> retire(ExtentId id);
  /// Another extent, with an id and a capability of its own, on the bytes of `id`. Errors: as find(), kLimit,
  /// kPoolFull (addresses), kExists (it has one).
  Result<std::shared_ptr<Extent>> share(ExtentId id);
  /// From here on no new op passes, until resume(); find() answers kRevoked. Who looks at the bytes afterwards sees
  /// every store whose thread then still found the extent alive. remove() and retire() work. Errors: as find().
  Status suspend(ExtentId id);
  /// Errors: kNotFound (not suspended).
  Status resume(ExtentId id);
  /// The node ends: from here on no pages are taken from programs of this host that map them. They go with the last
  /// mapping, as if the daemon had died. To be called before who retired an extent lets go of it for that reason.
  void keep_mapped_pages();

  uint32_t partition() const { return partition_; }
  uint64_t extents() const;
  /// Of the extent that is made next (T4).
  uint32_t next_generation() const;
  /// Zeros for a kind without a pool.
  PoolUse use(Kind kind) const;
  bool has(Kind kind) const;
  /// Its pools' kinds.
  std::vector<Kind> kinds() const;
  /// With what the pool wants of every extent; `kind` has one.
  ExtentOptions completed(Kind kind, ExtentOptions options) const;
  /// Bytes of `kind` that come back by themselves.
  uint64_t reclaiming_bytes(Kind kind) const { return use(kind).reclaiming_bytes; }
  /// Grows whenever bytes of `kind` were reclaimed.
  uint64_t reclaimed(Kind kind) const;
  /// try_create() said `refused` of so many bytes, and what is being reclaimed, or was since reclaimed() was that, may be what
  /// was missing: memory, or a descriptor.
  bool may_fit_soon(Code refused, uint64_t bytes, Kind kind, uint64_t reclaimed) const;

  /// T1 to T3; O(extents).
  bool is_valid() const;

 private:
  class Core;
  const uint32_t partition_;
  const std::shared_ptr<Core> core_;  // shared with the extents, whose end it accounts for
};

}  // namespace ocm::memory
