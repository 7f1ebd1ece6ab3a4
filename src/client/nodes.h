// What the daemon tells this session of other nodes without being asked: which runs of daemons are dead, or drain
// (fabric/shm/tables.h). So nobody has to wait for a silent node as long as for one that may live.
//
// A node that is called dead may be cut off from the coordinator alone: it is not refused, but has less patience.
// Threads: any. Cost: three loads while nothing has changed and all nodes live.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "fabric/shm/tables.h"

namespace ocm::client {

class Nodes {
 public:
  using Page = fabric::shm::SessionPage;
  using Kind = fabric::shm::NodeWord::Kind;

  /// As far as `page`, the session's present one, says.
  bool all_live(const Page& page) {
    look(page);
    return count_.load(std::memory_order_relaxed) == 0;
  }
  bool is_dead(const Page& page, uint32_t partition) { return is(page, partition, /*dead_only=*/true); }
  /// It is dead, or will be gone soon.
  bool is_leaving(const Page& page, uint32_t partition) { return is(page, partition, /*dead_only=*/false); }

  /// What is kept is of a version that the daemon had written whole.
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    return seen_.load(std::memory_order_relaxed) % 2 == 0 && nodes_.size() <= Page::kNodes &&
           count_.load(std::memory_order_relaxed) == nodes_.size();
  }

 private:
  bool is(const Page& page, uint32_t partition, bool dead_only) {
    return !all_live(page) && is_told(partition, dead_only);
  }
  bool is_told(uint32_t partition, bool dead_only);
  void look(const Page& page) {
    if (page.nodes_version.load(std::memory_order_acquire) != seen_.load(std::memory_order_acquire))
      read(page);
  }
  /// Leaves all as it was if the daemon writes just now: the next look reads it.
  void read(const Page& page);

  std::atomic<uint64_t> seen_{0};  // the version that nodes_ is of
  std::atomic<size_t> count_{0};   // of nodes_
  mutable std::mutex mutex_;
  std::vector<fabric::shm::NodeWord> nodes_;
};

}  // namespace ocm::client
