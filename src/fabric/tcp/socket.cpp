#include "fabric/tcp/socket.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/address.h"
#include "os/interrupt.h"
#include "os/lookup.h"

namespace ocm::fabric::tcp {
namespace {

Result<std::vector<os::Endpoint>> resolve(std::string_view address, bool passive, os::Deadline deadline) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == address.size()) {
    return Status(Code::kInvalidArgument, "not host:port: " + std::string(address));
  }
  std::string host(address.substr(0, colon));
  const std::string port(address.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return os::lookup(host, port, passive, deadline);
}

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); }

// What is in the kernel then stays in the cache. On a link of kNearRoundTripNs it still carries 5 GB/s: the
// kernel doubles the number.
constexpr int kNearBufferBytes = 128 * 1024;
constexpr uint64_t kNearRoundTripNs = 50'000;

/// Both ends have one address: loopback, or an address of this host.
bool is_same_host(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof(own);
  socklen_t peer_length = sizeof(peer);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
      own.ss_family != peer.ss_family) {
    return false;
  }
  if (own.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(own).sin_addr;
    const auto& b = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
    return a.s_addr == b.s_addr || ntohl(a.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(own).sin6_addr;
  const auto& b = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

bool is_near(int fd) {
  int bytes = 0;
  socklen_t length = sizeof(bytes);
  return ::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length) == 0 && bytes == 2 * kNearBufferBytes;
}

void tune(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  const uint64_t round_trip = round_trip_ns(fd);
  if (is_same_host(fd) || (round_trip > 0 && round_trip <= kNearRoundTripNs)) {
    set(fd, SOL_SOCKET, SO_SNDBUF, kNearBufferBytes);
    set(fd, SOL_SOCKET, SO_RCVBUF, kNearBufferBytes);
  }
}

Result<os::Fd> listen_on(std::string_view address) {
  OCM_TRY_ASSIGN(const auto found, resolve(address, true, os::Deadline::after_ns(os::kListenLookupNs)));
  const os::Endpoint& at = found.front();
  os::Fd fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), at.get(), at.length) != 0 || ::listen(fd.get(), 1024) != 0) {
    return Status::from_errno(errno, "listen on " + std::string(address));
  }
  return fd;
}

Result<std::string> bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return Status::from_errno(errno, "getsockname");
  }
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&storage), length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return Status(Code::kIo, "getnameinfo");
  }
  return os::host_port(host, port);
}

std::string with_host(std::string_view address, const std::string& host) {
  return os::host_port(host, std::string(address.substr(address.rfind(':') + 1)));
}

Result<os::Fd> connect_to(std::string_view address, os::Deadline deadline) {
  OCM_TRY_ASSIGN(const auto found, resolve(address, false, deadline));
  Status last(Code::kPeerLost, "no address for " + std::string(address));
  os::Interrupts interrupts;
  for (const os::Endpoint& at : found) {
    os::Fd fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) return Status::from_errno(errno, "socket");
    int error = ::connect(fd.get(), at.get(), at.length) == 0 ? 0 : errno;
    while (error == EINPROGRESS) {
      pollfd p{fd.get(), POLLOUT, 0};
      const int ready = ::poll(&p, 1, deadline.poll_ms(interrupts.sleep_ms(1000)));
      if (ready > 0) {
        socklen_t length = sizeof(error);
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      } else if (interrupts.came()) {
        return os::interrupted();
      } else if (deadline.passed()) {
        return Status(Code::kDeadline, "no answer from " + std::string(address));
      }
    }
    if (error == 0) {
      tune(fd.get());
      return fd;
    }
    last = Status(Code::kPeerLost, std::string(address) + ": " + std::strerror(error));
  }
  return last;
}

Answers answers_of(int fd) {
  int bytes = 0;
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (::ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes == 0 ||
      ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return {};
  }
  return {true, std::max<uint32_t>(info.tcpi_probes, info.tcpi_retransmits),
          uint64_t{info.tcpi_last_ack_recv} * 1'000'000};
}

int incoming_cpu(int fd) {
  int cpu = -1;
  socklen_t length = sizeof(cpu);
  return ::getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &length) == 0 ? cpu : -1;
}

uint64_t round_trip_ns(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return uint64_t{info.tcpi_rtt} * 1000;
}

}  // namespace ocm::fabric::tcp
