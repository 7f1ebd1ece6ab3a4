#include "table/format/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"

namespace ocm::table {
namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kWordBits = 32;
static_assert(kLanes * kWordBits == kPackRows && kPackBitsMax <= kWordBits);
static_assert(packed_bytes(1, 1) == kLanes * sizeof(uint32_t), "a bit takes a word of each lane");

/// Rows of a block one after the other; the shift is the same for all lanes of a row.
template <class Value>
[[gnu::always_inline]] inline void unpack_as(const uint32_t* in, uint64_t blocks, const Packing& packing,
                                             Value* out) {
  const auto base = static_cast<Value>(packing.base);
  const uint32_t bits = packing.bits;
  if (bits == 0) {  // there is nothing to read
    std::fill_n(out, blocks * kPackRows, base);
    return;
  }
  const uint32_t mask = bits == kWordBits ? ~uint32_t{0} : (uint32_t{1} << bits) - 1;
  for (uint64_t block = 0; block < blocks; ++block, in += kLanes * bits, out += kPackRows) {
    for (uint32_t row = 0; row < kWordBits; ++row) {
      const uint32_t* words = in + row * bits / kWordBits * kLanes;
      const uint32_t shift = row * bits % kWordBits;
      Value* to = out + row * kLanes;
      if (shift + bits <= kWordBits) {
        for (uint32_t lane = 0; lane < kLanes; ++lane)
          to[lane] = static_cast<Value>(base + static_cast<Value>(words[lane] >> shift & mask));
      } else {
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
          const uint32_t distance = words[lane] >> shift | words[lane + kLanes] << (kWordBits - shift);
          to[lane] = static_cast<Value>(base + static_cast<Value>(distance & mask));
        }
      }
    }
  }
}

[[gnu::always_inline]] inline void unpack_any(const std::byte* in, uint64_t blocks, const Packing& packing,
                                              uint32_t width_bytes, std::byte* out) {
  const auto* words = reinterpret_cast<const uint32_t*>(in);
  switch (width_bytes) {
    case 1: return unpack_as(words, blocks, packing, reinterpret_cast<uint8_t*>(out));
    case 2: return unpack_as(words, blocks, packing, reinterpret_cast<uint16_t*>(out));
    case 4: return unpack_as(words, blocks, packing, reinterpret_cast<uint32_t*>(out));
    default: return unpack_as(words, blocks, packing, reinterpret_cast<uint64_t*>(out));
  }
}

void unpack_plain(const std::byte* in, uint64_t blocks, const Packing& packing, uint32_t width_bytes,
                  std::byte* out) {
  unpack_any(in, blocks, packing, width_bytes, out);
}

#if defined(__x86_64__)
// The same code for processors that have wider vectors.
[[gnu::target("avx2")]] void unpack_avx2(const std::byte* in, uint64_t blocks, const Packing& packing,
                                         uint32_t width_bytes, std::byte* out) {
  unpack_any(in, blocks, packing, width_bytes, out);
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

bool packing_for(int64_t least, int64_t most, Packing& packing) {
  OCM_DASSERT(least <= most);
  const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  packing = {static_cast<uint32_t>(std::bit_width(range)), least};
  return packing.bits <= kPackBitsMax;
}

void pack_block(const uint32_t* distances, uint32_t bits, std::byte* out) {
  if (bits == 0) return;
  OCM_DASSERT(bits <= kPackBitsMax && reinterpret_cast<uintptr_t>(out) % alignof(uint32_t) == 0);
  auto* words = reinterpret_cast<uint32_t*>(out);
  std::memset(out, 0, kPackRows / 8 * bits);
  for (uint32_t row = 0; row < kWordBits; ++row) {
    uint32_t* to = words + row * bits / kWordBits * kLanes;
    const uint32_t shift = row * bits % kWordBits;
    const uint32_t* from = distances + row * kLanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane] |= from[lane] << shift;
    if (shift + bits <= kWordBits) continue;
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane + kLanes] |= from[lane] >> (kWordBits - shift);
  }
}

void unpack_blocks(const std::byte* in, uint64_t blocks, const Packing& packing, uint32_t width_bytes,
                   std::byte* out) {
  OCM_DASSERT(std::has_single_bit(width_bytes) && width_bytes <= 8 && packing.bits <= kPackBitsMax);
  OCM_DASSERT(reinterpret_cast<uintptr_t>(out) % width_bytes == 0);
#if defined(__x86_64__)
  if (kHasAvx2) return unpack_avx2(in, blocks, packing, width_bytes, out);
#endif
  unpack_plain(in, blocks, packing, width_bytes, out);
}

}  // namespace ocm::table
