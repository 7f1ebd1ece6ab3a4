#include "control/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

namespace ocm::control {
namespace {

struct AddressInfoFree {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoFree>;

AddressInfo lookup(const HostPort& where, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found) != 0) return nullptr;
  return AddressInfo(found);
}

void set_nodelay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

Result<HostPort> HostPort::parse(const std::string& text) {
  HostPort out;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    return Status(Code::kInvalidArgument, "an address is host:port, not " + text);
  out.host = text.substr(0, colon);
  out.port = text.substr(colon + 1);
  if (out.host.size() >= 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                      out.port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoul(out.port) <= 65535;
  if (out.host.empty() || !digits)
    return Status(Code::kInvalidArgument, "an address is host:port, not " + text);
  return out;
}

std::string HostPort::to_string() const {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_wildcard(const std::string& host) {
  if (host == "*") return true;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) return v4.sin_addr.s_addr == INADDR_ANY;
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
  return false;
}

bool same_place(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto one = HostPort::parse(a), other = HostPort::parse(b);
  if (!one.is_ok() || !other.is_ok()) return false;
  if (std::stoul(one.value().port) != std::stoul(other.value().port)) return false;
  const AddressInfo mine = lookup(one.value(), 0), theirs = lookup(other.value(), 0);
  for (const addrinfo* i = mine.get(); i != nullptr; i = i->ai_next) {
    for (const addrinfo* j = theirs.get(); j != nullptr; j = j->ai_next) {
      if (i->ai_addrlen == j->ai_addrlen && std::memcmp(i->ai_addr, j->ai_addr, i->ai_addrlen) == 0)
        return true;
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
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
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
  const AddressInfo info = lookup(where, AI_PASSIVE);
  if (!info) return Status(Code::kInvalidArgument, "cannot resolve " + address);
  os::Fd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0) {
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
  const HostPort where = parsed.value();
  sockaddr_storage target{};
  socklen_t length = 0;
  if (const AddressInfo info = lookup(where, AI_NUMERICHOST | AI_NUMERICSERV)) {
    std::memcpy(&target, info->ai_addr, info->ai_addrlen);
    length = info->ai_addrlen;
  } else {  // a name: resolved in the resolver's own thread
    asio::ip::tcp::resolver resolver(loop.context());
    asio::error_code error;
    const auto found = co_await resolver.async_resolve(where.host, where.port,
                                                       asio::redirect_error(asio::use_awaitable, error));
    if (error || found.empty()) co_return Status(Code::kPeerLost, "cannot resolve " + address);
    const auto endpoint = found.begin()->endpoint();
    std::memcpy(&target, endpoint.data(), endpoint.size());
    length = static_cast<socklen_t>(endpoint.size());
  }
  os::Fd fd(::socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) co_return Status::from_errno(errno, "socket");
  set_nodelay(fd.get());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&target), length) != 0) {
    if (errno != EINPROGRESS) co_return Status(Code::kPeerLost, address + ": " + std::strerror(errno));
    // The descriptor object borrows the fd; a timer ends the wait.
    asio::posix::stream_descriptor stream(loop.context(), fd.get());
    asio::steady_timer timer(loop.context());
    timer.expires_after(left_until(deadline_ns));
    bool late = false;
    timer.async_wait([&stream, &late](const asio::error_code& cancelled) {
      if (cancelled) return;
      late = true;
      asio::error_code ignored;
      stream.cancel(ignored);
    });
    asio::error_code error;
    co_await stream.async_wait(asio::posix::stream_descriptor::wait_write,
                               asio::redirect_error(asio::use_awaitable, error));
    stream.release();
    // The timer's handler refers to this frame: it must have run, cancelled or not, before the frame goes.
    if (!late) {
      timer.cancel();
      co_await asio::post(loop.context(), asio::use_awaitable);
    }
    if (late) co_return Status(Code::kPeerLost, address + ": no answer within the deadline");
    int failure = 0;
    socklen_t size = sizeof(failure);
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) co_return Status(Code::kPeerLost, address + ": " + std::strerror(failure));
  }
  co_return std::move(fd);
}

void Acceptor::start(std::function<void(os::Fd)> accepted) {
  accepted_ = std::move(accepted);
  loop_.spawn(run(shared_from_this()));
}

void Acceptor::stop() {
  stopped_ = true;
  asio::error_code ignored;
  stream_.close(ignored);
}

Task<void> Acceptor::run([[maybe_unused]] std::shared_ptr<Acceptor> self) {
  while (!stopped_) {
    asio::error_code error;
    co_await stream_.async_wait(asio::posix::stream_descriptor::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
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
