// A bounded memory of what is over, so that a message that comes late does not begin it again. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_set>

#include "base/assert.h"

namespace ocm::control {

/// Of sessions, allocations and attempts that are over.
inline constexpr size_t kOverMax = 65536;

template <class Id = std::string>
class Recent {
 public:
  explicit Recent(size_t max) : max_(max) {}

  /// The oldest makes room.
  void insert(Id id) {
    const auto [at, fresh] = ids_.insert(std::move(id));
    if (!fresh) return;
    order_.push_back(*at);
    OCM_DASSERT(ids_.size() == order_.size());
    if (order_.size() <= max_) return;
    ids_.erase(order_.front());
    order_.pop_front();
    OCM_DASSERT(ids_.size() == order_.size() && order_.size() == max_);
  }
  bool contains(const Id& id) const { return ids_.contains(id); }
  /// The oldest first.
  const std::deque<Id>& in_order() const { return order_; }

 private:
  size_t max_;
  std::unordered_set<Id> ids_;
  std::deque<Id> order_;
};

}  // namespace ocm::control
