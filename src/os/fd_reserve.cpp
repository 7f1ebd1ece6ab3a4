#include "os/fd_reserve.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace ocm::os {

uint64_t fd_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::min<uint64_t>(limit.rlim_cur, uint64_t{1} << 31);
}

bool fd_is_for(int fd, FdUse use) {
  const uint64_t limit = fd_limit();
  uint64_t kept = std::clamp<uint64_t>(limit / 32, 6, 256);  // a session takes 2, and 3 more while it opens
  if (use != FdUse::kHttp) kept += std::clamp<uint64_t>(limit / 64, 2, 64);
  if (use == FdUse::kExtent) kept += std::clamp<uint64_t>(limit / 32, 4, 256);
  return static_cast<uint64_t>(fd) + kept < limit;
}

Fd moved_down(Fd fd) {
  OCM_DASSERT(fd.is_open());
  Fd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return copy.is_open() && copy.get() < fd.get() ? std::move(copy) : std::move(fd);
}

}  // namespace ocm::os
