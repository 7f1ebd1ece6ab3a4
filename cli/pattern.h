// Bytes whose content follows from their offset, so that a moved, lost or repeated block is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ocm::cli {

/// Fills `bytes` with what belongs at `offset`. Offset and length are multiples of 8.
void fill_pattern(std::span<std::byte> bytes, uint64_t offset, uint64_t seed);
/// The index of the first byte that differs from it, or bytes.size().
size_t check_pattern(std::span<const std::byte> bytes, uint64_t offset, uint64_t seed);

}  // namespace ocm::cli
