// What a daemon shares with the programs of its host: the generation table and the session page.
//
// The generation table says which extents live: entry `slot` holds the generation of the extent there, 0
// when there is none. The daemon writes (release) before it gives an extent out and after it revokes one;
// programs map it read-only and compare (acquire) before every operation, so a freed or removed extent
// answers kRevoked although its pages are still mapped.
//
// The lease at its head is for replicas: a program reads or writes one on this host only before that moment,
// so that a node that lost the cluster (or a daemon that was stopped) never shows bytes that the others have
// overwritten meanwhile.
//
// The session page holds counters that only the program writes and the daemon shows (`ocm top`); the
// daemon trusts no number in it.
#pragma once

#include <atomic>
#include <cstdint>

namespace ocm::fabric::shm {

struct GenerationTable {
  std::atomic<uint64_t> lease_until_ns;  // monotonic; the daemon's own lease on its replicas
  std::atomic<uint32_t> generation[1];   // `slots` entries; SessionWelcome.slots says how many

  static uint64_t bytes(uint32_t slots) {
    return sizeof(uint64_t) + uint64_t{slots} * sizeof(std::atomic<uint32_t>);
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct SessionPage {
  std::atomic<uint64_t> put_bytes, get_bytes, put_ops, get_ops, atomic_ops;

  /// Single-writer increment: races between threads of the program may lose counts, never a lock prefix.
  static void add(std::atomic<uint64_t>& counter, uint64_t value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};
inline constexpr uint64_t kSessionPageBytes = 4096;

}  // namespace ocm::fabric::shm
