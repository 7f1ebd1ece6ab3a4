// The node's part in the council that decides about replicas (control/quorum.h): it votes where it is a
// voter, asks for its own lease, has replicas declared lost (control/loss.h), and convenes the council if it
// is the coordinator. Where the role may pass on ([cluster] seeds), it takes the seat of a coordinator that is silent
// (control/seat.h).
//
// Invariants, where the role may pass on
//   P1 a node acts as coordinator only while it holds the seat of the newest council that it knows.
//   P2 a first council is founded by the first seed alone, when no seed that answers knows one, nor who votes in one that
//      a seed's former run was of, and either all answer or a majority did for a failure deadline (two, where such a voter
//      does not answer); or by the later run of a daemon that voted alone, when no seed that answers knows a
//      council that its former run made after that one, with the same bounds and twice the deadline.
//   P4 a council that was chosen is known to nobody before a majority of its voters can have it: its maker installs it at
//      itself last, and a candidate teaches it to the voters that do not have it. Else those who know of it would wait for
//      a maker that ended, and that was, perhaps, the only one that could install it. Its maker asks for its seat only once
//      it has it: who did not hear that others have it could never act in it, and would keep them from standing.
//   P5 a daemon does not go by a council that a former run of its own was the only voter of: nobody can act in it, or make
//      another of it. It tells nobody of one, and another council that it knows, also one that is over, changes nothing.
//   P3 a council of several voters of which no majority runs any more is not told of: it is over, and another is founded.
//   P6 a council that was chosen and that nobody can install, for no majority of its voters runs any more, is gone to all the
//      same: it may have acted, and those who promised it can have no other one chosen. Then it is over (P3), or its only
//      voter's next run hears of it, and that nothing is left of the one before it (P2).
//   P7 a council that an operator gave up is not told of, as one that is over (P3); but by who has a lease by it, it is not
//      over for it. Replicas that were served by it are freed as where its voters are gone: after ten deadlines.
//
// Threads: the loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/founding.h"
#include "control/presence.h"
#include "control/quorum.h"
#include "control/rpc.h"
#include "node/handlers.h"
#include "node/home.h"
#include "node/peers.h"
#include "node/voter_memory.h"

namespace ocm::node {

class Quorum {
 public:
  Quorum(Core& core, Home& home, Peers& peers);

  /// `coordinator_run`: not 0 at the coordinator that the configuration names. The lease runs when this returns if the
  /// node votes alone.
  void start(uint64_t coordinator_run);
  /// This node acts as coordinator now (P1).
  bool acts() const;
  /// The newest council that this node knows, by which others find the coordinator; without an id if it knows none, or
  /// one that is over (P3).
  control::Council known() const;
  /// What another daemon said it knows.
  void told_of(const control::Council& council);
  /// A former run of this daemon was its only voter.
  bool was_alone(const control::Council& council) const;
  /// A council of this node alone (P2), unless it knows one.
  void found_first();
  /// The same in place of the council that it knows, for an operator says so (P7). Errors: kUnsupported (no seeds),
  /// kDeadline (not now), kExists (a majority of the voters answers).
  control::Task<Status> found_by_hand();
  /// Who votes in the council that this node knows, and how it sees them.
  std::vector<std::pair<control::VoterInfo, control::VoterSeen>> voters_seen() const;
  /// The run of a node's daemon, as heard.
  void heard_run(const std::string& node, control::VoterRun run);
  /// This run, and those that it remembers.
  control::VoterRun own_run() const { return {self_.incarnation, memory_.runs()}; }
  std::vector<control::RememberedRun> remembered_runs() const { return memory_.runs(); }
  std::vector<control::Council> remembered_councils() const { return memory_.councils(); }
  /// This node stops: another voter may take the seat at once (E6 of control/seat.h).
  control::Task<void> resign();
  /// R11 of control/loss.h: the voters hear that this home is about to end. True: it knows all that they decided about the
  /// parts of its replicas, and they give up no replica for its sake until take_back_end().
  control::Task<bool> begin_end();
  void take_back_end();
  /// It is the only voter, and more than one other node lives, or may: S5 of node/stopper.h.
  bool votes_alone_for_now() const;
  /// R8 of control/loss.h: parts whose homes no run is left of are forgotten.
  void run_is_over(uint32_t partition);
  /// True if that run of the home of one of these replicas says that it goes on. Asked before one beside them is given up
  /// (R12 of control/loss.h).
  using Witness = std::function<control::Task<bool>(std::vector<ExtentId>)>;
  void on_witness(Witness witness) { witness_ = std::move(witness); }
  /// Called when a vote has this node's home drop a replica.
  void on_dropped(std::function<void(const ExtentId&)> dropped) { on_dropped_ = std::move(dropped); }
  /// Called when another node, or this one, is the coordinator of the newest council.
  void on_leader(std::function<void()> changed) { on_leader_ = std::move(changed); }

  /// What a voter answers.
  void enter(PeerHandlers& handlers);

  /// A council that came with a view.
  void learn(const control::Council& council);
  const control::Voter& voter() const { return *voter_; }
  const control::LeaseHolder& holder() const { return holder_; }
  /// For heartbeats and views: the newest that this node knows.
  const control::Council& newest() const;

  /// Returns once a majority of the voters has noted them. Errors: kNoCoordinator (it may have, or not: ask again).
  control::Task<Status> note(std::vector<control::NameNote> notes);

  /// Of a heartbeat. The coordinator only, as the next.
  void reported(const control::VoterReport& report);
  /// Looks after the council; `nodes` are the living ones, this one among them; those that are `leaving`
  /// said so.
  control::Task<void> convene(std::vector<control::VoterInfo> nodes, std::set<std::string> leaving);

  /// Returns once nobody can read `replica` of `part` any more. Errors: kLost (it is the last one, for the
  /// others were given up), kRevoked (the part is over, and another follows), kLimit (R14), kDeadline.
  control::Task<Status> lose(std::vector<ExtentId> part, ExtentId replica, uint64_t give_up_ns, uint32_t uid,
                             control::LossKnown known = {});
  /// The same for one of which this home may know that it is decided, as of all of `lost`: what a former council decided
  /// is decided, although a council that was founded anew has to learn it. Errors: those; kLost (it was not).
  /// LossAsker::settling(). Errors: as Cluster::settle_part().
  control::Task<Status> settle(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                               ExtentId follows, uint64_t give_up_ns);
  control::Task<Status> confirm_lost(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                                     uint64_t give_up_ns);
  /// Ends the part, of which no more than `lost` is decided. Errors: kCancelled (it never will be in favour
  /// of `successor`), kDeadline (nobody knows: ask again).
  control::Task<Status> end(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor,
                            uint64_t give_up_ns);
  /// LeaseHolder::is_cut_off().
  bool is_cut_off() const { return holder_.is_cut_off(core_.now_ns()); }
  /// The generation before which this node freed all of its replicas, for nobody knew which of them were old; 0: never.
  uint32_t replicas_freed_before() const { return replicas_freed_before_; }

 private:
  using Answers = std::vector<std::pair<std::string, wire::Envelope>>;  // by voter

  /// Asks until it is decided.
  /// `gives_up`: a replica; not while this node is cut off itself.
  /// False: the voters have no room for it (R14).
  control::Task<bool> decide(control::LossAsker& asker, uint64_t give_up_ns, bool gives_up);
  /// R12 of control/loss.h.
  control::Task<bool> is_witnessed(const control::LossAsker& asker);
  /// Of a replica, as lose() says it.
  control::Task<Status> outcome_of(control::LossAsker& asker, uint64_t give_up_ns,
                                   Code no_room = Code::kDeadline);
  struct NoteRound {
    explicit NoteRound(control::Env& env) : done(env) {}
    std::vector<control::NameNote> notes;
    std::optional<Status> outcome;
    control::Signal done;
  };
  control::Task<void> send_notes();
  control::Task<Status> note_round(const NoteRound& round);
  control::Task<void> keep_lease();
  void ask_round();
  void ask_voter(const control::Council& council, const control::VoterInfo& voter);
  /// The votes for the seat are those of the newest council.
  void follow_seat();
  void leader_changed();
  control::Reply answer(const wire::Envelope& request);
  control::Reply answer_as_voter(const wire::Envelope& request);
  control::LeaseGrant answer_vote(const control::LeaseVote& request);
  /// As the voter of a former run if it is for that (Q9), else of this one.
  Result<control::CouncilPromise> answer_seal(const control::SealRequest& request);
  Status answer_proposal(control::Proposal proposal);
  Status answer_install(control::MadeCouncil made);
  /// Stands for the seat if it is time to.
  void seek_seat();
  /// The convener goes on from the council that this node votes in.
  void take_up();
  control::Task<void> stand();
  /// Asked before this node itself promises, so that a candidate whom nobody follows goes on voting.
  control::Task<bool> others_agree(control::Council base);
  bool is_dead(const control::Council& council) const;  // P5
  control::Council without_self(control::Council council) const;
  /// No majority of its voters runs; nor runs or is remembered (Q9), where one that runs was heard lately.
  bool has_ended(const control::Council& council) const;
  bool is_over(const control::Council& council) const;      // P3
  bool is_given_up(const control::Council& council) const;  // P7
  control::Task<void> ask(control::VoterInfo voter, control::LeaseVote vote);
  void granted(const std::string& voter, uint64_t council_id, uint64_t sent_ns, control::LeaseGrant grant);
  using Watched = control::LossLedger::Vote::Watched;
  /// What a vote tells of a replica's part. False: the home does not have the replica.
  bool note(const Watched& watched);
  void renew();
  /// R10 of control/loss.h.
  void settle_doubt(Watched watched);
  /// This node is the only voter of its council, and others are to vote with it: they have not been heard yet.
  void free_replicas(const char* why);
  /// R8 of control/loss.h: frees them where those who take this run for over leave too few voters for a lease.
  void free_if_over();
  void start_over(const control::Council& council);
  /// True if this node's home knew another one.
  bool come_to(const control::Council& council);
  /// A request to each voter of a council; gives the good answers.
  using Request = std::function<wire::Envelope(const std::string& voter)>;
  /// `enough`: goes on with so many good answers, of which `counts` is true; who is silent is not waited for.
  control::Task<Answers> ask_all(
      control::Council council, Request request, size_t enough = SIZE_MAX,
      bool (*counts)(const wire::Envelope&) = [](const wire::Envelope&) { return true; });
  control::Task<Answers> ask_all(control::Council council, wire::Envelope same, size_t enough = SIZE_MAX);
  /// A council of this coordinator alone, the first of `run`.
  void found(uint64_t run, std::vector<uint64_t> instead_of = {});
  /// That one, at this node, which may have replicas.
  void begin_with(std::vector<uint64_t> instead_of);
  /// As a restarted coordinator would: what the voters before knew is gone.
  void found_anew(const control::Council& former);
  /// By a former run of a daemon. Some home may know an older one only, which ended with that of its voters.
  void remembered(const control::Council& council);
  /// Too few of its voters live. Never one of this coordinator alone: Convener::begin() needs nobody's promise there.
  bool cannot_be_sealed(const control::Council& council) const;
  void tell_over(const control::Council& council);
  control::Task<void> attempt(const std::vector<control::VoterInfo>& nodes,
                              const std::set<std::string>& leaving);
  control::Task<void> seal(control::Council base);
  control::Task<void> accept();
  control::Task<void> install();
  control::Task<void> tell(control::Council council, control::MadeCouncil made_of);
  /// Whom the next council may have: this node, those of `nodes` that can come to it, and voters that nobody
  /// misses.
  std::vector<control::VoterInfo> candidates(const std::vector<control::VoterInfo>& nodes,
                                             const std::set<std::string>& leaving) const;
  bool is_self(const control::VoterInfo& voter) const { return voter.name == self_.name; }
  bool is_mine(const control::Council& council) const {
    return !council.voters.empty() && control::coordinator_of(council).incarnation == self_.incarnation;
  }
  uint64_t patience_ns() const { return core_.config.failure_deadline_ns() / 3; }

  Core& core_;
  Home& home_;
  Peers& peers_;
  control::VoterInfo self_;
  std::optional<control::Voter> voter_;
  control::LeaseHolder holder_;
  VoterMemory memory_;  // Q9
  control::HeldVotes seat_;
  control::Council seat_in_;  // the council that seat_ is of
  std::optional<control::Convener> convener_;
  std::set<std::pair<uint64_t, std::string>> asking_;  // by council's id: voters that have not answered yet
  /// By voter, to be echoed: what it told to free, and what it watches that is not here any more.
  struct Echo {
    std::vector<ExtentId> freed, gone;
    bool over = false;  // R8
    uint64_t heard_ns = 0;
    bool votes = false;
  };
  std::map<std::string, Echo> echoes_;
  std::set<ExtentId> settling_;
  control::HomeEnd end_;                // R11
  uint64_t unheard_since_ns_ = 0;       // by attempts to end: a voter
  uint64_t end_tried_ns_ = 0;           // last
  uint64_t end_again_ns_ = 0;           // after a doubt that could not be settled
  control::Council stranger_;           // that this node's home cannot come to, as told last
  uint64_t stranger_since_ns_ = 0;      // since when nobody began another chain of councils
  std::set<uint64_t> strangers_;        // those of them that were told
  uint32_t replicas_freed_before_ = 0;  // control::NodeInfo
  uint64_t taken_for_over_ns_ = 0;      // last: R8 of control/loss.h
  const uint64_t started_ns_ = core_.now_ns();
  std::map<std::string, std::pair<control::Incarnation, control::Council>> reported_;  // by name
  control::Presence presence_;
  uint64_t told_over_ = 0;   // a council's id
  size_t living_ = 0;        // nodes, as the coordinator that this node is heard last
  uint64_t before_own_ = 0;  // P6: of the council that one of a former run of this daemon alone followed
  std::function<void()> on_leader_;
  std::function<void(const ExtentId&)> on_dropped_;
  Witness witness_;
  struct Heard {
    control::VoterRun run;
    uint64_t at_ns = 0;
  };
  std::map<std::string, Heard> runs_;      // by node: of voters, as heard last
  uint64_t leader_of_ = 0, voter_of_ = 0;  // councils' ids
  uint64_t voter_since_ns_ = 0, stand_next_ns_ = 0, jitter_ns_ = 0;
  bool convening_ = false, telling_ = false, resigned_ = false;
  std::shared_ptr<NoteRound> next_notes_;
  bool noting_ = false;
  uint64_t note_sequence_ = 0;  // of the newest note
  bool sealing_ = false;        // a voter may be sealed for a council that was not made yet
};

}  // namespace ocm::node
