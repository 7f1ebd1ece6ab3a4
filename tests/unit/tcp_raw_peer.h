// A plain socket to a data server that writes what it likes and reads what comes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <string>

#include "fabric/tcp/socket.h"
#include "tcp_fixture.h"
#include "wire/frame.h"

namespace ocm::fabric::tcp {

class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    auto fd = connect_to(address, soon());
    EXPECT_TRUE(fd.is_ok());
    fd_ = std::move(fd).value();
  }
  /// False once the peer has closed.
  bool write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) {
        pollfd p{fd_.get(), POLLOUT, 0};
        if (::poll(&p, 1, 10'000) <= 0) return false;
        continue;
      }
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }
  /// False once the peer has closed.
  bool read(std::span<std::byte> out) {
    while (!out.empty()) {
      pollfd p{fd_.get(), POLLIN, 0};
      if (::poll(&p, 1, 10'000) <= 0) return false;
      const ssize_t n = ::recv(fd_.get(), out.data(), out.size(), 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) return false;
      out = out.subspan(static_cast<size_t>(n));
    }
    return true;
  }
  void write_and_wait_for_the_end(std::span<const std::byte> bytes) {
    EXPECT_TRUE(write(bytes));
    std::byte one;
    while (read({&one, 1})) {
    }
  }
  bool read_header(wire::FrameHeader& header) {
    std::array<std::byte, wire::kFrameHeaderBytes> bytes;
    return read(bytes) && wire::decode_frame(bytes.data(), header).is_ok();
  }

 protected:
  os::Fd fd_;
};

}  // namespace ocm::fabric::tcp
