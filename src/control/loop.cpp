#include "control/loop.h"

#include <sched.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace ocm::control {

Task<void> Loop::sleep_ns(uint64_t ns, std::function<void()>* wake) {
  asio::steady_timer timer(context_, std::chrono::nanoseconds(ns));
  if (wake != nullptr) *wake = [&timer] { timer.cancel(); };
  co_await completed([&](auto done) { timer.async_wait(done); });
  if (wake != nullptr) *wake = nullptr;
}

void Loop::post(std::function<void()> what) { asio::post(context_, std::move(what)); }

void Loop::run() {
  const Running running(*this);
  const auto guard = asio::make_work_guard(context_);
  uint64_t awake_until = 0;
  while (!stopped_.load(std::memory_order_acquire)) {
    if (context_.poll() == 0) {
      if (os::now_ns() < awake_until) {
        ::sched_yield();
        continue;
      }
      context_.run_one();
    }
    if (traffic_) {
      traffic_ = false;
      awake_until = os::now_ns() + spin_ns_;
    }
  }
}

void Loop::stop() {
  stopped_.store(true, std::memory_order_release);
  post([] {});
}

void Loop::drain() {
  const Running running(*this);
  context_.restart();
  context_.poll();
}

}  // namespace ocm::control
