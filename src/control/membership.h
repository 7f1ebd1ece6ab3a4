// Who is in the cluster: the coordinator's table of nodes, and a member's side of it. Pure: time is given.
//
//   (unknown) --heard--> alive --half the deadline--> suspect --the deadline--> dead --forget_ns--> (unknown)
//                          ^ ^----------- heard ---------/                      |
//                          \------------- heard (same or new incarnation) ------/     draining: said goodbye
//
// Invariants
//   M1 a partition belongs to one incarnation of one node while the table knows it; a partition that another
//      incarnation holds is refused.
//   M2 the epoch grows with every change of a state, an incarnation or the set of nodes.
//   M3 a member's lease ends before the coordinator calls it dead: the lease counts from when the heartbeat
//   was
//      sent, is a twentieth shorter than the deadline, and the clocks only need the same speed.
//   M4 a replica in `dropped` is told to its node with every reply until the node has confirmed it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control.pb.h"

namespace ocm::control {

/// Same numbers as `ocm_node_state`.
enum class NodeState : uint32_t { kAlive = 1, kSuspect = 2, kDead = 3, kDraining = 4 };
const char* node_state_name(NodeState state);

inline constexpr size_t kNodeNameBytesMax = 63;
/// Letters, digits, '.', '_' and '-'. Errors: kInvalidArgument.
Status check_node_name(std::string_view name);

/// The coordinator's table.
class Membership {
 public:
  struct Options {
    uint64_t failure_deadline_ns = 3'000'000'000;
    uint64_t forget_ns = 3'600'000'000'000;
    size_t nodes_max = 4096;
  };
  /// `run` names this run of the coordinator; not 0.
  Membership(Options options, uint64_t run, uint64_t now_ns)
      : options_(options), run_(run), started_ns_(now_ns) {}

  struct Heard {
    bool joined = false;     // not known before
    bool restarted = false;  // another incarnation of a known name
    bool returned = false;   // was dead
  };
  /// A heartbeat. Errors: kInvalidArgument (bad name or field), kExists (the name or partition is a living
  /// node's), kLimit (nodes).
  Result<Heard> heard(uint64_t now_ns, const wire::NodeView& view, uint64_t dropped_seen = 0);
  void goodbye(const std::string& name);
  /// Moves states on; gives the names that died.
  std::vector<std::string> tick(uint64_t now_ns);

  /// True once no lease of the node that held `partition` can be running: its extents answer nobody.
  bool surely_gone(const std::string& name, uint32_t partition, uint64_t now_ns) const;
  /// True if the incarnation that holds `partition` is not known to be dead or replaced.
  bool may_live(const std::string& name, uint32_t partition) const;
  /// Notes that nobody uses this replica any more (M4).
  void drop(const std::string& name, ExtentId id);

  const wire::NodeView* find(const std::string& name) const;
  /// The view for everyone; `asker`'s dropped replicas too if it is a node.
  void fill(wire::ClusterView& view, uint64_t now_ns, const std::string& asker = {}) const;
  uint64_t epoch() const { return epoch_; }
  uint64_t run() const { return run_; }
  size_t nodes() const { return nodes_.size(); }

 private:
  struct Dropped {
    uint64_t sequence;
    ExtentId id;
  };
  struct Node {
    wire::NodeView view;
    NodeState state = NodeState::kAlive;
    uint64_t heard_ns = 0;
    uint64_t sequence = 0;
    std::deque<Dropped> dropped;
  };

  Status admit(const wire::NodeView& view, uint64_t now_ns) const;
  void evict(uint64_t now_ns);

  const Options options_;
  const uint64_t run_;
  const uint64_t started_ns_;
  uint64_t epoch_ = 1;
  std::map<std::string, Node> nodes_;
};

/// A node's side: what to send and how long its lease runs.
class Member {
 public:
  explicit Member(uint64_t failure_deadline_ns) : deadline_ns_(failure_deadline_ns) {}

  /// The reply to a heartbeat sent at `sent_ns`. True if the coordinator is another run than before: it then
  /// wants everything that this node knows.
  bool replied(uint64_t sent_ns, const wire::ClusterView& view) {
    const bool other = view.cluster_id() != run_;
    run_ = view.cluster_id();
    dropped_seen_ = view.dropped_sequence();
    heard_ns_ = std::max(heard_ns_, sent_ns);
    return other;
  }
  uint64_t lease_until_ns() const {
    return heard_ns_ == 0 ? 0 : heard_ns_ + deadline_ns_ - deadline_ns_ / 20;
  }
  bool coordinator_reachable(uint64_t now_ns) const {
    return heard_ns_ != 0 && now_ns < heard_ns_ + deadline_ns_;
  }
  uint64_t run() const { return run_; }
  uint64_t dropped_seen() const { return dropped_seen_; }

 private:
  const uint64_t deadline_ns_;
  uint64_t run_ = 0;
  uint64_t heard_ns_ = 0;
  uint64_t dropped_seen_ = 0;
};

}  // namespace ocm::control
