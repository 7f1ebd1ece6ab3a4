// The control thread: one io_context, run by one thread, that stays awake for a moment after traffic.
//
// A wake-up across cores costs about 30 us and dominates every blocking call, so after a message the thread
// polls for `spin_ns` before it sleeps in epoll. It yields between polls, so that a machine with more daemons
// than cores gives the time to whoever has work. Idle, it sleeps.
//
// Threads: run() by one thread; post() and stop() from any; everything else on the loop's thread.
#pragma once

#include <sched.h>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/log.h"
#include "os/clock.h"

namespace ocm::control {

template <class T>
using Task = asio::awaitable<T>;

class Loop {
 public:
  explicit Loop(uint64_t spin_ns) : context_(1), spin_ns_(spin_ns) {}

  asio::io_context& context() { return context_; }

  /// Until stop().
  void run() {
    auto guard = asio::make_work_guard(context_);
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
  void stop() {
    stopped_.store(true, std::memory_order_release);
    asio::post(context_, [] {});
  }
  /// Runs what is ready, after run() has returned; for orderly ends of coroutines.
  void drain() {
    context_.restart();
    context_.poll();
  }

  /// More is likely to come at once: do not sleep yet.
  void stay_awake() { traffic_ = true; }

  /// Starts a coroutine that nobody waits for. An exception that leaves it is our mistake: it is logged.
  void spawn(Task<void> task) {
    asio::co_spawn(context_, std::move(task), [](std::exception_ptr error) { report(error); });
  }
  template <class Function>
  void post(Function function) {
    asio::post(context_, std::move(function));
  }

  Task<void> sleep_ns(uint64_t ns) {
    asio::steady_timer timer(context_);
    timer.expires_after(std::chrono::nanoseconds(ns));
    asio::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  /// Runs all of them at once; returns when the last has ended.
  Task<void> join(std::vector<Task<void>> tasks) {
    if (tasks.empty()) co_return;
    asio::steady_timer done(context_);
    done.expires_at(asio::steady_timer::time_point::max());
    size_t left = tasks.size();
    for (auto& task : tasks) {
      asio::co_spawn(context_, std::move(task), [&left, &done](std::exception_ptr error) {
        report(error);
        if (--left == 0) done.cancel();
      });
    }
    asio::error_code ignored;
    while (left > 0) co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

 private:
  static void report(const std::exception_ptr& error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      log::error("control_task_failed", {{"what", e.what()}});
    } catch (...) {
      log::error("control_task_failed");
    }
  }

  asio::io_context context_;
  const uint64_t spin_ns_;
  std::atomic<bool> stopped_{false};
  bool traffic_ = false;
};

}  // namespace ocm::control
