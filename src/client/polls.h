// The descriptors that a thread sleeps on, each once, and for how long at most.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>

#include "fabric/channel.h"

namespace ocm::client {

class Polls {
 public:
  /// More than it has room for are left out: nobody sleeps long (kSleepMsMax of the callers).
  void add(int fd, short events) {
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
  void at_once() { timeout_ms_ = 0; }
  bool is_full() const { return count_ == fds_.size(); }

  /// True if one of them woke it.
  bool sleep(int ms_max) { return ::poll(fds_.data(), count_, std::min(timeout_ms_, ms_max)) > 0; }

 private:
  std::array<pollfd, 17> fds_;  // NOLINT: count_ of them are set
  nfds_t count_ = 0;
  int timeout_ms_ = 1'000'000;
};

}  // namespace ocm::client
