// Stream sockets of the control plane: listen, accept and connect, Unix and TCP, without blocking the loop.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>

#include "base/log_limiter.h"
#include "base/status.h"
#include "control/loop.h"
#include "os/clock.h"
#include "os/fd.h"

namespace ocm::control {

/// "host:port", "[v6]:port". Errors: kInvalidArgument.
struct HostPort {
  std::string host;
  std::string port;
  static Result<HostPort> parse(const std::string& text);
  std::string to_string() const;
};

/// True for a host that means every interface.
bool is_wildcard(const std::string& host);
/// True if both texts stand for one place: equal, or the same port and an address in common. False where the
/// name server does not answer by the deadline.
bool same_place(const std::string& a, const std::string& b, os::Deadline deadline);

/// Binds and listens. A stale socket file (nobody answers there) is replaced. Errors: kExists, kIo.
Result<os::Fd> listen_unix(const std::string& path);
/// `bound` gets the address with the real port. Errors: kInvalidArgument, kExists (in use), kIo.
Result<os::Fd> listen_tcp(const std::string& address, std::string& bound);
/// Errors: kPeerLost, kDeadline, kInvalidArgument, kNoFds.
Task<Result<os::Fd>> connect_tcp(Loop& loop, std::string address, uint64_t deadline_ns);

/// Closes it if it is open: see os::close_unread().
void close_unread(asio::posix::stream_descriptor& stream);

/// Calls `accepted` for each connection until stop(). At kNoFds it waits and goes on.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(Loop& loop, os::Fd socket) : loop_(loop), stream_(loop.context(), socket.get()) {
    socket.release();
  }
  void start(std::function<void(os::Fd)> accepted);
  void stop();

 private:
  Task<void> run(std::shared_ptr<Acceptor> self);
  Loop& loop_;
  asio::posix::stream_descriptor stream_;
  std::function<void(os::Fd)> accepted_;
  log::Limiter limiter_;
  bool stopped_ = false;
};

}  // namespace ocm::control
