// The node in its cluster: heartbeats to the coordinator, the view that comes back, and the coordinator's
// role if this node has it: membership and names, both soft.
//
// Threads: the loop's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/membership.h"
#include "control/names.h"
#include "control/placement.h"
#include "control/rpc.h"
#include "node/home.h"
#include "node/peers.h"
#include "node/quorum.h"

namespace ocm::node {

class Cluster {
 public:
  Cluster(Core& core, Home& home, Peers& peers);

  /// Joins: the coordinator knows itself at once, a member with its first heartbeat.
  /// `fill` puts into this node's view what others count.
  void start(std::function<void(wire::NodeView&)> fill);
  /// Tells the coordinator that this node drains.
  control::Task<void> leave();

  bool is_coordinator() const { return membership_ != nullptr; }
  const wire::ClusterView& view() const { return view_; }
  /// For those who look: with this moment's ages, and this moment's figures of this node. Without a coordinator nothing is known of
  /// other nodes: who was alive is `suspect`.
  wire::ClusterView fresh_view() const;
  bool has_coordinator() const { return is_coordinator() || !view_.coordinator().empty(); }
  /// Why none can be reached; empty if one can.
  std::string coordinator_error() const { return has_coordinator() ? "" : coordinator_error_; }
  std::span<const control::NodeRoom> rooms() const { return rooms_; }
  /// Where the daemon of a node answers; empty if unknown. Also where it answered when the view showed it last: a new
  /// run of the coordinator knows no node that it cannot reach, and others may.
  std::string address_of(const std::string& node) const;
  const wire::NodeView* find(const std::string& node) const;
  const wire::NodeView* find_partition(uint32_t partition) const;
  /// The run of the coordinator that the view is of; 0: none yet.
  uint64_t coordinator_run() const;
  /// As far as this node hears; without a coordinator nothing is known to be.
  bool is_alive(const std::string& node) const {
    const wire::NodeView* known = has_coordinator() ? find(node) : nullptr;
    return known != nullptr && is_state(*known, control::NodeState::kAlive);
  }
  /// False while this daemon has just started and does not know the others yet.
  bool settled() const;
  /// This daemon, or the coordinator that it is, has started so lately that living nodes may be unknown yet.
  bool may_learn_of_nodes() const;
  /// Called for each node, or new incarnation of one, that enters the view. Set before start().
  void on_node(std::function<void(const wire::NodeView&)> hook) { on_node_ = std::move(hook); }
  /// Says whether a program's session is here.
  void on_asked(std::function<bool(const SessionId&)> has_session) { has_session_ = std::move(has_session); }
  /// The first names of the registry, for the status page; empty but at the coordinator.
  wire::NameList list_names(uint32_t uid) const;
  /// What a home said of its pool after a change. Freed bytes that are on their way back count as room, for
  /// the home waits for them; `full`: it did, in vain.
  void note_pool(const std::string& node, const wire::PoolView& pool, bool full = false);
  void note_freed(const std::string& node, Kind kind, uint64_t bytes);
  /// Asks every living node for its pools; the view may be half a second old.
  control::Task<void> refresh_pools();

  /// Returns once nobody can read `replica` of `part` any more; needs no coordinator.
  /// Errors: kLost (it is the last one), kRevoked (its part was made again), kDeadline.
  /// `over`: replicas of the part whose daemons run no more.
  control::Task<Status> lose_replica(std::vector<ExtentId> part, ExtentId replica, std::string node,
                                     std::vector<ExtentId> over = {});
  /// Returns once nobody can read a replica any more that was given up. Errors: kLost (it was not), kDeadline.
  control::Task<Status> confirm_lost(std::vector<ExtentId> part, ExtentId replica) {
    co_return co_await quorum_.lose(std::move(part), replica,
                                    core_.now_ns() + 3 * core_.config.failure_deadline_ns());
  }
  /// Ends a part, of which no more than `lost` is decided. Errors: Quorum::end().
  control::Task<Status> end_part(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor) {
    co_return co_await quorum_.end(std::move(part), std::move(lost), successor,
                                   core_.now_ns() + 3 * core_.config.failure_deadline_ns());
  }
  /// A part was made again: names lead to it, where this is the coordinator.
  void remade(const wire::PartRemade& part) {
    if (is_coordinator()) (void)names_.remake(part);
  }
  /// A request to the coordinator, wherever it is. Errors: kNoCoordinator, and its own.
  control::Task<Result<wire::Envelope>> ask_coordinator(wire::Envelope request);
  /// The coordinator's answers to the node `asker`. kNoCoordinator at any other node.
  control::Task<control::Reply> coordinate(wire::Envelope request, std::string asker);
  bool handles(const wire::Envelope& request) const;
  /// What the coordinator tells of a name, to its homes and, of a removal, to others that remember it.
  Status told(const wire::PublishExtents& what);
  size_t names() const { return names_.size(); }
  const control::Names& registry() const { return names_; }
  const Quorum& quorum() const { return quorum_; }

 private:
  control::Task<void> beat();
  control::Task<void> beat_once();
  control::Task<void> ask_for(Home::Orphan orphan);
  wire::NodeView self_view() const;
  /// What changes in it.
  void add_figures(wire::NodeView& self) const;
  /// Appends published allocations from position `next` on; true when the last was added.
  bool add_published(wire::Heartbeat& beat, size_t& next) const;
  void apply(wire::ClusterView view);
  void rebuild_rooms();
  void update_own_view();
  void missed_coordinator(const Status& why);

  control::Reply heard(const wire::Heartbeat& beat);
  /// A new run of the coordinator learns of names from their homes. What is asked meanwhile waits: until
  /// `asker` has reported and all that it and others knew, but never longer than a node lives unheard.
  control::Task<void> wait_for_names(std::string asker);
  bool knows_all_names() const;
  void note_report(const wire::Heartbeat& beat);
  control::Task<control::Reply> publish(wire::PublishRequest request);
  control::Task<control::Reply> publish_once(wire::PublishRequest request);
  control::Task<control::Reply> remove_name(wire::NameRemoveRequest request);
  control::Task<void> remove_unknown(std::string allocation_id);
  static wire::PublishExtents removal(const wire::Allocation& allocation);
  /// The distinct homes of an allocation's extents that were not given up: those a vote frees.
  static std::vector<std::string> homes_of(const wire::Allocation& allocation);
  /// With its node's next heartbeat. False: it is not noted, for too much waits already.
  bool tell_later(std::string node, wire::PublishExtents what);
  /// False: the same daemon has sent a newer one since.
  bool is_newest(const wire::PublishRequest& request);
  /// Their homes free what nobody remembers to have given up.
  void tell_of_former(const std::string& allocation_id, const std::vector<wire::ExtentDescriptor>& former);
  /// Tells a home what became of a name, now or with its next heartbeat; then `later` gets true.
  control::Task<void> tell_until_heard(std::string node, wire::PublishExtents what, bool* later = nullptr);
  /// A home of it has not been told yet what became of its name.
  bool awaits_news(const wire::Allocation& named) const;
  /// Has the other living nodes remember a removal that a home has not heard of.
  control::Task<void> tell_witnesses(const std::string& allocation_id);
  /// To the home of `node`, which may be this one.
  control::Task<Status> tell_home(std::string node, wire::Envelope request, uint64_t deadline_ns = 0);
  /// Its node is gone, or another run of the daemon has the name.
  bool gone(const wire::ExtentDescriptor& extent) const;
  /// Counts the names that miss something, and logs those whose bytes are lost. The coordinator only.
  void take_census();
  wire::NameList names_now(const wire::NameListRequest& request) const;

  Core& core_;
  Home& home_;
  Peers& peers_;
  Quorum quorum_;
  std::function<void(wire::NodeView&)> fill_;
  std::function<void(const wire::NodeView&)> on_node_;
  std::function<bool(const SessionId&)> has_session_;
  const uint64_t started_ns_ = core_.now_ns();
  control::Member member_;
  wire::ClusterView view_;
  uint64_t view_at_ns_ = 0;
  std::string coordinator_error_ = "no heartbeat was answered yet";  // the last failure's
  std::unordered_map<std::string, wire::NodeView> kept_;  // of the former coordinator run, until they rejoin
  uint64_t keep_until_ns_ = 0;
  std::unordered_map<std::string, std::string>
      former_;  // control addresses of nodes that are in the view no more
  std::vector<control::NodeRoom> rooms_;
  std::unordered_map<std::string, size_t> room_index_;
  std::unique_ptr<control::Membership> membership_;  // the coordinator only
  control::Names names_;
  /// The coordinator's nodes in its first failure deadline: those that told all their names, and those that have not.
  std::set<std::string> reported_, awaited_;
  bool send_names_ = true;
  control::Names::Census census_;
  struct Lost {
    uint64_t since_ns = 0;
    bool told = false;
  };
  std::map<std::string, Lost> lost_;  // the census's, and what the log has said of them
  bool lost_untold_ = false;
  std::pair<uint64_t, uint64_t> census_of_{};  // the epoch and the names' version that it was taken of
  uint64_t census_next_ns_ = 0;
  std::set<SessionId> asking_;     // whose daemon is asked whether it has them
  std::set<std::string> telling_;  // allocations whose homes are being told of their name
  /// The newest request to publish an allocation, of those that its daemon's run sent: a late one changes nothing.
  struct PublishOrder {
    std::string incarnation;
    uint64_t order = 0;
  };
  std::unordered_map<std::string, PublishOrder> publish_order_;  // by allocation, of those that have names
  /// By node: removed names and failed publishing that it has not heard of. A home that stood still for a
  /// while keeps its run and its extents.
  std::unordered_map<std::string, std::vector<wire::PublishExtents>> unheard_;
  size_t unheard_count_ = 0;
};

}  // namespace ocm::node
