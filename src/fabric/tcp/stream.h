// A byte stream over a non-blocking socket, plain or TLS. The plain path is the system call and no more.
//
// Results: > 0 bytes moved, 0 would block, < 0 -errno (-EPIPE: the peer closed).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>

#include "fabric/tcp/tls.h"
#include "os/fd.h"

namespace ocm::fabric::tcp {

class Stream {
 public:
  Stream() = default;
  explicit Stream(os::Fd fd, std::unique_ptr<TlsConnection> tls = nullptr)
      : fd_(std::move(fd)), tls_(std::move(tls)) {}

  int fd() const { return fd_.get(); }
  bool is_encrypted() const { return tls_ != nullptr; }
  bool is_open() const { return fd_.is_open(); }
  /// No byte moves any more, but the descriptor stays valid for a thread that polls it.
  void shut_down() {
    if (fd_.is_open()) ::shutdown(fd_.get(), SHUT_RDWR);
  }
  /// The peer closed it, or the network gave it up, and nothing is left to be read. No byte is taken.
  bool has_ended() const {
    char byte = 0;
    const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && !would_block());
  }
  void close() {
    tls_.reset();
    fd_.reset();
  }

  ssize_t receive(std::byte* out, size_t bytes) {
    if (tls_) [[unlikely]]
      return tls_->receive(out, bytes);
    return received(::recv(fd_.get(), out, bytes, MSG_DONTWAIT));
  }

  ssize_t send(const iovec* parts, int count) {
    if (tls_) [[unlikely]]
      return tls_->send(parts, count);
    ssize_t n = 0;
    if (count == 1) {
      n = ::send(fd_.get(), parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(parts);
      message.msg_iovlen = static_cast<size_t>(count);
      n = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (n >= 0) return n;
    return would_block() ? 0 : -errno;
  }

  /// True while bytes taken by send() are not in the kernel yet: call send() again when writable.
  bool keeps_output() const { return tls_ && tls_->wants_write(); }
  /// tls-exporter of the channel, for proofs; plain: empty.
  std::string binding() const { return tls_ ? tls_->binding() : std::string(); }
  /// Why TLS refused the peer, or the peer us; empty if that is not what happened.
  std::string refusal() const { return tls_ ? tls_->why() : std::string(); }
  /// Plain: a receive that brought less than it asked for emptied the socket. TLS: one record at a time.
  bool short_means_empty() const { return !tls_; }

 private:
  static bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
  static ssize_t received(ssize_t n) {
    if (n > 0) return n;
    if (n == 0) return -EPIPE;
    return would_block() ? 0 : -errno;
  }

  os::Fd fd_;
  std::unique_ptr<TlsConnection> tls_;
};

}  // namespace ocm::fabric::tcp
