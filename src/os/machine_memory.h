// How much memory this process may still take, by the machine and by its control groups.
#pragma once

#include <cstdint>

namespace ocm::os {

/// Bytes; 0: the system does not say.
struct MachineMemory {
  uint64_t total = 0;      // the least of the machine's and the limits of the control groups (version 2)
  uint64_t available = 0;  // without swapping; what the page cache holds counts as available
};

/// As of now: a few files of /proc and /sys are read, some 50 us.
MachineMemory machine_memory();

}  // namespace ocm::os
