// What the control code of a daemon takes from the world around it: time, sleep, randomness, and a place
// where its coroutines run. `Loop` is the real one; a simulation brings another, on virtual time and by seed.
//
// Coroutines run one at a time. What a daemon does follows from what its environment gives it and from the messages
// that it gets (control/link.h), so the same seed gives the same run.
//
// Threads: post() from any; everything else on the one thread that runs what is posted.
// Lifetime: an environment outlives what runs in it; coroutines that never end are destroyed with it (end_tasks()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "control/task.h"

namespace ocm::control {

class Env {
 public:
  Env() = default;
  virtual ~Env() = default;
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  /// Monotonic. Two daemons' clocks agree in nothing but, within a twentieth, their speed.
  virtual uint64_t now_ns() const = 0;
  /// `wake` (may be null; it outlives the sleep) gets what ends the sleep at once, and is empty again afterwards.
  virtual Task<void> sleep_ns(uint64_t ns, std::function<void()>* wake = nullptr) = 0;
  /// Cryptographically random, but for a simulation.
  virtual void fill_random(std::span<std::byte> out) = 0;
  /// Runs it soon, in the order of the calls.
  virtual void post(std::function<void()> what) = 0;
  /// False: nothing may run beside the control thread; what would, runs on it.
  virtual bool has_threads() const { return true; }
  /// An exception left a coroutine that nobody waits for: our mistake.
  virtual void task_failed(const char* what);

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

  /// Starts a coroutine that nobody waits for; see task_failed(). It runs until it waits, or soon where nothing runs yet.
  void spawn(Task<void> task);
  /// Runs all of them at once; returns when the last has ended.
  Task<void> join(std::vector<Task<void>> tasks);
  /// What awaits it goes on when everything has run that is ready now.
  auto next_pass() {
    struct NextPass {
      Env& env;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> awaiting) { env.resume_soon(awaiting); }
      void await_resume() const {}
    };
    return NextPass{*this};
  }
  void resume_soon(std::coroutine_handle<> waiting) {
    OCM_DASSERT(waiting);
    post([waiting] { waiting.resume(); });
  }

 protected:
  /// While an environment runs what is posted.
  class Running {
   public:
    explicit Running(Env& env) : env_(env) {
      OCM_DASSERT(!env_.running_);
      env_.running_ = true;
    }
    ~Running() {
      OCM_DASSERT(env_.running_);
      env_.running_ = false;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Env& env_;
  };
  /// Every environment's destructor begins with it: what is in their frames may still post.
  void end_tasks() { roots_.destroy_all(); }

 private:
  /// `task`, without its exception.
  Task<void> guarded(Task<void> task);

  bool running_ = false;
  Roots roots_;
};

/// Where coroutines wait until something has happened. Its end is a last notify().
class Signal {
 public:
  explicit Signal(Env& env) : env_(env) {}
  ~Signal() { notify(); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Until the next notify(). The signal ends before its environment does: who is destroyed as it waits stays noted.
  auto wait() {
    struct Wait {
      Signal& signal;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> awaiting) { signal.waiting_.push_back(awaiting); }
      void await_resume() const {}
    };
    return Wait{*this};
  }
  /// Until the next notify(), until `deadline_ns` at most. The signal may end meanwhile.
  Task<void> wait_until(uint64_t deadline_ns);
  /// All that wait go on.
  void notify();

 private:
  struct Sleeper;

  Env& env_;
  std::vector<std::coroutine_handle<>> waiting_;
  std::vector<Sleeper*> sleeping_;  // in wait_until()
};

}  // namespace ocm::control
