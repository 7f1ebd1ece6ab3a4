// Virtual time for many daemons and programs in one process: one clock of events, and for each of them an
// environment (control/env.h) with its own speed of time, its own random numbers and its own coroutines.
//
// After each event everything that became ready runs, environment after environment, until nothing is. A
// stopped environment runs nothing, but its time passes. So a run follows from its seed alone.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "control/env.h"

namespace ocm::simulation {

using control::Task;

class SimEnv;

class Clock {
 public:
  uint64_t now_ns() const { return now_ns_; }
  void at(uint64_t when_ns, std::function<void()> what) {
    if (free_.empty()) {
      free_.push_back(whats_.size());
      whats_.emplace_back();
    }
    whats_[free_.back()] = std::move(what);
    events_.push({std::max(when_ns, now_ns_), next_++, free_.back()});
    free_.pop_back();
  }
  void in(uint64_t delay_ns, std::function<void()> what) { at(now_ns_ + delay_ns, std::move(what)); }
  /// Everything until then, in order. False if `stop` became true before.
  bool run_until(uint64_t until_ns, const std::function<bool()>& stop = nullptr);
  void touch(std::weak_ptr<SimEnv> env) { ready_.push_back(std::move(env)); }
  uint64_t events() const { return next_; }
  /// Nothing that was to happen will: what events refer to may end now.
  void drop_events() {
    events_ = {};
    free_.clear();
    std::exchange(whats_, {});
  }

 private:
  struct Event {
    uint64_t when_ns, order;
    size_t what;  // among whats_: the heap moves numbers only
    bool operator<(const Event& other) const {
      return when_ns != other.when_ns ? when_ns > other.when_ns : order > other.order;
    }
  };
  void settle();

  uint64_t now_ns_ = 1'000'000'000'000;
  uint64_t next_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::function<void()>> whats_;
  std::vector<size_t> free_;  // of whats_
  std::vector<std::weak_ptr<SimEnv>> ready_;
};

/// A coroutine waits in it for something to be done, or for a deadline.
struct Waiter {
  explicit Waiter(SimEnv& environment);
  void finish();

  SimEnv& env;
  control::Signal signal;
  bool done = false, expired = false;
};

class SimEnv final : public control::Env, public std::enable_shared_from_this<SimEnv> {
 public:
  /// `drift_ppm`: how much faster its clock runs than the world's.
  SimEnv(Clock& clock, uint64_t seed, int64_t drift_ppm)
      : clock_(clock),
        random_(seed),
        rate_ppm_(1'000'000 + drift_ppm),
        start_ns_(clock.now_ns()),
        base_ns_(1'000'000'000'000 + seed % 1'000'000'000'000) {}
  ~SimEnv() override { end_tasks(); }

  void post(std::function<void()> what) override { ready_.push_back(std::move(what)); }

  uint64_t now_ns() const override {
    return base_ns_ + scale(clock_.now_ns() - start_ns_, rate_ppm_, 1'000'000);
  }
  Task<void> sleep_ns(uint64_t ns, std::function<void()>* wake = nullptr) override {
    const auto waiter = std::make_shared<Waiter>(*this);
    if (wake != nullptr) *wake = [&waiter] { waiter->finish(); };
    co_await wait(waiter, now_ns() + ns);
    if (wake != nullptr) *wake = nullptr;
  }
  void fill_random(std::span<std::byte> out) override {
    for (size_t at = 0; at < out.size(); at += 8) {
      const uint64_t word = random_();
      std::memcpy(out.data() + at, &word, std::min<size_t>(8, out.size() - at));
    }
  }
  bool has_threads() const override { return false; }

  /// True if it was finished before the deadline.
  Task<bool> wait(std::shared_ptr<Waiter> waiter, uint64_t deadline_ns) {
    wake_at(waiter, deadline_ns);
    while (!waiter->done && !waiter->expired) co_await waiter->signal.wait();
    co_return waiter->done;
  }

  /// From now on.
  void set_drift(int64_t drift_ppm) {
    base_ns_ = now_ns();
    start_ns_ = clock_.now_ns();
    rate_ppm_ = 1'000'000 + drift_ppm;
  }

  /// From outside: runs `what` in this environment when it runs next.
  void deliver(std::function<void()> what) {
    post(std::move(what));
    touch();
  }
  void start(Task<void> task) {
    spawn(std::move(task));
    touch();
  }
  void touch() { clock_.touch(weak_from_this()); }
  void set_stopped(bool stopped) {
    stopped_ = stopped;
    if (!stopped) touch();
  }
  bool stopped() const { return stopped_; }
  void run() {
    const Running running(*this);
    for (; !stopped_ && !ready_.empty(); ready_.pop_front()) ready_.front()();
  }

 private:
  void wake_at(const std::shared_ptr<Waiter>& waiter, uint64_t deadline_ns) {
    const uint64_t left_ns = deadline_ns > now_ns() ? deadline_ns - now_ns() : 0;
    clock_.in(scale(left_ns, 1'000'000, rate_ppm_) + 2, [weak = std::weak_ptr(waiter), deadline_ns] {
      const auto late = weak.lock();
      if (!late || late->done) return;
      if (late->env.now_ns() < deadline_ns)
        return late->env.wake_at(late, deadline_ns);  // it runs slower now
      late->expired = true;
      late->signal.notify();
      late->env.touch();
    });
  }
  static uint64_t scale(uint64_t ns, uint64_t times, uint64_t by) {
    return ns / by * times + ns % by * times / by;  // both are about a million
  }

  Clock& clock_;
  std::deque<std::function<void()>> ready_;
  std::mt19937_64 random_;
  uint64_t rate_ppm_;
  uint64_t start_ns_, base_ns_;
  bool stopped_ = false;
};

inline Waiter::Waiter(SimEnv& environment) : env(environment), signal(environment) {}
inline void Waiter::finish() {
  done = true;
  signal.notify();
  env.touch();
}

inline void Clock::settle() {
  for (size_t i = 0; i < ready_.size(); ++i) {  // grows while it runs
    if (const auto env = ready_[i].lock()) env->run();
  }
  ready_.clear();
}

inline bool Clock::run_until(uint64_t until_ns, const std::function<bool()>& stop) {
  settle();
  while (!events_.empty() && events_.top().when_ns <= until_ns) {
    if (stop && stop()) return false;
    now_ns_ = events_.top().when_ns;
    const size_t at = events_.top().what;
    const std::function<void()> what = std::exchange(whats_[at], nullptr);
    free_.push_back(at);
    events_.pop();
    what();
    settle();
  }
  now_ns_ = until_ns;
  return true;
}

}  // namespace ocm::simulation
