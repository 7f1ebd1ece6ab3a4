// Validity bitmaps and booleans: bits that may begin anywhere in a byte, least significant first.
#pragma once

#include <cstdint>

namespace ocm::table {

inline bool bit_at(const void* bits, uint64_t index) {
  return (static_cast<const uint8_t*>(bits)[index >> 3] >> (index & 7) & 1) != 0;
}

/// Bits [first, first + count), at most 64, as the low bits of a word. Reads no byte outside of them.
uint64_t load_bits(const void* bits, uint64_t first, uint64_t count);

/// Ones among [first, first + count).
uint64_t count_ones(const void* bits, uint64_t first, uint64_t count);

/// Copies `count` bits from (from, from_bit) to (to, to_bit). Bits of `to` after the last one in its byte
/// become zero, those before the first one stay.
void copy_bits(void* to, uint64_t to_bit, const void* from, uint64_t from_bit, uint64_t count);

/// Sets `count` bits to one, with the same rule for the last byte.
void fill_ones(void* to, uint64_t to_bit, uint64_t count);

}  // namespace ocm::table
