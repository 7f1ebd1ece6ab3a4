// Integers in as few bits as their range needs: each as its distance from a base, in blocks of 1024.
//
//   block   32 rows of 32 lanes; value i stands in row i / 32, lane i % 32. A lane is a stream of bits, least
//           significant first, cut into words of 32 bits: word w of lane l is word 32 w + l of the block.
//
// Neighbours stand in neighbouring lanes, so one shift serves a whole vector and values come out in order.
// Source: Afroozeh, Boncz: The FastLanes Compression Layout (VLDB 2023), without its transposition.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ocm::table {

inline constexpr uint64_t kPackRows = 1024;
inline constexpr uint32_t kPackBitsMax = 32;

/// How the values of a column are packed: base + distance, modulo the width of their type.
struct Packing {
  uint32_t bits = 0;  // 0: all are the base, and nothing is stored
  int64_t base = 0;

  bool operator==(const Packing&) const = default;
};

/// The packing of values from `least` to `most`; false if a distance has more than kPackBitsMax bits.
bool packing_for(int64_t least, int64_t most, Packing& packing);

/// Bytes of so many rows: whole blocks.
inline constexpr uint64_t packed_bytes(uint64_t rows, uint32_t bits) {
  return (rows + kPackRows - 1) / kPackRows * (kPackRows / 8) * bits;
}

/// Packs one block of distances, each below 2^bits. `out`: kPackRows / 8 * bits bytes, aligned to 4.
void pack_block(const uint32_t* distances, uint32_t bits, std::byte* out);

/// Unpacks `blocks` blocks into integers of width_bytes (1, 2, 4 or 8) each, signed or not.
/// `in` is aligned to 4, `out` to width_bytes.
void unpack_blocks(const std::byte* in, uint64_t blocks, const Packing& packing, uint32_t width_bytes,
                   std::byte* out);

}  // namespace ocm::table
