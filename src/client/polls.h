// The descriptors that a thread sleeps on, each once, and for how long at most.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "fabric/channel.h"

namespace ocm::client {

class Polls {
 public:
  /// More than it has room for are left out: nobody sleeps long (kSleepMsMax of the callers).
  void add(int fd, short events) {
    OCM_DASSERT(fd >= 0 && events != 0);
    const auto end = fds_.begin() + count_;
    const auto same = std::find_if(fds_.begin(), end, [fd](const pollfd& one) { return one.fd == fd; });
    if (same != end)
      same->events = static_cast<short>(same->events | events);
    else if (count_ < fds_.size())
      fds_[count_++] = {fd, events, 0};
  }
  void add(fabric::Channel& channel) {
    const fabric::Channel::PollOn on = channel.poll_on();
    if (on.fd < 0)
      at_once();  // it has more to do at once
    else
      add(on.fd, on.events);
  }
  void at_once() { timeout_ns_ = 0; }
  void at_latest(uint64_t now_ns, uint64_t at_ns) {
    timeout_ns_ = std::min(timeout_ns_, at_ns > now_ns ? at_ns - now_ns : 0);
  }
  /// Another thread moves what is waited for, and may take long or not.
  void soon() { timeout_ns_ = std::min(timeout_ns_, uint64_t{1'000'000}); }
  bool is_full() const { return count_ == fds_.size(); }

  /// True if one of them woke it. Negative: without limit.
  bool sleep(int ms_max) {
    constexpr uint64_t kNsPerMs = 1'000'000, kNsPerS = 1'000'000'000;
    uint64_t ns = timeout_ns_;
    if (ms_max >= 0) ns = std::min(ns, static_cast<uint64_t>(ms_max) * kNsPerMs);
    const timespec most{static_cast<time_t>(ns / kNsPerS), static_cast<long>(ns % kNsPerS)};
    return ::ppoll(fds_.data(), count_, ns == kForEver ? nullptr : &most, nullptr) > 0;
  }

 private:
  std::array<pollfd, 17> fds_;  // NOLINT: count_ of them are set
  nfds_t count_ = 0;
  static constexpr uint64_t kForEver = UINT64_MAX;
  uint64_t timeout_ns_ = kForEver;
};

}  // namespace ocm::client
