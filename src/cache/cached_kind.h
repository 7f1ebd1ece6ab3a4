// A kind of memory on a device, with the node's page cache before it: what is read again comes from memory, and a write is
// complete in memory and goes to the device later. What is to be on the device when its write completes (durable extents)
// passes it by.
//
// Programs, other nodes and the daemon's copies reach such an extent through its Backing, so they all see the cache's bytes.
#pragma once

#include <memory>

#include "cache/caches.h"
#include "memory/pool.h"

namespace ocm::cache {

/// Of its extents those that are staged() and not durable are cached.
std::unique_ptr<memory::KindBackend> with_cache(std::unique_ptr<memory::KindBackend> backend,
                                                std::shared_ptr<Caches> caches);

}  // namespace ocm::cache
