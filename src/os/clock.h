// Monotonic time in nanoseconds, and deadlines. Tests of pure code pass their own numbers instead.
#pragma once

#include <time.h>

#include <cstdint>

#include "base/assert.h"

namespace ocm::os {

/// CLOCK_BOOTTIME: it runs on while a process is stopped by SIGSTOP, and while the machine is suspended, so
/// that a lease does not outlive a suspend. It is not the clock of std::chrono::steady_clock and Asio's
/// timers: give those differences. As fast as CLOCK_MONOTONIC (vDSO).
inline uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// Monotonic, some milliseconds coarse and several times as fast: for what is looked at now and then only.
inline uint64_t coarse_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// A point in monotonic time, or never.
class Deadline {
 public:
  static Deadline after_ns(uint64_t ns) {
    const uint64_t now = now_ns();
    return Deadline(now + ns < now ? kNever : now + ns);
  }
  static Deadline never() { return Deadline(kNever); }

  bool passed() const { return at_ns_ != kNever && now_ns() >= at_ns_; }
  /// The same with the time known already.
  bool passed_at(uint64_t now) const { return at_ns_ != kNever && now >= at_ns_; }
  /// Nanoseconds left, 0 if passed.
  uint64_t left_ns() const {
    if (at_ns_ == kNever) return kNever;
    const uint64_t now = now_ns();
    return now >= at_ns_ ? 0 : at_ns_ - now;
  }
  /// For poll(2): milliseconds left rounded up, at most `cap_ms`.
  int poll_ms(int cap_ms) const {
    OCM_DASSERT(cap_ms >= 0);  // poll(2) takes a negative one for never
    const uint64_t left = left_ns();
    if (left / 1'000'000 >= static_cast<uint64_t>(cap_ms)) return cap_ms;
    return static_cast<int>((left + 999'999) / 1'000'000);
  }

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  explicit Deadline(uint64_t at_ns) : at_ns_(at_ns) {}
  uint64_t at_ns_;
};

}  // namespace ocm::os
