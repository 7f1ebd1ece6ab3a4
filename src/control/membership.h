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
//   M3 a node that has told one run of the coordinator what it has takes no view and no news of names from the runs
//      before: what those still say, the later one does not know.
//   M4 features_all() is what every living node has, once the table has had a failure deadline to hear of all. Nothing that
//      is in it goes while a node of the cluster lives: nodes tell a new run of the coordinator, and who lacks one is refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "control/view.h"

namespace ocm::control {

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
    bool passes_on = false;  // the coordinator's role: nodes are given seeds
  };
  /// `run` names this run of the coordinator; not 0.
  Membership(Options options, uint64_t run) : options_(options), run_(run) {
    OCM_DASSERT(run != 0 && options.nodes_max > 0);
  }

  struct Heard {
    bool joined = false;     // not known before
    bool restarted = false;  // another incarnation of a known name
    bool returned = false;   // was dead
  };
  /// Takes the nodes of the view of the coordinator before, as if all that live had been heard just now; `silent`, that
  /// coordinator, half a failure deadline ago.
  void start_from(uint64_t now_ns, const View& view, const std::string& silent);
  /// A heartbeat. Errors: kInvalidArgument (bad name or field), kExists (the name or partition is a living
  /// node's), kLimit (nodes).
  Result<Heard> heard(uint64_t now_ns, NodeInfo told);
  void goodbye(const std::string& name);
  /// M4: a node knows them from a former run of the coordinator.
  void know_features(uint64_t features) { features_all_ |= features; }
  uint64_t features_all() const { return features_all_; }
  /// Moves states on; gives the names that died.
  std::vector<std::string> tick(uint64_t now_ns);

  /// True if the incarnation that holds `partition` is not known to be dead or replaced.
  bool may_live(const std::string& name, uint32_t partition) const;

  /// True if the node said that it freed all replicas, and this one was one of them.
  bool freed_replica(const std::string& name, uint32_t generation) const;

  const NodeInfo* find(const std::string& name) const;
  /// The view for everyone.
  View view(uint64_t now_ns) const;
  /// Its nodes, each with the age of its heartbeat, for who would copy a view only to send it.
  template <class Function>
  void each(uint64_t now_ns, Function function) const {
    for (const auto& [name, node] : nodes_) function(node.info, age_ns(node, now_ns));
  }
  uint64_t epoch() const { return epoch_; }
  uint64_t run() const { return run_; }
  size_t nodes() const { return nodes_.size(); }
  /// M1, and that each node has what one of the table has; O(nodes * log nodes).
  bool is_valid() const;

 private:
  struct Node {
    NodeInfo info;  // as it said last, but for its state, which is the table's
    uint64_t heard_ns = 0;
  };

  static uint64_t age_ns(const Node& node, uint64_t now_ns) {
    return now_ns > node.heard_ns ? now_ns - node.heard_ns : 0;
  }
  Status admit(const NodeInfo& told, uint64_t now_ns) const;
  void raise_features(uint64_t now_ns);
  void evict(uint64_t now_ns);

  const Options options_;
  const uint64_t run_;
  uint64_t epoch_ = 1;
  uint64_t features_all_ = 0;
  std::optional<uint64_t> began_ns_;  // the first tick()
  std::map<std::string, Node> nodes_;
};

/// A node's side: which run of the coordinator answers, and since when it does not.
class Member {
 public:
  explicit Member(uint64_t failure_deadline_ns) : deadline_ns_(failure_deadline_ns) {}

  /// The reply of a coordinator's run to a heartbeat sent at `sent_ns`. True if it is another run than before: it
  /// then wants everything that this node knows.
  bool replied(uint64_t sent_ns, uint64_t run) {
    const bool other = follow(run);
    heard_ns_ = std::max(heard_ns_, sent_ns);
    return other;
  }
  /// From here on `run` is the coordinator. True if it was another.
  bool follow(uint64_t run) {
    constexpr size_t kFormerMax = 64;
    if (run == run_) return false;
    if (run_ != 0) former_.push_back(run_);
    if (former_.size() > kFormerMax) former_.pop_front();
    OCM_DASSERT(former_.size() <= kFormerMax);
    run_ = run;
    return true;
  }
  /// M3: one that this node has left for another, so it takes nothing from it any more.
  bool is_former(uint64_t run) const {
    return std::find(former_.begin(), former_.end(), run) != former_.end();
  }
  bool coordinator_reachable(uint64_t now_ns) const {
    return heard_ns_ != 0 && now_ns < heard_ns_ + deadline_ns_;
  }
  uint64_t run() const { return run_; }

 private:
  const uint64_t deadline_ns_;
  std::deque<uint64_t> former_;  // the oldest first
  uint64_t run_ = 0;
  uint64_t heard_ns_ = 0;
};

}  // namespace ocm::control
