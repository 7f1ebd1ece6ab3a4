#include "table/format/values.h"

#include <algorithm>

namespace ocm::table {

Distinct::Distinct(uint64_t limit) : limit_(std::min<uint64_t>(limit, INT32_MAX)), slots_(512) {}

int64_t Distinct::add_new(const Entry& entry, uint64_t slot) {
  if (entries_.size() >= limit_) return kFull;
  entries_.push_back(entry);
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
}

}  // namespace ocm::table
