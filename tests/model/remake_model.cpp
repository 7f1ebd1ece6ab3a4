// Every schedule of a part that is made again while programs write to it: the home that leads, a spare home,
// writers with their daemons, the council, late and lost messages and a crash, walked exhaustively over the
// very code of src/control/remake.cpp, in some worlds with the voters of src/control/loss.cpp.
//
// How to run it: model.h.
//
// A reader is no process here: what it could read from a replica that answers is checked in every state, so a
// get is one step.
//
// What must hold in every state
//   S1 each replica that answers, and each living one of the newest part, has every acknowledged put;
//      without a crash there is such a one
//   S2 B' and C that both answer have equal bytes, outside of puts under way
//   S3 B never answers once the spare home heard that C is given (M3)
//   S4 nobody is told of [B' C] before C is given or B is over, and C has the bytes of B' by then (M2)
//   S8 once B is over the spare home keeps C until it is lost (M12)
//   S9 a writer gives a replica up only where another one has its put (M9)
// and in every state without a successor
//   S5 a reserved C is given or released, B' is gone where it was never told, a freed part leaves nothing
//   S6 the remake and all puts are over and nobody is frozen; no schedule goes round in a circle (but with
//      real voters, where two proposers may refuse each other again and again: they wait at random)
//   S7 where nothing failed, both replicas live; no put fails but by a crash, the owner's free or a message
//      of its own writer that was lost
#define OCM_MODEL
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "../../src/control/loss.cpp"    // NOLINT: compiled again, with mutations
#include "../../src/control/remake.cpp"  // NOLINT: the same
#include "remake_worlds.h"

namespace ocm {
namespace {

class Checker {
 public:
  Checker(const World& world, size_t states_max) : world_(world), states_max_(states_max) {}

  /// True if everything held.
  bool run() {
    State first;
    if (world_.a_answers || world_.voters) first.lost = first.dropped = first.started = 0;
    if (world_.voters) {
      for (size_t v = 0; v < kVoters; ++v) {
        first.voters.emplace_back(LossLedger(kTick));
        for (const uint8_t m : {kA, kB, kC})
          (void)first.voters[v].change().grant(first.now(), kHomeOf[m] + 1u, {}, {});
      }
    }
    for (size_t w = 0; w < kWriters; ++w) {
      first.writers[w].puts = world_.puts[w];
      first.writers[w].lost = first.lost;
    }
    for (size_t w = world_.writers; w < kWriters; ++w) first.writers[w].stage = Stage::kOver;
    push(std::move(first));
    while (!stack_.empty() && failure_.empty() && nodes_.size() < states_max_) {
      const auto [state, number] = std::move(stack_.back());
      stack_.pop_back();
      from_ = number;
      successors_ = 0;
      expand(state);
      if (successors_ == 0) check_end(state);
    }
    if (failure_.empty() && complete() && !world_.voters && goes_round(nodes_.size(), edges_))
      fail("S6: a schedule goes round for ever");
    return failure_.empty();
  }
  size_t states() const { return nodes_.size(); }
  bool complete() const { return stack_.empty() || !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  std::string counts() const {
    return std::to_string(ends) + " ends, " + std::to_string(made_again) + " with two replicas, " +
           std::to_string(gave_up) + " with a failed put";
  }
  uint64_t ends = 0, made_again = 0, gave_up = 0;

 private:
  void fail(const char* what) {
    if (failure_.empty()) failure_ = what;
  }

  static Digest digest(const State& state) {
    std::string text(reinterpret_cast<const char*>(static_cast<const Plain*>(&state)), sizeof(Plain));
    for (const Shared<LossLedger>& voter : state.voters) voter->fingerprint(state.now(), text);
    return digest_of(text);
  }

  void push(State state) {
    const auto [known, fresh] = nodes_.try_emplace(digest(state), static_cast<uint32_t>(nodes_.size()));
    if (known->second == from_ && !fresh) return;  // nothing happened
    ++successors_;
    if (from_ != ~0u) edges_.emplace_back(from_, known->second);
    if (!fresh) return;
    check(state);
    stack_.emplace_back(std::move(state), known->second);
  }

  // ---- what must hold

  bool is_up(const State& s, Home home) const { return (s.alive & bit(home)) != 0; }
  bool serves(const State& s, uint8_t m) const {
    const Home home = kHomeOf[m];
    if (!is_up(s, home) || (s.leased & bit(home)) == 0) return false;
    switch (m) {
      case kA: return (s.dropped & bit(kA)) == 0;
      case kB: return s.b_live != 0;
      case kB2: return s.b2_live != 0;
      default: return s.spare == Spare::kGiven || (s.spare == Spare::kPlanned && s.over != 0);  // as told
    }
  }
  static uint8_t bytes_of(const State& s, uint8_t m, size_t chunk) {
    return m == kA ? 0 : m == kC ? s.c[chunk] : s.b[chunk];
  }
  bool has_all(const State& s, uint8_t m) const {
    for (size_t w = 0; w < world_.writers; ++w) {
      if (bytes_of(s, m, w) < s.writers[w].acknowledged) return false;
    }
    return true;
  }
  /// Nobody can read what a decision gave up.
  bool is_quiet(const State& s, uint8_t m) const {
    return !is_up(s, kHomeOf[m]) || (s.leased & bit(kHomeOf[m])) == 0 || (s.dropped & bit(m)) != 0;
  }
  /// Of the puts of this writer none is under way, and the last was acknowledged.
  static bool is_settled(const Writer& writer) {
    const bool late = std::any_of(writer.late.begin(), writer.late.end(), [](uint8_t n) { return n != 0; });
    const bool still = writer.stage == Stage::kIdle || writer.stage == Stage::kOver;
    return still && !late && writer.number == writer.acknowledged;
  }
  bool is_equal(const State& s) const {
    for (size_t i = 0; i < world_.chunks; ++i) {
      if ((i >= world_.writers || is_settled(s.writers[i])) && s.b[i] != s.c[i]) return false;
    }
    return true;
  }

  void check(const State& s) {
    for (const uint8_t m : {kA, kB, kB2, kC}) {
      if (serves(s, m) && !has_all(s, m)) fail("S1: a replica that answers misses an acknowledged put");
    }
    const bool two = s.over != 0 || s.given != 0;
    const bool b = is_up(s, kHomeB) && (s.dropped & bit(kB2)) == 0 && (s.lost & bit(kB2)) == 0;
    const bool has_c = s.spare == Spare::kGiven || (s.spare == Spare::kPlanned && s.over != 0);
    const bool c = two && is_up(s, kHomeC) && has_c && (s.lost & bit(kC)) == 0;
    if (s.freed == 0 && ((b && !has_all(s, kB)) || (c && !has_all(s, kC))))
      fail("S1: a living replica misses an acknowledged put");
    if (s.freed == 0 && s.crashed == 0 && !b && !c) fail("S1: no replica is left");
    for (const Shared<LossLedger>& ledger : s.voters) {
      if (!ledger->is_valid()) fail("S1: a voter's memory is not valid");
    }
    if (serves(s, kB2) && serves(s, kC) && !is_equal(s)) fail("S2: replicas that answer differ");
    const bool kept = s.spare == Spare::kPlanned || s.spare == Spare::kGiven;
    if (s.over != 0 && s.freed == 0 && !kept && is_up(s, kHomeC) && ((s.lost | s.dropped) & bit(kC)) == 0)
      fail("S8: a part is told, and its new replica is not kept");
    if (s.given != 0 && serves(s, kB)) fail("S3: B answers after C was given");
    for (const Writer& writer : s.writers) {
      if (writer.part == 1 && !two) fail("S4: a part is told that does not answer");
    }
  }

  void check_end(const State& s) {
    ++ends;
    const bool b = is_up(s, kHomeB), c = is_up(s, kHomeC);
    const Step step = s.remake.next();
    const bool begun = s.started != 0;
    if (c && (s.spare == Spare::kReserved || s.spare == Spare::kPlanned))
      fail("S5: a reserved replica stays");
    if (b && c && step == Step::kOver && s.spare == Spare::kGiven)
      fail("S5: a replica stays that was released");
    if (b && s.over == 0 && s.b2_made != 0) fail("S5: the second id stays");
    if (b && s.freed != 0 && s.over == 0 && c && s.spare == Spare::kGiven)
      fail("S5: a freed part leaves a replica");
    if (b && begun && step != Step::kDone && step != Step::kOver) fail("S6: the remake does not end");
    if (b && s.freed == 0 && s.over == 0 && s.b_live == 0) fail("S6: B is frozen for ever");
    bool none_failed = true;
    for (const Writer& writer : s.writers) {
      if (writer.stage != Stage::kOver && writer.stage != Stage::kCrashed) fail("S6: a put does not end");
      none_failed = none_failed && writer.failed == 0;
    }
    const bool both =
        s.spare == Spare::kGiven && s.over != 0 && ((s.lost | s.dropped) & (bit(kB2) | bit(kC))) == 0;
    if (both) ++made_again;
    if (!none_failed) ++gave_up;
    if (s.crashed == 0 && s.freed == 0 && s.ticks == 0) {
      if (!none_failed && s.own_cuts == 0) fail("S7: a put failed though nothing of it did");
      if (s.cuts == 0 && begun && !both) fail("S7: a replica is missing though nothing failed");
    }
  }

  // ---- what may happen

  void expand(const State& s) {
    for (size_t w = 0; w < world_.writers; ++w) write(s, w);
    if (is_up(s, kHomeB)) lead(s);
    settle(s);
    late(s);
    votes(s);
    faults(s);
  }

  bool may_cut(const State& s) const { return s.cuts < world_.cuts_max; }
  template <class Change>
  void then(const State& s, Change change) {
    State next = s;
    change(next);
    push(std::move(next));
  }
  template <class Change>
  void then_cut(const State& s, Change change) {
    if (!may_cut(s)) return;
    then(s, [&](State& n) { ++n.cuts, change(n); });
  }

  template <class Change>
  void then_own_cut(const State& s, Change change) {
    then_cut(s, [&](State& n) { n.own_cuts = 1, change(n); });
  }

  // ---- the home that leads

  void lead(const State& s) {
    if (s.started == 0) {
      const bool may = OCM_MUTATION("start-when-named") || is_quiet(s, kA);
      if ((s.lost & bit(kA)) == 0) return;
      if (may && !world_.voters) return then(s, [](State& n) { n.started = 1; });
      // It asks the council as a writer does, until a majority says that nobody can read A.
      ask(s, kWriters, kA, [](State& n, Outcome outcome) {
        if (outcome == Outcome::kLost) n.started = 1;
      });
      return;
    }
    switch (s.remake.next()) {
      case Step::kReserve: return reserve(s);
      case Step::kCopy:
      case Step::kCompare: return copy(s);
      case Step::kFreeze: return freeze(s);
      case Step::kGive: return give(s);
      case Step::kDecide: return decide(s);
      case Step::kSwitch:
        return then(s, [](State& n) {
          n.b_live = OCM_MUTATION("old-id-stays") ? 1 : 0;
          n.over = 1;
          n.b2_live = (n.dropped & bit(kB2)) == 0;
          n.remake.done();
        });
      case Step::kThaw:
        return then(s, [](State& n) {
          n.b_live = 1;
          n.remake.done();
          n.b2_made = n.remake.next() == Step::kOver ? 0 : n.b2_made;
        });
      case Step::kRelease: return release(s);
      case Step::kDone:
      case Step::kOver: return;
    }
  }

  static void failed(State& n) {
    n.copy = Copy::kNone;
    n.closed = n.chunk = n.value = n.changed = 0;
    n.remake.failed();
    if (n.remake.next() == Step::kOver) n.b2_made = 0;
  }
  static void hear_reserve(State& n) {
    if (n.spare == Spare::kNone) n.spare = Spare::kReserved;
  }
  static void hear_plan(State& n) {
    if (n.spare == Spare::kReserved) n.spare = Spare::kPlanned;
  }
  /// False: there is no such replica.
  bool hear_give(State& n) {
    if (n.spare == Spare::kReserved || n.spare == Spare::kPlanned) {
      n.spare = Spare::kGiven;
      n.given = 1;
      if ((n.lost & bit(kC)) == 0 && n.over == 0 && !is_equal(n)) fail("S4: C is given and differs");
    }
    return n.spare == Spare::kGiven;
  }
  static void hear_release(State& n) {
    // Also one that was never heard of, whose reservation may still be under way.
    if (n.spare == Spare::kNone && OCM_MUTATION("release-remembers-nothing")) return;
    n.spare = Spare::kFreed;
  }

  void reserve(const State& s) {
    const auto made = [](State& n) { n.b2_made = 1; };
    if (is_up(s, kHomeC)) {
      then(s, [&](State& n) { made(n), hear_reserve(n), n.remake.done(); });
      then_cut(s, [&](State& n) { made(n), hear_reserve(n), failed(n); });
      then_cut(s, [&](State& n) { made(n), n.late_reserve = 1, failed(n); });
    } else {
      then(s, [&](State& n) { made(n), failed(n); });
    }
  }

  /// Chunk by chunk: asked for, read at B', written to C.
  void copy(const State& s) {
    const bool compares = s.remake.next() == Step::kCompare;
    if (!is_up(s, kHomeC)) return then(s, [](State& n) { failed(n); });
    const auto next_chunk = [this, compares](State& n) {
      n.copy = Copy::kNone;
      n.value = 0;
      if (++n.chunk < world_.chunks) return;
      const uint64_t bytes = n.changed == 0 ? 0 : world_.much_differs ? Remake::kLittleBytes + 1 : 1;
      n.chunk = n.changed = 0;
      n.remake.done(compares ? bytes : 0);
    };
    const bool equal = s.b[s.chunk] == s.c[s.chunk];
    switch (s.copy) {
      case Copy::kNone:
        then(s, [&](State& n) {
          if (compares && equal) return next_chunk(n);
          if (compares) n.changed = 1;
          n.copy = Copy::kRead;
          n.value = n.b[n.chunk];
        });
        if (!compares || !equal) {
          then_cut(s, [](State& n) { n.late_copy = Copy::kAsked, n.late_chunk = n.chunk, failed(n); });
        }
        then_cut(s, [](State& n) { failed(n); });
        return;
      default:
        then(s, [&](State& n) { n.c[n.chunk] = n.value, next_chunk(n); });
        then_cut(s, [](State& n) {
          n.late_copy = Copy::kRead, n.late_chunk = n.chunk, n.late_value = n.value, failed(n);
        });
        return;
    }
  }

  void freeze(const State& s) {
    if (s.closed == 0) return then(s, [](State& n) { n.closed = 1, n.b_live = 0; });
    const bool idle = std::none_of(s.writers.begin(), s.writers.end(),
                                   [](const Writer& w) { return w.op[kB] == Op::kInside; });
    if (idle || OCM_MUTATION("freeze-does-not-wait"))
      then(s, [](State& n) { n.closed = 0, n.remake.done(); });
    then_cut(s, [](State& n) { failed(n); });  // it took too long
  }

  void give(const State& s) {
    if (!is_up(s, kHomeC)) return then(s, [](State& n) { unheard(n); });
    then(s, [&](State& n) {
      if (hear_give(n))
        n.remake.done();
      else
        unheard(n);
    });
    then_cut(s, [&](State& n) { (void)hear_give(n), failed(n); });
    then_cut(s, [](State& n) { n.late_give = 1, failed(n); });
  }
  /// The plan first; then a majority.
  void decide(const State& s) {
    if (s.spare != Spare::kPlanned && s.ended == 0 && !OCM_MUTATION("decide-without-a-plan")) {
      if (!is_up(s, kHomeC) || s.spare != Spare::kReserved) return then(s, [](State& n) { failed(n); });
      then(s, [](State& n) { hear_plan(n); });
      then_cut(s, [](State& n) { hear_plan(n), failed(n); });
      then_cut(s, [](State& n) { n.late_plan = 1, failed(n); });
      return;
    }
    if (!world_.voters) {
      then(s, [](State& n) { n.ended = 1, n.remake.done(); });
      then_cut(s, [](State& n) { n.ended = 1; });  // nobody answered: B stays frozen
      return;
    }
    for (const auto& reached : kPairs) {
      then(s, [&](State& n) {
        if (end_by_voters(n, reached, kRoundsMax))
          n.ended = 1, n.remake.done();
        else
          forget_attempt(n, s);
      });
      // It is cut off when they have accepted it, and learns that they did.
      if (OCM_MUTATION("end-unlearned"))
        then(s, [&](State& n) {
          if (end_by_voters(n, reached, 2))
            n.ended = 1, n.remake.done();
          else
            forget_attempt(n, s);
        });
      then_cut(s, [&](State& n) { (void)end_by_voters(n, reached, 2); });
    }
  }
  static void forget_attempt(State& n, const State& before) {
    static_cast<Plain&>(n) = static_cast<const Plain&>(before);
    n.voters = before.voters;
  }
  /// The spare home, where the home that leads is over.
  void settle(const State& s) {
    if (is_up(s, kHomeB) || !is_up(s, kHomeC) || s.spare != Spare::kPlanned) return;
    if (OCM_MUTATION("keep-what-is-planned")) return;
    const auto follows = [](State& n) {
      n.spare = Spare::kGiven;
      n.given = 1;
    };
    const auto is_void = [](State& n) { n.spare = Spare::kFreed; };
    if (OCM_MUTATION("free-what-is-planned")) return then(s, is_void);
    if (!world_.voters) return s.ended != 0 ? then(s, follows) : then(s, is_void);
    for (const auto& reached : kPairs) {
      then(s, [&](State& n) {
        LossAsker asker = LossAsker::settling({id_of(kA), id_of(kB)}, {id_of(kA)}, id_of(kB), 40);
        for (int round = 0; round < kRoundsMax && asker.outcome() == Outcome::kAsking; ++round)
          asker.answered(2, answers_of(n, asker, reached));
        if (asker.outcome() == Outcome::kEnded)
          follows(n);
        else if (asker.outcome() == Outcome::kLast)
          is_void(n);
        else
          forget_attempt(n, s);
      });
    }
  }

  /// Nobody will hear it any more.
  static void unheard(State& n) {
    const Step before = n.remake.next();
    n.remake.spare_is_gone();
    if (n.remake.next() == before) n.remake.failed();
    if (n.remake.next() == Step::kOver) n.b2_made = 0;
  }

  void release(const State& s) {
    const auto over = [](State& n) { n.remake.done(), n.b2_made = 0; };
    if (!is_up(s, kHomeC)) return then(s, [](State& n) { unheard(n); });
    then(s, [&](State& n) { hear_release(n), over(n); });
    then_cut(s, [](State& n) { hear_release(n), failed(n); });
    then_cut(s, [](State& n) { n.late_release = 1, failed(n); });
  }

  // ---- what was given up and arrives later, or never

  void late(const State& s) {
    const bool c = is_up(s, kHomeC);
    if (s.late_reserve != 0) {
      then(s, [&](State& n) { n.late_reserve = 0, c ? hear_reserve(n) : void(); });
      then(s, [&](State& n) { n.late_reserve = 0; });
    }
    if (s.late_plan != 0) {
      then(s, [&](State& n) { n.late_plan = 0, c ? hear_plan(n) : void(); });
      then(s, [&](State& n) { n.late_plan = 0; });
    }
    if (s.late_give != 0) {
      then(s, [&](State& n) { n.late_give = 0, (void)(c && hear_give(n)); });
      then(s, [&](State& n) { n.late_give = 0; });
    }
    if (s.late_release != 0) {
      then(s, [&](State& n) { n.late_release = 0, c ? hear_release(n) : void(); });
      then(s, [&](State& n) { n.late_release = 0; });
    }
    const auto end = [](State& n) { n.late_copy = Copy::kNone, n.late_chunk = n.late_value = 0; };
    if (s.late_copy == Copy::kAsked && is_up(s, kHomeB)) {
      then(s, [](State& n) { n.late_copy = Copy::kRead, n.late_value = n.b[n.late_chunk]; });
    }
    if (s.late_copy == Copy::kRead && c && s.spare != Spare::kNone && s.spare != Spare::kFreed) {
      then(s, [&](State& n) { n.c[n.late_chunk] = n.late_value, end(n); });
    }
    if (s.late_copy != Copy::kNone) then(s, end);
    for (size_t w = 0; w < world_.writers; ++w) {
      for (const uint8_t m : {kB, kB2, kC}) {
        if (s.writers[w].late[m] == 0) continue;
        then(s, [&](State& n) {
          // Nothing of an older connection is applied after something of a newer one.
          uint8_t& number = n.writers[w].late[m];
          if (serves(n, m) && number > bytes_of(n, m, w)) store(n, w, m, number);
          number = 0;
        });
        then(s, [&](State& n) { n.writers[w].late[m] = 0; });
      }
    }
    // The spare home knows that the home that leads is over.
    if (!is_up(s, kHomeB) && c && s.spare == Spare::kReserved && !OCM_MUTATION("keep-for-a-dead-home")) {
      then(s, [](State& n) { n.spare = Spare::kFreed; });
    }
  }

  static void store(State& n, size_t w, uint8_t m, uint8_t number) {
    if (m == kC)
      n.c[w] = number;
    else
      n.b[w] = number;
  }

  // ---- a writer and its daemon

  void write(const State& s, size_t w) {
    const Writer& writer = s.writers[w];
    switch (writer.stage) {
      case Stage::kIdle:
        return then(s, [&](State& n) {
          ++n.writers[w].number;
          n.writers[w].again = 0;
          post(n.writers[w]);
        });
      case Stage::kPosting: {
        bool answered = true;
        for (const uint8_t m : {kB, kB2, kC}) {
          if (writer.op[m] == Op::kNone || writer.op[m] >= Op::kGood) continue;
          answered = false;
          step(s, w, m);
        }
        if (answered) then(s, [&](State& n) { conclude(n.writers[w]); });
        return;
      }
      case Stage::kLosing: return lose(s, w);
      case Stage::kResolving: return resolve(s, w);
      default: return;
    }
  }

  static void post(Writer& writer) {
    writer.stage = Stage::kPosting;
    writer.op = {};
    for (const uint8_t m : writer.part == 0 ? std::array{kA, kB} : std::array{kB2, kC}) {
      if ((writer.lost & bit(m)) == 0) writer.op[m] = m == kA ? Op::kFailed : Op::kSent;
    }
  }

  void step(const State& s, size_t w, uint8_t m) {
    const bool shm = world_.shm[w] && kHomeOf[m] == kHomeB;
    const uint8_t number = s.writers[w].number;
    const auto set = [&](Op op) { return [w, m, op](State& n) { n.writers[w].op[m] = op; }; };
    if (!is_up(s, kHomeOf[m])) return then(s, set(Op::kFailed));
    const Op refused = (s.leased & bit(kHomeOf[m])) == 0 ? Op::kFailed : Op::kRevoked;
    switch (s.writers[w].op[m]) {
      case Op::kSent:
        if (!serves(s, m))
          then(s, set(refused));
        else if (shm)
          then(s, set(Op::kLooked));
        else
          then(s, set(Op::kInside));
        if (shm) return;
        then_own_cut(s, set(Op::kFailed));
        then_own_cut(s, [&](State& n) { set(Op::kFailed)(n), n.writers[w].late[m] = number; });
        return;
      case Op::kInside:
        then(s, [&](State& n) { store(n, w, m, number), set(Op::kGood)(n); });
        then_own_cut(s, [&](State& n) { store(n, w, m, number), set(Op::kFailed)(n); });
        return;
      case Op::kLooked:  // without a fence the second look overtakes the store
        if (OCM_MUTATION("no-fence")) return then(s, set(serves(s, m) ? Op::kStored : refused));
        return then(s, [&](State& n) { store(n, w, m, number), set(Op::kStored)(n); });
      case Op::kStored: {
        const bool late = OCM_MUTATION("no-fence");
        const Op seen = late || serves(s, m) || OCM_MUTATION("no-second-look") ? Op::kGood : refused;
        return then(s, [&](State& n) { late ? store(n, w, m, number) : void(), set(seen)(n); });
      }
      default: return;
    }
  }

  /// Members that the put missed.
  static uint8_t missed(const Writer& writer) {
    uint8_t out = 0;
    for (const uint8_t m : {kA, kB, kB2, kC}) {
      if ((writer.op[m] == Op::kRevoked || writer.op[m] == Op::kFailed) && (writer.lost & bit(m)) == 0)
        out |= bit(m);
    }
    return out;
  }
  static void end_put(Writer& writer, bool good) {
    if (good)
      writer.acknowledged = writer.number;
    else
      writer.failed = 1;
    writer.op = {};
    writer.again = 0;
    writer.stage = writer.number < writer.puts ? Stage::kIdle : Stage::kOver;
  }
  static void conclude(Writer& writer) {
    const bool good = std::find(writer.op.begin(), writer.op.end(), Op::kGood) != writer.op.end();
    if (!good && !(writer.part == 1 && OCM_MUTATION("lose-without-a-good-one")))
      writer.stage = Stage::kResolving;
    else if (missed(writer) == 0)
      end_put(writer, good);
    else
      writer.stage = Stage::kLosing;
  }

  void lose(const State& s, size_t w) {
    const auto m = static_cast<uint8_t>(std::countr_zero(missed(s.writers[w])));
    ask(s, w, m, [&](State& n, Outcome outcome) {
      Writer& writer = n.writers[w];
      if (outcome == Outcome::kLast) end_put(writer, false);
      if (outcome != Outcome::kLost) return;
      if (bytes_of(n, other(m), w) < writer.number)
        fail("S9: nobody has the put that a replica is given up for");
      writer.lost |= bit(m);
      conclude(writer);
    });
  }

  void resolve(const State& s, size_t w) {
    const Step at = s.remake.next();
    const bool waits = s.remake.is_frozen() && !OCM_MUTATION("resolve-while-frozen") &&
                       !(at == Step::kFreeze && OCM_MUTATION("resolve-while-freezing")) &&
                       !(at == Step::kThaw && OCM_MUTATION("resolve-while-thawing"));
    if (is_up(s, kHomeB) && !waits) {
      then(s, [&](State& n) {
        Writer& writer = n.writers[w];
        const bool revoked = std::find(writer.op.begin(), writer.op.end(), Op::kRevoked) != writer.op.end();
        if (n.over != 0 && writer.part == 0) return rebind(writer);
        if (n.freed != 0 || !revoked || writer.again != 0) return end_put(writer, false);
        writer.again = 1;  // it is as it was, and answers again
        post(writer);
      });
    }
    const auto at_spare = [&](State& n) {
      Writer& writer = n.writers[w];
      const bool told =
          n.spare == Spare::kGiven || (n.spare == Spare::kReserved && OCM_MUTATION("tell-what-is-reserved"));
      if (is_up(n, kHomeC) && told && writer.part == 0) return rebind(writer);
      end_put(writer, false);
    };
    if (!is_up(s, kHomeB))
      then(s, at_spare);
    else
      then_own_cut(s, at_spare);
  }
  static void rebind(Writer& writer) {
    writer.part = 1;
    writer.lost = OCM_MUTATION("tell-without-c") ? bit(kC) : 0;
    writer.again = 0;
    post(writer);
    if (OCM_MUTATION("rebind-in-a-put")) writer.op[kB2] = Op::kGood;
  }

  // ---- the council

  /// The writer, or the home that leads, has `m` given up: `then_what` is told the outcome, kAsking if it
  /// must wait.
  template <class What>
  void ask(const State& s, size_t who, uint8_t m, What then_what) {
    if (world_.voters) {
      for (const auto& reached : kPairs)
        then(s, [&](State& n) { then_what(n, ask_voters(n, who, m, reached)); });
      return;
    }
    const Home sibling = kHomeOf[other(m)];
    then(s, [&](State& n) {
      if ((n.lost & bit(m)) == 0) {
        const bool last = (n.lost & bit(other(m))) != 0 && !OCM_MUTATION("lose-both");
        const bool alone = !is_up(n, sibling) || (n.leased & bit(sibling)) == 0;
        if (last || alone) return then_what(n, Outcome::kLast);
        n.lost |= bit(m);
      }
      then_what(n, is_quiet(n, m) ? Outcome::kLost : Outcome::kAsking);
    });
  }

  /// One attempt that reaches two voters. Refused: kLast.
  static Outcome ask_voters(State& n, size_t who, uint8_t m, std::array<size_t, 2> reached) {
    std::vector<ExtentId> part{id_of(m), id_of(other(m))};
    std::sort(part.begin(), part.end());
    LossAsker asker(std::move(part), id_of(m), 1 + who * 4 + m);
    Outcome outcome = Outcome::kAsking;
    for (int round = 0; round < 6 && outcome == Outcome::kAsking && asker.wait_ns() == 0; ++round) {
      asker.answered(2, answers_of(n, asker, reached));
      outcome = asker.outcome();
    }
    for (const Shared<LossLedger>& voter : n.voters) {
      for (const auto& [first, known] : voter->state(n.now()).parts) {
        for (const uint8_t one : {kA, kB, kB2, kC}) {
          if (has(ids_of(known.lost), id_of(one))) n.lost |= bit(one);
        }
      }
    }
    return outcome == Outcome::kAsking && asker.wait_ns() == 0 ? Outcome::kLast : outcome;
  }

  /// The home hears votes: what was given up is freed first.
  void hear_votes(State& n, Home home) const {
    uint8_t named = 0;
    if (!world_.voters) {
      named = n.lost;
    } else {
      for (Shared<LossLedger>& shared : n.voters) {
        LossLedger& voter = shared.change();
        std::vector<ExtentId> gone;
        if (home == kHomeB && n.over != 0 && n.remake.next() == Step::kDone) gone.push_back(id_of(kB));
        const auto vote = voter.grant(n.now(), home + 1u, {}, gone);
        for (const uint8_t m : {kA, kB, kB2, kC}) named |= has(vote.dropped, id_of(m)) ? bit(m) : 0;
        (void)voter.grant(n.now(), home + 1u, vote.dropped, {});
      }
    }
    for (const uint8_t m : {kA, kB, kB2, kC}) {
      if (kHomeOf[m] != home || (named & bit(m)) == 0) continue;
      n.dropped |= bit(m);
      if (m == kB2) n.b2_live = 0;
      const bool lives = n.spare != Spare::kReserved && n.spare != Spare::kPlanned;
      if (m == kC && (lives || !OCM_MUTATION("drop-only-what-lives"))) n.spare = Spare::kFreed;
    }
    n.leased |= bit(home);
  }

  void votes(const State& s) {
    for (const Home home : {kHomeA, kHomeB, kHomeC}) {
      if (!is_up(s, home)) continue;
      const uint8_t of_home = home == kHomeA ? bit(kA) : home == kHomeB ? bit(kB2) : bit(kC);
      const bool leased = (s.leased & bit(home)) != 0;
      const bool news = (s.lost & static_cast<uint8_t>(~s.dropped) & of_home) != 0;
      if (!leased || news || world_.voters) then(s, [&](State& n) { hear_votes(n, home); });
      if (leased && news && !world_.voters)
        then(s, [&](State& n) { n.leased &= static_cast<uint8_t>(~bit(home)); });
    }
    if (!world_.voters) return;
    const bool waits = std::any_of(s.writers.begin(), s.writers.end(),
                                   [](const Writer& writer) { return writer.stage == Stage::kLosing; });
    for (const uint8_t heard : {uint8_t{6}, uint8_t{2}, uint8_t{4}, uint8_t{0}}) {  // A's home is cut off
      if (s.ticks >= world_.ticks_max + (waits && heard == 6 ? 1 + s.crashed : 0)) continue;
      then(s, [&](State& n) {
        ++n.ticks;
        n.leased = 0;
        for (const Home home : {kHomeB, kHomeC}) {
          if (is_up(n, home) && (heard & bit(home)) != 0) hear_votes(n, home);
        }
      });
    }
  }

  // ---- what breaks

  void faults(const State& s) {
    // What was on its way when the home that leads stopped waiting for it.
    const auto interrupt = [&](bool sent, auto change) {
      then(s, [&](State& n) {
        if (n.copy == Copy::kRead) {
          n.late_copy = Copy::kRead;
          n.late_chunk = n.chunk;
          n.late_value = n.value;
        }
        if (sent && n.remake.next() == Step::kGive) n.late_give = 1;
        if (sent && n.remake.next() == Step::kReserve) n.late_reserve = 1;
        if (sent && n.remake.next() == Step::kDecide && n.spare == Spare::kReserved) n.late_plan = 1;
        n.copy = Copy::kNone;
        n.closed = n.chunk = n.value = n.changed = 0;
        change(n);
      });
    };
    for (const bool sent : {false, true}) {
      const Step at = s.remake.next();
      const bool asks = s.started != 0 && (at == Step::kGive || at == Step::kReserve || at == Step::kDecide);
      if (sent && !asks) continue;
      if (world_.crash_b && s.crashed == 0) {
        interrupt(sent, [](State& n) {
          n.crashed = 1;
          n.alive &= static_cast<uint8_t>(~bit(kHomeB));
          n.b_live = n.b2_live = 0;
        });
      }
      if (world_.freed && s.freed == 0 && s.over == 0 && is_up(s, kHomeB)) {
        interrupt(sent, [](State& n) {
          n.freed = 1;
          n.b_live = 0;
          n.remake.freed();
        });
      }
    }
    if (world_.crash_c && s.crashed == 0) {
      then(s, [](State& n) {
        n.crashed = 1;
        n.alive &= static_cast<uint8_t>(~bit(kHomeC));
      });
    }
    for (size_t w = 0; world_.crash_writer && s.crashed == 0 && w < world_.writers; ++w) {
      if (s.writers[w].stage == Stage::kOver) continue;
      then(s, [&](State& n) {
        n.crashed = 1;
        Writer& writer = n.writers[w];
        for (const uint8_t m : {kB, kB2, kC}) {
          const bool tcp = !(world_.shm[w] && kHomeOf[m] == kHomeB);
          if (tcp && (writer.op[m] == Op::kSent || writer.op[m] == Op::kInside))
            writer.late[m] = writer.number;
        }
        writer.op = {};
        writer.stage = Stage::kCrashed;
      });
    }
  }

  const World world_;
  const size_t states_max_;
  std::vector<std::pair<State, uint32_t>> stack_;
  std::unordered_map<Digest, uint32_t, DigestHash> nodes_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  uint32_t from_ = ~0u;
  size_t successors_ = 0;
  std::string failure_;
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 5'000'000);
}
