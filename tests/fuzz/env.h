// The environment of daemons that a fuzz target runs: no threads, and time that the target moves.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>

#include "control/env.h"

namespace ocm::fuzz {

class Env final : public control::Env {
 public:
  /// What a coroutine waits for, up to a deadline.
  struct Waiter {
    explicit Waiter(Env& env) : signal(env) {}
    void finish() {
      done = true;
      signal.notify();
    }
    control::Signal signal;
    bool done = false, expired = false;
  };

  ~Env() override { end_tasks(); }

  uint64_t now_ns() const override { return now_ns_; }
  void post(std::function<void()> what) override { ready_.push_back(std::move(what)); }
  control::Task<void> sleep_ns(uint64_t ns, std::function<void()>* wake = nullptr) override {
    const auto waiter = std::make_shared<Waiter>(*this);
    if (wake != nullptr) *wake = [&waiter] { waiter->finish(); };
    (void)co_await wait(waiter, now_ns_ + ns);
    if (wake != nullptr) *wake = nullptr;
  }
  /// True if it was finished before the deadline.
  control::Task<bool> wait(std::shared_ptr<Waiter> waiter, uint64_t deadline_ns) {
    timers_.emplace(deadline_ns, waiter);
    while (!waiter->done && !waiter->expired) co_await waiter->signal.wait();
    co_return waiter->done;
  }
  void fill_random(std::span<std::byte> out) override {
    for (std::byte& byte : out)
      byte = static_cast<std::byte>((random_ = random_ * 6364136223846793005u + 1) >> 56);
  }
  bool has_threads() const override { return false; }
  void task_failed(const char* what) override {
    std::fprintf(stderr, "an exception left a coroutine: %s\n", what);
    std::abort();
  }

  /// Everything that is ready, then what becomes so within this time.
  void run(uint64_t for_ns) {
    const uint64_t until_ns = now_ns_ + for_ns;
    const Running running(*this);
    while (true) {
      for (; !ready_.empty(); ready_.pop_front()) ready_.front()();
      if (timers_.empty() || timers_.begin()->first > until_ns) break;
      now_ns_ = std::max(now_ns_, timers_.begin()->first);
      const std::shared_ptr<Waiter> next = timers_.begin()->second;
      timers_.erase(timers_.begin());
      next->expired = true;
      next->signal.notify();
    }
    now_ns_ = until_ns;
  }

 private:
  uint64_t now_ns_ = 1'000'000'000'000;
  uint64_t random_ = 1;
  std::deque<std::function<void()>> ready_;
  std::multimap<uint64_t, std::shared_ptr<Waiter>> timers_;
};

}  // namespace ocm::fuzz
