// Where the bytes of an allocation lie: (offset, length) in the allocation -> ranges in its extents. Pure.
//
//   single      extent 0 holds everything
//   striped     chunk c (chunk_bytes long) lies in extent c % extents, at (c / extents) * chunk_bytes
//   replicated  every extent holds everything
//   sequence    part after part, each in an extent, or replicas of it, of its own: class Sequence
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"

namespace ocm::client {

struct Shape {
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 0;  // striped: > 0
  uint32_t extents = 1;      // > 0
  Layout layout = Layout::kSingle;

  bool operator==(const Shape&) const = default;
};

/// A range that is contiguous in one extent, and the same in the replicas that follow it.
struct Piece {
  uint32_t extent = 0;
  uint64_t offset = 0;  // in the extent
  uint64_t bytes = 0;
  uint32_t replicas = 1;
};

/// The longest piece that starts at `offset`, at most `length` bytes of it.
/// Shapes: 0 < length, offset + length <= shape.bytes (the caller checked it); not a sequence.
inline Piece first_piece(const Shape& shape, uint64_t offset, uint64_t length) {
  OCM_DASSERT(length > 0 && length <= shape.bytes && offset <= shape.bytes - length);
  OCM_DASSERT(shape.layout != Layout::kSequence && shape.extents > 0);
  if (shape.layout == Layout::kReplicated) return {0, offset, length, shape.extents};
  if (shape.layout != Layout::kStriped) return {0, offset, length};
  const uint64_t chunk = offset / shape.chunk_bytes;
  const uint64_t in_chunk = offset % shape.chunk_bytes;
  const uint64_t here = std::min(length, shape.chunk_bytes - in_chunk);
  // With one extent neighbouring chunks are neighbours in it too.
  if (shape.extents == 1) return {0, offset, length};
  return {static_cast<uint32_t>(chunk % shape.extents), chunk / shape.extents * shape.chunk_bytes + in_chunk,
          here};
}

/// The parts of a sequence. first_piece() as above, by binary search.
///
/// Invariant: starts_ ascends from 0 to the sequence's length, first_ from 0 to the number of extents; part i
/// is [starts_[i], starts_[i + 1]) and lies in each extent of [first_[i], first_[i + 1]).
class Sequence {
 public:
  Sequence() = default;
  /// Adds a part of `bytes` > 0 with `extents` > 0; the caller checked that the sum does not overflow.
  void add(uint64_t bytes, uint32_t extents) {
    OCM_DASSERT(bytes > 0 && extents > 0 && starts_.back() + bytes > starts_.back());
    starts_.push_back(starts_.back() + bytes);
    first_.push_back(first_.back() + extents);
  }
  void reserve(size_t parts) {
    starts_.reserve(parts + 1);
    first_.reserve(parts + 1);
  }
  size_t parts() const { return starts_.size() - 1; }
  uint64_t bytes() const { return starts_.back(); }
  uint32_t extents() const { return first_.back(); }

  /// The invariant. Cost: the parts.
  bool is_valid() const {
    return starts_.size() == first_.size() && starts_.front() == 0 && first_.front() == 0 &&
           std::is_sorted(starts_.begin(), starts_.end(), std::less_equal<>()) &&
           std::is_sorted(first_.begin(), first_.end(), std::less_equal<>());
  }

  Piece first_piece(uint64_t offset, uint64_t length) const {
    OCM_DASSERT(length > 0 && length <= bytes() && offset <= bytes() - length);
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto part = static_cast<size_t>(next - starts_.begin()) - 1;
    return {first_[part], offset - starts_[part], std::min(length, *next - offset),
            first_[part + 1] - first_[part]};
  }
  /// Where the part of extent `index` begins, and its length.
  std::pair<uint64_t, uint64_t> range_of(uint32_t index) const {
    OCM_DASSERT(index < extents());
    const auto next = std::upper_bound(first_.begin(), first_.end(), index);
    const auto part = static_cast<size_t>(next - first_.begin()) - 1;
    return {starts_[part], starts_[part + 1] - starts_[part]};
  }
  /// One past the last extent of the part of extent `index`.
  uint32_t part_end(uint32_t index) const {
    OCM_DASSERT(index < extents());
    return *std::upper_bound(first_.begin(), first_.end(), index);
  }
  bool operator==(const Sequence&) const = default;

 private:
  std::vector<uint64_t> starts_{0};
  std::vector<uint32_t> first_{0};
};

/// How many bytes of extent `index` the shape uses; not of a sequence.
inline uint64_t extent_bytes(const Shape& shape, uint32_t index) {
  OCM_DASSERT(index < shape.extents && shape.layout != Layout::kSequence);
  if (shape.layout != Layout::kStriped) return shape.bytes;
  const uint64_t chunks = shape.bytes / shape.chunk_bytes;
  const uint64_t tail = shape.bytes % shape.chunk_bytes;
  const uint64_t whole = chunks / shape.extents + (index < chunks % shape.extents ? 1 : 0);
  return whole * shape.chunk_bytes + (index == chunks % shape.extents ? tail : 0);
}

}  // namespace ocm::client
