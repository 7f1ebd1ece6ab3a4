// One column of one row group, or one dictionary, as it lies in a segment: buffers one after the other, each
// begun at a multiple of 64 bytes, in the order of its fields (a field before its children).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "table/format/pack.h"
#include "table/format/type.h"

namespace ocm::table {

inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t align_up(uint64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }
static_assert(align_up(0) == 0 && align_up(1) == kAlignment && align_up(kAlignment) == kAlignment);

/// Whether values of this type can be packed, and to how many bits at most: more would save too little.
inline bool can_pack(const Type& type) { return type.form == Form::kFixed && type.is_integer(); }
inline uint32_t packed_bits_max(const Type& type) { return std::min(kPackBitsMax, type.width_bytes * 6); }

struct Chunk {
  uint64_t offset = 0;                 // of its first byte in the segment; a multiple of 64
  std::vector<uint64_t> lengths;       // of each field
  std::vector<uint64_t> nulls;         // of each field
  std::vector<uint64_t> buffers;       // bytes of each buffer, 0: absent
  std::vector<uint32_t> dictionaries;  // of each field that has one, in order: its place in the catalogue
  std::optional<Packing> packing;  // of the first field's values, or indices; else they are as Arrow has them

  /// That of the chunk's field of this number, or null.
  const Packing* packing_of(size_t field) const { return field == 0 && packing ? &*packing : nullptr; }
  uint64_t bytes() const {
    uint64_t all = 0;
    for (const uint64_t bytes : buffers) all += align_up(bytes);
    return all;
  }
};

}  // namespace ocm::table
