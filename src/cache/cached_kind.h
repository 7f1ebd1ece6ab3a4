// A kind of memory on a device, with the node's page cache before it: what is read again comes from memory, and a write is
// complete in memory and goes to the device later. What is to be on the device when its write completes (durable extents)
// passes it by.
//
// Programs, other nodes and the daemon's copies reach such an extent through its Backing, so they all see the cache's bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/page_cache.h"
#include "memory/pool.h"

namespace ocm::cache {

struct CachedKindOptions {
  uint64_t bytes = 0;  // of memory for pages; at least Budget::kFewest pages are used
  uint64_t failure_deadline_ns = 3'000'000'000;
};

/// The cache of one pool, and its clock: one thread.
class KindCache {
 public:
  KindCache(const CachedKindOptions& options, uint64_t page_bytes);
  ~KindCache();
  KindCache(const KindCache&) = delete;
  KindCache& operator=(const KindCache&) = delete;

  PageCache& pages();
  /// Of one extent, of this run.
  ExtentId next_id();

 private:
  class Clock;
  const std::unique_ptr<Clock> clock_;
};

/// Of its extents those that are staged() and not durable are cached. `cache` is given what its pages are in, for statistics.
std::unique_ptr<memory::KindBackend> with_cache(std::unique_ptr<memory::KindBackend> backend,
                                                const CachedKindOptions& options,
                                                std::shared_ptr<KindCache>& cache);

}  // namespace ocm::cache
