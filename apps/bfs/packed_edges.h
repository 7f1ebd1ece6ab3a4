// Neighbours in as many bits as their numbers need, one after the other without padding: a search that runs down moves all
// edges, and what crosses the network is what limits it.
//
// Neighbour i of the rest is bits [i * bits, (i + 1) * bits) of its bytes, the lowest first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ocm::bfs {

static_assert(std::endian::native == std::endian::little);

/// Of one neighbour, 1 to 32. Shapes: vertices > 0.
inline unsigned neighbour_bits(uint32_t vertices) {
  return vertices <= 2 ? 1 : static_cast<unsigned>(std::bit_width(vertices - 1));
}

/// What so many neighbours take.
inline uint64_t packed_bytes(uint64_t count, unsigned bits) { return (count * bits + 7) / 8; }

/// Reads them in order. It looks at 8 bytes at a time: as many must be readable from each neighbour's first.
class PackedReader {
 public:
  PackedReader(const std::byte* bytes, uint64_t first_bit, unsigned bits)
      : bytes_(bytes), at_(first_bit), bits_(bits), mask_((uint64_t{1} << bits) - 1) {}
  uint32_t operator*() const {
    uint64_t word;
    std::memcpy(&word, bytes_ + at_ / 8, sizeof(word));
    return static_cast<uint32_t>((word >> (at_ % 8)) & mask_);
  }
  PackedReader& operator++() {
    at_ += bits_;
    return *this;
  }

 private:
  const std::byte* bytes_;
  uint64_t at_;
  uint64_t bits_, mask_;
};

/// Shapes: neighbours < 2^bits -> packed_bytes(neighbours.size(), bits).
inline std::vector<std::byte> packed(std::span<const uint32_t> neighbours, unsigned bits) {
  std::vector<std::byte> out(packed_bytes(neighbours.size(), bits) + sizeof(uint64_t));
  uint64_t at = 0;
  for (const uint32_t neighbour : neighbours) {
    uint64_t word;
    std::memcpy(&word, out.data() + at / 8, sizeof(word));
    word |= uint64_t{neighbour} << (at % 8);
    std::memcpy(out.data() + at / 8, &word, sizeof(word));
    at += bits;
  }
  out.resize(packed_bytes(neighbours.size(), bits));
  return out;
}

}  // namespace ocm::bfs
