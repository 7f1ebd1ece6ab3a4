#include "table/cache.h"

#include "base/assert.h"

namespace ocm::table {

std::shared_ptr<std::byte> Cache::find(const CacheKey& key) {
  std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) {
    ++misses_;
    return nullptr;
  }
  OCM_DASSERT(place->second->key == key);
  ++hits_;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->data;
}

bool Cache::holds(const CacheKey& key) const {
  std::lock_guard lock(mutex_);
  return places_.contains(key);
}

void Cache::keep(const CacheKey& key, std::shared_ptr<std::byte> data, uint64_t bytes) {
  OCM_DASSERT(data != nullptr && bytes > 0);
  Entries gone;
  std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ || places_.contains(key)) return;
  entries_.push_front({key, std::move(data), bytes});
  places_.emplace(key, entries_.begin());
  used_bytes_ += bytes;
  trim(gone);
  OCM_DASSERT(used_bytes_ <= limit_bytes_ && places_.size() == entries_.size());
}

void Cache::limit(uint64_t bytes) {
  Entries gone;
  {
    std::lock_guard lock(mutex_);
    limit_bytes_ = bytes;
    trim(gone);
  }
  OCM_DASSERT(is_valid());
}

void Cache::clear() {
  Entries gone;
  std::lock_guard lock(mutex_);
  gone.swap(entries_);
  places_.clear();
  used_bytes_ = 0;
}

void Cache::query(ocm_table_cache_info& info) const {
  std::lock_guard lock(mutex_);
  info.limit_bytes = limit_bytes_;
  info.used_bytes = used_bytes_;
  info.hits = hits_;
  info.misses = misses_;
}

bool Cache::is_valid() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto place = places_.find(entry->key);
    if (place == places_.end() || Entries::const_iterator(place->second) != entry) return false;
    bytes += entry->bytes;
  }
  return places_.size() == entries_.size() && bytes == used_bytes_ && used_bytes_ <= limit_bytes_;
}

void Cache::trim(Entries& out) {
  while (used_bytes_ > limit_bytes_) {
    OCM_DASSERT(!entries_.empty() && used_bytes_ >= entries_.back().bytes);
    used_bytes_ -= entries_.back().bytes;
    places_.erase(entries_.back().key);
    out.splice(out.end(), entries_, std::prev(entries_.end()));
  }
}

}  // namespace ocm::table
