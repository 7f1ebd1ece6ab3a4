#include "control/rooms.h"

#include <algorithm>

#include "base/assert.h"

namespace ocm::control {
namespace {

uint64_t coming_back(const PoolInfo& pool) { return std::min(pool.bytes_used, pool.bytes_reclaiming); }

/// In NodeRoom, where this version knows it: a view may have another one.
std::optional<size_t> place_of(Kind kind) {
  const auto number = static_cast<size_t>(kind);
  return is_kind(number) ? std::optional(number) : std::nullopt;
}

}  // namespace

void Rooms::take(const View& view) {
  rooms_.clear();
  index_.clear();
  for (const NodeInfo& node : view.nodes) {
    NodeRoom room;
    room.name = node.name;
    room.usable = node.state == NodeState::kAlive;
    for (const FabricAddress& address : node.addresses) {
      const auto number = static_cast<uint32_t>(address.fabric);
      if (number < 32) room.fabrics |= 1u << number;
    }
    for (const PoolInfo& pool : node.pools) {
      const auto kind = place_of(pool.kind);
      if (!kind) continue;
      room.bytes_total[*kind] = pool.bytes_total;
      room.lasts[*kind] = pool.lasts;
      room.coherent[*kind] = pool.coherent;
      room.bytes_used[*kind] = pool.bytes_used - coming_back(pool);
    }
    index_[room.name] = rooms_.size();
    rooms_.push_back(std::move(room));
  }
  // The coordinator may say what it likes: a name that comes twice is found at its last place.
  OCM_DASSERT(rooms_.size() == view.nodes.size());
  OCM_DASSERT(index_.size() <= rooms_.size());
}

std::optional<size_t> Rooms::find(const std::string& node) const {
  const auto it = index_.find(node);
  return it == index_.end() ? std::nullopt : std::optional(it->second);
}

void Rooms::note_pool(const std::string& node, const PoolInfo& pool, bool full) {
  const auto place = find(node);
  const auto kind = place_of(pool.kind);
  if (!place || !kind || pool.bytes_total == 0) return;
  OCM_DASSERT(*place < rooms_.size() && *kind < kKindsMax);
  rooms_[*place].bytes_total[*kind] = pool.bytes_total;
  rooms_[*place].lasts[*kind] = pool.lasts;
  rooms_[*place].coherent[*kind] = pool.coherent;
  rooms_[*place].bytes_used[*kind] = pool.bytes_used - (full ? 0 : coming_back(pool));
}

void Rooms::note_freed(const std::string& node, Kind kind, uint64_t bytes) {
  const auto place = find(node);
  const auto number = place_of(kind);
  if (!place || !number) return;  // of a record that another daemon sent
  OCM_DASSERT(*place < rooms_.size() && rooms_[*place].name == node);
  uint64_t& used = rooms_[*place].bytes_used[*number];
  used -= std::min(used, bytes);
}

bool Rooms::is_valid() const {
  return index_.size() == rooms_.size() && std::all_of(index_.begin(), index_.end(), [this](const auto& one) {
           return one.second < rooms_.size() && rooms_[one.second].name == one.first;
         });
}

}  // namespace ocm::control
