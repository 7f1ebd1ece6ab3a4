#include "client/mapped_pages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "client/fork.h"
#include "client/session.h"
#include "os/clock.h"
#include "os/interrupt.h"
#include "os/memory.h"
#include "os/signals.h"
#include "wire/convert.h"
#include "wire/mapped.h"

namespace ocm::client {

/// Never destroyed: its thread runs until the process ends.
class MappedPages::Guard {
 public:
  static Guard& get() {
    static Guard* const one = new Guard;
    return *one;
  }

  Status add(MappedPages& mapping) {
    const std::lock_guard lock(mutex_);
    OCM_TRY(start());
    if (count_ == kMost)
      return Status(Code::kLimit, "the program maps " + std::to_string(kMost) +
                                      " cached extents: free some, or use put and get");
    mappings_[count_++] = &mapping;
    ring();
    return {};
  }
  /// W2.
  void remove(const MappedPages& mapping) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count_; ++i) {
      if (mappings_[i] != &mapping) continue;
      mappings_[i] = mappings_[--count_];
      break;
    }
    ring();
  }

 private:
  static constexpr size_t kMost = 256;

  Status start() {
    static const bool watched = (run_in_child(forget_in_child), true);
    (void)watched;
    if (runs_) return {};
    if (!bell_.is_open()) bell_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_.is_open()) return Status::from_errno(errno, "eventfd");
    if (!nothing_.is_open()) {
      OCM_TRY_ASSIGN(nothing_, os::make_memfd("oncilla-nothing", 0, {}));
    }
    const os::BlockedSignals none;
    try {
      std::thread([this] { run(); }).detach();
    } catch (const std::system_error&) {
      return Status(Code::kNoMemory, "the system has no thread for the guard of mapped pages");
    }
    runs_ = true;
    return {};
  }
  /// Async-signal-safe: the child has no mapping, and no thread.
  static void forget_in_child() {
    Guard& guard = get();
    new (&guard.mutex_) std::mutex;
    guard.count_ = 0;
    guard.runs_ = false;
  }
  void ring() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof(one));
  }

  [[noreturn]] void run() {
    std::array<pollfd, kMost + 1> on{};
    std::array<const MappedPages*, kMost> of{};
    for (;;) {
      size_t count = 0;
      {
        const std::lock_guard lock(mutex_);
        for (; count < count_; ++count) {
          of[count] = mappings_[count];
          const short events = mappings_[count]->is_dead() ? 0 : POLLIN;
          on[count] = {events != 0 ? mappings_[count]->socket_.get() : -1, events, 0};
        }
      }
      on[count] = {bell_.get(), POLLIN, 0};
      if (::poll(on.data(), count + 1, -1) < 0) continue;
      uint64_t rung = 0;
      if (on[count].revents != 0) (void)!::read(bell_.get(), &rung, sizeof(rung));
      for (size_t i = 0; i < count; ++i) {
        if (on[i].revents != 0) hear(of[i]);
      }
    }
  }
  void hear(const MappedPages* which) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count_; ++i) {
      if (mappings_[i] != which) continue;
      MappedPages& mapping = *mappings_[i];
      wire::MappedNews news;
      const ssize_t got = ::recv(mapping.socket_.get(), &news, sizeof(news), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      const bool is_news = got == sizeof(news) && news.kind == wire::MappedNews::Kind::kDead &&
                           news.offset <= mapping.bytes_ && news.bytes <= mapping.bytes_ - news.offset;
      mapping.is_hurt_.store(true, std::memory_order_release);
      if (is_news) return bury(mapping, news.offset, news.bytes);
      bury(mapping, 0, mapping.bytes_);
      mapping.is_dead_.store(true, std::memory_order_release);
      return;
    }
  }
  void bury(const MappedPages& mapping, uint64_t offset, uint64_t bytes) const {
    (void)::mmap(mapping.data_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 nothing_.get(), 0);
    (void)::madvise(mapping.data_ + offset, bytes, MADV_DONTFORK);
    mapping.faults_.wake(reinterpret_cast<uint64_t>(mapping.data_) + offset, bytes);
  }

  std::mutex mutex_;
  std::array<MappedPages*, kMost> mappings_{};
  size_t count_ = 0;
  bool runs_ = false;
  os::Fd bell_, nothing_;
};

Result<std::unique_ptr<MappedPages>> MappedPages::open(Session& session, const ExtentDescriptor& extent,
                                                       Access access) {
  std::unique_ptr<MappedPages> made(new MappedPages);
  OCM_TRY_ASSIGN(made->faults_, os::Userfault::make());
  wire::Envelope request;
  wire::open_to(extent, access, *request.mutable_map_pages());
  std::shared_ptr<Daemon> from;
  OCM_TRY_ASSIGN(Reply reply, session.call(request, &from));
  if (reply.fds.size() != 2 || !reply.message->has_pages_mapped())
    return Status(Code::kProtocol, "the daemon did not pass the pages' descriptors");
  const uint64_t bytes = reply.message->pages_mapped().bytes();
  if (bytes < extent.bytes)
    return Status(Code::kProtocol, "the daemon passed fewer bytes than the extent has");
  made->socket_ = std::move(reply.fds[1]);
  remember_socket(made->socket_.get());
  remember_socket(made->faults_.fd());
  const bool may_store = access == Access::kReadWrite;
  const int protection = PROT_READ | (may_store ? PROT_WRITE : 0);
  void* data =
      ::mmap(nullptr, bytes, protection, may_store ? MAP_SHARED : MAP_PRIVATE, reply.fds[0].get(), 0);
  if (data == MAP_FAILED) return Status::from_errno(errno, "mmap of cached pages");
  made->data_ = static_cast<std::byte*>(data);
  made->bytes_ = bytes;
  (void)::madvise(data, bytes, MADV_DONTFORK);  // W3
  (void)::madvise(data, bytes, MADV_DONTDUMP);
  OCM_TRY(made->faults_.watch(reinterpret_cast<uint64_t>(data), bytes, may_store));
  OCM_TRY(made->introduce(from->failure_deadline_ns()));
  OCM_TRY(Guard::get().add(*made));
  made->is_guarded_ = true;
  return made;
}

/// Gives the daemon the userfaultfd, and waits until it answers its faults.
Status MappedPages::introduce(uint64_t patience_ns) const {
  wire::MappedAt at;
  at.address = reinterpret_cast<uint64_t>(data_);
  at.bytes = bytes_;
  at.flags = faults_.can_protect() ? wire::MappedAt::kCanProtect : 0;
  iovec from{&at, sizeof(at)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &from;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = faults_.fd();
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != sizeof(at))
    return Status::from_errno(errno, "telling the daemon of a mapping").with_code(Code::kNoDaemon);
  const os::Deadline deadline = os::Deadline::after_ns(patience_ns);
  os::Interrupts interrupts;
  for (;;) {
    constexpr int kLookMs = 50;
    pollfd on{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&on, 1, kLookMs);
    if (ready > 0) break;
    if (interrupts.came()) return os::interrupted();
    if (deadline.passed()) return Status(Code::kDeadline, "the daemon does not answer for a mapping");
  }
  wire::MappedNews news;
  if (::recv(socket_.get(), &news, sizeof(news), MSG_DONTWAIT) != sizeof(news))
    return Status(Code::kNoDaemon, "the daemon ended before it served a mapping");
  if (news.code == static_cast<int32_t>(Code::kOk)) return {};
  return Status(is_code(news.code) ? static_cast<Code>(news.code) : Code::kProtocol,
                "the daemon refused to serve a mapping");
}

MappedPages::~MappedPages() {
  if (is_guarded_) Guard::get().remove(*this);
  if (data_ != nullptr) {
    (void)::munmap(data_, bytes_);
    faults_.wake(reinterpret_cast<uint64_t>(data_), bytes_);  // who waits there gets SIGSEGV
  }
  if (socket_.is_open()) {
    forget_socket(socket_.get());
    forget_socket(faults_.fd());
  }
}

}  // namespace ocm::client
