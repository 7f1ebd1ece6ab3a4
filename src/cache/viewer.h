// A program of this node that maps an extent's shadow, as the cache sees it: who carries out there what the cache decides.
//
// Invariants
//   V1 grants and protections of one viewer are carried out in the order in which they were made.
//   V2 a viewer that ended stores nothing any more.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace ocm::cache {

/// Nothing here waits, nor calls the cache.
class Viewer {
 public:
  virtual ~Viewer() = default;
  /// The page is in the shadow: the program may load from it, and store to it if `writable`.
  virtual void grant(uint32_t page, bool writable) = 0;
  /// It stores to the page no more. PageCache::is_protected() follows.
  virtual void protect(uint32_t page) = 0;
  /// A fault of the page ends with `why`.
  virtual void refuse(uint32_t page, Code why) = 0;
};

}  // namespace ocm::cache
