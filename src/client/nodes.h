// What the daemon has told this session of other nodes: which runs of daemons are dead, or drain. It comes unasked
// (fabric/shm/tables.h), so nobody has to wait for a silent node as long as for one that may live.
//
// A node that is called dead may be cut off from the coordinator alone: it is not refused, but has less patience.
// Threads: any. Cost of asking while all nodes live: one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "fabric/shm/tables.h"

namespace ocm::client {

class Nodes {
 public:
  using Kind = fabric::shm::Event::Kind;

  void take(fabric::shm::Event event) {
    const std::lock_guard lock(mutex_);
    if (event.kind != Kind::kDead && event.kind != Kind::kDraining)
      known_.erase(event.partition);
    else if (known_.size() < kKnownMax)
      known_[event.partition] = event.kind;
    count_.store(known_.size(), std::memory_order_release);
  }
  /// All that was told is forgotten: another run of the daemon, or the whole view, tells anew.
  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
    count_.store(0, std::memory_order_release);
  }

  bool all_live() const { return count_.load(std::memory_order_acquire) == 0; }
  bool is_dead(uint32_t partition) const { return is(partition, true); }
  /// It is dead, or will be gone soon.
  bool is_leaving(uint32_t partition) const { return is(partition, false); }

 private:
  static constexpr size_t kKnownMax = 4096;

  bool is(uint32_t partition, bool dead_only) const {
    if (all_live()) return false;
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(partition);
    return known != known_.end() && (known->second == Kind::kDead || !dead_only);
  }

  std::atomic<size_t> count_{0};
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, Kind> known_;  // those that are not alive
};

}  // namespace ocm::client
