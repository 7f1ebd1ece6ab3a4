// Packed integers: there and back at every width, and the layout of a block by one example.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "table/format/pack.h"

namespace {

using namespace ocm::table;

using Block = std::array<uint32_t, kPackRows>;

std::vector<std::byte> packed(const std::vector<Block>& blocks, uint32_t bits) {
  const uint64_t block_bytes = packed_bytes(kPackRows, bits);
  std::vector<std::byte> bytes(blocks.size() * block_bytes, std::byte{0xFF});  // what was there is no matter
  for (size_t i = 0; i < blocks.size(); ++i)
    pack_block(blocks[i].data(), bits, bytes.data() + i * block_bytes);
  return bytes;
}

/// What comes out, and a guard behind it that has to stay.
template <class Value>
std::vector<Value> unpacked(const std::vector<std::byte>& in, uint64_t blocks, const Packing& packing) {
  const auto guard = static_cast<Value>(0x5A);
  std::vector<Value> out(blocks * kPackRows + 1, guard);
  unpack_blocks(in.data(), blocks, packing, sizeof(Value), reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out.back(), guard);
  out.pop_back();
  return out;
}

/// Random distances with the smallest and the largest one in the first and the last row.
std::vector<Block> distances(uint32_t bits, size_t blocks) {
  std::mt19937 random(bits);
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  std::vector<Block> out(blocks);
  for (Block& block : out) {
    for (uint32_t& distance : block) distance = static_cast<uint32_t>(random()) & mask;
    block.front() = block.back() = mask;
    block[1] = 0;
  }
  return out;
}

template <class Value>
void comes_back(const std::vector<Block>& blocks, const Packing& packing) {
  const std::vector<Value> got = unpacked<Value>(packed(blocks, packing.bits), blocks.size(), packing);
  for (size_t i = 0; i < got.size(); ++i) {
    const uint64_t wanted = static_cast<uint64_t>(packing.base) + blocks[i / kPackRows][i % kPackRows];
    ASSERT_EQ(got[i], static_cast<Value>(wanted)) << "row " << i << ", " << packing.bits << " bits, base "
                                                  << packing.base << ", " << sizeof(Value) << " bytes";
  }
}

constexpr int64_t kBases[] = {
    0,         1,         -1,        -1000,     INT8_MIN,      INT8_MAX,      INT16_MIN,
    INT16_MAX, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 5, INT64_MAX};

TEST(TablePack, EveryNumberOfBitsComesBackAtEveryWidth) {
  for (uint32_t bits = 0; bits <= kPackBitsMax; ++bits) {
    const std::vector<Block> blocks = distances(bits, 3);
    for (const int64_t base : kBases) {
      comes_back<uint8_t>(blocks, {bits, base});
      comes_back<uint16_t>(blocks, {bits, base});
      comes_back<uint32_t>(blocks, {bits, base});
      comes_back<uint64_t>(blocks, {bits, base});
    }
  }
}

TEST(TablePack, ValuesThatPassTheEndOfTheirTypeGoOnAtItsOtherEnd) {
  Block block{};
  block[0] = 2;
  EXPECT_EQ(unpacked<int8_t>(packed({block}, 2), 1, {2, INT8_MAX})[0], INT8_MIN + 1);
  EXPECT_EQ(unpacked<int16_t>(packed({block}, 2), 1, {2, -1})[0], 1);
  EXPECT_EQ(unpacked<uint32_t>(packed({block}, 2), 1, {2, -1})[0], 1u);
  EXPECT_EQ(unpacked<int64_t>(packed({block}, 2), 1, {2, INT64_MAX})[0], INT64_MIN + 1);
}

TEST(TablePack, ValueIStandsInLaneIModulo32OfRowIOver32) {
  Block block{};
  block[0] = 5;     // row 0, lane 0: bits 0 to 2 of word 0
  block[33] = 7;    // row 1, lane 1: bits 3 to 5 of word 1
  block[322] = 6;   // row 10, lane 2: bits 30 and 31 of word 2, bit 0 of word 34
  block[1023] = 1;  // row 31, lane 31: bits 29 to 31 of word 95
  std::array<uint32_t, 96> words;
  pack_block(block.data(), 3, reinterpret_cast<std::byte*>(words.data()));
  std::array<uint32_t, 96> wanted{};
  wanted[0] = 5;
  wanted[1] = 7u << 3;
  wanted[2] = 2u << 30;
  wanted[34] = 1;
  wanted[95] = 1u << 29;
  EXPECT_EQ(words, wanted);
}

TEST(TablePack, NoBitsTakeNoBytes) {
  EXPECT_EQ(packed_bytes(1'000'000, 0), 0u);
  pack_block(Block{}.data(), 0, nullptr);
  std::vector<int32_t> out(2 * kPackRows);
  unpack_blocks(nullptr, 2, {0, -7}, 4, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, std::vector<int32_t>(2 * kPackRows, -7));
}

TEST(TablePack, RowsTakeWholeBlocks) {
  EXPECT_EQ(packed_bytes(0, 5), 0u);
  EXPECT_EQ(packed_bytes(1, 5), 640u);
  EXPECT_EQ(packed_bytes(1024, 5), 640u);
  EXPECT_EQ(packed_bytes(1025, 5), 1280u);
  EXPECT_EQ(packed_bytes(1024, 32), 4096u);
}

TEST(TablePack, ARangeSaysHowManyBitsItNeeds) {
  const auto bits = [](int64_t least, int64_t most) {
    Packing packing;
    EXPECT_TRUE(packing_for(least, most, packing)) << least << " " << most;
    EXPECT_EQ(packing.base, least);
    return packing.bits;
  };
  EXPECT_EQ(bits(7, 7), 0u);
  EXPECT_EQ(bits(7, 8), 1u);
  EXPECT_EQ(bits(-1, 1), 2u);
  EXPECT_EQ(bits(0, 1023), 10u);
  EXPECT_EQ(bits(0, 1024), 11u);
  EXPECT_EQ(bits(INT64_MIN, INT64_MIN), 0u);
  EXPECT_EQ(bits(INT64_MAX - 1, INT64_MAX), 1u);
  EXPECT_EQ(bits(INT64_MIN, INT64_MIN + UINT32_MAX), 32u);
  EXPECT_EQ(bits(-5, -5 + int64_t{UINT32_MAX}), 32u);
}

TEST(TablePack, ARangeOfMoreThan32BitsIsNotPacked) {
  Packing packing;
  EXPECT_FALSE(packing_for(0, int64_t{UINT32_MAX} + 1, packing));
  EXPECT_FALSE(packing_for(-1, UINT32_MAX, packing));
  EXPECT_FALSE(packing_for(INT64_MIN, INT64_MAX, packing));
  EXPECT_FALSE(packing_for(INT64_MIN, 0, packing));
}

}  // namespace
