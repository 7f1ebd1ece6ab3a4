// How much memory this process may still take, by the machine and by its control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ocm::os {

/// Bytes; 0: the system does not say.
struct MachineMemory {
  uint64_t total = 0;      // the least of the machine's and the limits of the control groups (version 2)
  uint64_t available = 0;  // without swapping; what the page cache holds counts as available
};

/// The number in a file of /proc or /sys: after `key` at the beginning of a line, or the first of the file; of its first
/// 16 KiB. None: no such file, line or number.
std::optional<uint64_t> number_in(const std::string& path, const char* key = "");

/// As of now: a few files of /proc and /sys are read, some 50 us.
MachineMemory machine_memory();

}  // namespace ocm::os
