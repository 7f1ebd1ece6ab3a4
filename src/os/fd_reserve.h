// Descriptors that are kept back, so that a process that has run out of them can still be looked at and told
// to free some.
//
// The kernel gives the lowest free number. So a use that gives back every descriptor from a bound on never
// takes one of those above it: they stay for the uses with a higher bound, and the highest are the
// operator's.
//
//   0 ... | extents | connections | HTTP | the operator's programs | RLIMIT_NOFILE
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace ocm::os {

enum class FdUse { kExtent, kConnection, kHttp };

/// The soft limit of this process; a large number if there is none.
uint64_t fd_limit();
/// False if `fd`, just opened, belongs to what matters more than `use`: close it.
bool fd_is_for(int fd, FdUse use);
/// The same file under the lowest free number, or as it was.
Fd moved_down(Fd fd);

}  // namespace ocm::os
