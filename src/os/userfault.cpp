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
#include <cstdlib>
#include <fstream>
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
constexpr uint64_t kIsNegotiated = uint64_t{1} << 31;  // UFFD_FEATURE_INITIALIZED, inside the kernel
constexpr uint64_t kEvents =
    UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
constexpr int kTriesMost = 1000;
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
  // "API:\taa:FEATURES:IOCTLS"
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd.get()));
  for (std::string line; std::getline(info, line);) {
    const size_t at = line.find(':', 5);
    if (!line.starts_with("API:") || at == std::string::npos) continue;
    const uint64_t features = std::strtoull(line.c_str() + at + 1, nullptr, 16);
    if ((features & kIsNegotiated) != 0 && (features & kEvents) == 0) return Userfault(std::move(fd));
  }
  return Status(Code::kInvalidArgument, "the userfaultfd is to tell of page faults alone, and does not");
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

namespace {

enum class Tried { kDone, kCutUp, kAgain };

/// UFFDIO_WRITEPROTECT.
Tried write_protect(int fd, uint64_t address, uint64_t bytes, uint64_t mode) {
  uffdio_writeprotect range{};
  range.range.start = address;
  range.range.len = bytes;
  range.mode = mode;
  if (::ioctl(fd, UFFDIO_WRITEPROTECT, &range) == 0) return Tried::kDone;
  return errno == ENOENT ? Tried::kCutUp : errno == EAGAIN || errno == EINTR ? Tried::kAgain : Tried::kDone;
}

/// UFFDIO_CONTINUE of what is not mapped there yet.
Tried map_on(int fd, uint64_t address, uint64_t bytes, uint64_t mode) {
  for (uint64_t at = 0; at < bytes;) {
    uffdio_continue range{};
    range.range.start = address + at;
    range.range.len = bytes - at;
    range.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | mode;
    if (::ioctl(fd, UFFDIO_CONTINUE, &range) == 0) break;
    const int why = errno;
    if (range.mapped > 0)
      at += static_cast<uint64_t>(range.mapped);
    else if (why == EEXIST)
      at += kSystemPage;
    else
      return why == ENOENT ? Tried::kCutUp : why == EAGAIN ? Tried::kAgain : Tried::kDone;
  }
  return Tried::kDone;
}

/// As a whole; and one system page after the other where the program has cut its mapping up (mprotect, say). False: it
/// changes its mappings without end.
template <class Try>
bool each(uint64_t address, uint64_t bytes, Try one) {
  const auto until = [&](uint64_t at, uint64_t length) {
    Tried tried = Tried::kAgain;
    for (int tries = 0; tried == Tried::kAgain && tries < kTriesMost; ++tries) {
      tried = one(at, length);
      if (tried == Tried::kAgain) ::sched_yield();
    }
    return tried;
  };
  const Tried whole = until(address, bytes);
  if (whole != Tried::kCutUp) return whole == Tried::kDone;
  for (uint64_t at = 0; at < bytes; at += kSystemPage) {
    if (until(address + at, kSystemPage) == Tried::kAgain)
      return false;  // kCutUp: it is not watched, or not there
  }
  return true;
}

}  // namespace

bool Userfault::resolve(uint64_t address, uint64_t bytes, bool writable) const {
  OCM_DASSERT(address % kSystemPage == 0 && bytes % kSystemPage == 0);
  const bool protects = !writable && can_protect_;
  const bool resolved = each(address, bytes, [&](uint64_t at, uint64_t length) {
    if (!protects) {  // where it is mapped already
      const Tried tried = write_protect(fd(), at, length, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
      if (tried == Tried::kAgain) return tried;
    }
    return map_on(fd(), at, length, protects ? kContinueProtected : 0);
  });
  wake(address, bytes);
  return resolved;
}

bool Userfault::protect(uint64_t address, uint64_t bytes) const {
  return each(address, bytes, [&](uint64_t at, uint64_t length) {
    return write_protect(fd(), at, length, UFFDIO_WRITEPROTECT_MODE_WP);
  });
}

void Userfault::wake(uint64_t address, uint64_t bytes) const {
  uffdio_range range{};
  range.start = address;
  range.len = bytes;
  (void)::ioctl(fd(), UFFDIO_WAKE, &range);
}

}  // namespace ocm::os
