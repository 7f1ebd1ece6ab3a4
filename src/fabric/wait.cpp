#include "fabric/wait.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

namespace ocm::fabric::detail {

void poll_channels(std::span<Channel* const> channels, os::Deadline deadline) {
  constexpr size_t kFdsMax = 64;
  constexpr uint64_t kCapNs = 1'000'000;
  std::array<pollfd, kFdsMax> fds;
  size_t count = 0;
  uint64_t left_ns = std::min(deadline.left_ns(), kCapNs);
  for (Channel* channel : channels) {
    if (channel == nullptr || count == kFdsMax) continue;
    const Channel::PollOn on = channel->poll_on();
    if (on.fd >= 0) {
      fds[count++] = {on.fd, on.events, 0};
    } else if (channel->in_flight() > 0) {
      left_ns = 0;  // it has more to do at once
    }
  }
  const timespec timeout{0, static_cast<long>(left_ns)};
  ::ppoll(fds.data(), count, &timeout, nullptr);
}

bool spin_pause(uint64_t round) {
  if (round % kRoundsPerYield != kRoundsPerYield - 1) return true;
  const uint64_t before = os::now_ns();
  ::sched_yield();
  return os::now_ns() - before < kCrowdedYieldNs;
}

}  // namespace ocm::fabric::detail
