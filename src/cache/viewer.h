// A program of this node that maps an extent's shadow, as the cache sees it: who carries out there what the cache decides.
//
// Invariants
//   V1 grants and protections of one viewer are carried out in the order in which they were made.
//   V2 a viewer that ended stores nothing any more.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cache/packet.h"
#include "cache/shadow.h"

namespace ocm::cache {

/// Nothing here waits, nor calls the cache.
class Viewer {
 public:
  virtual ~Viewer() = default;
  /// Shadow::enter(), which may wait, and PageCache::entered() after it.
  virtual void enter(uint32_t page, std::shared_ptr<Shadow> shadow, PageBytes bytes) = 0;
  /// The page is in the shadow: the program may load from it, and store to it if `writable`.
  virtual void grant(uint32_t page, bool writable) = 0;
  /// It stores to the page no more. PageCache::is_protected() follows.
  virtual void protect(uint32_t page) = 0;
  /// A fault of the page ends with `why`.
  virtual void refuse(uint32_t page, Code why) = 0;
  /// Its mapping is over. PageCache::viewer_ended() follows.
  virtual void end() = 0;
};

}  // namespace ocm::cache
