// Who may serve replicas, and when a replica is surely lost: decided by a council of voters, so that it goes
// on when any one node is gone. Pure: time is given.
//
// The council is 1, 3 or 5 nodes, chosen by the coordinator. A node serves replicas while a majority has
// granted it a lease. That a replica is lost is decided by a majority, for each part knowing its other
// replicas (control/loss.h), and it is surely lost once a majority has promised that none of its votes lets
// the home serve it. The coordinator, the council's first voter, is needed to change the council and for nothing else
// here; how another voter takes over from it is in control/seat.h.
//
// Invariants
//   Q1 a voter answers that a decided loss is quiet only when every vote is over that it gave the home before it
//      learned of the loss, or the home freed the replica; each later vote names the replica, and the home frees it
//      before the vote counts. Two majorities share a voter, so no home serves a replica that was answered as lost.
//   Q2 a voter grants for a lease length from when it answers; the home counts from when it asked, and a twentieth
//      less. The clocks only need the same speed.
//   Q3 a voter votes in one council: the newest that it installed, and not at all once that is sealed
//      (control/succession.h).
//   Q4 a council acts only after a majority of the council before it was sealed, and what those voters knew
//      (decisions, what they accepted, running votes) is with every voter of the new one.
//   Q5 a voter is one run of a daemon: another one does not know which votes it gave, so it votes only in a council that was
//      made with it.
//   Q6 a node changes to a council only if that continues its own; else it frees its replicas first.
//   Q7 a voter leaves its council when its home comes to one that follows it and has one voter, another node. Its vote is
//      not missed: a majority promised the end. If that node restarts and does not remember it (Q9), the council after it
//      continues nothing but that one (nobody could promise its end), and a voter that stayed would refuse it.
//   Q8 a voter that left a council never comes back to it, nor to one before it: it has forgotten what it promised there, and
//      what installs it may have lain in a socket, or come from who was cut off; nor does the next run of its daemon for it,
//      whose home may hear of older councils and of other chains.
//   Q9 a voter is remembered by the next runs of its daemon: its council, what it promised and accepted of the council's end,
//      and what it decided and accepted about replicas are where they find them before the voter answers; or nothing is
//      there. What remembers it votes no more, and once every vote of the former run is over it installs what was chosen
//      with that run, and promises and accepts the end of its council. So where a majority restarts, once or again and
//      again, the council after it is made of it, and the homes go on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "control/council.h"
#include "control/loss.h"
#include "control/seat.h"
#include "control/succession.h"
#include "control/voting.h"

namespace ocm::control {

/// One node's votes.
class Voter {
 public:
  /// `name` and `incarnation`: this daemon. `lease_ns`: what a vote is good for.
  Voter(std::string name, const Incarnation& incarnation, uint64_t lease_ns)
      : name_(std::move(name)), incarnation_(incarnation), ledger_(lease_ns), seat_(lease_ns) {}

  LeaseGrant grant(uint64_t now_ns, const LeaseVote& request);
  /// One step of a decision about a part, taken in `council`. Errors: kPeerLost (that is another one, or never gave a lease
  /// to a home), kInvalidArgument, kLimit.
  Result<LossAnswer> lose(uint64_t now_ns, uint64_t council, const LossRequest& request);
  /// K2 of control/notes.h. Errors: kPeerLost (another council, or a sealed one), kPermission (of another than its
  /// coordinator), kLimit (K3; what has room is noted).
  Status note(const NoteRequest& request);
  /// Votes no more in the council if it agrees. Errors: kPeerLost (it is not this voter's).
  Result<CouncilPromise> seal(uint64_t now_ns, const SealRequest& request);
  /// Errors: kPeerLost (another council, or a higher promise), kProtocol.
  Status accept(Proposal proposal);
  /// A council that was chosen. Errors: kPeerLost (without this voter, older than what it has, or of another
  /// chain), kProtocol.
  Status install(uint64_t now_ns, MadeCouncil made);
  /// This node's home has come to `council`: Q7.
  void home_came_to(const Council& council);
  /// Leaves its council for good.
  void leave();
  /// That run of a home is over: R8 of control/loss.h.
  void run_is_over(uint32_t partition) { ledger_.run_is_over(partition); }

  const Council& council() const { return made_.council; }  // id 0: none
  const MadeCouncil& made_of() const { return made_; }
  /// When this voter would take the seat, if nobody asks for it before (control/seat.h). `jitter_ns`: random, below an
  /// eighth of a lease length.
  uint64_t candidate_at_ns(uint64_t jitter_ns) const;
  const SeatVotes& seat() const { return seat_; }
  const NameNotes& notes() const { return notes_; }
  VoterMemory memory() const;  // Q9
  /// What tells two memories apart.
  struct MemoryKey {
    uint64_t council = 0, homes = 0;
    Ballot promised, accepted_at;
    uint64_t ledger = 0, notes = 0;
    bool operator==(const MemoryKey&) const = default;
  };
  MemoryKey memory_key() const;
  /// Nothing: too much is different, and memory() is to be asked for.
  std::optional<VoterChange> memory_since(const MemoryKey& before) const;
  /// The voter of a former run. It may answer seal(), accept() and install() alone, and those not before the votes that the
  /// run gave are over. Nothing: it is no memory, or another node's.
  static std::optional<Voter> remembered(uint64_t now_ns, const std::string& name, VoterMemory memory,
                                         uint64_t lease_ns);
  const Incarnation& incarnation() const { return incarnation_; }
  bool votes() const { return council().id != 0 && !end_.is_sealed(); }
  const LossLedger& ledger() const { return ledger_; }
  /// Q5, and its parts; O(replicas that are remembered).
  bool is_valid() const;

 private:
  std::string name_;
  Incarnation incarnation_;
  MadeCouncil made_;  // its council
  static constexpr size_t kHomesMax = 16;
  std::vector<Council> home_in_;  // that this node's home came to, of each chain the newest; the latest last
  uint64_t homes_version_ = 0;
  SuccessionVoter<MadeCouncil> end_;
  LossLedger ledger_;
  SeatVotes seat_;
  NameNotes notes_;
};

/// `memory` after `changes`, the oldest first.
void apply_changes(VoterMemory& memory, std::vector<VoterChange> changes);

/// A home's side: the council that it knows and the votes that it holds.
class LeaseHolder {
 public:
  explicit LeaseHolder(uint64_t lease_ns) : lease_ns_(lease_ns) {}

  const Council& council() const { return council_; }
  /// True if the council is another now. False where it would not continue the present one (Q6).
  bool adopt(const Council& council);
  /// True if the node can never come to `council` without freeing its replicas.
  bool is_stranger(const Council& council) const;
  /// After the replicas were freed.
  void start_over(const Council& council);
  /// A voter's grant for a request sent at `sent_ns`, after what it named was freed.
  void granted(uint64_t council_id, const std::string& voter, uint64_t sent_ns, uint64_t now_ns);
  uint64_t until_ns() const { return until_ns_; }
  /// True while a lease that was held is over, and for a lease length after: who was not reached from here
  /// meanwhile may be well.
  bool is_cut_off(uint64_t now_ns) const {
    return until_ns_ != 0 && (now_ns >= until_ns_ || now_ns < cut_off_until_ns_);
  }

 private:
  const uint64_t lease_ns_;
  Council council_;
  std::map<std::string, uint64_t> asked_ns_;  // by voter: when the newest granted request was sent
  uint64_t until_ns_ = 0, cut_off_until_ns_ = 0;
};

/// The coordinator's side: which council there is, and the attempt to have it followed.
class Convener {
 public:
  /// `run` names this run of the coordinator. `remembers`: whether this node can promise for a former run of its daemon (Q9).
  Convener(uint64_t run, VoterInfo self, std::function<bool(const Incarnation&)> remembers = nullptr)
      : run_(run), self_(std::move(self)), remembers_(std::move(remembers)) {}
  Convener(const Convener&) = delete;  // an attempt refers to it
  Convener& operator=(const Convener&) = delete;

  /// A council of the coordinator alone. `id`: random. `instead_of`: Council::instead_of; `notes`: what its voter noted there.
  const MadeCouncil& found(uint64_t id, std::vector<uint64_t> instead_of = {}, NameNotes notes = {});
  /// Goes on from a council that this node votes in: another's, or one that names this node and that another had chosen.
  void take_up(const MadeCouncil& made_of);
  const Council& council() const { return made_.council; }
  /// What a node says it knows; kept if it is of an earlier run (to be sealed and continued).
  void reported(const Council& council);
  bool has_foreign() const { return !foreign_.empty(); }
  /// One that was reported continues it.
  bool is_continued(const Council& council) const;
  /// Forgets what was reported of councils that nobody can seal any more, for too few of their voters live. Who still
  /// knows such a one starts over.
  void drop_foreign(const std::function<bool(const Council&)>& cannot_be_sealed);

  // ---- one attempt: seal, propose, accept; then what was chosen is installed

  /// `all_heard`: every living node had the time to report what it knows, so a council of an earlier run of
  /// this coordinator alone, whose end nobody can promise, was the last of its chain.
  void begin(bool all_heard);
  /// Other councils than its own whose voters are to be asked; what voters answer may add others.
  std::vector<Council> to_seal() const;
  SealRequest seal_request(const Council& base, bool tell) const;
  /// True if it agreed.
  bool promised(const Council& base, const std::string& voter, CouncilPromise promise);
  bool is_sealed(const Council& base) const { return attempt_ && attempt_->is_sealed(base.id); }
  /// True if something accepted before can be proposed again, or a council of an earlier run continued.
  bool has_found() const;
  /// The chains of a new council: of its own and of what was sealed. Without voters.
  Council together() const;
  /// Voters of what was sealed that promised, so they live and can come to a new council.
  std::vector<VoterInfo> promisers() const;
  /// What was accepted before, else a new council of `voters`. False if neither can be proposed now.
  bool propose(uint64_t id, const std::vector<VoterInfo>& voters);
  /// Whose voters are to accept next. Nothing: it is chosen, or nothing was proposed.
  std::optional<Council> to_accept() const;
  Proposal accept_request(const Council& base) const;
  void accepted(const Council& base, const std::string& voter) {
    OCM_DASSERT(attempt_.has_value());
    attempt_->accepted(base.id, voter);
  }
  /// The attempt is over. True if a council was chosen: chosen().
  bool end();

  bool has_chosen() const { return chosen_.council.id != 0; }
  const MadeCouncil& chosen() const { return chosen_; }
  /// A voter has it. True if a majority has: it acts.
  bool installed(const std::string& voter);
  /// True if a voter of council() may not have heard of it; and what to tell it.
  bool has_unheard() const;
  const MadeCouncil& made_of() const { return made_; }
  void heard(const std::string& voter) { heard_.insert(voter); }
  /// Its councils are councils, and it knows what its own was made of.
  bool is_valid() const;

 private:
  bool is_over(const Council& council) const;
  bool is_past(uint64_t base) const;
  void add_base(const Council& base, bool all_heard);
  /// Lets `next` continue a sealed council of an earlier run.
  void join(Council& next, const Council& base) const;
  void adopt_chosen();
  /// Of foreign_, what its own council continues.
  void drop_continued();

  const uint64_t run_;
  const VoterInfo self_;
  const std::function<bool(const Incarnation&)> remembers_;
  uint64_t round_ = 0;
  MadeCouncil made_;                     // its council
  std::set<std::string> heard_;          // voters of that
  std::map<uint64_t, Council> foreign_;  // by id
  std::optional<Succession<MadeCouncil>> attempt_;
  std::map<uint64_t, Council> bases_;         // of the attempt, and those that it heard of
  std::map<uint64_t, VoterState> knowledge_;  // by base
  std::set<std::pair<uint64_t, std::string>>
      remembered_;  // by base: voters of former runs that promised (Q9)
  MadeCouncil chosen_;
  std::set<std::string> installed_;  // voters of chosen_
};

/// The voters that a council should have: those of `now` that are among `living` first, `living` in its order
/// after them; living[0] is the coordinator and always votes.
std::vector<VoterInfo> choose_voters(const Council& now, const std::vector<VoterInfo>& living);
bool same_voters(const Council& council, const std::vector<VoterInfo>& voters);

}  // namespace ocm::control
