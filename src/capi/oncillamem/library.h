// What the 2013 library keeps in a process: one session, and the allocations by handle.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/status.h"
#include "capi/oncillamem/pair.h"

namespace ocm::oncillamem {

/// Threads: any. A call on an allocation holds the gate shared and a reference to its pair; init and
/// tini hold the gate alone, so that tini waits for the calls under way, and no pair outlives the
/// session.
///
/// Invariants:
///   1. session_ is set exactly if users_ > 0; without it there are no pairs.
///   2. A handle is a number that is never dereferenced and never given twice in a process, so that a
///      stale one names nothing.
class Library {
 public:
  /// The process' own. It is never destroyed: threads may call during exit. After fork, the child has
  /// a new one, that was not initialised: the session belongs to the parent.
  static Library& instance();
  /// `parents`: what the parent of a forked child had, kept reachable but never used.
  explicit Library(const Library* parents) : parents_(parents) {}

  Status init();
  Status tini();
  Result<ocm_alloc_t> allocate(const ocm_alloc_params& params);
  /// Ends the handle; the memory goes with the last call that uses it.
  Status free(ocm_alloc_t handle);

  /// Calls `use(Pair&)` and returns its status, or kInvalidArgument if the handle names nothing.
  template <class Use>
  Status with(ocm_alloc_t handle, Use use) {
    std::shared_lock gate(gate_);
    OCM_TRY_ASSIGN(auto pair, find(handle));
    return use(*pair);
  }
  /// The same with two handles, which may be equal.
  template <class Use>
  Status with(ocm_alloc_t first, ocm_alloc_t second, Use use) {
    std::shared_lock gate(gate_);
    OCM_TRY_ASSIGN(auto one, find(first));
    OCM_TRY_ASSIGN(auto other, find(second));
    return use(*one, *other);
  }

 private:
  Result<std::shared_ptr<Pair>> find(ocm_alloc_t handle);

  const Library* const parents_;
  std::shared_mutex gate_;
  ocm_session* session_ = nullptr;  // guarded by gate_
  uint64_t users_ = 0;              // guarded by gate_: inits without their tini
  std::mutex pairs_mutex_;          // inside gate_
  std::unordered_map<ocm_alloc_t, std::shared_ptr<Pair>> pairs_;
};

}  // namespace ocm::oncillamem
