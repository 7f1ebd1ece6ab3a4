// Makes lost replicas again: leads it where this home has the first living one (control/remake.h), follows the home
// that leads where it has another, and tells and asks what became of a replica.
//
// Invariants
//   A1 of the parts that a home makes again, the bytes of one at a time are moved, at most [replicas] bytes_per_second fast.
//      Before it is frozen it is set aside, between two pieces, for smaller ones whose turn is before
//      (control/remake_order.h).
//   A2 who asks about a frozen replica is answered when it is thawed or switched, or at the failure deadline.
//   A3 replicas whose nodes are gone are given up beside it (node/gone_replicas.h).
//   A4 what another home reserved for a part is released there until that home has heard it or is gone.
//   A5 a replica that another home leads away from is frozen only when a majority decided so, and until its second id
//      answers.
//   A6 for a home that is silent a replica is frozen a quarter of a failure deadline at most, until the council is asked; and
//      who finds it frozen asks again for a whole one before it has it given up. So a home that lives is not given up for
//      another's silence.
// Threads: the loop's; chunks are compared in a thread beside it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control/remake.h"
#include "control/remake_order.h"
#include "node/cluster.h"
#include "node/gone_replicas.h"
#include "node/handlers.h"
#include "node/home.h"
#include "node/homes.h"
#include "node/sessions.h"
#include "node/side_threads.h"

namespace ocm::node {

class Remaker {
 public:
  Remaker(Core& core, Home& home, Cluster& cluster, Sessions& sessions);
  void start();
  void stop() { side_.stop(); }

  /// A program could not use an extent of what it holds: the allocation as it is now, if its part goes on elsewhere or
  /// was only frozen. Errors: kNotFound, kUnsupported (the daemon restarted), kRevoked, kPeerLost.
  control::Task<Result<control::Allocation>> resolve(std::shared_ptr<Session> session, AllocationId id,
                                                     ExtentId extent, bool silent);
  /// The same for all parts of what the session holds; false if there was nothing to follow. `unheard`: only these parts,
  /// unless there are none; becomes those of which not all nodes were heard.
  control::Task<bool> follow(std::shared_ptr<Session> session, AllocationId id,
                             std::set<uint32_t>* unheard = nullptr);
  /// Follows what the session's receipts were too old for, until its homes have told: else nobody would notice that such
  /// a part has lost another replica.
  control::Task<void> follow_outdated(std::shared_ptr<Session> session);
  /// Homes have `extents` for the session, as of `id`, and no record does: follows it. What is not in the record then is
  /// outside of it.
  control::Task<void> follow_unknown(std::shared_ptr<Session> session, AllocationId id,
                                     std::vector<ExtentId> extents);
  /// The sessions have more than before: some of it may be gone.
  void look_again() { gone_.look_again(); }
  /// Asks a node whether it has a replica. Errors: kRevoked (it has not), kPeerLost.
  control::Task<Status> is_there(std::string node, ExtentId replica);
  /// Before a replica that answered kRevoked is given up. Errors: kRevoked (it answers again, or its part was made
  /// again: the allocation is to be resolved anew).
  control::Task<Status> check_revoked(control::Allocation allocation, ExtentId replica, std::string node);
  /// After the council gave up `replica` of a part that had been made again so often: it did not go on in the part that
  /// follows. The voters forget a part that has ended once all of its replicas are gone (R8 of control/loss.h), and would
  /// decide about it anew; but a home of another one, asked after that decision, has its replica yet or knows what the
  /// part became. Errors: kRevoked (it went on, or nobody knows), kPeerLost (no such home answers).
  control::Task<Status> check_given_up(std::vector<ExtentId> part, std::vector<control::PlacedExtent> others,
                                       ExtentId replica, uint32_t epoch_before);
  /// Requests of other daemons about replicas: remaker_answers.cpp.
  void enter(PeerHandlers& handlers);

  /// L6; O(extents).
  bool is_valid() const {
    const std::vector<ExtentId> nameless = home_.nameless();
    return std::all_of(nameless.begin(), nameless.end(),
                       [this](ExtentId id) { return spare_plans_.contains(id); });
  }

  /// For status: parts that wait, and the one under way. Of sessions here those, too, whose replicas are on nodes that
  /// are gone and not given up yet.
  control::CopyProgress progress() const;

 private:
  static constexpr uint64_t kDigestBytesMax = uint64_t{256} << 20;  // of one request to compare
  struct Spare {
    std::string node;
    uint32_t partition = 0;
    uint32_t shown = 0;       // by the view when it was asked: that of a former run, maybe
    ExtentDescriptor extent;  // in the part that follows; without address: not made yet
    ExtentId was{};           // of a peer: its living replica, of which `extent` is the second id
    bool given = false;
    bool owner_told = false;  // the daemon of the session whose it is to be knows of this home
    bool gone = false;        // its home has it no more, as it said
    bool is_missed = false;   // and it is asked to be given up for that
  };
  struct Job {
    ExtentId was;
    std::vector<ExtentId> part, lost;  // as Home::ShortPart
    size_t wanted = 0;                 // the same
    control::Remake steps;
    SessionId session;        // in whose name the spare homes reserve
    AllocationId allocation;  // the same
    ExtentDescriptor now;     // the second id
    std::vector<Spare> spares;
    std::vector<Spare> peers;  // the homes of the other living replicas
    control::PartMoved follows;
    bool planned = false;                      // others may have heard of it
    std::string given_to;                      // the owner, as the others were told
    std::vector<control::HoldId> given_holds;  // the same
    control::GivenReplica told;                // to others, last; without a part: nothing
    std::set<std::string> owners;  // who may have the spare homes' replicas: GiveReplica::instead_of
    bool given_up = false;         // the second id was dropped
    /// Who has the other replicas of the part that follows has them without this home: M11.
    bool goes_on_elsewhere() const { return given_up && (planned || steps.may_be_given()); }
    Kind kind = Kind::kDram;
    uint64_t bytes = 0, copied_bytes = 0;
    bool no_room = false;   // anywhere: nobody was asked
    uint32_t uid = 0;       // the owner's
    uint64_t since_ns = 0;  // its time is charged to him up to then
  };

  control::Task<void> run();
  /// Those whose turn it is, before the last one that is under way. True: there may be more to do at once.
  control::Task<bool> make_parts_again();
  std::vector<size_t> order_of(const std::vector<Home::ShortPart>& parts);
  control::Task<void> make_again(std::shared_ptr<Job> job);
  /// 0: it has not failed.
  uint64_t not_before_ns(ExtentId id) const {
    const auto found = not_before_ns_.find(id);
    return found == not_before_ns_.end() ? 0 : found->second;
  }
  /// A1. Returns how long it was.
  control::Task<uint64_t> set_aside(std::shared_ptr<Job> job);
  void charge(Job& job);
  /// Under way here; null: it is not.
  Job* job_of(ExtentId was) const {
    const auto found =
        std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->was == was; });
    return found == jobs_.end() ? nullptr : found->get();
  }
  /// Of a part that was made again: to homes that have not heard of it yet.
  control::Task<void> give_on(std::shared_ptr<Job> job);
  control::Task<void> give_until_heard(std::shared_ptr<Job> job);
  control::Task<bool> step(std::shared_ptr<Job> job, uint64_t& changed_bytes);
  /// The nodes that have room and none of the part: the most room first, those that failed a moment ago last.
  std::vector<Spare> rooms_for(const Job& job);
  control::Task<bool> reserve(std::shared_ptr<Job> job);
  /// Has the daemon of a session note that `node` has something of it, so that the session's end reaches it. Errors:
  /// kNotFound (it has ended), kPeerLost, kDeadline.
  control::Task<Status> tell_owner(control::GivenReplica owned, std::string node,
                                   std::optional<control::HoldId> hold = {});
  /// A replica of a part that was made again is this home's, with the holds on it.
  Status given(const control::GivenReplica& give);
  static std::string owner_in(const control::GivenReplica& give) {
    return give.published ? control::Title::owner_by(give.attempt) : id_field(give.session);
  }
  /// Others are told so next; who they may have heard of before is in `instead_of`.
  static void note_told(Job& job, control::GivenReplica& give);
  /// Its owner is neither who it is given to nor one of `instead_of`: it heard of that one from somebody else.
  bool has_another_owner(const control::GivenReplica& give) const;
  /// Errors: kNotFound (it has ended), kPeerLost (ask again).
  Status note_hold(Session& session, const std::string& id, const std::string& node);
  /// Has the daemon of a hold's session note that this home knows it, so that its end comes here.
  control::Task<void> tell_holder(control::Ownership::HeldBy by);
  control::Task<bool> reserve_at(std::shared_ptr<Job> job, Spare& spare, uint32_t uid,
                                 std::optional<SessionId> session);
  control::Task<bool> share_at_peers(std::shared_ptr<Job> job);
  control::Task<Status> share_at(Spare& home);
  /// A home of the part has no room for the second id that it needs until the part is made again.
  void tell_waiting(const std::string& node, const Status& why);
  void tell_failed(ExtentId id, control::Remake::Step step);
  control::Task<bool> decide(std::shared_ptr<Job> job);
  control::Task<bool> give_to(Spare& home, control::GivenReplica request);
  /// As it goes to each home of the part that follows; empty if nobody owns it any more.
  std::optional<control::GivenReplica> next_part(Job& job);
  control::Task<bool> copy_all(std::shared_ptr<Job> job);
  control::Task<bool> compare(std::shared_ptr<Job> job, uint64_t& changed_bytes);
  control::Task<bool> freeze(std::shared_ptr<Job> job);
  control::Task<bool> give(std::shared_ptr<Job> job);
  /// Where a home that lives has no more what it should: else nobody would make it again. False: ask again.
  control::Task<bool> lose_if_gone(std::vector<ExtentId> part, ExtentId replica, std::string node);
  /// The same, until it is known, as long as `here` is of the part.
  control::Task<void> lose_what_is_gone(std::vector<ExtentId> part, ExtentId here, ExtentId replica,
                                        std::string node);
  /// The same of those of a part that is in force.
  void miss_what_is_gone(Job& job);
  /// Of parts here that miss others and that another home leads: whether it has the replica for which it does.
  void look_at_leaders();
  control::Task<bool> copy(const Job& job, const Spare& spare, uint64_t offset, uint64_t bytes);
  /// When a home of the part that follows, which is to move or compare so many bytes, counts as silent: A6.
  uint64_t answer_by_ns(const Job& job, uint64_t bytes) const;
  control::Task<Result<std::string>> digests_here(ExtentId id, uint64_t offset, uint64_t bytes,
                                                  uint64_t seed);
  bool has_owner(const Job& job) const;
  void switch_over(Job& job);
  void release(const Job& job);
  void release_spares(const Job& job);
  void release_at(const Job& job, const Spare& spare);
  void remade(const control::PartMoved& part);
  /// The coordinator hears of the part that this replica is of now, if a name has it.
  void tell_name(ExtentId here);
  /// From here.
  bool has_moved_away(const control::PartMoved& part) const;
  /// `owners`: as Home::tell_part_freed().
  void part_freed(const control::PartMoved& part, const std::set<std::string>& owners = {});
  /// The new replicas are owned by whom the one here is owned by, and not by any of `instead_of` any more.
  void part_given(const control::PartMoved& part, ExtentId here, std::set<std::string> instead_of);
  /// The run of the daemon that has the session is gone, which homes see by themselves: it need not be told.
  bool is_of_former_run(const control::GivenReplica& give, const Status& told) const;
  /// Nobody owns it any more: its home is told until it has heard it. Who holds it keeps it.
  /// `instead_of`: only while one of these has it; empty: whoever has it.
  void release_replica(const ExtentDescriptor& replica, const std::set<std::string>& instead_of);
  using Holds = std::shared_ptr<const std::vector<control::Ownership::HeldBy>>;
  /// Until its home has heard it; of a session that has ended it is freed there. `only`: of its holds these (null: all).
  control::Task<void> correct_owner(ExtentDescriptor replica, control::PartMoved part, ExtentId here,
                                    std::set<std::string> instead_of, Holds only = nullptr);
  /// A request that gives something to its owner, without the holds on it; nothing if nobody owns it.
  std::optional<control::GivenReplica> owner_of(ExtentId here) const;
  /// The holds on what a name owns: all, or of `only` those that have not ended.
  void add_holds(control::GivenReplica& give, ExtentId here, const Holds& only = nullptr) const;
  /// Of a part that was made again here, those on other nodes. The peers hear of their owner themselves.
  std::vector<ExtentDescriptor> new_replicas(const control::PartMoved& part) const;
  /// Held under a former id of what is here now: the homes of the new replicas are told of such holds together, and of each
  /// once.
  void held_late(const control::PartMoved& part, ExtentId here, control::Ownership::HeldBy by);
  control::Task<void> tell_held_late(ExtentId here);
  Status plan(control::PlannedPart plan);
  /// A5. Returns when the second id answers, or the replica is gone.
  control::Task<Status> follow_plan(ExtentId id);
  /// Plans of homes that are over: the council knows what became of them. Of a spare home also where a vote names a loss
  /// in the part that follows: so that is in force, whatever the voters remember of the one before.
  void settle_plans();
  control::Task<void> settle(control::PlannedPart plan);
  /// Of homes of the part that live. kOk: they do not know; kRevoked: it follows; kCancelled: it does not; kDeadline: the
  /// home that leads lives, and goes on.
  control::Task<Status> hear_of_plan(control::PlannedPart plan);
  bool is_plan_there(const control::PlannedPart& plan) const;
  void follow_as_spare(const control::PlannedPart& plan);
  bool is_in_force(const control::PlannedPart& plan) const;
  bool is_frozen(ExtentId id) const;
  control::Task<control::Reply> what_became_of(std::vector<ExtentId> part);
  Status moved(const control::PartMoved& part);
  control::Task<control::Reply> take(Result<control::GivenReplica> read);
  control::Reply share(const wire::ShareReplica& request);
  /// Of a session of this daemon: `told.node` has something, or a hold, of it.
  Status note_home(const wire::SessionAt& told);
  control::Task<control::Reply> digest(wire::DigestRequest request);
  struct Answers {
    std::optional<control::PartMoved> remade;
    bool unchanged = false, frozen = false;
    Status unheard;
  };
  /// `dead_too`: also if the node seems dead, for perhaps only the coordinator does not hear it.
  control::Task<void> ask(std::string node, std::vector<ExtentId> part, Answers& out, bool dead_too = false);
  /// What became of the part that these extents are; in what this daemon knows it stands then. True if it goes on
  /// elsewhere, false if it is what it was. Errors: kRevoked (it is gone), kPeerLost (so it seems, but not all of its
  /// homes answer).
  control::Task<Result<bool>> look(std::vector<control::PlacedExtent> part);
  /// The run of the daemon that has it.
  bool seems_to_live(const ExtentDescriptor& extent) const;

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Homes& homes_;
  Sessions& sessions_;
  std::vector<std::shared_ptr<Job>> jobs_;  // under way; all but the last are set aside
  control::RemakeTurns turns_;
  uint64_t looked_ns_ = 0;                           // for parts whose turn it is
  std::set<std::shared_ptr<Job>> giving_;            // made again, and a home has not heard of it
  std::map<ExtentId, uint64_t> not_before_ns_;       // after a failure
  std::map<std::string, uint64_t> failed_until_ns_;  // nodes that made no replica, or took no copy
  /// By user and partition: a replica there was given up, and lives perhaps; a writer may still not reach it.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> avoided_until_ns_;
  std::map<ExtentId, control::PlannedPart>
      spare_plans_;                    // of homes that lead, by spare replica here; the others: Home::plans()
  std::set<ExtentId> following_;       // replicas here that are frozen for a plan
  std::set<ExtentId> settling_;        // by replica here, as the plans
  control::Signal thawed_{core_.env};  // a replica here may be frozen no more
  struct HeldLate {
    control::PartMoved part;
    std::deque<control::Ownership::HeldBy> holds;  // to be told
    size_t look_at = 0;                            // so many: those that have ended are left out
    bool is_told = false;
  };
  std::map<ExtentId, std::shared_ptr<HeldLate>> held_late_;  // by replica here
  ExtentId settled_last_{};                                  // all take their turns
  std::map<ExtentId, uint64_t> asked_leader_ns_;             // by replica here
  std::map<ExtentId, uint64_t>
      leader_silent_ns_;  // the same, of plans: since when the home that leads does not answer
  GoneReplicas gone_;
  SideThreads side_;  // last
};

}  // namespace ocm::node
