// Column chunks that were moved, kept for the next scan: least recently used goes first.
//
// A key names the bytes for ever: the segment's first extent, whose address and generation come never again, and the
// place in it, which never changes. (A segment's name does come again, where one that was not acknowledged goes away.)
// Where that extent moved they are moved once more. Entries that a reader holds too are forgotten like others; their memory is the reader's then.
// Threads: any.
#pragma once

#include <oncilla/table.h>

#include <compare>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/ids.h"

namespace ocm::table {

struct CacheKey {
  ExtentId segment;
  uint64_t offset = 0;  // of the chunk in the segment
  auto operator<=>(const CacheKey&) const = default;
};

class Cache {
 public:
  /// The chunk's bytes, or null. Counts a hit or a miss.
  std::shared_ptr<std::byte> find(const CacheKey& key);
  /// The same without counting or touching.
  bool holds(const CacheKey& key) const;
  /// Keeps it, if it fits the limit at all.
  void keep(const CacheKey& key, std::shared_ptr<std::byte> data, uint64_t bytes);

  void limit(uint64_t bytes);
  void clear();
  /// All but `size` is written.
  void query(ocm_table_cache_info& info) const;
  /// Each entry is found by its key, and all of them together are within the limit; O(entries).
  bool is_valid() const;

 private:
  struct Entry {
    CacheKey key;
    std::shared_ptr<std::byte> data;
    uint64_t bytes;
  };
  using Entries = std::list<Entry>;
  /// Moves what is over the limit to `out`, to be freed without the lock.
  void trim(Entries& out);

  mutable std::mutex mutex_;  // guards what follows
  Entries entries_;           // the most recently used first
  std::map<CacheKey, Entries::iterator> places_;
  uint64_t limit_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace ocm::table
