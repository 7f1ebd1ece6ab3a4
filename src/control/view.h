// What the nodes of a cluster know of each other: each tells the coordinator of itself, and gets the view of all. Values
// only; in messages: control/view_wire.h.
//
// A daemon of a later version may have a state, a kind or a fabric that this one has no name for. Such a number is kept,
// and handed on to those that have one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/extent.h"
#include "control/council.h"

namespace ocm::control {

/// Same numbers as `ocm_node_state`.
enum class NodeState : uint32_t { kAlive = 1, kSuspect = 2, kDead = 3, kDraining = 4 };
static_assert(sizeof(NodeState) == sizeof(uint32_t), "as in a message");
const char* node_state_name(NodeState state);

/// A home's pool of one kind of memory.
struct PoolInfo {
  Kind kind = kDefaultKind;
  uint64_t bytes_total = 0;
  uint64_t bytes_used = 0;
  uint64_t bytes_reclaiming = 0;  // the part of bytes_used that is freed and on its way back
  uint64_t bytes_ready =
      0;                  // beside bytes_used: held for extents to come, given back as soon as it is needed
  bool lasts = false;     // extents of it may be durable
  bool coherent = false;  // or coherent
  bool operator==(const PoolInfo&) const = default;
};

/// Parts that miss replicas and are made again from a node.
struct CopyProgress {
  uint64_t replicas_waiting = 0;  // parts, the one under way among them
  uint64_t replica_bytes = 0;     // to be copied of the one under way; 0: none is
  uint64_t replica_bytes_copied = 0;
  uint32_t replicas_left = 0;    // of the one of them that has the fewest
  uint32_t replicas_wanted = 0;  // of the same
  bool operator==(const CopyProgress&) const = default;
};

struct NodeInfo {
  std::string name;
  uint32_t partition = 0;
  NodeState state{};  // of a heartbeat: what the node says of itself
  /// This run of the daemon. Nothing: what was told is none.
  std::optional<Incarnation> incarnation;
  std::string control_address;
  std::vector<FabricAddress> addresses;
  std::vector<PoolInfo> pools;
  uint64_t sessions = 0;
  uint64_t extents = 0;
  uint64_t heartbeat_age_ns = 0;
  std::string http_address;
  std::string version;
  std::string host_id;  // equal for daemons of one host
  CopyProgress copies;
  uint64_t failure_deadline_ms =
      0;                   // all nodes of a cluster have the same; 0: of a version that does not say
  bool passes_on = false;  // it was given seeds: the coordinator's role may pass on
  /// It freed all replicas of older generations, for nobody knew which of them were out of date; 0: never.
  uint32_t replicas_freed_before = 0;
  std::vector<RememberedRun> remembered;  // former runs of the daemon, as voters
  /// How often a daemon was seen again, in the same run, of whose sessions it had freed what they had here as orphans'.
  uint32_t orphans_freed = 0;
  uint64_t features = 0;  // of its daemon: wire/version.h
};

struct View {
  uint64_t epoch = 0;       // grows with every change of membership
  std::string coordinator;  // a node; empty: not reachable
  std::string self;         // the node that shows it
  std::vector<NodeInfo> nodes;
  uint64_t run = 0;           // of the coordinator
  uint64_t features_all = 0;  // M4 of control/membership.h
};

}  // namespace ocm::control
