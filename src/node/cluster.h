// The node in its cluster: heartbeats to the coordinator and the view that comes back, or the coordinator's role while
// this node has it (node/coordinator.h). The configuration names the coordinator, or seeds: then the council names it
// (node/quorum.h), and a node takes the role up and lays it down as it gets and loses the seat.
//
// Threads: the loop's.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/founding.h"
#include "control/membership.h"
#include "control/names.h"
#include "control/rooms.h"
#include "control/rpc.h"
#include "fabric/shm/tables.h"
#include "node/coordinator.h"
#include "node/home.h"
#include "node/homes.h"
#include "node/peers.h"
#include "node/quorum.h"

namespace ocm::node {

class Cluster {
 public:
  Cluster(Core& core, Home& home, Peers& peers);

  /// Joins: the coordinator knows itself at once, a member with its first heartbeat.
  /// `fill` puts into this node's view what others count.
  void start(std::function<void(control::NodeInfo&)> fill);
  /// Tells the coordinator that this node drains.
  control::Task<void> leave();

  bool is_coordinator() const { return coordinator_ != nullptr; }
  const control::View& view() const { return view_; }
  /// For those who look: with this moment's ages, and this moment's figures of this node. Without a coordinator nothing is known of
  /// other nodes: who was alive is `suspect`.
  control::View fresh_view() const;
  bool has_coordinator() const { return is_coordinator() || !view_.coordinator.empty(); }
  /// Why none can be reached; empty if one can.
  std::string coordinator_error() const { return has_coordinator() ? "" : coordinator_error_; }
  std::span<const control::NodeRoom> rooms() const { return rooms_.all(); }
  /// Where the daemon of a node answers; empty if unknown. Also where it answered when the view showed it last: a new
  /// run of the coordinator knows no node that it cannot reach, and others may.
  std::string address_of(const std::string& node) const;
  const control::NodeInfo* find(const std::string& node) const;
  const control::NodeInfo* find_partition(uint32_t partition) const;
  /// The run of the coordinator that the view is of; 0: none yet.
  uint64_t coordinator_run() const;
  /// As far as this node hears; without a coordinator nothing is known to be.
  bool is_alive(const std::string& node) const {
    const control::NodeInfo* known = has_coordinator() ? find(node) : nullptr;
    return known != nullptr && known->state == control::NodeState::kAlive;
  }
  /// LeaseHolder::is_cut_off() of control/quorum.h: whoever does not answer may be well.
  bool is_cut_off() const { return quorum_.is_cut_off(); }
  /// Every node of the cluster has these features, bits of wire::Versions::features; and will.
  bool all_have(uint64_t features) const { return (features & ~view_.features_all) == 0; }
  /// False while this daemon has just started and does not know the others yet.
  bool settled() const;
  /// This daemon, or the coordinator that it is, has started so lately that living nodes may be unknown yet.
  bool may_learn_of_nodes() const;
  /// Until the view, or one of these two, may be another, until `deadline_ns` at most.
  control::Task<void> next_news(uint64_t deadline_ns);
  /// Called for each node, or new incarnation of one, that enters the view. Set before start().
  void on_node(std::function<void(const control::NodeInfo&)> hook) { on_node_ = std::move(hook); }
  /// Called with the runs of daemons that are dead or drain, as each view shows them. Set before start().
  void on_leaving(std::function<void(std::vector<fabric::shm::NodeWord>)> hook) {
    on_leaving_ = std::move(hook);
  }
  /// Says whether a program's session is here.
  void on_asked(std::function<bool(const SessionId&)> has_session) { has_session_ = std::move(has_session); }
  /// The first names of the registry, for the status page; empty but at the coordinator.
  control::NameList list_names(uint32_t uid) const;
  /// Rooms::note_pool(), note_freed().
  void note_pool(const std::string& node, const control::PoolInfo& pool, bool full = false) {
    rooms_.note_pool(node, pool, full);
  }
  void note_freed(const std::string& node, Kind kind, uint64_t bytes) {
    rooms_.note_freed(node, kind, bytes);
  }
  /// Asks every living node for its pools; the view may be half a second old.
  control::Task<void> refresh_pools();

  /// Returns once nobody can read `replica` of `part` any more; needs no coordinator.
  /// Errors: kLost (it is the last one), kRevoked (its part was made again), kLimit (R14 of control/loss.h), kDeadline.
  /// `uid`: whose loss it is, 0: the daemons'. `until_ns`: 0 for three failure deadlines from now.
  control::Task<Status> lose_replica(std::vector<ExtentId> part, ExtentId replica, std::string node,
                                     uint32_t uid, control::LossKnown known = {}, uint64_t until_ns = 0);
  /// The run of its home that had it says that it has it no more: nobody can read it.
  control::Task<bool> is_unread(ExtentId replica);
  /// Returns once nobody can read a replica any more that was given up. Errors: Quorum::confirm_lost().
  control::Task<Status> confirm_lost(std::vector<ExtentId> part, std::vector<ExtentId> lost,
                                     ExtentId replica) {
    co_return co_await quorum_.confirm_lost(std::move(part), std::move(lost), replica,
                                            core_.now_ns() + 3 * core_.config.failure_deadline_ns());
  }
  /// Whether a part that lost `lost` has ended in favour of `follows`, by voters that remember that. kRevoked: it has; kOk,
  /// kLost, kCancelled: it has not, or in favour of another one. Errors: kDeadline (too few remember it, or answer).
  control::Task<Status> settle_part(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                                    ExtentId follows) {
    co_return co_await quorum_.settle(std::move(part), std::move(lost), replica, follows,
                                      core_.now_ns() + 3 * core_.config.failure_deadline_ns());
  }
  /// Ends a part, of which no more than `lost` is decided. Errors: Quorum::end().
  control::Task<Status> end_part(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor) {
    co_return co_await quorum_.end(std::move(part), std::move(lost), successor,
                                   core_.now_ns() + 3 * core_.config.failure_deadline_ns());
  }
  /// A part was made again: names lead to it, where this is the coordinator.
  void remade(const control::PartMoved& part);
  /// The record of a name here is newer than the coordinator may know: it is told until it has it. Each home that has the part
  /// tells it, for the one that made it again may be gone.
  void name_changed(const AllocationId& allocation);
  /// A request to the coordinator, wherever it is. Errors: kNoCoordinator, and its own.
  control::Task<Result<wire::Envelope>> ask_coordinator(wire::Envelope request);
  /// What a voter answers, a coordinator, and whoever is told of names.
  void enter(PeerHandlers& handlers);
  size_t names() const { return registry().size(); }
  /// Without names but at the coordinator.
  const control::Names& registry() const;
  const Quorum& quorum() const { return quorum_; }
  /// For an operator: this node becomes the coordinator, whatever council there was. Errors: kExists (a coordinator is
  /// there), and those of Quorum::found_by_hand().
  control::Task<Status> found_by_hand();
  control::Task<bool> begin_end() { co_return co_await quorum_.begin_end(); }
  void take_back_end() { quorum_.take_back_end(); }
  /// True if that run of the home of one of these replicas says that it goes on.
  control::Task<bool> is_witnessed(std::vector<ExtentId> replicas);

  /// What is asked of the daemons of nodes.
  Homes& homes() { return homes_; }
  void note_own_pool() {
    for (const control::PoolInfo& pool : home_.pools()) rooms_.note_pool(core_.name, pool);
  }

  // ---- for the coordinator of this node
  control::NodeInfo self_view() const;
  /// This node's state is another one: the coordinator need not wait for the next heartbeat.
  void tell_state() {
    is_behind_ = true;  // also where a heartbeat is under way
    core_.env.spawn(beat_once());
  }
  /// A newer view.
  void apply(control::View view);
  /// A node has told its names.
  void notify_news() { news_.notify(); }

 private:
  /// Whether that run of a replica's home has it; nothing if it did not answer.
  control::Task<std::optional<bool>> ask_its_home(ExtentId replica);
  control::Task<void> ask_for_pools();
  control::Task<void> beat();
  control::Task<void> beat_once();
  control::Task<void> beat_to(std::string leader);
  /// The coordinator says that its view is newer than this node's.
  void on_view_news(uint64_t run, uint64_t epoch);
  /// The coordinator hears of it, for as long as it may not be reached: names are given out marked from then on.
  void note_lost(const ExtentId& replica);
  control::Task<void> tell_lost();
  /// No coordinator is known: says why.
  void miss_council();
  /// The coordinator's, as far as this node knows; empty: none is known, or it is this node.
  std::string leader_address() const;
  /// Takes the coordinator's role up, or lays it down.
  void follow_role();
  /// To the coordinator that this node is from now on.
  void tell_own_names();
  void take_office();
  void lay_down();
  control::Task<void> leader_changed();
  /// What council they know; and tells them of this node's. Founds the first one (control/founding.h).
  void ask_seeds();
  control::Task<void> ask_seed(std::string seed);
  void tell_if_foreign(const std::string& seed, const control::Council& council);
  /// Its voters may know a later one: P2 of node/quorum.h.
  void ask_voters_of(const control::Council& council);
  /// The council that this node knows; the other's comes back.
  control::Task<Result<wire::Envelope>> tell_leader(std::string address);
  control::Task<void> ask_founding(std::string address, std::map<std::string, control::FoundingAnswer>& out);
  /// How long an answer about the coordinator, or of it, is waited for.
  uint64_t patience_ns() const {
    return std::max(core_.config.heartbeat_ns(), core_.config.failure_deadline_ns() / 2);
  }
  /// settled() as the coordinator.
  uint64_t settled_from_ns() const { return started_ns_ + 2 * core_.config.heartbeat_ns(); }
  uint64_t is_new_until_ns() const;
  void tell_of_leaving() const;
  /// Of what this node's voter remembers: runs of homes that others have followed.
  void look_for_runs_that_are_over();
  /// The coordinator's answers to the node `asker`. kNoCoordinator at any other node.
  control::Task<control::Reply> coordinate(wire::Envelope request, std::string asker);
  control::Reply not_here(const wire::Envelope& request);
  /// What the coordinator tells of a name, to its homes and, of a removal, to others that remember it.
  Status told(const control::NameChange& what);
  control::Task<void> ask_for(Home::Orphan orphan);
  /// What changes in it.
  void add_figures(control::NodeInfo& self) const;
  /// Appends published allocations from position `next` on; true when the last was added.
  /// What of this home's names is told, page by page. Names come and go between two pages; those that come are told by who
  /// gives them.
  struct Report {
    std::optional<std::vector<AllocationId>> ids;
    size_t next = 0;
  };
  bool add_published(wire::Heartbeat& beat, Report& report) const;
  /// Appends what changed; which of changed_names_.
  std::vector<std::pair<AllocationId, uint64_t>> add_changed(wire::Heartbeat& beat) const;
  void remember_removed(const AllocationId& allocation);
  void missed_coordinator(const std::string& address, const Status& why);

  Core& core_;
  Home& home_;
  Peers& peers_;
  Homes homes_{core_, peers_, *this};
  Quorum quorum_;
  std::function<void(control::NodeInfo&)> fill_;
  std::function<void(const control::NodeInfo&)> on_node_;
  std::function<void(std::vector<fabric::shm::NodeWord>)> on_leaving_;
  std::function<bool(const SessionId&)> has_session_;
  const uint64_t started_ns_ = core_.now_ns();
  uint64_t joined_ns_ = 0;    // a coordinator's first view; 0: none yet
  control::Member heard_of_;  // the coordinator
  control::View view_;
  uint64_t view_at_ns_ = 0;
  std::string coordinator_error_ = "no heartbeat was answered yet";  // the last failure's
  std::unordered_map<std::string, control::NodeInfo>
      kept_;  // of the former coordinator run, until they rejoin
  uint64_t keep_until_ns_ = 0;
  std::unordered_map<std::string, std::string>
      former_;                                // control addresses of nodes that are in the view no more
  control::Rooms rooms_;                      // of view_
  std::unique_ptr<Coordinator> coordinator_;  // while this node has the role
  std::vector<std::unique_ptr<Coordinator>> retired_;  // until nothing of them runs
  std::string followed_;                               // the node that was coordinator in the last view
  std::set<std::string> beating_, asking_seeds_;       // addresses
  std::set<std::string> founded_beside_;               // of those known when this node founded by hand
  std::shared_ptr<bool> founds_by_hand_ = std::make_shared<bool>(false);  // outlives this where its task does
  bool is_behind_ =
      false;  // the coordinator has a newer view, or an older state of this node: a heartbeat follows at once
  control::Founding founding_;
  control::Founding founding_again_;  // of this node, whose former run voted alone: P2 of node/quorum.h
  bool was_alone_ = false;
  std::set<std::string> voters_to_ask_;  // addresses: of no seeds
  bool send_names_ = true;
  std::map<AllocationId, uint64_t> changed_names_;  // the newest name_changed()
  uint64_t name_changes_ = 0;
  uint64_t runs_looked_at_ns_ = 0;
  bool asks_pools_ = false;
  control::Signal pools_heard_, news_;
  std::map<uint32_t, uint64_t> followed_since_ns_;  // by partition
  std::deque<ExtentId> lost_;                       // that the coordinator has not heard of
  bool telling_lost_ = false;
  std::set<SessionId> asking_;  // whose daemon is asked whether it has them
  /// Removals that another home has not heard of, for a coordinator that starts anew. Where this node is the coordinator its
  /// names have them.
  control::Recent<AllocationId> removed_{control::kRemovedMax};
  control::Recent<> lost_logged_{1024};  // replicas
};

}  // namespace ocm::node
