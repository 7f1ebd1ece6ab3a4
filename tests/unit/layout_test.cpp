// client/layout: every byte of an allocation lies at exactly one place of its extents.
#include "client/layout.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ocm::client {
namespace {

Shape striped(uint64_t bytes, uint64_t chunk, uint32_t extents) {
  return Shape{bytes, chunk, extents, Layout::kStriped};
}

TEST(LayoutPieces, SingleIsOnePiece) {
  const Piece piece = first_piece(Shape{1000, 0, 1, Layout::kSingle}, 10, 990);
  EXPECT_EQ(piece.extent, 0u);
  EXPECT_EQ(piece.offset, 10u);
  EXPECT_EQ(piece.bytes, 990u);
}

TEST(LayoutPieces, StripedCutsAtChunks) {
  const Shape shape = striped(1000, 64, 3);
  const Piece piece = first_piece(shape, 64 * 4 + 10, 500);  // chunk 4: extent 1, its second chunk
  EXPECT_EQ(piece.extent, 1u);
  EXPECT_EQ(piece.offset, 64u + 10u);
  EXPECT_EQ(piece.bytes, 54u);
}

TEST(LayoutPieces, StripedOverOneExtentIsContiguous) {
  EXPECT_EQ(first_piece(striped(1000, 64, 1), 3, 900).bytes, 900u);
}

TEST(LayoutPieces, EveryByteHasItsOwnPlace) {
  for (const uint32_t extents : {1u, 2u, 3u, 7u}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{65}, uint64_t{64 * 7}, uint64_t{1001}}) {
      const Shape shape = striped(bytes, 64, extents);
      std::set<std::pair<uint32_t, uint64_t>> seen;
      for (uint64_t offset = 0; offset < bytes; ++offset) {
        const Piece piece = first_piece(shape, offset, 1);
        EXPECT_LT(piece.offset, extent_bytes(shape, piece.extent));
        EXPECT_TRUE(seen.emplace(piece.extent, piece.offset).second);
      }
      uint64_t total = 0;
      for (uint32_t i = 0; i < extents; ++i) total += extent_bytes(shape, i);
      EXPECT_EQ(total, bytes);
    }
  }
}

TEST(LayoutPieces, LongPiecesAgreeWithSingleBytes) {
  const Shape shape = striped(5000, 128, 3);
  for (uint64_t offset = 0; offset < 5000; offset += 37) {
    const Piece piece = first_piece(shape, offset, 5000 - offset);
    for (uint64_t i = 0; i < piece.bytes; ++i) {
      const Piece one = first_piece(shape, offset + i, 1);
      ASSERT_EQ(one.extent, piece.extent);
      ASSERT_EQ(one.offset, piece.offset + i);
    }
  }
}

TEST(LayoutPieces, LargestLengthsDoNotOverflow) {
  const uint64_t largest = ~uint64_t{0};
  for (const uint32_t extents : {1u, 2u, 65536u}) {
    const Shape shape = striped(largest, uint64_t{1} << 20, extents);
    const Piece piece = first_piece(shape, largest - 1, 1);
    EXPECT_LE(piece.offset, largest - 1);
    EXPECT_EQ(piece.bytes, 1u);
    EXPECT_LT(piece.offset, extent_bytes(shape, piece.extent));
  }
}

Sequence sequence(const std::vector<std::pair<uint64_t, uint32_t>>& parts) {
  Sequence out;
  for (const auto& [bytes, extents] : parts) out.add(bytes, extents);
  EXPECT_TRUE(out.is_valid());
  return out;
}

TEST(LayoutSequence, EveryByteIsInThePartThatCoversIt) {
  const std::vector<std::pair<uint64_t, uint32_t>> parts = {{5, 1}, {1, 1}, {17, 1}, {2, 1}};
  const Sequence whole = sequence(parts);
  EXPECT_EQ(whole.bytes(), 25u);
  uint64_t offset = 0;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    for (uint64_t i = 0; i < parts[part].first; ++i, ++offset) {
      const Piece piece = whole.first_piece(offset, 25 - offset);
      EXPECT_EQ(piece.extent, part);
      EXPECT_EQ(piece.offset, i);
      EXPECT_EQ(piece.bytes, std::min(parts[part].first - i, 25 - offset));
    }
  }
}

TEST(LayoutSequence, PiecesEndWhereTheyAreAskedTo) {
  EXPECT_EQ(sequence({{10, 1}, {10, 1}}).first_piece(3, 4).bytes, 4u);
}

TEST(LayoutSequence, ReplicasOfAPartStandTogether) {
  const Sequence whole = sequence({{10, 2}, {20, 1}, {30, 3}});
  EXPECT_EQ(whole.extents(), 6u);
  EXPECT_EQ(whole.first_piece(9, 1).replicas, 2u);
  EXPECT_EQ(whole.first_piece(10, 1).extent, 2u);
  EXPECT_EQ(whole.first_piece(31, 1).extent, 3u);
  EXPECT_EQ(whole.first_piece(31, 1).replicas, 3u);
  for (const uint32_t extent : {3u, 4u, 5u})
    EXPECT_EQ(whole.range_of(extent), (std::pair<uint64_t, uint64_t>(30, 30)));
  EXPECT_EQ(whole.range_of(0).second, 10u);
  EXPECT_EQ(whole.range_of(2), (std::pair<uint64_t, uint64_t>(10, 20)));
}

TEST(LayoutSequence, LargestLengthsDoNotOverflow) {
  const uint64_t half = uint64_t{1} << 63;
  const Sequence whole = sequence({{half, 1}, {half - 1, 1}});
  const Piece piece = whole.first_piece(~uint64_t{0} - 1, 1);
  EXPECT_EQ(piece.extent, 1u);
  EXPECT_EQ(piece.offset, half - 2);
  EXPECT_EQ(piece.bytes, 1u);
}

}  // namespace
}  // namespace ocm::client
