// How a thread waits for channels: it spins while an answer is likely near, then sleeps in poll(2).
//
// Waking from poll across processors costs tens of microseconds; an answer over loopback takes six.
#pragma once

#include <cstdint>
#include <span>

#include "fabric/channel.h"
#include "os/clock.h"
#include "os/interrupt.h"

namespace ocm::fabric {

inline constexpr uint64_t kWaitSpinNs = 100'000;

namespace detail {
/// Polls on all channels, at most 1 ms and not past the deadline.
void poll_channels(std::span<Channel* const> channels, os::Deadline deadline);
/// Lets others run now and then. Soon, because the home's thread may stand on this very processor: then the
/// answer comes only after a yield. Alone on a processor a yield costs less than a look at the socket.
inline constexpr uint64_t kRoundsPerYield = 4;
/// A yield that took so long gave a time slice away: others need the processor, and a sleeper is woken sooner
/// than a spinner gets its next turn.
inline constexpr uint64_t kCrowdedYieldNs = 100'000;
/// False: the processor is wanted by others, sleep now.
bool spin_pause(uint64_t round);
}  // namespace detail

/// Whether a thread that waits looks again at once, or sleeps. One for each wait.
class Waiter {
 public:
  explicit Waiter(uint64_t spin_ns = kWaitSpinNs) : spin_ns_(spin_ns) {}
  /// Something came: it spins anew from here, and does not yield now.
  void moved(uint64_t now_ns) {
    from_ns_ = now_ns;
    round_ = 0;
  }
  /// After a look in vain. True: look again; false: sleep.
  bool spins(uint64_t now_ns) {
    if (from_ns_ == 0) from_ns_ = now_ns;
    return now_ns - from_ns_ < spin_ns_ && detail::spin_pause(round_++);
  }

 private:
  const uint64_t spin_ns_;
  uint64_t from_ns_ = 0;
  uint64_t round_ = 0;
};

/// Makes progress on `channels` until `predicate()`, the deadline or an interrupt. True if the predicate holds.
/// Null channels are skipped; none: it re-checks every millisecond at the latest.
///
/// Threads: any number on the same channels; the predicate is called by this one only.
/// Cost: no allocation; spins at most kWaitSpinNs after the last time that anything moved.
template <class Predicate>
bool wait_until(std::span<Channel* const> channels, Predicate&& predicate, os::Deadline deadline,
                uint64_t stall_ns) {
  if (predicate()) return true;
  Waiter waiter;
  os::Interrupts interrupts;
  uint64_t moved = 0;
  for (;;) {
    const uint64_t now_ns = os::now_ns();
    uint64_t moved_now = 0;
    for (Channel* channel : channels) {
      if (channel == nullptr) continue;
      channel->progress(now_ns, stall_ns);
      moved_now += channel->moved_total();
    }
    if (predicate()) return true;
    if (moved_now != moved) waiter.moved(now_ns);
    moved = moved_now;
    if (deadline.passed_at(now_ns)) return false;
    if (waiter.spins(now_ns)) continue;
    detail::poll_channels(channels, deadline);
    if (interrupts.came()) return false;
  }
}

}  // namespace ocm::fabric
