// CRC32C (Castagnoli), with the processor's instruction where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ocm {

/// Continues `crc` (0 to start) over `bytes` bytes. Source: RFC 3720 B.4.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

}  // namespace ocm
