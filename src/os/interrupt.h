// What ends a wait before its deadline: a check that the program gave, for languages that handle signals between calls. Every
// wait of a program's thread looks here once it has slept, whatever it waits for.
//
// Threads: the check is the process'; whether a thread asks it, and what it holds, is the thread's own. The library's own
// threads do not ask: a signal is not theirs.
// Cost:    a wait that ends without sleeping asks nobody, and reads no clock for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "os/clock.h"

namespace ocm::os {

/// Not 0 ends the wait. `may_call` 0: the thread holds locks of the library, and must run nothing of the program's.
using InterruptCheck = int (*)(int may_call, void* context);
/// Null: nobody is asked. The context is stored first.
inline std::atomic<InterruptCheck> interrupt_check{nullptr};
inline std::atomic<void*> interrupt_context{nullptr};

namespace detail {
inline thread_local uint32_t never_asks = 0;
inline thread_local uint32_t locks_held = 0;
inline thread_local uint64_t ask_from_ns = 0;
inline thread_local uint32_t came_total = 0;
inline thread_local InterruptCheck own_check = nullptr;
inline thread_local void* own_context = nullptr;

class Counted {
 public:
  explicit Counted(uint32_t* count) : count_(count) {
    if (count_ != nullptr) ++*count_;
  }
  ~Counted() {
    if (count_ == nullptr) return;
    OCM_DASSERT(*count_ > 0);
    --*count_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  uint32_t* const count_;
};
}  // namespace detail

/// While one lives, waits of this thread end by themselves alone: they are for others, or must not be cut short.
class Uninterrupted : detail::Counted {
 public:
  explicit Uninterrupted(bool is = true) : Counted(is ? &detail::never_asks : nullptr) {}
};

/// While one lives, this thread asks `check` and nobody else: it is one of the library's own, or works for another one. Of
/// several the innermost, also where it is Uninterrupted.
class InterruptedBy {
 public:
  enum class What { kThread, kWorkForAnother };  // the latter is none of interrupts_of_thread()
  InterruptedBy(InterruptCheck check, void* context, What what = What::kThread)
      : what_(what),
        came_before_(detail::came_total),
        outer_(std::exchange(detail::own_check, check)),
        outer_context_(std::exchange(detail::own_context, context)) {
    OCM_DASSERT(check != nullptr);
  }
  ~InterruptedBy() {
    detail::own_check = outer_;
    detail::own_context = outer_context_;
    if (what_ == What::kWorkForAnother) detail::came_total = came_before_;
  }
  InterruptedBy(const InterruptedBy&) = delete;
  InterruptedBy& operator=(const InterruptedBy&) = delete;

 private:
  const What what_;
  const uint32_t came_before_;
  const InterruptCheck outer_;
  void* const outer_context_;
};

/// While one lives, this thread waits with locks that the check's own calls could need.
class HoldsLocks : detail::Counted {
 public:
  HoldsLocks() : Counted(&detail::locks_held) {}
};

/// Of one wait.
class Interrupts {
 public:
  /// How often the check is asked.
  static constexpr int kMs = 50;

  Interrupts()
      : check_(detail::own_check != nullptr ? detail::own_check
               : detail::never_asks != 0    ? nullptr
                                            : interrupt_check.load(std::memory_order_acquire)) {}

  /// Nothing will ever come.
  bool none() const { return check_ == nullptr; }
  /// How long a wait that would sleep for `most_ms` sleeps.
  int sleep_ms(int most_ms) const { return none() ? most_ms : std::min(most_ms, kMs); }
  /// After a sleep: whether the wait is to end. It stays so. The thread asks once in kMs, however many waits it has meanwhile.
  bool came() {
    if (none() || came_) return came_;
    constexpr uint64_t kSoonerNs = 2'000'000;  // poll(2) counts in whole milliseconds
    const uint64_t now = now_ns();
    if (now < detail::ask_from_ns) return false;
    void* const context = detail::own_check != nullptr ? detail::own_context
                                                       : interrupt_context.load(std::memory_order_relaxed);
    came_ = check_(detail::locks_held == 0 ? 1 : 0, context) != 0;
    if (came_)
      ++detail::came_total;
    else
      detail::ask_from_ns = now_ns() + kMs * uint64_t{1'000'000} - kSoonerNs;
    return came_;
  }

 private:
  const InterruptCheck check_;
  bool came_ = false;
};

/// Grows when a wait of this thread was interrupted, whatever it made of that.
inline uint32_t interrupts_of_thread() { return detail::came_total; }

/// What it ends with then: as if its deadline had passed.
inline Status interrupted() { return Status(Code::kDeadline, "the wait was interrupted"); }

/// True: it is locked, after that time at most.
template <class Mutex>
bool lock_within(std::unique_lock<Mutex>& lock, std::chrono::milliseconds time) {
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer of GCC 12 does not see the lock that is taken by the steady clock.
  return lock.try_lock_until(std::chrono::system_clock::now() + time);
#else
  return lock.try_lock_for(time);
#endif
}

/// Locks a timed mutex that another thread may hold for long. False: the wait was interrupted.
template <class Mutex>
bool lock_unless_interrupted(std::unique_lock<Mutex>& lock) {
  OCM_DASSERT(!lock.owns_lock());
  if (lock.try_lock()) return true;
  Interrupts interrupts;
  if (interrupts.none()) {
    lock.lock();
    return true;
  }
  const HoldsLocks perhaps;  // others
  while (!lock_within(lock, std::chrono::milliseconds(Interrupts::kMs))) {
    if (interrupts.came()) return false;
  }
  return true;
}

}  // namespace ocm::os
