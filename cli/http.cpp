#include "cli/http.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>

#include "os/clock.h"
#include "os/fd.h"
#include "os/lookup.h"

namespace ocm::cli {
namespace {

constexpr size_t kReplyBytesMax = size_t{16} << 20;

bool wait_for(int fd, short events, const os::Deadline& deadline) {
  while (!deadline.passed()) {
    pollfd each{fd, events, 0};
    const int ready = poll(&each, 1, deadline.poll_ms(1000));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

Status not_reached(const std::string& address, const char* why) {
  return Status(Code::kPeerLost, "http://" + address + " cannot be reached: " + why);
}

Result<os::Fd> connect_local(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof(where.sun_path)) return not_reached(path, strerror(ENAMETOOLONG));
  memcpy(where.sun_path, path.c_str(), path.size() + 1);
  os::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open() || connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0) {
    return not_reached(path, strerror(errno));
  }
  return fd;
}

Result<os::Fd> connect_to(const std::string& address, const os::Deadline& deadline) {
  if (address.starts_with('/')) return connect_local(address);
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Status(Code::kInvalidArgument, "'" + address + "' is not host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto found = os::lookup(host, address.substr(colon + 1), false, deadline);
  if (!found.is_ok()) return not_reached(address, std::string(found.status().message()).c_str());
  int error = ETIMEDOUT;
  for (const os::Endpoint& each : found.value()) {
    os::Fd fd(socket(each.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_open()) continue;
    if (connect(fd.get(), each.get(), each.length) == 0) return fd;
    error = errno;
    if (error != EINPROGRESS || !wait_for(fd.get(), POLLOUT, deadline)) continue;
    socklen_t length = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) return fd;
  }
  return not_reached(address, strerror(error == EINPROGRESS ? ETIMEDOUT : error));
}

/// Undoes `Transfer-Encoding: chunked`. Errors: kProtocol.
Result<std::string> unchunk(const std::string& body) {
  std::string whole;
  size_t at = 0;
  while (true) {
    const size_t end = body.find("\r\n", at);
    if (end == std::string::npos) return Status(Code::kProtocol, "a chunked reply ends early");
    const size_t bytes = strtoul(body.c_str() + at, nullptr, 16);
    if (bytes == 0) return whole;
    if (bytes > body.size() || end + 2 + bytes > body.size()) {
      return Status(Code::kProtocol, "a chunked reply ends early");
    }
    whole.append(body, end + 2, bytes);
    at = end + 2 + bytes + 2;
  }
}

Result<std::string> ask(const char* method, const std::string& address, const std::string& path,
                        uint64_t timeout_ns) {
  const os::Deadline deadline = os::Deadline::after_ns(timeout_ns);
  OCM_TRY_ASSIGN(const os::Fd fd, connect_to(address, deadline));
  const std::string request =
      std::string(method) + " " + path + " HTTP/1.0\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return not_reached(address, strerror(errno));
  }
  std::string reply;
  std::array<char, 65536> buffer{};
  while (true) {
    if (!wait_for(fd.get(), POLLIN, deadline)) return not_reached(address, "no answer in time");
    const ssize_t got = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (got == 0) break;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return not_reached(address, strerror(errno));
    reply.append(buffer.data(), static_cast<size_t>(got));
    if (reply.size() > kReplyBytesMax)
      return Status(Code::kTooLarge, "http://" + address + path + " says too much");
  }
  const size_t head = reply.find("\r\n\r\n");
  const size_t space = reply.find(' ');
  if (!reply.starts_with("HTTP/1.") || head == std::string::npos || reply.compare(space + 1, 3, "200") != 0) {
    const std::string body = head == std::string::npos ? "" : reply.substr(head + 4);
    if (reply.compare(space + 1, 3, "400") == 0)
      return Status(Code::kInvalidArgument, body.substr(0, body.find('\n')));
    if (reply.compare(space + 1, 3, "403") == 0)
      return Status(Code::kPermission, body.substr(0, body.find('\n')));
    if (reply.compare(space + 1, 3, "404") == 0)
      return Status(Code::kNotFound, body.substr(0, body.find('\n')));
    if (reply.compare(space + 1, 3, "409") == 0)
      return Status(Code::kExists, body.substr(0, body.find('\n')));
    if (reply.compare(space + 1, 3, "503") == 0)
      return Status(Code::kPeerLost, body.substr(0, body.find('\n')));
    return Status(Code::kProtocol,
                  "http://" + address + path + " answered: " + reply.substr(0, reply.find('\r')));
  }
  const std::string body = reply.substr(head + 4);
  if (reply.substr(0, head).find("chunked") != std::string::npos) return unchunk(body);
  return body;
}

}  // namespace

Result<std::string> http_get(const std::string& address, const std::string& path, uint64_t timeout_ns) {
  return ask("GET", address, path, timeout_ns);
}

Result<std::string> http_post(const std::string& address, const std::string& path, uint64_t timeout_ns) {
  return ask("POST", address, path, timeout_ns);
}

bool accepts_connections(const std::string& address, uint64_t timeout_ns) {
  return connect_to(address, os::Deadline::after_ns(timeout_ns)).is_ok();
}

}  // namespace ocm::cli
