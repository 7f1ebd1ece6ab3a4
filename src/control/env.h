// What the control code of a daemon takes from the world around it: time, sleep, randomness, and a place
// where its coroutines run. `Loop` is the real one; a simulation brings another, on virtual time and by seed.
//
// Coroutines run on `context()`, one at a time. What a daemon does follows from what its environment gives it
// and from the messages that it gets (control/link.h), so the same seed gives the same run.
//
// Threads: post() from any; everything else on the one thread that runs the context.
// Lifetime: an environment outlives what runs in it; coroutines that never end are dropped with it.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "base/log.h"

namespace ocm::control {

template <class T>
using Task = asio::awaitable<T>;

class Env {
 public:
  Env() : context_(1) {}
  virtual ~Env() = default;
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  /// Monotonic. Two daemons' clocks agree in nothing but, within a twentieth, their speed.
  virtual uint64_t now_ns() const = 0;
  virtual Task<void> sleep_ns(uint64_t ns) = 0;
  /// Cryptographically random, but for a simulation.
  virtual void fill_random(std::span<std::byte> out) = 0;
  /// False: nothing may run beside the control thread; what would, runs on it.
  virtual bool has_threads() const { return true; }
  /// An exception left a coroutine that nobody waits for: our mistake.
  virtual void task_failed(const char* what) { log::error("control_task_failed", {{"what", what}}); }

  template <class Id>
  Id random_id() {
    Id id;
    fill_random(id.bytes);
    return id;
  }
  uint64_t random_number() {
    uint64_t out = 0;
    fill_random(std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }

  asio::io_context& context() { return context_; }
  /// Starts a coroutine that nobody waits for; see task_failed().
  void spawn(Task<void> task) {
    asio::co_spawn(context_, std::move(task), [this](std::exception_ptr error) { report(error); });
  }
  template <class Function>
  void post(Function function) {
    asio::post(context_, std::move(function));
  }
  /// Runs all of them at once; returns when the last has ended.
  Task<void> join(std::vector<Task<void>> tasks);

 private:
  void report(const std::exception_ptr& error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      task_failed(e.what());
    } catch (...) {
      task_failed("not a std::exception");
    }
  }

  asio::io_context context_;
};

/// Where coroutines wait until something has happened.
class Signal {
 public:
  explicit Signal(Env& env) : timer_(env.context()) {
    timer_.expires_at(asio::steady_timer::time_point::max());
  }
  /// Until the next notify(), or earlier: look again at what is waited for.
  Task<void> wait() {
    asio::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  /// All that wait go on.
  void notify() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

inline Task<void> Env::join(std::vector<Task<void>> tasks) {
  if (tasks.empty()) co_return;
  Signal done(*this);
  size_t left = tasks.size();
  for (auto& task : tasks) {
    asio::co_spawn(context_, std::move(task), [this, &left, &done](std::exception_ptr error) {
      report(error);
      if (--left == 0) done.notify();
    });
  }
  while (left > 0) co_await done.wait();
}

}  // namespace ocm::control
