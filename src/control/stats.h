// The figures that a daemon tells of itself to who looks at it, and what its stop would take. Values only; in messages:
// control/stats_wire.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fabrics.h"
#include "control/view.h"

namespace ocm::control {

struct FabricStats {
  Fabric fabric = Fabric::kAny;
  bool served = false;
  std::string why_not;  // it was to be served, and is not
  uint64_t put_bytes = 0, get_bytes = 0;
  uint64_t put_ops = 0, get_ops = 0, atomic_ops = 0;
  uint64_t errors = 0;
  uint64_t connections = 0;
  uint64_t connections_total = 0;
  uint64_t refused = 0;
  bool operator==(const FabricStats&) const = default;
};

struct SessionStats {
  std::string session;  // the first 8 hex digits
  std::string program;
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint64_t bytes_held = 0;
  uint64_t allocations = 0;
  uint64_t put_bytes = 0, get_bytes = 0;
  bool operator==(const SessionStats&) const = default;
};

/// What a daemon's page caches have and did since it started; pages and accesses, unless it says bytes. The fields of the
/// message of that name, and of the JSON of /status.
#define OCM_CACHE_STATS(X)                                                                           \
  X(bytes_limit) /* of memory for pages */                                                           \
  X(bytes_used)                                                                                      \
  X(bytes_dirty) /* of them: not written to their device yet */                                      \
  X(served)      /* accesses */                                                                      \
  X(missed)      /* of them: they asked for the page first */                                        \
  X(upgraded)    /* of them: for the right to write */                                               \
  X(failed)      /* accesses */                                                                      \
  X(from_home)   /* pages that came from their home's device or cache */                             \
  X(from_other)  /* from another node's cache */                                                     \
  X(supplied)    /* to another node's cache */                                                       \
  X(invalidated) /* since another node writes */                                                     \
  X(evicted)                                                                                         \
  X(cleaned)           /* written to their device, and kept */                                       \
  X(read_ahead)        /* before they were asked for */                                              \
  X(read_ahead_unused) /* of them: gone unused */                                                    \
  X(mapped_loads)      /* of the accesses: pages that programs' loads were given through pointers */ \
  X(mapped_stores)     /* the same, of stores */                                                     \
  X(withdrawn)         /* pages taken from such programs, or from their stores */                    \
  X(device_reads)      /* pages whose home this is, as the next four */                              \
  X(device_writes)                                                                                   \
  X(device_read_errors)                                                                              \
  X(device_write_errors)                                                                             \
  X(lost)            /* no node has their newest bytes */                                            \
  X(packets_sent)    /* to other nodes' caches */                                                    \
  X(packets_refused) /* that no cache sends */                                                       \
  X(terms_ended)     /* a node whose pages are cached here was not heard in time */
struct CacheStats {
#define OCM_CACHE_STATS_FIELD(name) uint64_t name = 0;
  OCM_CACHE_STATS(OCM_CACHE_STATS_FIELD)
#undef OCM_CACHE_STATS_FIELD
  bool operator==(const CacheStats&) const = default;
};

struct Stats {
  std::string node;
  uint64_t at_ns = 0;
  std::vector<FabricStats> fabrics;
  std::vector<SessionStats> sessions;
  std::vector<PoolInfo> pools;
  uint64_t extents = 0;
  uint64_t extents_sharing_file = 0;  // of `extents`: unmapped ones
  uint64_t session_count = 0;         // also of those that are not listed
  CopyProgress copies;
  std::optional<CacheStats> cache;  // none: nothing is cached there
  bool operator==(const Stats&) const = default;
};

/// See node/stopper.h.
struct StopCheck {
  struct Name {
    std::string name;
    uint64_t parts = 0;
    uint64_t bytes = 0;
    bool operator==(const Name&) const = default;
  };
  std::string node;
  bool coordinator = false;
  bool hands_over = false;  // another voter takes the coordinator's role when it stops
  bool stopping = false;    // it was told to stop, and waits
  uint64_t sessions = 0;
  uint64_t last_parts = 0;  // replicated, and their last living replica is there
  uint64_t last_bytes = 0;
  uint64_t unknown_parts = 0;  // whose daemons do not tell about the other replicas
  uint64_t unknown_bytes = 0;
  std::vector<std::string> unheard;  // nodes that were asked and did not answer
  uint64_t single_extents = 0;       // without replicas
  uint64_t single_bytes = 0;
  uint64_t names_count = 0;  // with parts in last_parts, as far as the user may read them
  std::vector<Name> names;   // the first of these
  std::string waits_for;     // for people; empty: nothing to wait for
  bool operator==(const StopCheck&) const = default;

  bool takes_nothing() const { return last_parts == 0 && unknown_parts == 0; }
};

}  // namespace ocm::control
