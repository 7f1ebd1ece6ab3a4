// The coordinator's role: who is in the cluster and what names lead to, both soft: the homes hold what it knows, and send
// it again to another run. The node that has the role has this beside its own membership (node/cluster.h).
//
// Invariants
//   C1 a name is given, changed and removed at all homes of its allocation, or nowhere; who does not hear now is told
//      with its next heartbeat.
//   C2 nobody attaches a name whose publish may fail.
//   C3 what is asked about names waits until all that a node knew have reported, or a failure deadline.
//   C4 of one daemon's requests to publish an allocation the newest counts.
//   C5 what waits for a node that is not heard is charged to who owns the allocation, and is not more than an undo, a removal
//      and the newest state for each: an attempt to publish begins once its homes have heard how the one before ended.
//   C6 where the role passes on, a publish and a removal are answered once a majority of the voters noted them
//      (control/notes.h): so each later coordinator knows the names that were answered. About a noted name it answers as
//      soon as the homes of that very name have reported or died.
//
// Threads: the loop's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "control/allowance.h"
#include "control/home_requests.h"
#include "control/membership.h"
#include "control/names.h"
#include "control/rpc.h"
#include "node/core.h"
#include "node/quorum.h"

namespace ocm::node {

class Cluster;

class Coordinator {
 public:
  /// `run` names this run of the coordinator; not 0. `member` is this node's own part in the cluster.
  Coordinator(Core& core, Quorum& quorum, Cluster& member, uint64_t run);

  uint64_t run() const { return membership_.run(); }
  size_t nodes() const { return membership_.nodes(); }
  const control::Names& names() const { return names_; }
  /// The view for everyone, now.
  control::View view() const;
  /// Declares who died, looks at what names miss, and looks after the council. To be called often.
  void look();
  /// Of other daemons and of this one.
  static constexpr auto kAnswered = {wire::Envelope::kHeartbeat, wire::Envelope::kPublish,
                                     wire::Envelope::kAttach,    wire::Envelope::kNameRemove,
                                     wire::Envelope::kNameList,  wire::Envelope::kLostReplica,
                                     wire::Envelope::kGoodbye};
  /// The answer to the node `asker`.
  control::Task<control::Reply> answer(wire::Envelope request, std::string asker);
  /// The first names that `uid` may read, for the status page.
  control::NameList list_names(uint32_t uid) const;
  /// Whoever was there is heard by now.
  bool knows_all_names() const;
  void remade(const control::PartMoved& part);
  void remember_removed(const AllocationId& allocation) { (void)names_.remember_removed(allocation); }
  /// What a home has and what it knows to be removed; also of this node's own, when it takes the role over.
  void merge_names(const wire::Heartbeat& beat);
  /// As the home of `node` knows it. `all`: one of all that it has; what was given up of it, and it still has, is freed there.
  void merge_name(const std::string& node, const control::Allocation& allocation, bool all);
  /// From another node: all nodes of its view but itself, who was `former`, are waited for (C3).
  void take_over(const control::View& before, const std::string& former);
  /// Another node has the role: from here on nobody is told anything.
  void retire() {
    retired_ = true;
    told_.notify();
  }
  /// Nothing of it runs any more.
  bool is_idle() const { return *running_ == 0; }
  /// What waits for nodes is counted, and nobody is waited for who has reported (C3); O(nodes).
  bool is_valid() const;

 private:
  /// Counts what runs, so that a retired coordinator goes when nothing does. What still waits when the daemon ends is dropped
  /// after the coordinator.
  class Running {
   public:
    explicit Running(const Coordinator& of) : count_(of.running_) { ++*count_; }
    ~Running() {
      OCM_DASSERT(*count_ > 0);
      --*count_;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    const std::shared_ptr<size_t> count_;
  };
  void spawn(control::Task<void> task);
  control::Task<control::Reply> answer_now(wire::Envelope request, std::string asker);
  /// Errors: kNoCoordinator (it is not this one any more), and those of Homes::ask().
  control::Task<Status> tell_home(std::string node, wire::Envelope message, uint64_t deadline_ns = 0);
  control::Reply on_heartbeat(const wire::Heartbeat& beat);
  /// Who does not hear it now learns it with its next heartbeat: so nothing is repeated, and what comes together is told
  /// together.
  void tell_news();
  control::Task<void> tell_news_in_turn();
  /// view(), without a copy of it for each heartbeat.
  void tell_view(wire::ClusterView& out) const;
  /// What is asked about names of a new run waits until `asker` has reported and all that it and others knew, but never
  /// longer than a node lives unheard.
  control::Task<void> wait_for_names(std::string asker);
  /// A publish that fails takes the memory back, also from who attached the name meanwhile: nobody does.
  control::Task<void> wait_until_published(std::string name);
  void note_report(const wire::Heartbeat& beat);
  uint64_t all_known_ns() const;
  /// C6. As the registry has the allocation now: its name, or that it was removed. Nothing is noted in a cluster of one node,
  /// or while there are nodes that cannot; look() has it noted later. Errors: Quorum::note().
  control::Task<Status> note(AllocationId allocation);
  control::Task<void> note_rest();
  std::optional<control::NameNote> note_of(const AllocationId& allocation) const;
  bool notes_names() const;
  /// Of the council that this node's voter is in now.
  void take_notes();
  /// The name is noted, so only its own homes are waited for.
  bool is_noted(const std::string& name) const;
  control::Task<void> wait_for_homes(std::string name);
  control::Task<control::Reply> attach(wire::AttachRequest request);
  control::Task<control::Reply> publish(Result<control::PublishRequest> read);
  control::Task<control::Reply> publish_once(control::PublishRequest request);
  void note_heard_by_all(const AllocationId& allocation);
  /// The homes of an allocation of `telling_` have been told.
  void end_telling(const AllocationId& allocation);
  control::Reply is_published(const control::Allocation& allocation) const;
  control::Task<control::Reply> remove_name(wire::NameRemoveRequest request);
  control::Task<Status> remove_unknown(AllocationId allocation);
  static control::NameChange removal(const control::Allocation& allocation);
  /// The distinct homes of an allocation's extents that were not given up: those a vote frees.
  static std::vector<std::string> homes_of(const control::Allocation& allocation);
  /// Each home of it, in the background.
  void tell_removed(const control::Allocation& removed);
  /// With its node's next heartbeat. `again`: what is noted already is newer. False: it is not noted, for too much waits.
  bool tell_later(std::string node, control::NameChange what, bool again = false);
  /// False: the same daemon has sent a newer one since.
  bool is_newest(const control::PublishRequest& request);
  /// Their homes free what nobody remembers to have given up.
  void tell_of_former(const AllocationId& allocation, const std::vector<control::PlacedExtent>& former);
  /// Tells a home what became of a name, now or with its next heartbeat; then `later` gets true.
  control::Task<void> tell_until_heard(std::string node, control::NameChange what, bool* later = nullptr,
                                       bool again = false);
  /// What a node has not heard.
  struct Waiting {
    control::NameChange what;
    control::Charge charge;  // of the allocation's owner
  };
  /// What waited for the node's heartbeat.
  control::Task<void> tell_what_waited(std::string node, Waiting waited);
  /// A home of it that has not heard yet that an earlier attempt to publish it was undone; empty: none.
  std::string awaits_undo(const control::Allocation& allocation) const;
  /// A home of it has not been told yet what became of its name.
  bool awaits_news(const control::Allocation& named) const;
  /// Has the other living nodes remember a removal that a home has not heard of.
  control::Task<void> tell_witnesses(AllocationId allocation);
  /// Its node is gone, or another run of the daemon has the name, or it freed all replicas that it had.
  bool gone(const control::PlacedExtent& extent, bool replica) const;
  /// Counts the names that miss something, and logs those whose bytes are lost.
  void take_census();
  control::NameList names_now(const std::string& prefix, const std::string& after, uint32_t uid) const;

  Core& core_;
  Quorum& quorum_;
  Cluster& member_;
  const uint64_t started_ns_ = core_.now_ns();
  control::Membership membership_;
  control::Names names_;
  control::Recent<AllocationId> undone_{control::kOverMax};  // allocations whose publish failed
  /// In the first failure deadline: the nodes that told all their names, and those that have not.
  std::set<std::string> reported_, awaited_;
  std::set<AllocationId> unnoted_;  // C6: what voters have not noted as it is now
  bool noting_rest_ = false;
  uint64_t notes_of_ = 0;  // the council whose notes are expected
  control::Names::Census census_;
  struct Lost {
    uint64_t since_ns = 0;
    bool told = false;
  };
  std::map<std::string, Lost> lost_;  // the census's, and what the log has said of them
  bool lost_untold_ = false;
  std::pair<uint64_t, uint64_t> census_of_{};  // the epoch and the names' version that it was taken of
  uint64_t census_next_ns_ = 0;
  uint64_t told_epoch_ = 0;  // of the view that the nodes were told of
  std::shared_ptr<bool> telling_news_ = std::make_shared<bool>(false);  // outlives this where its task does
  std::multiset<AllocationId> telling_;  // allocations whose homes are being told of their name
  std::set<AllocationId> publishing_;    // of those the ones that had none before
  /// Allocations whose homes all said to this run that they have the name. Of others, which came from homes' reports, a home
  /// may not have heard.
  std::unordered_set<AllocationId> heard_by_all_;
  /// The newest request to publish an allocation, of those that its daemon's run sent: a late one changes nothing.
  struct PublishOrder {
    control::Incarnation incarnation;
    uint64_t order = 0;
  };
  std::unordered_map<AllocationId, PublishOrder> publish_order_;  // of those that have names
  /// By node: removed names and failed publishing that it has not heard of. A home that stood still for a
  /// while keeps its run and its extents. The newest of each kind; an undo for each attempt.
  struct Untold {
    AllocationId allocation;
    bool remove = false;
    uint64_t undone_attempt = 0;  // 0: no undo
    bool former = false;
    auto operator<=>(const Untold&) const = default;
  };
  std::unordered_map<std::string, std::map<Untold, Waiting>> unheard_;
  control::Allowances waiting_{control::kUserBytesMax / 4};  // C5
  std::multiset<AllocationId> being_told_;  // allocations: of unheard_, whose homes are told just now
  std::multiset<std::pair<std::string, AllocationId>>
      being_undone_;  // of these: a node, and what it hears the undo of
  /// When telling_, publishing_, being_undone_ or unheard_ has less, when a node has died, and by retire().
  control::Signal told_{core_.env};
  const std::shared_ptr<size_t> running_ = std::make_shared<size_t>(0);
  bool retired_ = false;
};

}  // namespace ocm::node
