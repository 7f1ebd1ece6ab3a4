// A program's end of a daemon's socket, blocking: for tests that speak the control protocol by hand.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <vector>

#include "control.pb.h"
#include "os/fd.h"
#include "wire/control.h"
#include "wire/version.h"

namespace ocm::test {

class Program {
 public:
  explicit Program(os::Fd socket, bool wait_awake = false) : socket_(std::move(socket)), spin_(wait_awake) {
    const timeval patience{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  static os::Fd connect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof(address.sun_path) - 1));
    os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
    return fd;
  }

  /// The reply, or an envelope with code PEER_LOST if the connection ended.
  wire::Envelope call(wire::Envelope request) {
    request.set_id(++id_);
    std::string bytes;
    if (!wire::append_control(request, bytes).is_ok()) return lost();
    return send_raw(bytes) ? receive() : lost();
  }
  bool send_raw(const std::string& bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  wire::Envelope receive() {
    std::string header(wire::kControlHeaderBytes, '\0');
    if (!read(header)) return lost();
    const auto length =
        wire::control_length({reinterpret_cast<const std::byte*>(header.data()), header.size()});
    if (!length.is_ok()) return lost();
    std::string body(length.value(), '\0');
    wire::Envelope out;
    if (!read(body) || !out.ParseFromString(body)) return lost();
    return out;
  }

  wire::Envelope hello(uint32_t version = wire::kControlVersions.max) {
    wire::Envelope m;
    m.mutable_session_hello()->set_version(version);
    m.mutable_session_hello()->set_program("test");
    return call(std::move(m));
  }
  wire::Envelope allocate(uint64_t bytes, uint32_t flags = 0, uint32_t layout = 0) {
    wire::Envelope m;
    m.mutable_allocate()->set_bytes_total(bytes);
    m.mutable_allocate()->set_flags(flags);
    m.mutable_allocate()->set_layout(layout);
    return call(std::move(m));
  }
  wire::Envelope free(const std::string& id) {
    wire::Envelope m;
    m.mutable_free()->set_allocation_id(id);
    return call(std::move(m));
  }
  wire::Envelope publish(const std::string& id, const std::string& name) {
    wire::Envelope m;
    m.mutable_publish()->set_allocation_id(id);
    m.mutable_publish()->set_name(name);
    return call(std::move(m));
  }
  wire::Envelope attach(const std::string& name, uint32_t access) {
    wire::Envelope m;
    m.mutable_attach()->set_name(name);
    m.mutable_attach()->set_access(access);
    return call(std::move(m));
  }
  wire::Envelope remove(const std::string& name) {
    wire::Envelope m;
    m.mutable_name_remove()->set_name(name);
    return call(std::move(m));
  }
  wire::Envelope list() {
    wire::Envelope m;
    m.mutable_name_list();
    return call(std::move(m));
  }
  wire::Envelope cluster() {
    wire::Envelope m;
    m.mutable_cluster();
    return call(std::move(m));
  }
  wire::Envelope open(const wire::ExtentDescriptor& extent, uint32_t access) {
    wire::Envelope m;
    m.mutable_open_extent()->set_address(extent.address());
    m.mutable_open_extent()->set_generation(extent.generation());
    m.mutable_open_extent()->set_capability(extent.capability());
    m.mutable_open_extent()->set_access(access);
    return call(std::move(m));
  }

  /// Descriptors that came with replies, oldest first.
  std::vector<os::Fd> fds;
  os::Fd& socket() { return socket_; }

 private:
  static wire::Envelope lost() {
    wire::Envelope out;
    out.set_code(static_cast<int>(Code::kPeerLost));
    return out;
  }
  bool read(std::string& out) {
    size_t have = 0;
    while (have < out.size()) {
      iovec part{out.data() + have, out.size() - have};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::kControlFdsMax)] = {};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (spin_ ? MSG_DONTWAIT : 0));
      if (n < 0 && spin_ && errno == EAGAIN) {
        ::sched_yield();
        continue;
      }
      if (n <= 0) return false;
      for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
          int fd = -1;
          std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
          fds.emplace_back(fd);
        }
      }
      have += static_cast<size_t>(n);
    }
    return true;
  }

  os::Fd socket_;
  const bool spin_;
  uint64_t id_ = 0;
};

}  // namespace ocm::test
