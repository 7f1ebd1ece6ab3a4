// One file for many small extents, where descriptors are few: each of them has a range of it alone.
//
// Programs of the host never get the file, because who maps it could reach every extent in it: they reach these extents
// over the network, as other nodes do. The daemon maps it once, so that its extents take no descriptor and no mapping.
//
// Invariants
//   S1 ranges do not overlap, and are whole pages.
//   S2 what is free reads as zeros, and has no pages.
// Threads: any. Lifetime: its backings keep it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "memory/gap_tree.h"
#include "memory/pool.h"

namespace ocm::memory {

class SharedFile : public std::enable_shared_from_this<SharedFile> {
 public:
  struct Options {
    uint64_t bytes = 0;  // of addresses, at most: pages are taken by what is written
    int numa_node = -1;  // -1: the kernel's choice
    bool core_dump = false;
  };
  /// It takes one of the descriptors that are reserved for other things, since it is wanted where no other is left.
  /// Errors: kNoMemory (addresses), kNoFds.
  static Result<std::shared_ptr<SharedFile>> make(const Options& options);
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// A range of zeros; `populate`: with its pages. Errors: kNoMemory (no pages, or no room in one piece).
  Result<std::unique_ptr<Backing>> cut(uint64_t bytes, bool populate);

  /// S1, for what is free; O(gaps).
  bool is_valid() const;

 private:
  class Range;
  SharedFile(os::Fd fd, os::Mapping mapping);
  void give(uint64_t offset, uint64_t bytes);
  /// Gives the pages back.
  void discard(uint64_t offset, uint64_t bytes);

  const os::Fd fd_;
  const os::Mapping mapping_;
  mutable std::mutex mutex_;
  GapTree free_;  // guarded by mutex_
};

}  // namespace ocm::memory
