#include "memory/gap_tree.h"

#include <algorithm>

#include "base/assert.h"

namespace ocm::memory {

GapTree::GapTree(uint64_t begin, uint64_t end) {
  OCM_ASSERT(begin < end);
  insert(begin, end - begin);
  free_length_ = end - begin;
  OCM_DASSERT(is_valid());
}

std::optional<uint64_t> GapTree::find(uint64_t from, uint64_t length) const {
  const Index before = at_or_before(from);
  if (before != kNone) {
    const uint64_t end = nodes_[before].offset + nodes_[before].length;
    if (end > from && end - from >= length) return from;
  }
  const Index fit = first_fit(root_, from, length);
  if (fit == kNone) return std::nullopt;
  OCM_DASSERT(nodes_[fit].offset >= from && nodes_[fit].length >= length);
  return nodes_[fit].offset;
}

void GapTree::take(uint64_t offset, uint64_t length) {
  const Index gap = at_or_before(offset);
  OCM_ASSERT(gap != kNone && length > 0);
  const uint64_t begin = nodes_[gap].offset;
  const uint64_t end = begin + nodes_[gap].length;
  OCM_ASSERT(offset + length <= end);
  OCM_DASSERT(begin <= offset && offset + length > offset);
  erase(begin);
  if (begin < offset) insert(begin, offset - begin);
  if (offset + length < end) insert(offset + length, end - offset - length);
  OCM_DASSERT(free_length_ >= length);
  free_length_ -= length;
}

void GapTree::give(uint64_t offset, uint64_t length) {
  free_length_ += length;
  uint64_t end = offset + length;
  OCM_DASSERT(end > offset);
  const Index previous = at_or_before(offset);
  if (previous != kNone) {
    const uint64_t previous_offset = nodes_[previous].offset;
    const uint64_t previous_end = previous_offset + nodes_[previous].length;
    OCM_ASSERT(previous_end <= offset);
    if (previous_end == offset) {
      erase(previous_offset);
      offset = previous_offset;
    }
  }
  const Index next = after(offset);
  if (next != kNone) {
    const uint64_t next_offset = nodes_[next].offset;
    OCM_ASSERT(end <= next_offset);
    if (end == next_offset) {
      end += nodes_[next].length;
      erase(next_offset);
    }
  }
  insert(offset, end - offset);
}

bool GapTree::is_valid() const {
  uint64_t total = 0, previous_end = 0;
  uint32_t count = 0;
  bool valid = true, first = true;
  auto walk = [&](auto& self, Index i) -> uint64_t {
    if (i == kNone) return 0;
    const Node& node = nodes_[i];
    const uint64_t left = self(self, node.left);
    valid = valid && node.length > 0 && (first || previous_end < node.offset);
    first = false;
    previous_end = node.offset + node.length;
    total += node.length;
    ++count;
    const uint64_t right = self(self, node.right);
    const uint64_t longest = std::max({node.length, left, right});
    valid = valid && longest == node.longest;
    return longest;
  };
  walk(walk, root_);
  valid = valid && size_t{count} + unused_.size() == nodes_.size();
  return valid && total == free_length_ && count == gaps_;
}

void GapTree::update(Index i) {
  Node& node = nodes_[i];
  node.longest = std::max({node.length, longest_of(node.left), longest_of(node.right)});
  OCM_DASSERT(node.left == kNone || nodes_[node.left].offset < node.offset);
  OCM_DASSERT(node.right == kNone || nodes_[node.right].offset > node.offset);
}

GapTree::Index GapTree::make(uint64_t offset, uint64_t length) {
  OCM_DASSERT(length > 0);   // G1
  random_ ^= random_ << 13;  // xorshift: the shape of the tree is no secret
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  const Node node{offset, length, length, random_, kNone, kNone};
  if (!unused_.empty()) {
    const Index i = unused_.back();
    unused_.pop_back();
    OCM_DASSERT(i < nodes_.size() && i != root_);
    nodes_[i] = node;
    return i;
  }
  nodes_.push_back(node);
  return static_cast<Index>(nodes_.size() - 1);
}

void GapTree::split(Index node, uint64_t key, Index& left, Index& right) {
  if (node == kNone) {
    left = right = kNone;
    return;
  }
  Index child = kNone;
  if (nodes_[node].offset < key) {
    split(nodes_[node].right, key, child, right);
    nodes_[node].right = child;
    left = node;
  } else {
    split(nodes_[node].left, key, left, child);
    nodes_[node].left = child;
    right = node;
  }
  update(node);
}

GapTree::Index GapTree::merge(Index left, Index right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  OCM_DASSERT(nodes_[left].offset < nodes_[right].offset);
  if (nodes_[left].priority > nodes_[right].priority) {
    nodes_[left].right = merge(nodes_[left].right, right);
    update(left);
    return left;
  }
  nodes_[right].left = merge(left, nodes_[right].left);
  update(right);
  return right;
}

void GapTree::insert(uint64_t offset, uint64_t length) {
  Index left = kNone, right = kNone;
  split(root_, offset, left, right);
  root_ = merge(merge(left, make(offset, length)), right);
  ++gaps_;
}

void GapTree::erase(uint64_t offset) {
  Index left = kNone, middle = kNone, right = kNone;
  split(root_, offset, left, right);
  split(right, offset + 1, middle, right);
  OCM_ASSERT(middle != kNone);
  OCM_DASSERT(nodes_[middle].offset == offset && gaps_ > 0);
  unused_.push_back(middle);
  root_ = merge(left, right);
  --gaps_;
}

GapTree::Index GapTree::at_or_before(uint64_t key) const {
  Index best = kNone;
  for (Index i = root_; i != kNone;) {
    if (nodes_[i].offset <= key) {
      best = i;
      i = nodes_[i].right;
    } else {
      i = nodes_[i].left;
    }
  }
  return best;
}

GapTree::Index GapTree::after(uint64_t key) const {
  Index best = kNone;
  for (Index i = root_; i != kNone;) {
    if (nodes_[i].offset > key) {
      best = i;
      i = nodes_[i].left;
    } else {
      i = nodes_[i].right;
    }
  }
  return best;
}

GapTree::Index GapTree::first_fit(Index node, uint64_t from, uint64_t length) const {
  if (node == kNone || nodes_[node].longest < length) return kNone;
  if (nodes_[node].offset >= from) {
    const Index left = first_fit(nodes_[node].left, from, length);
    if (left != kNone) return left;
    if (nodes_[node].length >= length) return node;
  }
  return first_fit(nodes_[node].right, from, length);
}

}  // namespace ocm::memory
