// An extent of this host as a program uses it: the mapping, and what says that it may still be used. Every
// path of shm goes through here: the channel, the client's operations and its atomics.
//
//   check  ->  loads or stores  ->  what was loaded, or stored to a replica: check again
//
// Invariants
//   L1 bytes are handed out as good only if the extent lived after they were loaded: a removed extent's pages go back
//      to the system while programs still map them, and read as zeros then.
//   L2 a store that began before a removal may land after it: in pages that are nobody's. So a store to a replica is
//      answered as good only if the extent lived after it: its pages may go on under another id.
// The caller checks bounds and alignment (check_bounds) and owns the mapping.
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "fabric/op.h"
#include "fabric/served.h"
#include "os/clock.h"

namespace ocm::fabric::shm {

/// Whether an extent lives. Cost of alive(): one load.
struct Life {
  const std::atomic<uint32_t>* slot = nullptr;  // its entry in the generation table
  const std::atomic<bool>* lost = nullptr;      // its daemon has gone; null: nobody watches
  uint32_t generation = 0;
  const std::atomic<bool>* replaced = nullptr;  // another run of the daemon is there; null: nobody knows

  bool alive() const { return slot->load(std::memory_order_acquire) == generation; }
  bool daemon_lost() const { return lost != nullptr && lost->load(std::memory_order_relaxed); }
  /// L1, for what this thread has loaded.
  bool alive_after_loads() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return alive();
  }
};

class LocalExtent {
 public:
  LocalExtent() = default;
  /// `lease_until_ns`: replicas, as fabric::check_access does at a home; else null.
  LocalExtent(Life life, const std::atomic<uint64_t>* lease_until_ns)
      : life_(life), lease_until_ns_(lease_until_ns) {
    OCM_ASSERT(life.slot != nullptr && life.generation != 0);  // 0 is what a freed slot holds
  }

  const Life& life() const { return life_; }
  /// Errors: kPeerLost (the daemon went, or the lease of a replica ended), kRevoked (also: the daemon went, and came
  /// back without it).
  Code check() const {
    if (life_.daemon_lost()) return code_of_lost();
    return check_bytes();
  }
  /// L1: whether what this thread has loaded is good.
  Code check_loaded() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return check_bytes();
  }
  /// L2: whether what this thread has stored is in the bytes as whoever ended the extent reads them
  /// afterwards (control/remake.h, M1). As Dekker's: here bytes are stored, fence, the slot is loaded; there
  /// the slot is stored, fence, the bytes are loaded. Without both fences each side may miss the other's
  /// store. Errors: as check().
  Code check_stored() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return check();
  }

  /// `copy(target, source, bytes)` is a memcpy of the caller's choice; `at` points into the mapping.
  template <class Copy>
  Code put(std::byte* at, const void* source, uint64_t bytes, Copy copy) const {
    if (const Code code = check(); code != Code::kOk) return code;
    copy(at, source, bytes);
    return Code::kOk;
  }
  template <class Copy>
  Code get(const std::byte* at, void* target, uint64_t bytes, Copy copy) const {
    if (const Code code = check(); code != Code::kOk) return code;
    copy(target, at, bytes);
    return check_loaded();
  }
  Code atomic(OpCode opcode, std::byte* word, uint64_t operand, uint64_t expected, uint64_t& before) const {
    if (const Code code = check(); code != Code::kOk) return code;
    before = apply_atomic(opcode, word, operand, expected);
    return check_loaded();
  }
  Code notify(std::byte* word, uint64_t value) const {
    if (const Code code = check(); code != Code::kOk) return code;
    apply_notify(word, value);
    return Code::kOk;
  }
  Code load_word(const std::byte* word, uint64_t& seen) const {
    if (const Code code = check(); code != Code::kOk) return code;
    seen = __atomic_load_n(reinterpret_cast<const uint64_t*>(word), __ATOMIC_ACQUIRE);
    return check_loaded();
  }

 private:
  /// A replica stays silent: that it is lost is decided elsewhere.
  Code code_of_lost() const {
    const bool over = life_.replaced != nullptr && life_.replaced->load(std::memory_order_relaxed);
    return over && lease_until_ns_ == nullptr ? Code::kRevoked : Code::kPeerLost;
  }
  Code check_bytes() const {
    if (!life_.alive()) return Code::kRevoked;
    if (lease_until_ns_ != nullptr && os::now_ns() >= lease_until_ns_->load(std::memory_order_acquire)) {
      return Code::kPeerLost;
    }
    return Code::kOk;
  }

  Life life_;
  const std::atomic<uint64_t>* lease_until_ns_ = nullptr;
};

}  // namespace ocm::fabric::shm
