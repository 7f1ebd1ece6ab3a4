#include "control/rooms.h"

#include <algorithm>

#include "base/assert.h"
#include "control/membership.h"

namespace ocm::control {
namespace {

uint64_t coming_back(const wire::PoolView& pool) {
  return std::min(pool.bytes_used(), pool.bytes_reclaiming());
}

}  // namespace

void Rooms::take(const wire::ClusterView& view) {
  rooms_.clear();
  index_.clear();
  for (const auto& node : view.nodes()) {
    NodeRoom room;
    room.name = node.name();
    room.usable = node.state() == static_cast<uint32_t>(NodeState::kAlive);
    for (const auto& address : node.addresses()) {
      if (address.fabric() < 32) room.fabrics |= 1u << address.fabric();
    }
    for (const auto& pool : node.pools()) {
      if (!is_kind(pool.kind())) continue;
      room.bytes_total[pool.kind()] = pool.bytes_total();
      room.bytes_used[pool.kind()] = pool.bytes_used() - coming_back(pool);
    }
    index_[room.name] = rooms_.size();
    rooms_.push_back(std::move(room));
  }
  // The coordinator may say what it likes: a name that comes twice is found at its last place.
  OCM_DASSERT(rooms_.size() == static_cast<size_t>(view.nodes_size()));
  OCM_DASSERT(index_.size() <= rooms_.size());
}

std::optional<size_t> Rooms::find(const std::string& node) const {
  const auto it = index_.find(node);
  return it == index_.end() ? std::nullopt : std::optional(it->second);
}

void Rooms::note_pool(const std::string& node, const wire::PoolView& pool, bool full) {
  const auto place = find(node);
  if (!place || !is_kind(pool.kind()) || pool.bytes_total() == 0) return;
  OCM_DASSERT(*place < rooms_.size() && pool.kind() < kKindsMax);
  rooms_[*place].bytes_total[pool.kind()] = pool.bytes_total();
  rooms_[*place].bytes_used[pool.kind()] = pool.bytes_used() - (full ? 0 : coming_back(pool));
}

void Rooms::note_freed(const std::string& node, Kind kind, uint64_t bytes) {
  const auto place = find(node);
  if (!place || !is_kind(static_cast<uint32_t>(kind))) return;  // of a record that another daemon sent
  OCM_DASSERT(*place < rooms_.size() && rooms_[*place].name == node);
  uint64_t& used = rooms_[*place].bytes_used[static_cast<size_t>(kind)];
  used -= std::min(used, bytes);
}

bool Rooms::is_valid() const {
  return index_.size() == rooms_.size() && std::all_of(index_.begin(), index_.end(), [this](const auto& one) {
           return one.second < rooms_.size() && rooms_[one.second].name == one.first;
         });
}

}  // namespace ocm::control
