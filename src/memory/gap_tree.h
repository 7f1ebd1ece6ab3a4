// The free gaps of a partition: which offsets are free, and the first gap from a cursor on that is long
// enough.
//
// A treap by offset, where each node knows the longest gap below it; everything is O(log gaps).
//
// Invariants
//   G1 gaps are not empty, do not overlap and do not touch (touching ones are merged).
//   G2 node.longest = max(node.length, children's longest).
// Threads: none of its own; the owner serialises.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ocm::memory {

class GapTree {
 public:
  /// One gap [begin, end).
  GapTree(uint64_t begin, uint64_t end);

  /// The lowest offset of `length` free units in a gap that begins at or after `from`, or in the gap that
  /// contains `from` (then from `from` on). Nothing if there is none up to the end; takes nothing.
  std::optional<uint64_t> find(uint64_t from, uint64_t length) const;
  /// Takes [offset, offset + length), which must be free.
  void take(uint64_t offset, uint64_t length);
  /// Gives [offset, offset + length) back, which must be taken.
  void give(uint64_t offset, uint64_t length);

  uint64_t free_length() const { return free_length_; }
  uint64_t longest() const { return longest_of(root_); }
  uint32_t gaps() const { return gaps_; }
  /// G1 and G2, and free_length(); O(gaps).
  bool is_valid() const;

 private:
  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};
  struct Node {
    uint64_t offset, length, longest;
    uint32_t priority;
    Index left, right;
  };

  uint64_t longest_of(Index node) const { return node == kNone ? 0 : nodes_[node].longest; }
  void update(Index node);
  Index make(uint64_t offset, uint64_t length);
  /// Nodes with offset < key go left, the others right.
  void split(Index node, uint64_t key, Index& left, Index& right);
  Index merge(Index left, Index right);
  void insert(uint64_t offset, uint64_t length);
  void erase(uint64_t offset);
  /// The last gap with offset <= key, the first with offset > key.
  Index at_or_before(uint64_t key) const;
  Index after(uint64_t key) const;
  Index first_fit(Index node, uint64_t from, uint64_t length) const;

  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  Index root_ = kNone;
  uint64_t free_length_ = 0;
  uint32_t gaps_ = 0;
  uint32_t random_ = 0x9E3779B9u;
};

}  // namespace ocm::memory
