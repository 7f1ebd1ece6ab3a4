// Which process this is: a forked child has none of its parent's threads, and locks that they held stay
// locked.
#pragma once

#include <cstdint>

namespace ocm::table {

/// Differs between a process and the children that it forked after its first table. Cost: one load.
uint32_t fork_generation();
/// Called once, before the first handle, lock or thread of a table is made.
void watch_forks();

}  // namespace ocm::table
