// The control thread: one io_context, run by one thread, that stays awake for a moment after traffic.
//
// A wake-up across cores costs about 30 us and dominates every blocking call, so after a message the thread
// polls for `spin_ns` before it sleeps in epoll. It yields between polls, so that a machine with more daemons
// than cores gives the time to whoever has work. Idle, it sleeps.
//
// Threads: run() by one thread; post() and stop() from any; everything else on the loop's thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "control/env.h"
#include "os/clock.h"
#include "os/crypto.h"

namespace ocm::control {

/// For an Asio timer, whose clock is not that of os::now_ns().
inline std::chrono::nanoseconds left_until(uint64_t deadline_ns) {
  const uint64_t now_ns = os::now_ns();
  return std::chrono::nanoseconds(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
}

class Loop final : public Env {
 public:
  explicit Loop(uint64_t spin_ns) : spin_ns_(spin_ns) {}

  uint64_t now_ns() const override { return os::now_ns(); }
  void fill_random(std::span<std::byte> out) override { os::fill_random(out); }
  Task<void> sleep_ns(uint64_t ns) override {
    asio::steady_timer timer(context());
    timer.expires_after(std::chrono::nanoseconds(ns));
    asio::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  /// Until stop().
  void run() {
    auto guard = asio::make_work_guard(context());
    uint64_t awake_until = 0;
    while (!stopped_.load(std::memory_order_acquire)) {
      if (context().poll() == 0) {
        if (os::now_ns() < awake_until) {
          ::sched_yield();
          continue;
        }
        context().run_one();
      }
      if (traffic_) {
        traffic_ = false;
        awake_until = os::now_ns() + spin_ns_;
      }
    }
  }
  void stop() {
    stopped_.store(true, std::memory_order_release);
    asio::post(context(), [] {});
  }
  /// Runs what is ready, after run() has returned; for orderly ends of coroutines.
  void drain() {
    context().restart();
    context().poll();
  }

  /// More is likely to come at once: do not sleep yet.
  void stay_awake() { traffic_ = true; }

 private:
  const uint64_t spin_ns_;
  std::atomic<bool> stopped_{false};
  bool traffic_ = false;
};

}  // namespace ocm::control
