#include "node/records.h"

#include <algorithm>
#include <unordered_set>

#include "base/assert.h"
#include "control/parts.h"

namespace ocm::node {

void Records::list(const_iterator it) {
  if (!it->second.is_whole()) return;
  for (const auto& extent : it->second.allocation.extents) {
    by_extent_.emplace(extent.id, it->first);
    if (observer_) observer_->comes(extent);
  }
}

void Records::unlist(const_iterator it) {
  if (!it->second.is_whole()) return;
  for (const auto& extent : it->second.allocation.extents) {
    const auto one = listed(extent.id, it->first);
    OCM_DASSERT(one != by_extent_.end());  // B1
    if (one != by_extent_.end()) by_extent_.erase(one);
    if (observer_) observer_->goes(extent.id);
  }
}

Records::Index::const_iterator Records::listed(const ExtentId& extent, const AllocationId& id) const {
  const auto [first, last] = by_extent_.equal_range(extent);
  const auto found = std::find_if(first, last, [&](const auto& one) { return one.second == id; });
  return found == last ? by_extent_.end() : found;
}

void Records::put(const AllocationId& id, HeldAllocation held) {
  if (const auto known = map_.find(id); known != map_.end()) erase(known);
  list(map_.emplace(id, std::move(held)).first);
}

HeldAllocation Records::take(iterator it) {
  unlist(it);
  HeldAllocation out = std::move(it->second);
  if (observer_) observer_->ended(it->first);
  map_.erase(it);
  return out;
}

Records::iterator Records::erase(iterator it) {
  unlist(it);
  if (observer_) observer_->ended(it->first);
  return map_.erase(it);
}

void Records::erase(const AllocationId& id) {
  if (const auto known = map_.find(id); known != map_.end()) erase(known);
}

void Records::clear() {
  for (auto it = map_.begin(); observer_ && it != map_.end();) it = erase(it);
  map_.clear();
  by_extent_.clear();
}

bool Records::take_grant(iterator it, const control::Allocation& granted) {
  std::unordered_set<ExtentId, control::ExtentHash> before;
  if (observer_ && it->second.is_whole()) {
    for (const auto& extent : it->second.allocation.extents) before.insert(extent.id);
  }
  unlist(it);
  const bool is_all = control::take_grant(it->second.allocation, granted);
  list(it);
  if (before.empty()) return is_all;
  const auto& now = it->second.allocation.extents;
  const auto fresh =
      std::find_if(now.begin(), now.end(), [&](const auto& one) { return !before.contains(one.id); });
  if (fresh != now.end()) observer_->moved(it->first, fresh->id);
  return is_all;
}

std::vector<Records::iterator> Records::with(const ExtentId& extent) {
  std::vector<iterator> out;
  const auto [first, last] = by_extent_.equal_range(extent);
  for (auto one = first; one != last; ++one) out.push_back(map_.find(one->second));
  return out;
}

std::vector<Records::iterator> Records::relocate(const control::PartMoved& part) {
  std::vector<iterator> out;
  for (const iterator it : with(part.was)) {
    unlist(it);
    const bool is_of_it = control::relocate(it->second.allocation, part);
    list(it);
    if (!is_of_it) continue;
    out.push_back(it);
    if (observer_) observer_->moved(it->first, part.now.front().id);
  }
  return out;
}

void Records::mark_lost(const ExtentId& replica) {
  for (const iterator it : with(replica)) (void)control::mark_lost(it->second.allocation, replica);
}

bool Records::is_valid() const {
  size_t extents = 0;
  for (const auto& [id, held] : map_) {
    if (!held.is_valid()) return false;
    if (!held.is_whole()) continue;
    for (const auto& extent : held.allocation.extents) {
      if (listed(extent.id, id) == by_extent_.end()) return false;
      ++extents;
    }
  }
  return extents == by_extent_.size();
}

}  // namespace ocm::node
