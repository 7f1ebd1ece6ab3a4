// An extent that the own daemon caches, mapped: loads and stores of the program, whose page faults the daemon answers.
//
//   program's thread --touches a page--> waits in the kernel --userfaultfd--> daemon's pager --maps it--> goes on
//   pages that cannot be had, a daemon that is gone --socket--> guard --> SIGBUS
//
// The guard is the one thread that a program has for all its mappings. It replaces what cannot be had any more by memory
// behind the end of a file: who touches it gets SIGBUS, and nobody waits for ever or reads zeros.
//
// Invariants
//   W1 the guard allocates nothing and touches no mapping: a program's thread may hold any lock while it waits for a page.
//   W2 a range that was unmapped is the guard's no more: it may be somebody else's.
//   W3 a forked child has none of it: it gets SIGSEGV there, and its parent's mappings end with the parent.
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/extent.h"
#include "base/status.h"
#include "os/fd.h"
#include "os/userfault.h"

namespace ocm::client {

class Session;

class MappedPages {
 public:
  /// Errors: kUnsupported (the daemon does not cache it, the kernel has not what it needs), kPermission, kRevoked, kLimit,
  /// kNoMemory, kNoFds, kNoDaemon, kDeadline.
  static Result<std::unique_ptr<MappedPages>> open(Session& session, const ExtentDescriptor& extent,
                                                   Access access);
  ~MappedPages();
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  std::byte* data() const { return data_; }
  /// The daemon has ended it: all of it gives SIGBUS.
  bool is_dead() const { return is_dead_.load(std::memory_order_acquire); }
  /// Or a part of it.
  bool is_hurt() const { return is_hurt_.load(std::memory_order_acquire); }

 private:
  class Guard;
  MappedPages() = default;
  Status introduce(uint64_t patience_ns) const;

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  os::Fd socket_;
  os::Userfault faults_;
  bool is_guarded_ = false;
  std::atomic<bool> is_dead_{false}, is_hurt_{false};
};

}  // namespace ocm::client
