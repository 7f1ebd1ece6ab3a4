// Bytes as people write them: "64", "4KiB", "1.5 GiB", "2GB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ocm {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

/// Parses a length; KiB/MiB/GiB/TiB (also K, M, G, T) are powers of 1024, kB/MB/GB/TB of 1000.
/// Errors: kInvalidArgument (not a length, negative, above 2^63).
Result<uint64_t> parse_bytes(std::string_view text);
/// "1.5 GiB", three significant digits.
std::string format_bytes(uint64_t bytes);

}  // namespace ocm
