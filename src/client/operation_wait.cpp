// Who waits for an operation: a thread that spins and then sleeps, an event loop whose eventfd is told, the session's mover.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/allocation.h"
#include "client/operation.h"
#include "client/session.h"
#include "fabric/wait.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

constexpr uint64_t kSpinNs = 50'000;

}  // namespace

void Operation::tell_sleeper() {
  const uint64_t one = 1;
  if (eventfd_ < 0 || std::exchange(told_, true)) return;
  [[maybe_unused]] const ssize_t n = ::write(eventfd_, &one, sizeof(one));
}

bool Operation::signal_when_done(int eventfd) {
  const std::lock_guard lock(telling_);
  eventfd_ = eventfd;
  told_ = false;
  has_sleeper_.store(eventfd >= 0, std::memory_order_relaxed);
  if (!done()) return true;
  tell_sleeper();
  return false;
}

bool Operation::is_left_alone(uint64_t now_ns) {
  if (has_sleeper_.load(std::memory_order_relaxed)) return true;
  uint64_t moved_ns = 0;  // it has just started, which is worth no look at the clock
  if (moved_by_somebody_ns_.compare_exchange_strong(moved_ns, now_ns, std::memory_order_relaxed))
    return false;
  return waiters_.load(std::memory_order_relaxed) == 0 && now_ns > moved_ns &&
         now_ns - moved_ns > UnderWay::kQuietNs;
}

bool Operation::locally_done() {
  if (step()) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (done() || !lock.owns_lock()) return done();
  if (!cutter_.exhausted() || cutter_.bytes_left() > 0 || replicated(target_) || replicas_failed_)
    return false;  // P3
  for (uint32_t i = legs_.tail(); i != legs_.head(); ++i) {
    Leg& pending = legs_[i];
    // What is read is there when all is done: until that is settled it may move on to another replica.
    const fabric::OpCode what = pending.op.opcode;
    const bool reads = pending.call != nullptr || what == fabric::OpCode::kGet || fabric::is_atomic(what);
    if (reads || !pending.op.locally_done()) return false;
  }
  buffer_given_ = true;
  return true;
}

Status Operation::wait(bool local, os::Deadline deadline) {
  constexpr int kSleepMsMax = 10;  // another thread may take what would have woken this one
  if (local ? locally_done() : step()) return done() ? status_ : Status();
  struct Waiting {
    explicit Waiting(std::atomic<uint32_t>& all) : count(all) {
      count.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiting() { count.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<uint32_t>& count;
  } waiting(waiters_);
  fabric::Waiter waiter(kSpinNs);
  os::Interrupts interrupts;
  uint32_t tail_seen = UINT32_MAX;
  uint64_t moved_seen = 0;
  while (!deadline.passed()) {
    const uint64_t now = os::now_ns();
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
      if (legs_.tail() != tail_seen || moved_total_ != moved_seen) {
        tail_seen = legs_.tail();
        moved_seen = moved_total_;
        waiter.moved(now);  // bytes are coming
      }
    }
    const bool sleeps = !waiter.spins(now);
    if (sleeps) {
      Polls polls;
      sleeps_on(polls);
      polls.sleep(deadline.poll_ms(kSleepMsMax));
    }
    if (local ? locally_done() : step()) return done() ? status_ : Status();
    if (sleeps && interrupts.came()) return os::interrupted();
  }
  return Status(Code::kDeadline, "the operation is still under way");
}

Status Operation::run() {
  (void)wait(false, os::Deadline::never());
  if (!done()) take_back();
  return status_;
}

void Operation::take_back() {
  gives_up_.store(Code::kDeadline);
  const std::lock_guard lock(mutex_);
  if (!done()) take_back_under_lock();
}

void Operation::cancel() {
  gives_up_.store(Code::kCancelled);
  (void)try_step(false, true);
}

Status Operation::given_up() const {
  return gives_up_.load() == Code::kCancelled ? Status(Code::kCancelled, "the operation was cancelled")
                                              : os::interrupted();
}

void Operation::take_back_under_lock() {
  const Status why = given_up();
  const auto cancel = [&why](Daemon& daemon, const std::shared_ptr<Call>& call) {
    if (call != nullptr) daemon.control().cancel(*call, why);
  };
  const std::shared_ptr<Daemon> daemon = session_->daemon_now();
  while (!legs_.is_empty()) {
    Leg& leg = legs_.first();
    cancel(*daemon, leg.call);
    if (leg.channel != nullptr) leg.channel->withdraw(leg.op);
    OCM_DASSERT(leg.done());
    (void)legs_.reap();
    leg.channel.reset();
    leg.call.reset();
  }
  for (auto& [replica, call] : confirmations_) cancel(*daemon, call);
  for (Suspect& suspect : suspects_) {
    if (suspect.call != nullptr) cancel(*suspect.daemon, suspect.call);
  }
  status_ = why;
  finish();
}

uint64_t Operation::sleeps_on(Polls& polls) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    polls.soon();
    return 0;
  }
  const auto is_awaited = [](const std::shared_ptr<Call>& call) {
    return call != nullptr && !call->done.load(std::memory_order_acquire);
  };
  bool calls = std::any_of(confirmations_.begin(), confirmations_.end(),
                           [&](const auto& one) { return is_awaited(one.second); }) ||
               std::any_of(suspects_.begin(), suspects_.end(),
                           [&](const Suspect& one) { return is_awaited(one.call); });
  fabric::Channel* last = nullptr;
  for (uint32_t i = legs_.tail(); i != legs_.head() && !polls.is_full(); ++i) {
    Leg& pending = legs_[i];
    if (pending.done()) {
      if (i != legs_.tail()) continue;  // nothing follows from it before those ahead of it are done
      polls.at_once();
      break;
    }
    if (pending.call != nullptr) {
      calls = true;
    } else if (pending.channel.get() != last) {
      last = pending.channel.get();
      polls.add(*last);
    }
  }
  if (calls) polls.add(session_->daemon_now()->control().fd(), POLLIN);
  return moved_total_ + legs_.tail();
}

}  // namespace ocm::client
