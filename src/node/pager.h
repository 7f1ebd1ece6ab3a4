// Programs of this host that map pages which the daemon caches: their page faults are answered here.
//
//   program --MapPages--> Pagers: a shadow's descriptor, and a socket --wire/mapped.h--> Pager, a thread
//   page fault --userfaultfd--> Pager --fault()--> PageCache --grant, protect, refuse--> Pager --> mapped, or SIGBUS
//
// Invariants
//   G1 a program maps what its capability opens, and stores only where that says so: it has a descriptor for reading
//      otherwise.
//   G2 one program's pager waits for that program's kernel structures alone; no lock of others is held then.
//   G3 what a program sends is looked at by its own pager: no other thread closes a descriptor that came from it.
// Threads: open() the loop's; stop() after it.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "node/handlers.h"
#include "node/home.h"

namespace ocm::node {

class Pagers {
 public:
  Pagers(Core& core, Home& home) : core_(core), home_(home) {}
  ~Pagers() { stop(); }
  Pagers(const Pagers&) = delete;
  Pagers& operator=(const Pagers&) = delete;

  /// A program of the user maps pages of an extent, of which its id and what it shows are looked at. Errors: kUnsupported (it is not cached here), kPermission, kRevoked,
  /// kNotFound, kLimit, kNoMemory, kNoFds.
  control::Reply open(uint32_t uid, const ExtentDescriptor& extent, Access access);
  /// No page fault is answered any more: programs get SIGBUS.
  void stop();

  /// Those that have ended are given up.
  void collect();

  /// Of all users; one has a quarter. Fewer where the daemon has few descriptors.
  static constexpr size_t kMost = 512;

 private:
  class Pager;
  struct Running {
    uint32_t uid = 0;
    std::shared_ptr<Pager> pager;
    std::thread thread;
  };
  static constexpr int kTriesMost = 3;
  std::optional<control::Reply> begin(uint32_t uid, const ExtentId& id, bool may_store);

  Core& core_;
  Home& home_;
  std::list<Running> running_;
};

}  // namespace ocm::node
