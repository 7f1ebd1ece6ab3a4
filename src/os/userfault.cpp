#include "os/userfault.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <string_view>

namespace ocm::os {
namespace {

constexpr uint64_t kSystemPage = 4096;
constexpr uint64_t kWriteProtectShared = uint64_t{1} << 12;  // UFFD_FEATURE_WP_HUGETLBFS_SHMEM: Linux 5.19
constexpr uint64_t kWriteProtectUnpopulated = uint64_t{1} << 13;  // UFFD_FEATURE_WP_UNPOPULATED: 6.4
constexpr uint64_t kContinueProtected = uint64_t{1} << 1;         // UFFDIO_CONTINUE_MODE_WP: 6.4
constexpr int kUserModeOnly = 1;                                  // UFFD_USER_MODE_ONLY: 5.11
constexpr unsigned long kNewFromDevice = _IO(0xAA, 0x00);         // USERFAULTFD_IOC_NEW: 6.1
constexpr uint64_t kNeeded = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                             UFFD_FEATURE_PAGEFAULT_FLAG_WP | kWriteProtectShared;

Fd open_one(bool& of_kernel) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  of_kernel = true;
  if (const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)); device.is_open()) {
    Fd fd(::ioctl(device.get(), kNewFromDevice, kFlags));
    if (fd.is_open()) return fd;
  }
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  if (fd.is_open()) return fd;
  of_kernel = false;
  return Fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags | kUserModeOnly)));
}

bool negotiate(int fd, uint64_t features) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  return ::ioctl(fd, UFFDIO_API, &api) == 0;
}

}  // namespace

Result<Userfault> Userfault::make() {
  bool of_kernel = false;
  Userfault made(open_one(of_kernel));
  if (!made.fd_.is_open()) {
    if (errno == EMFILE || errno == ENFILE) return Status::from_errno(errno, "userfaultfd");
    return Status(Code::kUnsupported,
                  "this system does not let the program wait for pages (userfaultfd): use put and get");
  }
  made.of_kernel_ = of_kernel;
  made.can_protect_ = negotiate(made.fd(), kNeeded | kWriteProtectUnpopulated);
  if (!made.can_protect_ && !negotiate(made.fd(), kNeeded))
    return Status(Code::kUnsupported,
                  "pointers into pages that a daemon caches need Linux 5.19 or later: use put and get");
  return made;
}

Status Userfault::watch(uint64_t address, uint64_t bytes, bool may_store) const {
  uffdio_register range{};
  range.range.start = address;
  range.range.len = bytes;
  range.mode =
      UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | (may_store ? UFFDIO_REGISTER_MODE_WP : 0);
  if (::ioctl(fd(), UFFDIO_REGISTER, &range) != 0)
    return Status::from_errno(errno, "userfaultfd, watching a mapping").with_code(Code::kUnsupported);
  return {};
}

Result<Userfault> Userfault::take(Fd fd) {
  // Else an ioctl on it is one of whatever file a program liked to send.
  char what[PATH_MAX];
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const ssize_t length = ::readlink(path.c_str(), what, sizeof(what));
  if (length < 0 || std::string_view(what, static_cast<size_t>(length)) != "anon_inode:[userfaultfd]")
    return Status(Code::kInvalidArgument, "the descriptor is not one of userfaultfd");
  return Userfault(std::move(fd));
}

Result<std::optional<Userfault::Fault>> Userfault::next() const {
  for (;;) {
    uffd_msg message{};
    iovec into{&message, sizeof(message)};
    // The description is the program's, too, which may let reads of it wait.
    ssize_t got = ::preadv2(fd(), &into, 1, -1, RWF_NOWAIT);
    if (got < 0 && (errno == EOPNOTSUPP || errno == ESPIPE)) got = ::read(fd(), &message, sizeof(message));
    if (got < 0 && errno == EAGAIN) return std::optional<Fault>();
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(message)) return Status(Code::kPeerLost, "the program's userfaultfd is gone");
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    constexpr uint64_t kWrites = UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP;
    return std::optional(Fault{message.arg.pagefault.address, (message.arg.pagefault.flags & kWrites) != 0});
  }
}

void Userfault::resolve(uint64_t address, uint64_t bytes, bool writable) const {
  OCM_DASSERT(address % kSystemPage == 0 && bytes % kSystemPage == 0);
  const bool protects = !writable && can_protect_;
  if (!protects) {  // where it is mapped already
    uffdio_writeprotect off{};
    off.range.start = address;
    off.range.len = bytes;
    off.mode = UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
    (void)::ioctl(fd(), UFFDIO_WRITEPROTECT, &off);
  }
  for (uint64_t at = 0; at < bytes;) {
    uffdio_continue on{};
    on.range.start = address + at;
    on.range.len = bytes - at;
    on.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | (protects ? kContinueProtected : 0);
    if (::ioctl(fd(), UFFDIO_CONTINUE, &on) == 0) break;
    const int why = errno;
    if (on.mapped > 0) {
      at += static_cast<uint64_t>(on.mapped);
    } else if (why == EEXIST) {
      at += kSystemPage;
    } else if (why == EAGAIN) {
      ::sched_yield();  // the program changes its mappings
    } else {
      break;  // the page is gone from the memfd, or the program
    }
  }
  wake(address, bytes);
}

void Userfault::protect(uint64_t address, uint64_t bytes) const {
  uffdio_writeprotect on{};
  on.range.start = address;
  on.range.len = bytes;
  on.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  while (::ioctl(fd(), UFFDIO_WRITEPROTECT, &on) != 0 && (errno == EAGAIN || errno == EINTR)) ::sched_yield();
}

void Userfault::wake(uint64_t address, uint64_t bytes) const {
  uffdio_range range{};
  range.start = address;
  range.len = bytes;
  (void)::ioctl(fd(), UFFDIO_WAKE, &range);
}

}  // namespace ocm::os
