// What a daemon's /status says, as far as `ocm top`, `ocm cache` and `ocm doctor` use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command.h"

namespace ocm::cli {

struct PoolLoad {
  std::string kind;
  uint64_t bytes_total = 0;
  uint64_t bytes_used = 0;
  uint64_t bytes_ready = 0;  // held for extents to come
};
/// Counters since the daemon started; rates are differences.
struct FabricLoad {
  std::string fabric;
  uint64_t put_bytes = 0;
  uint64_t get_bytes = 0;
  uint64_t operations = 0;
  uint64_t errors = 0;
  bool served = false;
  std::string why_not;  // it was to be served, and is not
};
/// Of its page caches; counters since the daemon started, in accesses and pages (control/stats.h).
struct CacheLoad {
  bool is_there = false;  // else the node caches nothing, or does not say
  uint64_t bytes_limit = 0, bytes_used = 0, bytes_dirty = 0;
  uint64_t served = 0, missed = 0, upgraded = 0, failed = 0;
  uint64_t from_home = 0, from_other = 0, supplied = 0, invalidated = 0;
  uint64_t evicted = 0, cleaned = 0;
  uint64_t mapped_loads = 0, mapped_stores = 0, withdrawn = 0;  // through pointers
  uint64_t device_reads = 0, device_writes = 0, device_errors = 0;
  uint64_t lost = 0;
  /// Accesses that asked nobody, of all that were served.
  uint64_t hits() const { return served > missed + upgraded ? served - missed - upgraded : 0; }
};
struct SessionLoad {
  std::string session;
  std::string program;
  uint32_t pid = 0;
  uint32_t uid = 0;
  uint64_t bytes_held = 0;
  uint64_t allocations = 0;
  uint64_t put_bytes = 0;
  uint64_t get_bytes = 0;
};
struct PeerView {
  std::string name;
  std::string state;
  std::string version;
  std::string http;
  std::string control;
  uint64_t heartbeat_age_ns = 0;
  std::vector<PoolLoad> pools;
  uint64_t replicas_waiting = 0;                    // parts that miss replicas and are made again from there
  uint64_t replicas_left = 0, replicas_wanted = 0;  // of the one of them that has the fewest
  uint64_t copy_bytes = 0, copy_bytes_done = 0;     // of the one that is made again now
};
struct NodeStatus {
  std::string name;
  std::string version;
  std::string coordinator;       // empty: it has none at the moment
  uint64_t descriptors_max = 0;  // RLIMIT_NOFILE of the daemon; 0: it does not say
  uint64_t descriptors_wanted = 0;
  uint64_t extents = 0;
  uint64_t session_count = 0;
  std::vector<PoolLoad> pools;
  CacheLoad cache;
  std::vector<FabricLoad> fabrics;
  std::vector<SessionLoad> sessions;  // that this user may see
  std::vector<PeerView> peers;        // every node of the cluster, itself too
};

/// Errors: kProtocol (not what a daemon says).
Result<NodeStatus> parse_node_status(const std::string& text);
/// GET /status at `address`; with `node`, of that one through the daemon there, which only one on this host
/// does.
Result<NodeStatus> fetch_node_status(const std::string& address, const std::string& node = "");
/// One look at all nodes: the local daemon's answer, and by name those of the nodes that answered.
struct ClusterStatus {
  NodeStatus entry;
  std::map<std::string, NodeStatus> nodes;
};
Result<ClusterStatus> fetch_cluster_status(const std::string& http);
/// "replicas: 1 of 2 at worst in 3 parts, copying 40 % (on n3)"; empty if nothing is missing, or the node is dead.
std::string missing_replicas_text(const PeerView& node);
/// True for a node that others could reach, and that has none beside it: it coordinates a cluster of its own.
bool is_alone(const NodeStatus& status);
/// Of a name that goes into a path. Errors: kUnknownNode: no node can be called that.
Status check_asked_node(const std::string& name);
/// Where the local daemon's HTTP interface is: `asked`, $OCM_HTTP, or the socket beside the programs'.
Result<std::string> http_address(const Globals& globals, const std::string& asked);
inline constexpr const char* kHttpSocketHelp =
    "The local daemon's HTTP socket [http.sock beside the daemon's socket]";
/// True if `address` is such a socket, where the daemon knows who asks.
inline bool is_local(const std::string& address) { return address.starts_with('/'); }

}  // namespace ocm::cli
