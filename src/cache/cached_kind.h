// A kind of memory with the node's page cache before it: what is read again comes from there, and a write is complete there
// and goes to the device, or to the memory of the home, later. What is to be on the device when its write completes (durable
// extents) passes it by, and so does memory that programs map; a coherent extent of such a kind is not mapped, and cached.
//
// Programs, other nodes and the daemon's copies reach such an extent through its Backing, so they all see the cache's bytes.
#pragma once

#include <memory>

#include "cache/caches.h"
#include "memory/pool.h"

namespace ocm::cache {

/// Of its extents those that are staged(), or coherent, and not durable are cached.
std::unique_ptr<memory::KindBackend> with_cache(std::unique_ptr<memory::KindBackend> backend,
                                                std::shared_ptr<Caches> caches);

}  // namespace ocm::cache
