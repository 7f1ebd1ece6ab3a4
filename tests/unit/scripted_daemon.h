// A daemon that says what a test tells it to. Its extents are on the program's host, so that no network is
// needed.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "control.pb.h"
#include "fabric/shm/tables.h"
#include "os/fd.h"
#include "os/memory.h"
#include "wire/control.h"

namespace ocm::test {

class ScriptedDaemon {
 public:
  static constexpr uint32_t kSlots = 16;
  static constexpr uint64_t kBytes = 4096;  // of every extent

  ScriptedDaemon() {
    shared_ = os::make_memfd("shared", fabric::shm::GenerationTable::bytes(kSlots), {}).value();
    page_ = os::make_memfd("page", fabric::shm::kSessionPageBytes, {}).value();
    mapped_ = os::Mapping::map(shared_.get(), fabric::shm::GenerationTable::bytes(kSlots), true).value();
    table().lease_until_ns.store(UINT64_MAX);
  }
  ~ScriptedDaemon() {
    for (std::thread& run : threads_) run.join();  // the session was closed
  }

  /// Answers of the daemon's thread, until then its errors.
  std::function<void(const wire::ResolveRequest& request, wire::Envelope& reply)> on_resolve;
  std::function<void(wire::Envelope& reply)> on_lost_replica;
  /// What a session shows of the runs before to the run with this number; the first is 1.
  std::function<void(int run, const wire::SessionRestore& request, wire::Envelope& reply)> on_restore;
  wire::Allocation allocation;       // the answer to allocate and attach
  uint64_t failure_deadline_ns = 0;  // 0: it does not say
  std::atomic<int> freed{0};         // requests
  uint64_t slab_bytes = 0;

  os::Fd dial() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
    const std::lock_guard lock(mutex_);
    const int run = static_cast<int>(threads_.size()) + 1;
    socket_now_ = ends[0];
    threads_.emplace_back([this, run, socket = os::Fd(ends[0])] {
      serve(run, socket.get());
      const std::lock_guard closing(mutex_);
      if (socket_now_ == socket.get()) socket_now_ = -1;
    });
    return os::Fd(ends[1]);
  }
  /// The present run ends; who dials meets the next.
  void restart() {
    const std::lock_guard lock(mutex_);
    if (socket_now_ >= 0) ::shutdown(socket_now_, SHUT_RDWR);
  }

  /// For a session's options: it is there once, and gone for whoever dials again.
  auto dial_once() {
    return [this]() -> Result<os::Fd> {
      if (dialled_++ > 0) return Status(Code::kNoDaemon);
      return dial();
    };
  }

  struct Memory {
    os::Fd fd;
    os::Mapping mapping;
  };
  Memory make_memory() {
    os::Fd fd = os::make_memfd("extent", kBytes, {}).value();
    os::Mapping mapping = os::Mapping::map(fd.get(), kBytes, true).value();
    return {std::move(fd), std::move(mapping)};
  }
  /// The extent in `slot`, which lives from now on. Two slots may have the same bytes.
  wire::ExtentDescriptor place(uint32_t slot, const Memory& memory, uint32_t remade = 0, uint32_t part = 0) {
    wire::ExtentDescriptor extent;
    extent.set_address((uint64_t{1} << 40) + slot * kBytes);
    extent.set_generation(slot + 1);
    extent.set_bytes(kBytes);
    extent.set_capability(std::string(16, 'c'));
    extent.set_node("n1");
    extent.set_slot(slot);
    extent.set_epoch(remade);
    extent.set_part(part);
    memory_of_[extent.address()] = memory.fd.get();
    thaw(slot);
    return extent;
  }
  void freeze(uint32_t slot) { table().generation[slot].store(0); }
  void thaw(uint32_t slot) { table().generation[slot].store(slot + 1); }
  std::atomic<uint32_t>& generation(uint32_t slot) { return table().generation[slot]; }

  static wire::Allocation replicated(const std::vector<wire::ExtentDescriptor>& extents) {
    wire::Allocation out;
    out.set_allocation_id(std::string(16, 'a'));
    out.set_bytes_total(kBytes);
    out.set_layout(static_cast<uint32_t>(Layout::kReplicated));
    out.set_access(static_cast<uint32_t>(Access::kReadWrite));
    for (const wire::ExtentDescriptor& extent : extents) *out.add_extents() = extent;
    return out;
  }

 private:
  fabric::shm::GenerationTable& table() {
    return *reinterpret_cast<fabric::shm::GenerationTable*>(mapped_.data());
  }

  void serve(int run, int socket) {
    std::string header(wire::kControlHeaderBytes, '\0');
    while (read(socket, header)) {
      const auto length =
          wire::control_length({reinterpret_cast<const std::byte*>(header.data()), header.size()});
      std::string body(length.value(), '\0');
      wire::Envelope request;
      if (!read(socket, body) || !request.ParseFromString(body)) return;
      wire::Envelope reply;
      std::vector<int> fds;
      if (request.has_session_restore() && on_restore)
        on_restore(run, request.session_restore(), reply);
      else
        answer(request, reply, fds);
      reply.set_id(request.id());
      reply.set_reply(true);
      reply.set_fds(static_cast<uint32_t>(fds.size()));
      send(socket, reply, fds);
    }
  }

  void answer(const wire::Envelope& request, wire::Envelope& reply, std::vector<int>& fds) {
    switch (request.body_case()) {
      case wire::Envelope::kSessionHello: {
        wire::SessionWelcome& welcome = *reply.mutable_session_welcome();
        welcome.set_session_id(std::string(16, 's'));
        welcome.set_session_key(std::string(32, 'k'));
        welcome.set_node("n1");
        welcome.set_slots(kSlots);
        welcome.set_failure_deadline_ns(failure_deadline_ns);
        welcome.set_slab_bytes(slab_bytes);
        fds = {shared_.get(), page_.get()};
        break;
      }
      case wire::Envelope::kAllocate:
      case wire::Envelope::kAttach: *reply.mutable_allocation() = allocation; break;
      case wire::Envelope::kOpenExtent: fds = {memory_of_.at(request.open_extent().address())}; break;
      case wire::Envelope::kFree: ++freed; break;
      case wire::Envelope::kResolve:
        if (on_resolve) return on_resolve(request.resolve(), reply);
        [[fallthrough]];
      case wire::Envelope::kLostReplica:
        if (request.has_lost_replica() && on_lost_replica) return on_lost_replica(reply);
        [[fallthrough]];
      default: reply.set_code(static_cast<int>(Code::kProtocol));
    }
  }

  static bool read(int socket, std::string& out) {
    return ::recv(socket, out.data(), out.size(), MSG_WAITALL) == static_cast<ssize_t>(out.size());
  }
  static void send(int socket, const wire::Envelope& message, const std::vector<int>& fds) {
    std::string bytes;
    if (!wire::append_control(message, bytes).is_ok()) return;
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * 2)] = {};
    msghdr out{};
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    if (!fds.empty()) {
      out.msg_control = ancillary;
      out.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
      cmsghdr* head = CMSG_FIRSTHDR(&out);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(head), fds.data(), sizeof(int) * fds.size());
    }
    (void)::sendmsg(socket, &out, MSG_NOSIGNAL);
  }

  std::atomic<int> dialled_{0};
  os::Fd shared_, page_;
  os::Mapping mapped_;
  std::map<uint64_t, int> memory_of_;  // by address; filled before the daemon is asked for it
  std::mutex mutex_;                   // guards the rest
  std::vector<std::thread> threads_;   // one for each run
  int socket_now_ = -1;                // of the present one
};

}  // namespace ocm::test
