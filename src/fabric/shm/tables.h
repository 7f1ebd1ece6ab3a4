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
// daemon trusts no number in it. And it holds what the daemon tells the session unasked, the last kEvents of it: the daemon
// writes an event, then `events_written` (release), then the eventfd that came with the page. Whoever is behind by more
// has missed some, and asks for the view of the cluster.
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

/// What is so from now on of one run of a node's daemon, in one word.
struct Event {
  enum class Kind : uint32_t { kAlive = 1, kDead = 2, kDraining = 3 };
  Kind kind = Kind::kAlive;
  uint32_t partition = 0;

  uint64_t word() const { return uint64_t{static_cast<uint32_t>(kind)} << 32 | partition; }
  static Event of(uint64_t word) {
    return {static_cast<Kind>(static_cast<uint32_t>(word >> 32)), static_cast<uint32_t>(word)};
  }
};

struct SessionPage {
  static constexpr uint64_t kEvents = 128;

  std::atomic<uint64_t> put_bytes, get_bytes, put_ops, get_ops, atomic_ops;
  alignas(64) std::atomic<uint64_t> events_written;  // ever
  std::atomic<uint64_t> events[kEvents];             // Event::word(); number `n` is in place n % kEvents

  /// Single-writer increment: races between threads of the program may lose counts, never a lock prefix.
  static void add(std::atomic<uint64_t>& counter, uint64_t value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};
inline constexpr uint64_t kSessionPageBytes = 4096;
static_assert(sizeof(SessionPage) <= kSessionPageBytes);

}  // namespace ocm::fabric::shm
