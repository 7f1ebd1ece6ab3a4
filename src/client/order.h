// What is under way on an allocation, by all of a session's handles of it: a long operation is not posted whole yet, a copy takes
// ways of its own, and what goes to replicas may be posted anew, so that who starts the next must know of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/ids.h"

namespace ocm::client {

struct Order {
  std::atomic<uint32_t> busy{0};
  std::atomic<uint32_t> gets{0};  // of replicas
};

class Orders {
 public:
  /// The one of that allocation; made where no handle has one.
  std::shared_ptr<Order> of(const AllocationId& id) {
    const std::lock_guard lock(mutex_);
    if (all_.size() > next_look_) {
      std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
      next_look_ = 64 + 2 * all_.size();
    }
    std::weak_ptr<Order>& known = all_[id];
    std::shared_ptr<Order> out = known.lock();
    if (out == nullptr) known = out = std::make_shared<Order>();
    return out;
  }

  /// A3 of allocation.h: no count has ended more often than it began. Cost: all of them.
  bool is_valid() const {
    constexpr uint32_t kNegative = 1u << 31;
    const std::lock_guard lock(mutex_);
    return std::all_of(all_.begin(), all_.end(), [](const auto& one) {
      const std::shared_ptr<Order> order = one.second.lock();
      return order == nullptr || (order->busy.load(std::memory_order_relaxed) < kNegative &&
                                  order->gets.load(std::memory_order_relaxed) < kNegative);
    });
  }

 private:
  mutable std::mutex mutex_;
  size_t next_look_ = 64;
  std::map<AllocationId, std::weak_ptr<Order>> all_;
};

}  // namespace ocm::client
