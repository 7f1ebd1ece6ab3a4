#include "control/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/log.h"
#include "os/address.h"
#include "os/lookup.h"
#include "os/rights.h"

namespace ocm::control {
namespace {

void set_nodelay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/// Until the descriptor, which stays the caller's, is ready; false at the deadline.
Task<bool> ready(Loop& loop, int fd, asio::posix::stream_descriptor::wait_type what, uint64_t deadline_ns) {
  OCM_DASSERT(fd >= 0);
  asio::posix::stream_descriptor stream(loop.context(), fd);
  asio::steady_timer timer(loop.context(), left_until(deadline_ns));
  bool late = false;
  timer.async_wait([&stream, &late](const asio::error_code& cancelled) {
    if (cancelled) return;
    late = true;
    asio::error_code ignored;
    (void)stream.cancel(ignored);
  });
  co_await completed([&](auto done) { stream.async_wait(what, done); });
  (void)stream.release();
  // The timer's handler refers to this frame: it must have run, cancelled or not, before the frame goes.
  if (!late) {
    timer.cancel();
    co_await loop.next_pass();
  }
  co_return !late;
}

Task<Result<os::Endpoint>> resolve(Loop& loop, HostPort where, uint64_t deadline_ns) {
  const auto asked = os::Lookup::start(where.host, where.port);
  if (!asked.is_ok()) co_return asked.status();
  if (!asked.value().is_done()) {
    const bool ended =
        co_await ready(loop, asked.value().fd(), asio::posix::stream_descriptor::wait_read, deadline_ns);
    if (!ended)
      co_return Status(Code::kPeerLost, "cannot resolve " + where.host + ": the name server does not answer");
  }
  const auto found = asked.value().result();
  if (!found.is_ok()) co_return Status(Code::kPeerLost, std::string(found.status().message()));
  OCM_DASSERT(!found.value().empty());
  co_return found.value().front();
}

}  // namespace

Result<HostPort> HostPort::parse(const std::string& text) {
  HostPort out;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return Status(Code::kInvalidArgument, "'" + text + "' has no port: write host:port");
  out.host = text.substr(0, colon);
  out.port = text.substr(colon + 1);
  if (out.host.size() >= 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                      out.port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoul(out.port) <= 65535;
  if (out.host.empty()) return Status(Code::kInvalidArgument, "'" + text + "' has no host: write host:port");
  if (!digits)
    return Status(Code::kInvalidArgument, "'" + text + "' has no port from 0 to 65535 after its last ':'");
  return out;
}

std::string HostPort::to_string() const { return os::host_port(host, port); }

bool is_wildcard(const std::string& host) {
  if (host == "*") return true;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) return v4.sin_addr.s_addr == INADDR_ANY;
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
  return false;
}

bool same_place(const std::string& a, const std::string& b, os::Deadline deadline) {
  if (a == b) return true;
  const auto one = HostPort::parse(a), other = HostPort::parse(b);
  if (!one.is_ok() || !other.is_ok()) return false;
  if (std::stoul(one.value().port) != std::stoul(other.value().port)) return false;
  const auto mine = os::lookup(one.value().host, one.value().port, false, deadline);
  const auto theirs = os::lookup(other.value().host, other.value().port, false, deadline);
  if (!mine.is_ok() || !theirs.is_ok()) return false;
  for (const os::Endpoint& i : mine.value()) {
    for (const os::Endpoint& j : theirs.value()) {
      if (i.length == j.length && std::memcmp(&i.address, &j.address, i.length) == 0) return true;
    }
  }
  return false;
}

Result<os::Fd> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(
        Code::kInvalidArgument,
        "the socket path is longer than " + std::to_string(sizeof(address.sun_path) - 1) + " bytes: " + path);
  }
  OCM_DASSERT(path.size() + 1 <= sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  os::refuse_rights(fd.get());
  if (::bind(fd.get(), where, sizeof(address)) != 0) {
    if (errno != EADDRINUSE) return Status::from_errno(errno, "binding " + path);
    os::Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (probe.is_open() && ::connect(probe.get(), where, sizeof(address)) == 0) {
      return Status(Code::kExists, "a daemon answers at " + path + " already");
    }
    ::unlink(path.c_str());
    if (::bind(fd.get(), where, sizeof(address)) != 0) return Status::from_errno(errno, "binding " + path);
  }
  ::chmod(path.c_str(), 0666);  // who may do what is decided by peer credentials
  if (::listen(fd.get(), 1024) != 0) return Status::from_errno(errno, "listening at " + path);
  return fd;
}

Result<os::Fd> listen_tcp(const std::string& address, std::string& bound) {
  OCM_TRY_ASSIGN(HostPort where, HostPort::parse(address));
  const auto found = os::lookup(where.host, where.port, true, os::Deadline::after_ns(os::kListenLookupNs));
  if (!found.is_ok())
    return Status(Code::kInvalidArgument, address + ": " + std::string(found.status().message()));
  OCM_DASSERT(!found.value().empty());
  const os::Endpoint& at = found.value().front();
  os::Fd fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd.get(), at.get(), at.length) != 0) {
    if (errno == EADDRINUSE) return Status(Code::kExists, address + " is in use by another program");
    return Status::from_errno(errno, "binding " + address);
  }
  if (::listen(fd.get(), 1024) != 0) return Status::from_errno(errno, "listening at " + address);
  sockaddr_storage real{};
  socklen_t length = sizeof(real);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&real), &length);
  const uint16_t port = ntohs(real.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&real)->sin6_port
                                                         : reinterpret_cast<sockaddr_in*>(&real)->sin_port);
  where.port = std::to_string(port);
  bound = where.to_string();
  return fd;
}

Task<Result<os::Fd>> connect_tcp(Loop& loop, std::string address, uint64_t deadline_ns) {
  auto parsed = HostPort::parse(address);
  if (!parsed.is_ok()) co_return parsed.status();
  const auto found = co_await resolve(loop, parsed.value(), deadline_ns);
  if (!found.is_ok()) co_return found.status();
  const os::Endpoint target = found.value();
  os::Fd fd(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) co_return Status::from_errno(errno, "socket");
  set_nodelay(fd.get());
  if (::connect(fd.get(), target.get(), target.length) != 0) {
    if (errno != EINPROGRESS) co_return Status(Code::kPeerLost, address + ": " + std::strerror(errno));
    const bool answered =
        co_await ready(loop, fd.get(), asio::posix::stream_descriptor::wait_write, deadline_ns);
    if (!answered) co_return Status(Code::kPeerLost, address + ": no answer within the deadline");
    int failure = 0;
    socklen_t size = sizeof(failure);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) co_return Status(Code::kPeerLost, address + ": " + std::strerror(failure));
  }
  co_return std::move(fd);
}

void close_unread(asio::posix::stream_descriptor& stream) {
  if (stream.is_open()) os::close_unread(os::Fd(stream.release()));
}

void Acceptor::start(std::function<void(os::Fd)> accepted) {
  OCM_DASSERT(!accepted_ && accepted);
  accepted_ = std::move(accepted);
  loop_.spawn(run(shared_from_this()));
}

void Acceptor::stop() {
  stopped_ = true;
  close_unread(stream_);
}

Task<void> Acceptor::run([[maybe_unused]] std::shared_ptr<Acceptor> self) {
  while (!stopped_) {
    const asio::error_code error = co_await completed(
        [&](auto done) { stream_.async_wait(asio::posix::stream_descriptor::wait_read, done); });
    if (error || stopped_) break;
    os::Fd fd(::accept4(stream_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.is_open()) {
      set_nodelay(fd.get());  // fails harmlessly on a Unix socket
      accepted_(std::move(fd));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      const char* why = std::strerror(errno);
      if (const auto left_out = limiter_.admit("accept_failed", why, os::now_ns())) {
        log::warn("accept_failed", {{"error", why}, {"left_out", *left_out}});
      }
      co_await loop_.sleep_ns(100'000'000);
    }
  }
  accepted_ = nullptr;
}

}  // namespace ocm::control
