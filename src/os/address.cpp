#include "os/address.h"

#include <netdb.h>
#include <sys/socket.h>

namespace ocm::os {

namespace {

using Ask = int (*)(int, sockaddr*, socklen_t*);

/// Of what `ask`, getsockname or getpeername, says.
bool find_end(int fd, Ask ask, std::string& host, std::string& port) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host_text[NI_MAXHOST] = {}, port_text[NI_MAXSERV] = {};
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (ask(fd, where, &length) != 0 ||
      ::getnameinfo(where, length, host_text, sizeof(host_text), port_text, sizeof(port_text),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return false;
  }
  host = host_text;
  port = port_text;
  return true;
}

/// An IPv4 address within IPv6 as such, and without the interface that each side names for itself.
std::string end_of(int fd, Ask ask) {
  std::string host, port;
  if (!find_end(fd, ask, host, port)) return {};
  host = host.substr(0, host.find('%'));
  constexpr std::string_view kMapped = "::ffff:";
  if (host.starts_with(kMapped) && host.find('.') != std::string::npos) host.erase(0, kMapped.size());
  return host_port(host, port);
}

}  // namespace

std::string peer_host(int fd) {
  std::string host, port;
  return find_end(fd, ::getpeername, host, port) ? host : std::string();
}

std::string own_end(int fd) { return end_of(fd, ::getsockname); }
std::string peer_end(int fd) { return end_of(fd, ::getpeername); }

std::string host_port(const std::string& host, const std::string& port) {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace ocm::os
