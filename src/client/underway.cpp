#include "client/underway.h"

#include <optional>

#include "fabric/wait.h"
#include "os/interrupt.h"

namespace ocm::client {

void UnderWay::enter(Operation& operation) {
  std::lock_guard lock(mutex_);
  OCM_ASSERT(operation.link_under_way == nullptr && operation.movers == 0);  // it enters once
  operation.next_under_way = nullptr;
  operation.link_under_way = last_;
  *last_ = &operation;
  last_ = &operation.next_under_way;
  operation.entered = ++entered_;
  count_.fetch_add(1, std::memory_order_relaxed);
  if (!operation.done()) mover_.start();
}

Status UnderWay::signal(Operation& operation, int eventfd) {
  if (!operation.signal_when_done(eventfd) || eventfd < 0 || mover_.hurry()) return {};
  if (!operation.signal_when_done(-1)) return {};  // it is done meanwhile
  return no_mover();
}

bool UnderWay::is_valid() const {
  std::lock_guard lock(mutex_);
  uint32_t count = 0;
  uint64_t entered = 0;
  Operation* const* link = &first_;
  for (const Operation* one = first_; one != nullptr; one = one->next_under_way, ++count) {
    if (one->link_under_way != link || one->entered <= entered) return false;
    entered = one->entered;
    link = &one->next_under_way;
  }
  return link == last_ && count == count_.load(std::memory_order_relaxed) && entered <= entered_;
}

bool UnderWay::is_idle() {
  std::lock_guard lock(mutex_);
  for (const Operation* one = first_; one != nullptr; one = one->next_under_way) {
    if (!one->done()) return false;
  }
  return words_.is_empty();
}

void UnderWay::leave(Operation& operation) {
  std::unique_lock lock(mutex_);
  let_go_.wait(lock, [&] { return operation.movers == 0; });
  if (operation.link_under_way == nullptr) return;
  OCM_ASSERT(*operation.link_under_way == &operation && count_.load(std::memory_order_relaxed) > 0);
  *operation.link_under_way = operation.next_under_way;
  if (operation.next_under_way != nullptr)
    operation.next_under_way->link_under_way = operation.link_under_way;
  else
    last_ = operation.link_under_way;
  operation.next_under_way = nullptr;
  operation.link_under_way = nullptr;
  count_.fetch_sub(1, std::memory_order_relaxed);
}

bool UnderWay::step_some(const Allocation* allocation, bool all_handles, Polls* polls, uint64_t until) {
  if (count_.load(std::memory_order_relaxed) == 0) return true;
  std::unique_lock lock(mutex_);
  bool all = true;
  std::optional<Operation::Turns> before;
  if (has_turns()) before.emplace();
  for (Operation* operation = first_; operation != nullptr; operation = operation->next_under_way) {
    if (operation->done()) continue;
    const bool moves = operation->entered <= until && operation->touches(allocation);
    const bool asked = moves && (all_handles || operation->uses(allocation));
    const bool first = before && operation->waits_for_its_turn() && operation->is_first_after(*before);
    bool done = false;
    if (moves) {  // also what another one's turn comes after
      with(*operation, lock, [&] {
        done = operation->step_as(first);
        if (!done && polls != nullptr) (void)operation->sleeps_on(*polls);
      });
    }
    if (done) continue;
    if (before) operation->add_to(*before);
    all = all && !asked;
  }
  return all;
}

UnderWay::Moved UnderWay::move_what_is_left_alone(uint64_t now_ns, Polls& polls) {
  Moved out;
  std::unique_lock lock(mutex_);
  std::optional<Operation::Turns> before;
  if (has_turns()) before.emplace();
  for (Operation* operation = first_; operation != nullptr; operation = operation->next_under_way) {
    if (operation->done()) continue;
    if (!operation->is_left_alone(now_ns)) {
      out.has_more = true;
      if (before) operation->add_to(*before);
      continue;
    }
    const bool first = before && operation->waits_for_its_turn() && operation->is_first_after(*before);
    bool done = false;
    with(*operation, lock, [&] {
      done = operation->step_of_mover(first);
      if (!done) out.total += operation->sleeps_on(polls);
    });
    if (!done && before) operation->add_to(*before);
  }
  return out;
}

bool UnderWay::is_first(const Operation& operation) {
  if (count_.load(std::memory_order_relaxed) == 0) return true;
  std::lock_guard lock(mutex_);
  Operation::Turns before;
  for (const Operation* other = first_; other != nullptr && other != &operation;
       other = other->next_under_way) {
    if (!other->done()) other->add_to(before);
  }
  return operation.is_first_after(before);
}

bool UnderWay::has_turns() const {
  for (const Operation* one = first_; one != nullptr; one = one->next_under_way) {
    if (one->waits_for_its_turn()) return true;
  }
  return false;
}

bool UnderWay::drain_some(const Allocation* allocation, bool all_handles) {
  if (step_some(allocation, all_handles, nullptr, UINT64_MAX))
    return true;                   // as nearly always, which is worth no look at the clock
  constexpr int kSleepMsMax = 10;  // another thread may take what would have woken this one
  uint64_t until = 0;
  {
    std::lock_guard lock(mutex_);
    until = entered_;  // others may always have more under way
  }
  fabric::Waiter waiter;
  os::Interrupts interrupts;
  for (;;) {
    Polls polls;
    if (step_some(allocation, all_handles, &polls, until)) return true;
    if (waiter.spins(os::now_ns())) continue;
    polls.sleep(kSleepMsMax);
    if (interrupts.came()) return false;
  }
}

void UnderWay::detach(const Allocation* allocation) {
  words_.end_of(allocation);
  const bool all_ended = drain_some(allocation, false);
  if (count_.load(std::memory_order_relaxed) == 0) return;
  std::unique_lock lock(mutex_);
  for (Operation* operation = first_; operation != nullptr; operation = operation->next_under_way) {
    if (!all_ended && operation->uses(allocation)) with(*operation, lock, [&] { operation->take_back(); });
    operation->detach(allocation);
  }
}

}  // namespace ocm::client
