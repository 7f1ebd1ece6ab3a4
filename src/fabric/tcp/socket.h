// TCP sockets as the fabric wants them: addresses as text, non-blocking, no delay, keepalive.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "os/clock.h"
#include "os/fd.h"

namespace ocm::fabric::tcp {

/// Listens on "host:port" ("[::1]:0" for IPv6; port 0: the kernel's choice). Non-blocking.
/// Errors: kInvalidArgument (not an address), kNoFds, kIo (in use, not ours).
Result<os::Fd> listen_on(std::string_view address);

/// "host:port" that a listening socket is bound to.
Result<std::string> bound_address(int fd);

/// "host:port" of another host: the port of `address`.
std::string with_host(std::string_view address, const std::string& host);

/// Connects; the socket is non-blocking and tuned. Errors: kInvalidArgument, kPeerLost, kDeadline, kNoFds.
Result<os::Fd> connect_to(std::string_view address, os::Deadline deadline);

/// No delay, and keepalive: a peer that vanishes while nothing is under way is noticed within about 20 s.
/// `fd` is connected. TCP_USER_TIMEOUT stays 0: it also ends a connection whose peer answers, but does not
/// read for so long. Who waits for an answer has a deadline of its own; a home asks answers_of(). Buffers of
/// a connection within this host, or whose handshake took less than 50 us, are capped: what is under way
/// stays in the cache then, and the link is too short to need more.
void tune(int fd);
/// True if tune() capped the buffers.
bool is_near(int fd);

/// What the peer's kernel makes of the bytes that the own one has taken.
struct Answers {
  bool outstanding = false;       // some are not acknowledged: under way, or the peer's window is closed
  uint32_t tries_unanswered = 0;  // sent again, or window probes, since it last answered
  uint64_t age_ns = 0;            // of its last answer
};
/// Nothing outstanding if the kernel does not say.
Answers answers_of(int fd);

/// The processor that took the last packet in; over loopback the sender's. -1 if unknown.
int incoming_cpu(int fd);

/// The kernel's estimate of the round trip, 0 if it has none.
uint64_t round_trip_ns(int fd);

}  // namespace ocm::fabric::tcp
