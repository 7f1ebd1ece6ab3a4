// What the nodes of a view have room for, as this node knows it: the view's figures, and what homes said of their pools
// since then. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "control/placement.h"
#include "control/view.h"

namespace ocm::control {

class Rooms {
 public:
  /// A newer view: its figures count, and nothing that was noted before.
  void take(const View& view);
  /// In the order of the view's nodes.
  std::span<const NodeRoom> all() const { return rooms_; }
  /// The place of a node in the view.
  std::optional<size_t> find(const std::string& node) const;
  /// What a home said of its pool after a change. Freed bytes that are on their way back count as room, for the home
  /// waits for them; `full`: it did, in vain.
  void note_pool(const std::string& node, const PoolInfo& pool, bool full = false);
  void note_freed(const std::string& node, Kind kind, uint64_t bytes);
  /// Each node is found at its place.
  bool is_valid() const;

 private:
  std::vector<NodeRoom> rooms_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace ocm::control
