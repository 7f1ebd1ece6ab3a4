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
// daemon trusts no number in it. And it holds what the daemon tells the session unasked: which runs of daemons are dead or
// drain, all others live. The daemon writes it whole at each change, between two steps of `nodes_version`, which is odd
// meanwhile; programs look at the version where they wait for a node, and read the rest when it has changed.
//
// A program keeps its library over an update of the daemon, so what stands here stays where it is: the tables grow at their
// ends only. The page's header says how far this daemon fills it. The generation table needs none: what is added to it
// stands behind its slots, and the length of its memfd tells whether it is there.
#pragma once

#include <atomic>
#include <cstddef>
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
// Programs of an earlier build map it: the lease first, then the entries.
static_assert(offsetof(GenerationTable, lease_until_ns) == 0 && offsetof(GenerationTable, generation) == 8);

/// What is so of one run of a node's daemon, in one word.
struct NodeWord {
  enum class Kind : uint32_t { kDead = 1, kDraining = 2 };
  Kind kind = Kind::kDead;
  uint32_t partition = 0;

  uint64_t word() const { return uint64_t{static_cast<uint32_t>(kind)} << 32 | partition; }
  static NodeWord of(uint64_t word) {
    return {static_cast<Kind>(static_cast<uint32_t>(word >> 32)), static_cast<uint32_t>(word)};
  }
  friend bool operator==(const NodeWord&, const NodeWord&) = default;
};

struct SessionPage {
  static constexpr uint64_t kNodes = 384;  // of more, some are taken for alive

  std::atomic<uint64_t> put_bytes, get_bytes, put_ops, get_ops, atomic_ops;
  std::atomic<uint32_t> bytes,
      version;  // of this header's daemon: sizeof, and wire::kControlVersions.max; 0: older
  alignas(64) std::atomic<uint64_t> nodes_version;  // 0: this daemon tells nothing
  std::atomic<uint64_t> nodes_count;
  std::atomic<uint64_t> nodes[kNodes];  // NodeWord::word()

  /// Single-writer increment: races between threads of the program may lose counts, never a lock prefix.
  static void add(std::atomic<uint64_t>& counter, uint64_t value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};
inline constexpr uint64_t kSessionPageBytes = 4096;
// Programs that run read them there.
static_assert(offsetof(GenerationTable, lease_until_ns) == 0 && offsetof(GenerationTable, generation) == 8);
static_assert(offsetof(SessionPage, put_bytes) == 0 && offsetof(SessionPage, atomic_ops) == 32 &&
              offsetof(SessionPage, bytes) == 40 && offsetof(SessionPage, version) == 44 &&
              offsetof(SessionPage, nodes_version) == 64 && offsetof(SessionPage, nodes_count) == 72 &&
              offsetof(SessionPage, nodes) == 80);
static_assert(sizeof(SessionPage) <= kSessionPageBytes);
static_assert(offsetof(SessionPage, put_bytes) == 0 && offsetof(SessionPage, nodes_version) == 64 &&
              offsetof(SessionPage, nodes) == 80);

}  // namespace ocm::fabric::shm
