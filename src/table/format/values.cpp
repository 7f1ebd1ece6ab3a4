#include "table/format/values.h"

#include <algorithm>
#include <bit>

namespace ocm::table {

Distinct::Distinct(uint64_t limit) : limit_(std::min<uint64_t>(limit, INT32_MAX)), slots_(512) {}

int64_t Distinct::add_new(const Entry& entry, uint64_t slot) {
  if (entries_.size() >= limit_) return kFull;
  entries_.push_back(entry);
  OCM_DASSERT(slots_[slot] == 0);
  slots_[slot] = static_cast<uint32_t>(entries_.size());
  if (entries_.size() * 2 > slots_.size()) grow();
  return static_cast<int64_t>(entries_.size()) - 1;
}

void Distinct::grow() {
  slots_.assign(slots_.size() * 4, 0);
  const uint64_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint64_t slot = entries_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
  OCM_DASSERT(is_valid());
}

bool Distinct::is_valid() const {
  const auto taken = static_cast<size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](uint32_t number) { return number != 0; }));
  if (!std::has_single_bit(slots_.size()) || taken != entries_.size() || entries_.size() > limit_)
    return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint64_t slot = entries_[i].hash & (slots_.size() - 1);
    while (slots_[slot] != 0 && slots_[slot] != i + 1) slot = (slot + 1) & (slots_.size() - 1);
    if (slots_[slot] == 0) return false;
  }
  return entries_.size() * 2 <= slots_.size();
}

}  // namespace ocm::table
