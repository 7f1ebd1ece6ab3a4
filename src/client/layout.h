// Where the bytes of an allocation lie: (offset, length) in the allocation -> ranges in its extents. Pure.
//
//   single      extent 0 holds everything
//   striped     chunk c (chunk_bytes long) lies in extent c % extents, at (c / extents) * chunk_bytes
//   replicated  every extent holds everything
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace ocm::client {

/// An operation keeps a bit for each replica.
inline constexpr uint32_t kReplicasMax = 64;

struct Shape {
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 0;  // striped: > 0
  uint32_t extents = 1;      // > 0
  Layout layout = Layout::kSingle;
};

/// A range that is contiguous in one extent. Replicated: extent 0 stands for all.
struct Piece {
  uint32_t extent = 0;
  uint64_t offset = 0;  // in the extent
  uint64_t bytes = 0;
};

/// The longest piece that starts at `offset`, at most `length` bytes of it.
/// Shapes: 0 < length, offset + length <= shape.bytes (the caller checked it).
inline Piece first_piece(const Shape& shape, uint64_t offset, uint64_t length) {
  if (shape.layout != Layout::kStriped) return {0, offset, length};
  const uint64_t chunk = offset / shape.chunk_bytes;
  const uint64_t in_chunk = offset % shape.chunk_bytes;
  const uint64_t here = std::min(length, shape.chunk_bytes - in_chunk);
  // With one extent neighbouring chunks are neighbours in it too.
  if (shape.extents == 1) return {0, offset, length};
  return {static_cast<uint32_t>(chunk % shape.extents), chunk / shape.extents * shape.chunk_bytes + in_chunk,
          here};
}

/// How many bytes of extent `index` the shape uses.
inline uint64_t extent_bytes(const Shape& shape, uint32_t index) {
  if (shape.layout != Layout::kStriped) return shape.bytes;
  const uint64_t chunks = shape.bytes / shape.chunk_bytes;
  const uint64_t tail = shape.bytes % shape.chunk_bytes;
  const uint64_t whole = chunks / shape.extents + (index < chunks % shape.extents ? 1 : 0);
  return whole * shape.chunk_bytes + (index == chunks % shape.extents ? tail : 0);
}

}  // namespace ocm::client
