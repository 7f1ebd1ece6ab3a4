#include "table/format/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"

namespace ocm::table {
namespace {

/// Writes the low `count` (1 to 64) bits of `word` at `to_bit`, a multiple of 8 unless they end in its byte.
void store_bits(uint8_t* to, uint64_t to_bit, uint64_t word, uint64_t count) {
  uint8_t* byte = to + (to_bit >> 3);
  const uint64_t shift = to_bit & 7;
  OCM_DASSERT(count >= 1 && count <= 64 && (shift == 0 || shift + count <= 8));
  if (shift == 0) {
    std::memcpy(byte, &word, (count + 7) / 8);
  } else {
    *byte = static_cast<uint8_t>((*byte & ((1u << shift) - 1)) | word << shift);
  }
}

uint64_t low_ones(uint64_t count) { return count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

/// Calls store(position, count) for runs that begin a byte or end within the first one.
template <class Word>
void for_runs(uint8_t* to, uint64_t to_bit, uint64_t count, Word word_at) {
  uint64_t done = 0;
  if ((to_bit & 7) != 0 && count > 0) {
    done = std::min<uint64_t>(count, 8 - (to_bit & 7));
    store_bits(to, to_bit, word_at(0, done), done);
  }
  while (done < count) {
    const uint64_t run = std::min<uint64_t>(count - done, 64);
    store_bits(to, to_bit + done, word_at(done, run), run);
    done += run;
  }
}

}  // namespace

uint64_t load_bits(const void* bits, uint64_t first, uint64_t count) {
  OCM_DASSERT(count <= 64);
  if (count == 0) return 0;
  const auto* byte = static_cast<const uint8_t*>(bits) + (first >> 3);
  const uint64_t shift = first & 7;
  const uint64_t bytes = (shift + count + 7) / 8;  // 1 to 9
  uint64_t word = 0;
  std::memcpy(&word, byte, std::min<uint64_t>(bytes, 8));
  word >>= shift;
  if (bytes == 9) word |= uint64_t{byte[8]} << (64 - shift);
  return word & low_ones(count);
}

uint64_t count_ones(const void* bits, uint64_t first, uint64_t count) {
  uint64_t ones = 0;
  for (uint64_t done = 0; done < count; done += 64) {
    ones += static_cast<uint64_t>(
        std::popcount(load_bits(bits, first + done, std::min<uint64_t>(64, count - done))));
  }
  OCM_DASSERT(ones <= count);
  return ones;
}

void copy_bits(void* to, uint64_t to_bit, const void* from, uint64_t from_bit, uint64_t count) {
  for_runs(static_cast<uint8_t*>(to), to_bit, count,
           [&](uint64_t at, uint64_t run) { return load_bits(from, from_bit + at, run); });
}

void fill_ones(void* to, uint64_t to_bit, uint64_t count) {
  for_runs(static_cast<uint8_t*>(to), to_bit, count, [](uint64_t, uint64_t run) { return low_ones(run); });
}

}  // namespace ocm::table
