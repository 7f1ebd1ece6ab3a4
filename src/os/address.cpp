#include "os/address.h"

#include <netdb.h>
#include <sys/socket.h>

namespace ocm::os {

std::string peer_host(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host[NI_MAXHOST] = {};
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(fd, where, &length) != 0 ||
      ::getnameinfo(where, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host;
}

std::string host_port(const std::string& host, const std::string& port) {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace ocm::os
