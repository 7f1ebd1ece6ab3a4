#include "client/underway.h"

#include <poll.h>

namespace ocm::client {

void UnderWay::enter(Operation& operation) {
  std::lock_guard lock(mutex_);
  operation.next_under_way = first_;
  operation.link_under_way = &first_;
  if (first_ != nullptr) first_->link_under_way = &operation.next_under_way;
  first_ = &operation;
  count_.fetch_add(1, std::memory_order_relaxed);
}

void UnderWay::leave(Operation& operation) {
  std::lock_guard lock(mutex_);
  if (operation.link_under_way == nullptr) return;
  *operation.link_under_way = operation.next_under_way;
  if (operation.next_under_way != nullptr)
    operation.next_under_way->link_under_way = operation.link_under_way;
  operation.next_under_way = nullptr;
  operation.link_under_way = nullptr;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

bool UnderWay::step(const Allocation* allocation) {
  if (count_.load(std::memory_order_relaxed) == 0) return true;
  std::lock_guard lock(mutex_);
  bool all = true;
  for (Operation* operation = first_; operation != nullptr; operation = operation->next_under_way) {
    if (!operation->touches(allocation)) continue;
    if (!operation->step_as(operation->waits_for_its_turn() && is_first_locked(*operation))) all = false;
  }
  return all;
}

bool UnderWay::is_first(const Operation& operation) {
  if (count_.load(std::memory_order_relaxed) == 0) return true;
  std::lock_guard lock(mutex_);
  return is_first_locked(operation);
}

bool UnderWay::is_first_locked(const Operation& operation) const {
  for (const Operation* other = first_; other != nullptr; other = other->next_under_way) {
    if (!other->done() && other->is_before(operation)) return false;
  }
  return true;
}

void UnderWay::drain(const Allocation* allocation) {
  constexpr uint64_t kSpinNs = 200'000;
  if (step(allocation)) return;  // as nearly always, which is worth no look at the clock
  const uint64_t start = os::now_ns();
  while (!step(allocation)) {
    if (os::now_ns() - start > kSpinNs) ::poll(nullptr, 0, 1);
  }
}

void UnderWay::detach(const Allocation* allocation) {
  drain(allocation);
  if (count_.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(mutex_);
  for (Operation* operation = first_; operation != nullptr; operation = operation->next_under_way) {
    operation->detach(allocation);
  }
}

}  // namespace ocm::client
