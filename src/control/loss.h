// Which replicas of a part are lost: decided by the voters of a council, one replica at a time, so that two
// writers on two sides of a cut cannot each give up the replica of the other. Pure: time is given.
//
//   part [A B C]     its replicas as they were made, in the order of their ids, which name the part
//   instance 0       prepare, accept: a majority accepted "B is lost"           lost = [B]
//   instance 1       prepare, accept: a majority accepted "A is lost"           lost = [B A]
//   (no instance 2)  C is the last replica and is never lost
//   or instance 1    a majority accepted "the part is over, for D follows"      nothing is decided after it
//   learn            each voter names B, then A, to its home with every later vote, until it hears that it is freed
//
// Each instance is one decision of single-decree Paxos (Lamport, "Paxos Made Simple", 2001). A writer's daemon
// is the proposer, a voter the acceptor. A voter is one run of a daemon (Q5); what it accepted
// outlives it (Q9).
//
// Invariants
//   R1 an instance decides one replica: two majorities share a voter, which answers with what it accepted.
//   R2 of n replicas at most n-1 are decided lost.
//   R3 a voter takes part only where its council gave a lease to the home of every living replica of the part, or where
//      that run of the home's daemon is over, which whoever asks knows of its successor.
//      A home follows one chain of councils, so no two councils decide about one part at once.
//   R4 a voter accepts a loss only while a vote of its runs for the home of another living replica: who cannot reach
//      a node does not give up the last copy of one that died.
//   R5 an accept counts only within a lease length of the promise that it follows, both on the voter's clock: a
//      request that lay in a socket while its asker gave up decides nothing.
//   R6 a vote names to a home only what is decided; a home frees a replica for nothing else than a vote, or a record
//      of its name that somebody has because one did (N8 of names.h).
//   R7 a voter says that nobody can read a lost replica when its home freed it, or when every vote is over that
//      the voter gave the home before it learned of the loss. Who heard from that run of its home that it has it no more
//      need not hear it from voters.
//   R8 what is decided about a part is remembered until each replica is freed or gone, or the run of its home is over: another
//      run of that node's daemon has been there for two failure deadlines, and that one has asked for no vote. It gets none
//      before it has freed all replicas as old as those that were forgotten: should it come back, for the other one was a
//      namesake elsewhere, they may be lost. It frees them only when too few other voters are left for a lease: one voter that
//      it did not reach must not take the last copies.
//   R9 a part ends in favour of one other (control/remake.h), which its first replica names, or of none; after it no
//      replica of it is decided lost, so who could not reach one must ask which part follows.
//   R10 a loss that was accepted and that nobody has asked about since, for two lease lengths, is told to the homes of the
//      part's other replicas, which have it decided: later those may be gone, and nobody could (R4).
//   R11 a home that is about to end says so first, with a number that grows; until it takes that back it is nobody's living
//      sibling (R4). It ends only when a majority heard it and no majority can have accepted a loss that leaves it as the last.
//      Where fewer have, it gives up its own replica first: the next council is bound by what one of those who end this one
//      accepted, and could neither decide it without this home nor anything else.
//   R12 who proposes a loss has heard from the home of another living replica after it was promised: R4 alone would count for
//      a lease length on one that has died.
//   R13 what a voter accepted in the council before, and none of those that were sealed, it forgets in the next one: nobody
//      else there promised up to that ballot, so another replica may be decided at a lower one.
//   R14 of the parts that a voter remembers, half at most are one uid's, which asked for a loss first, and three quarters
//      all users': those of a node that never comes back stay (R8), and the losses of others must be decided, too.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace ocm::control {

/// Orders the attempts of all proposers. `by` differs between proposers and between their attempts.
struct Ballot {
  uint64_t round = 0, by = 0;
  auto operator<=>(const Ballot&) const = default;
};

struct LossRequest {
  enum class Phase : uint8_t { kPrepare = 1, kAccept = 2, kLearn = 3 };
  Phase phase = Phase::kPrepare;
  std::vector<ExtentId> part;
  ExtentId replica;  // kAccept: to be decided; kLearn: asked about. Not of the part: what follows it (R9)
  std::vector<ExtentId> lost;     // decided, in the order of the instances
  std::optional<ExtentId> ended;  // decided after them: what follows
  std::vector<ExtentId> over;     // replicas of the part whose daemons run no more
  bool remembered = false;        // only a voter that remembers the part, and `lost` of it, takes part
  uint32_t uid = 0;               // whose loss it is; 0: the operator's, or the daemons' own
  Ballot ballot;
  uint64_t promised_at_ns = 0;  // kAccept: LossAnswer::at_ns of this voter's promise
};

/// What who asks knows of the part.
struct LossKnown {
  std::vector<ExtentId> over;  // its replicas whose daemons run no more (R3)
  bool is_unread = false;      // the home of the one to be lost has it no more: that run of it said so (R7)
};

struct LossAnswer {
  bool agreed = false;
  Ballot promised;     // the highest that the voter saw in this instance
  Ballot accepted_at;  // round 0: nothing accepted in this instance
  ExtentId accepted;
  std::vector<ExtentId> lost;  // decided, as this voter learned
  std::optional<ExtentId> ended;
  uint64_t at_ns = 0;    // the voter's clock
  uint64_t wait_ns = 0;  // kLearn: until none of its votes lets anybody read the replica (R7)
};

/// R11: whether a home is about to end.
struct HomeEnd {
  uint64_t leaving = 0;  // the newest attempt
  uint64_t stays = 0;    // attempts up to this one were taken back
  bool is_near() const { return leaving > stays; }
  bool operator==(const HomeEnd&) const = default;
  void merge(const HomeEnd& other) {
    leaving = std::max(leaving, other.leaving);
    stays = std::max(stays, other.stays);
  }
};

/// What one voter hands to the voters after it.
struct LossState {
  struct Lost {
    ExtentId id;
    bool freed = false;
  };
  struct Part {
    std::vector<ExtentId> replicas;
    std::vector<Lost> lost;
    std::optional<ExtentId> ended;
    std::vector<ExtentId> gone;
    Ballot accepted_at;
    ExtentId accepted;
    uint32_t uid = 0;
    /// Nobody would miss it.
    bool is_blank() const { return lost.empty() && !ended && gone.empty() && accepted_at.round == 0; }
  };
  std::map<ExtentId, Part> parts;  // by the first replica
  std::map<uint32_t, uint64_t>
      votes_ns;  // by partition: how long a vote still runs; 0: one was given, and is over
  std::map<uint32_t, HomeEnd> ends;       // of these
  std::map<uint32_t, std::string> nodes;  // the same: whose homes they are
  /// R8: runs that are over, with the newest generation among those of their replicas that were forgotten.
  std::map<uint32_t, uint32_t> over;
};
/// Adds what another sealed voter knew.
void merge(LossState& into, const LossState& from);

/// What became different since an earlier state.
struct LossChange {
  LossState state;  // parts: those that changed, whole; of homes all, or none if nothing of them changed
  std::vector<ExtentId> forgotten;  // parts that are not there any more, or blank; by their first replicas
};

/// When the lease of a home ends that heard from voters: `asked_ns` holds, by voter, when the newest granted request
/// was sent. The clocks of home and voters only need the same speed, within a twentieth (Q2).
uint64_t lease_until_ns(std::vector<uint64_t> asked_ns, size_t needed, uint64_t lease_ns);

/// One voter's memory: the votes that it gave and the losses that it takes part in. A value: it can be copied.
class LossLedger {
 public:
  static constexpr size_t kPartsMax = 65536;
  static constexpr size_t kPartsOfUidMax = kPartsMax / 2, kPartsOfUsersMax = kPartsMax / 4 * 3;  // R14
  static constexpr size_t kHomesMax = 65536;
  static constexpr size_t kWatchedMax = 64;  // of one vote
  static constexpr size_t kChangesMax = 8192;
  static_assert(kWatchedMax <= kPartsMax);

  explicit LossLedger(uint64_t lease_ns) : lease_ns_(lease_ns) {}

  struct Vote {
    bool over = false;              // no vote: what it has may be old (R8)
    std::vector<ExtentId> dropped;  // of this home, to be freed before the vote counts
    /// Living replicas of this home. The home says which of them it has no more.
    struct Watched {
      ExtentId replica;
      std::vector<ExtentId> part;        // its replicas, as they were made
      std::vector<ExtentId> lost;        // of them
      std::optional<ExtentId> ended;     // R9
      std::optional<ExtentId> in_doubt;  // R10
    };
    std::vector<Watched> watched;
  };
  /// A vote for the home of `partition`. `freed`: dropped ones that it freed; `gone`: watched ones that it has not.
  /// `tell_all`: watches all of its replicas whose part has lost one or may have, and doubts at once. `node`: whose home it is.
  /// `freed_before`: it has freed all replicas of earlier generations; 0: none of them.
  Vote grant(uint64_t now_ns, uint32_t partition, std::span<const ExtentId> freed,
             std::span<const ExtentId> gone, const HomeEnd& end = {}, bool tell_all = false,
             const std::string& node = {}, uint32_t freed_before = 0);
  /// Runs of homes whose replicas keep parts from being forgotten, with their nodes, where these are known. Not those that
  /// have asked for a vote within a lease length: they go on.
  std::map<uint32_t, std::string> awaited(uint64_t now_ns) const;
  /// That run of a home is over: nothing is there any more (R8).
  void run_is_over(uint32_t partition);
  /// Errors: kInvalidArgument (malformed), kPeerLost (R3), kLimit.
  Result<LossAnswer> answer(uint64_t now_ns, const LossRequest& request);

  LossState state(uint64_t now_ns) const;
  /// Without the times of votes. Nothing: more became different than is noted, at least the newest kChangesMax / 2 parts.
  std::optional<LossChange> changed_since(uint64_t version) const;
  /// With what the sealed voters of the council before knew.
  void install(uint64_t now_ns, const LossState& state);
  void clear();

  size_t parts() const { return parts_.size(); }
  /// Another number whenever what must be remembered is another: all of state(), of votes only that there was one.
  uint64_t version() const { return version_; }
  /// Until when the last vote for the home runs; 0: there was none.
  uint64_t vote_until_ns(uint32_t partition) const {
    const auto votes = homes_.find(partition);
    return votes == homes_.end() ? 0 : votes->second.until_ns;
  }
  /// R2, what a voter promised, and that each replica leads to its part; O(replicas).
  bool is_valid() const;
  /// Appends everything to `out`, times relative to `now_ns`: equal for states that behave alike.
  void fingerprint(uint64_t now_ns, std::string& out) const;

 private:
  struct Lost {
    ExtentId id;
    uint64_t quiet_ns = 0;  // this voter's votes from before it knew are over
    bool freed = false;
  };
  struct Part {
    std::vector<ExtentId> replicas;
    std::vector<Lost> lost;
    std::optional<ExtentId> ended;
    std::vector<ExtentId> gone;
    Ballot promised, accepted_at;
    ExtentId accepted;
    uint64_t promised_ns = 0;
    uint32_t uid = 0;
  };
  using Parts = std::map<ExtentId, Part>;
  struct HomeVotes {
    uint64_t until_ns = 0;
    ExtentId watched;  // the last of the last vote
    HomeEnd end;
    std::string node;
    uint32_t over = 0;  // R8: the newest generation forgotten; 0: none was
  };

  Result<Part*> find_or_make(uint64_t now_ns, const LossRequest& request);
  Status check_leases(const Part* known, const LossRequest& request) const;
  bool has_living_sibling(uint64_t now_ns, const Part& part, const ExtentId& replica) const;
  void learn(uint64_t now_ns, Part& part, const std::vector<ExtentId>& lost,
             const std::optional<ExtentId>& ended);
  void note_freed(Lost& lost);
  /// No home has the replica any more. Of another part: nothing.
  void leave(Part& part, const ExtentId& replica);
  /// Neither freed nor gone, as far as this voter heard: the part is remembered for it (R8).
  static bool is_awaited(const Part& part, const ExtentId& replica);
  void forget_if_over(Parts::iterator part);
  Part& add(const std::vector<ExtentId>& replicas, uint32_t uid);
  Parts::iterator erase(Parts::iterator part);
  bool has_room(uint32_t uid) const;  // R14
  /// Well-formed, and no other part has a replica of it.
  bool may_be(const LossState::Part& part) const;
  void forget_promises(uint64_t now_ns);
  HomeVotes& home(uint32_t partition);
  static LossState::Part copy_of(const Part& part);
  void add_homes(uint64_t now_ns, LossState& out) const;
  void part_changed(const ExtentId& first);
  void homes_changed() { homes_version_ = ++version_; }
  void all_changed();

  uint64_t lease_ns_;
  uint64_t version_ = 0;
  uint64_t homes_version_ = 0;                          // the newest that changed one of homes_
  uint64_t changes_from_ = 0;                           // changes_ has all parts that changed after it
  std::vector<std::pair<uint64_t, ExtentId>> changes_;  // a version, and the part that it changed
  Parts parts_;                                         // by the first replica
  std::map<uint32_t, size_t> parts_of_;                 // by uid, of users
  size_t parts_of_users_ = 0;
  uint64_t forgot_ns_ = 0;                // when idle promises were looked for last
  std::map<ExtentId, ExtentId> part_of_;  // replica -> first replica
  std::set<ExtentId> unfreed_;  // lost ones: each vote names those of its home, however many parts there are
  std::map<uint32_t, HomeVotes> homes_;  // also of votes that are over
};

/// One attempt to have a replica lost, or a part ended: the requests, round by round.
///
///   prepare --majority promised--> accept --majority accepted--> learn --majority is quiet--> kLost
///      ^ ^-----refused: higher ballot--/                           |--the part has ended----> kEnded
///      \------------- another replica was decided -----------------/--it is the last one---> kLast
///                                      \--and the part was to end--------------------------> kOvertaken
class LossAsker {
 public:
  enum class Outcome { kAsking, kLost, kLast, kEnded, kOvertaken };
  using Answers = std::vector<std::pair<std::string, LossAnswer>>;  // by the voter's name

  /// `by`: random, not 0.
  LossAsker(std::vector<ExtentId> part, ExtentId replica, uint64_t by);
  /// To end a part of which no more than `lost` is decided, in that order. kEnded may be in favour of another.
  static LossAsker ending(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor,
                          uint64_t by);
  /// To finish what was accepted after `lost`, and nothing else: kOvertaken where nothing was, or another replica.
  static LossAsker finishing(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                             uint64_t by);
  /// To hear that nobody can read `replica` any more. Of `lost`, which may contain it, it is known that they are decided:
  /// voters who have not learned it do so, also where their council never gave a lease to those homes.
  static LossAsker confirming(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                              uint64_t by);
  /// The same, to hear whether the part has ended, of voters that remember it with `lost` alone: others may have forgotten the
  /// end (R8). kEnded; kLost or kLast: it has not, and a majority remembers that.
  static LossAsker settling(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                            uint64_t by);
  bool settles() const { return settles_; }
  void knows(LossKnown known) { known_ = std::move(known); }
  /// R14
  void is_for(uint32_t uid) { uid_ = uid; }
  /// Begins anew: the voters are others.
  void restart();
  LossRequest request(const std::string& voter) const;
  /// As LossLedger::fingerprint(), without what request() says of single voters.
  void fingerprint(std::string& out) const;
  /// What came back of one round, where `needed` answers are a majority.
  void answered(size_t needed, const Answers& answers);
  Outcome outcome() const { return outcome_; }
  /// R12: of which one must be heard from before the next request. Empty: it proposes no loss.
  std::vector<ExtentId> siblings() const;
  /// None was: it begins again.
  void not_witnessed();
  /// After a round of learning: until a majority may be quiet. 0 otherwise.
  uint64_t wait_ns() const { return wait_ns_; }
  bool was_refused() const { return refused_; }
  const std::vector<ExtentId>& lost() const { return lost_; }
  const std::optional<ExtentId>& ended() const { return ended_; }

 private:
  bool is_lost() const;
  bool ends() const;
  void prepare();
  void overtaken();
  void after_prepare(size_t needed, const Answers& answers);
  void after_accept(size_t needed, const Answers& answers);
  void after_learn(size_t needed, const Answers& answers);

  std::vector<ExtentId> part_;
  ExtentId replica_;
  uint64_t by_;
  LossKnown known_;
  uint32_t uid_ = 0;
  LossRequest::Phase phase_ = LossRequest::Phase::kPrepare;
  Outcome outcome_ = Outcome::kAsking;
  Ballot ballot_;
  ExtentId value_;
  std::vector<ExtentId> lost_;
  std::optional<ExtentId> ended_;
  std::map<std::string, uint64_t> promised_at_ns_;
  uint64_t wait_ns_ = 0;
  bool refused_ = false;
  bool finishes_ = false;
  bool settles_ = false;
};

}  // namespace ocm::control
