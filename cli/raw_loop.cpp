#include "cli/raw_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <vector>

namespace ocm::cli {
namespace {

struct Request {
  uint64_t is_put = 0;
  uint64_t bytes = 0;
};
constexpr int kSpinsBeforeYield = 4096;  // so that a machine with one core makes progress too

/// Moves all of it, spinning. False at the end of the connection or when `stopping` is set.
bool move_all(int fd, std::byte* data, uint64_t bytes, bool sending, const std::atomic<bool>& stopping) {
  uint64_t done = 0;
  int spins = 0;
  while (done < bytes) {
    const ssize_t moved = sending ? send(fd, data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : recv(fd, data + done, bytes - done, MSG_DONTWAIT);
    if (moved > 0) {
      done += static_cast<uint64_t>(moved);
      spins = 0;
      continue;
    }
    if (moved == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    if (++spins < kSpinsBeforeYield) continue;
    spins = 0;
    if (stopping.load(std::memory_order_relaxed)) return false;
    sched_yield();
  }
  return true;
}

void prepare(int fd, int buffer_bytes) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  if (buffer_bytes == 0) return;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
}

}  // namespace

Result<std::unique_ptr<RawLoop>> RawLoop::start(uint64_t bytes_max, int buffer_bytes) {
  os::Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::unique_ptr<RawLoop> loop(new RawLoop());
  loop->client_ = os::Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  prepare(listener.get(), buffer_bytes);  // accepted sockets inherit it
  prepare(loop->client_.get(), buffer_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), plain, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), plain, &length) != 0 || connect(loop->client_.get(), plain, length) != 0) {
    return Status::from_errno(errno, "raw loop over 127.0.0.1");
  }
  loop->server_ = os::Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!loop->server_.is_open()) return Status::from_errno(errno, "accept");
  prepare(loop->server_.get(), 0);
  loop->bytes_max_ = bytes_max;
  loop->thread_ = std::thread([raw = loop.get()] { raw->serve(); });
  return loop;
}

RawLoop::~RawLoop() {
  stopping_.store(true, std::memory_order_relaxed);
  if (client_.is_open()) shutdown(client_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

void RawLoop::serve() {
  std::vector<std::byte> buffer(bytes_max_);
  Request request;
  std::byte acknowledgement{1};
  while (move_all(server_.get(), reinterpret_cast<std::byte*>(&request), sizeof(request), false, stopping_)) {
    const uint64_t bytes = std::min(request.bytes, bytes_max_);
    const bool put = request.is_put != 0;
    if (!move_all(server_.get(), buffer.data(), bytes, !put, stopping_)) return;
    if (put && !move_all(server_.get(), &acknowledgement, 1, true, stopping_)) return;
  }
}

Status RawLoop::put(const std::byte* source, uint64_t bytes) {
  Request request{1, bytes};
  iovec parts[2] = {{&request, sizeof(request)}, {const_cast<std::byte*>(source), bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t sent = 0;
  do {
    sent = sendmsg(client_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && (errno == EAGAIN || errno == EINTR));
  if (sent < static_cast<ssize_t>(sizeof(request))) return Status::from_errno(errno, "send");
  const uint64_t done = static_cast<uint64_t>(sent) - sizeof(request);
  std::byte acknowledgement{};
  if (!move_all(client_.get(), const_cast<std::byte*>(source) + done, bytes - done, true, stopping_) ||
      !move_all(client_.get(), &acknowledgement, 1, false, stopping_)) {
    return Status(Code::kIo, "the raw loop's connection ended");
  }
  return Status::ok();
}

Status RawLoop::get(std::byte* target, uint64_t bytes) {
  Request request{0, bytes};
  if (!move_all(client_.get(), reinterpret_cast<std::byte*>(&request), sizeof(request), true, stopping_) ||
      !move_all(client_.get(), target, bytes, false, stopping_)) {
    return Status(Code::kIo, "the raw loop's connection ended");
  }
  return Status::ok();
}

}  // namespace ocm::cli
