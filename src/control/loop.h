// The control thread: one io_context, run by one thread, that stays awake for a moment after traffic.
//
// A wake-up across cores costs about 30 us and dominates every blocking call, so after a message the thread
// polls for `spin_ns` before it sleeps in epoll. It yields between polls, so that a machine with more daemons
// than cores gives the time to whoever has work. Idle, it sleeps.
//
// Threads: run() by one thread; post() and stop() from any; everything else on the loop's thread.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/assert.h"
#include "control/env.h"
#include "os/clock.h"
#include "os/crypto.h"

namespace ocm::control {

/// What Asio completes, awaited: `const auto error = co_await completed([&](auto done) { timer.async_wait(done); });`
template <class Start>
auto completed(Start start) {
  struct Completed {
    Start start;
    asio::error_code error{};
    std::coroutine_handle<> awaiting{};
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> by) {
      OCM_DASSERT(by && !awaiting);
      awaiting = by;
      start([this](const asio::error_code& result) {
        error = result;
        awaiting.resume();
      });
    }
    asio::error_code await_resume() const { return error; }
  };
  return Completed{std::move(start)};
}

/// For an Asio timer, whose clock is not that of os::now_ns().
inline std::chrono::nanoseconds left_until(uint64_t deadline_ns) {
  const uint64_t now_ns = os::now_ns();
  return std::chrono::nanoseconds(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
}

class Loop final : public Env {
 public:
  explicit Loop(uint64_t spin_ns) : spin_ns_(spin_ns), context_(1) {}
  ~Loop() override { end_tasks(); }

  uint64_t now_ns() const override { return os::now_ns(); }
  void fill_random(std::span<std::byte> out) override { os::fill_random(out); }
  Task<void> sleep_ns(uint64_t ns, std::function<void()>* wake = nullptr) override;
  void post(std::function<void()> what) override;

  /// For what waits for the kernel.
  asio::io_context& context() { return context_; }

  /// Until stop().
  void run();
  void stop();
  /// Runs what is ready, after run() has returned; for orderly ends of coroutines.
  void drain();

  /// More is likely to come at once: do not sleep yet.
  void stay_awake() { traffic_ = true; }

 private:
  const uint64_t spin_ns_;
  std::atomic<bool> stopped_{false};
  bool traffic_ = false;
  asio::io_context context_;
};

}  // namespace ocm::control
