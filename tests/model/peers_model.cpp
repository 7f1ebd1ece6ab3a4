// Every schedule of a part of three replicas that lost one and is made again while the two others live: the home that
// leads, the home of the other living replica, a spare home, writers, the council, messages that are lost and a crash,
// walked exhaustively over the very code of src/control/remake.cpp.
//
// How to run it: model.h.
//
//   part 0: [A lost, B, P]    part 1: [B' P' D]    B and B', P and P' are two ids of the same bytes
//
// A writer may sleep through all of it: the voters forget part 0 once its replicas are gone (R8), and decide anew.
//
// What remake_model.cpp walks is one step here: copying, comparing, a put over shared memory, and what the council
// decides (loss_model.cpp has its votes). A put over tcp is: it arrives and finds the replica, it stores, it is
// answered. A get is no process: what it could read is checked in every state.
//
// What must hold in every state
//   S1 each replica that answers and was told to anybody has every acknowledged put
//   S5 once part 1 follows, the spare home keeps D until it is lost (M12)
//   S2 with at most one crash, a living replica that was not given up has every acknowledged put
// and in every state without a successor
//   S3 puts are over, nobody is frozen, a spare replica that nobody knows is freed, and so is a second id
//   S4 without a crash no put failed but by a message that was lost; without that, the part has three replicas again
#define OCM_MODEL
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "../../src/control/remake.cpp"  // NOLINT: compiled again, with mutations
#include "model.h"

namespace ocm {
namespace {

using namespace control;
using namespace model;
using Step = Remake::Step;

enum Home : uint8_t { kHomeB, kHomeP, kHomeD };
enum Member : uint8_t { kB, kP, kB2, kP2, kD };  // B' is kB2, P' is kP2
constexpr size_t kMembers = 5, kWriters = 2;
constexpr std::array<Home, kMembers> kHomeOf{kHomeB, kHomeP, kHomeB, kHomeP, kHomeD};
constexpr uint8_t bit(uint8_t i) { return static_cast<uint8_t>(1u << i); }
constexpr std::array<uint8_t, 2> kPart{bit(kB) | bit(kP), bit(kB2) | bit(kP2) | bit(kD)};

struct World {
  const char* name;
  uint8_t writers = 1;
  std::array<uint8_t, kWriters> puts{1, 1};
  uint8_t cuts_max = 0;
  uint8_t crash = 0;     // the homes of which one may end
  bool forgets = false;  // the voters do, once they may
};

enum class Stage : uint8_t { kIdle, kPosting, kLosing, kResolving, kOver };
enum class Op : uint8_t { kNone, kSent, kInside, kGood, kRevoked, kFailed };
enum class Peer : uint8_t { kNone, kShared, kPlanned, kFollowing, kSwitched, kEnded };
enum class Spare : uint8_t { kNone, kReserved, kPlanned, kGiven, kFreed };

struct Writer {
  Stage stage = Stage::kIdle;
  uint8_t part = 0, puts = 0, number = 0, acknowledged = 0, failed = 0, again = 0;
  uint8_t lost = 0;  // members that it knows to be lost
  std::array<Op, kMembers> op{};
  uint8_t late_at_p = 0;  // a put that it gave up and that found P before it was frozen
};

/// No padding, so its bytes are its name.
struct State {
  Remake remake;
  std::array<Writer, kWriters> writers;
  std::array<uint8_t, kWriters> b{}, p{}, d{};  // the newest put of each writer
  std::array<uint8_t, kWriters> by_p{};         // the newest one under the id P
  uint8_t alive = 7, leased = 7;                // by home
  uint8_t ended = 0;                            // decided: part 1 follows
  uint8_t lost = 0, dropped = 0;                // by member: decided, and known to its home
  uint8_t b_live = 1, p_live = 1, over = 0;     // over: B' took over
  Peer peer = Peer::kNone;
  Spare spare = Spare::kNone;
  uint8_t cuts = 0, crashed = 0, own_cuts = 0;
  uint8_t short_then = 0;  // a replica was given up before the crash
  uint8_t forgotten = 0;   // R8: the voters know nothing of part 0 any more
  uint8_t lost_anew = 0;   // of its members: decided since
};
static_assert(std::has_unique_object_representations_v<State>);

class Checker : public Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {}

  bool run() {
    State first;
    for (size_t w = 0; w < kWriters; ++w) {
      first.writers[w].puts = world_.puts[w];
      if (w >= world_.writers) first.writers[w].stage = Stage::kOver;
    }
    push(first);
    return walk([this](const State& state) {
      successors_ = 0;
      from_ = state;
      expand(state);
      if (successors_ == 0) check_end(state);
    });
  }
  std::string counts() const {
    return std::to_string(ends) + " ends, " + std::to_string(whole) + " with three replicas";
  }
  uint64_t ends = 0, whole = 0;

 private:
  void push(const State& state) {
    if (std::memcmp(&state, &from_, sizeof(State)) == 0) return;  // nothing happened
    ++successors_;
    if (!is_new(digest_of({reinterpret_cast<const char*>(&state), sizeof(State)}))) return;
    check(state);
    keep(state);
  }
  template <class Change>
  void then(const State& s, Change change) {
    State next = s;
    change(next);
    push(next);
  }
  template <class Change>
  void then_cut(const State& s, Change change) {
    if (s.cuts >= world_.cuts_max) return;
    then(s, [&](State& n) { ++n.cuts, change(n); });
  }

  // ---- what must hold

  static bool is_up(const State& s, uint8_t m) { return (s.alive & bit(kHomeOf[m])) != 0; }
  static bool answers(const State& s, uint8_t m) {
    if (!is_up(s, m) || (s.leased & bit(kHomeOf[m])) == 0 || (s.dropped & bit(m)) != 0) return false;
    switch (m) {
      case kB: return s.b_live != 0;
      case kP: return s.p_live != 0;
      case kB2: return s.over != 0;
      case kP2:
        return s.peer == Peer::kSwitched || (s.peer >= Peer::kPlanned && OCM_MUTATION("second-id-answers"));
      default: return s.spare == Spare::kPlanned || s.spare == Spare::kGiven;
    }
  }
  static uint8_t bytes_of(const State& s, uint8_t m, size_t w) {
    return m == kD ? s.d[w] : m == kB || m == kB2 ? s.b[w] : s.p[w];
  }
  static bool has_all(const State& s, uint8_t m) {
    for (size_t w = 0; w < kWriters; ++w) {
      if (bytes_of(s, m, w) < s.writers[w].acknowledged) return false;
    }
    return true;
  }
  static bool is_told(const State& s, uint8_t m) { return (kPart[0] & bit(m)) != 0 || s.ended != 0; }

  void check(const State& s) {
    for (uint8_t m = 0; m < kMembers; ++m) {
      if (is_told(s, m) && answers(s, m) && !has_all(s, m))
        fail("S1: a replica that answers misses an acknowledged put");
    }
    bool kept = false;
    for (uint8_t m = 0; m < kMembers; ++m) {
      const bool of_it = (kPart[s.ended] & bit(m)) != 0;
      kept = kept || (of_it && is_up(s, m) && (s.lost & bit(m)) == 0 &&
                      (m != kD || s.spare != Spare::kFreed) && has_all(s, m));
    }
    if (!kept && s.short_then == 0) fail("S2: no replica that may live has every acknowledged put");
    const bool keeps = s.spare == Spare::kPlanned || s.spare == Spare::kGiven;
    if (s.ended != 0 && is_up(s, kD) && ((s.lost | s.dropped) & bit(kD)) == 0 && !keeps)
      fail("S5: a spare home does not keep its replica of a part that follows");
    for (const Writer& writer : s.writers) {
      if (writer.part == 1 && s.ended == 0) fail("S2: a part is told that was not decided");
    }
  }

  void check_end(const State& s) {
    ++ends;
    const bool up_b = is_up(s, kB), up_p = is_up(s, kP), up_d = is_up(s, kD);
    for (const Writer& writer : s.writers) {
      if (writer.stage != Stage::kOver) fail("S3: a put does not end");
      if (writer.failed != 0 && s.crashed == 0 && s.own_cuts == 0)
        fail("S4: a put failed though nothing of it did");
    }
    if (up_d && (s.spare == Spare::kReserved || (s.spare == Spare::kPlanned && s.forgotten == 0)))
      fail("S3: a reserved replica stays");
    if (up_b && s.remake.next() != Step::kDone && s.remake.next() != Step::kOver)
      fail("S3: the remake does not end");
    if (up_b && s.over == 0 && s.b_live == 0 && (s.dropped & bit(kB)) == 0) fail("S3: B is frozen for ever");
    if (up_p && s.peer == Peer::kFollowing) fail("S3: P is frozen for ever");
    if (up_p && up_b && (s.peer == Peer::kShared || s.peer == Peer::kPlanned))
      fail("S3: the second id stays");
    if (up_p && s.ended != 0 && s.p_live != 0) fail("S3: P does not follow");
    const bool three =
        s.ended != 0 && s.over != 0 && s.peer == Peer::kSwitched && s.spare == Spare::kGiven && s.lost == 0;
    if (three) ++whole;
    if (s.cuts == 0 && s.crashed == 0 && !three) fail("S4: a replica is missing though nothing failed");
  }

  // ---- what may happen

  void expand(const State& s) {
    if (is_up(s, kB)) lead(s);
    follow(s);
    for (size_t w = 0; w < world_.writers; ++w) write(s, w);
    for (const Home home : {kHomeB, kHomeP, kHomeD}) {
      if ((s.alive & bit(home)) == 0) continue;
      then(s, [&](State& n) { hear_votes(n, home); });
      const uint8_t here = home == kHomeB   ? bit(kB) | bit(kB2)
                           : home == kHomeP ? bit(kP) | bit(kP2)
                                            : bit(kD);
      const bool news = (s.lost & static_cast<uint8_t>(~s.dropped) & here) != 0;
      if (news) then(s, [&](State& n) { n.leased &= static_cast<uint8_t>(~bit(home)); });
      if (s.crashed != 0 || (world_.crash & bit(home)) == 0) continue;
      then(s, [&](State& n) {
        n.crashed = 1;
        n.short_then = (n.lost & kPart[n.ended]) != 0 ? 1 : 0;
        n.alive &= static_cast<uint8_t>(~bit(home));
        for (Writer& writer : n.writers) {
          if (home == kHomeP) writer.late_at_p = 0;
        }
      });
    }
    // The spare home knows that the home that leads is over; P's home, that B was given up: the plan is void.
    if (!is_up(s, kB) && s.spare == Spare::kReserved) then(s, [](State& n) { n.spare = Spare::kFreed; });
    // R8: each replica of part 0 is gone, as its home said.
    const bool b_gone = !is_up(s, kB) || (s.over != 0 && s.remake.next() == Step::kDone);  // M12
    const bool p_gone = !is_up(s, kP) || s.peer == Peer::kSwitched || s.peer == Peer::kEnded;
    if (world_.forgets && s.ended != 0 && b_gone && p_gone && s.forgotten == 0)
      then(s, [](State& n) { n.forgotten = 1; });
    // Who has a plan of a home that is over asks the council to give up B, as a writer does.
    const bool p_plans = is_up(s, kP) && s.peer == Peer::kPlanned,
               d_plans = is_up(s, kD) && s.spare == Spare::kPlanned;
    if (!is_up(s, kB) && d_plans && OCM_MUTATION("free-what-is-planned"))
      return then(s, [](State& n) { n.spare = Spare::kFreed; });
    if (!is_up(s, kB) && (p_plans || d_plans)) {
      then(s, [&](State& n) {
        const bool p_lives = is_up(n, kP) && (n.leased & bit(kHomeP)) != 0 && (n.lost & bit(kP)) == 0;
        if (n.ended == 0 && p_lives) n.lost |= bit(kB);
        const bool is_void = n.ended == 0 && (n.lost & bit(kB)) != 0;
        const bool over = n.ended == 0 && (n.lost & bit(kP)) != 0;  // B was the last one
        if (n.forgotten != 0) {                                     // they know nothing, so the plan is kept
          if (d_plans && OCM_MUTATION("settle-what-is-forgotten")) n.spare = Spare::kFreed;
          return;
        }
        if (d_plans && n.ended != 0) n.spare = (n.dropped & bit(kD)) != 0 ? Spare::kFreed : Spare::kGiven;
        if (d_plans && (is_void || over)) n.spare = Spare::kFreed;
        if (p_plans && n.ended != 0) n.peer = Peer::kFollowing, n.p_live = 0;
        if (p_plans && is_void) n.peer = Peer::kNone;
      });
    }
    if (!is_up(s, kB) && OCM_MUTATION("forget-the-plan") && s.peer == Peer::kPlanned)
      then(s, [](State& n) { n.peer = Peer::kNone; });
  }

  void lead(const State& s) {
    const auto done = [](State& n) { n.remake.done(); };
    const auto failed = [](State& n) { n.remake.failed(); };
    const bool p_hears = is_up(s, kP) && (s.dropped & bit(kP)) == 0;
    if ((s.dropped & bit(kB)) != 0 && s.ended == 0 && s.remake.next() != Step::kRelease &&
        s.remake.next() != Step::kOver)
      return then(s, [](State& n) { n.remake.freed(); });
    switch (s.remake.next()) {
      case Step::kReserve:
        if (!is_up(s, kD) || !p_hears) return then(s, failed);
        then(s, [&](State& n) { n.spare = Spare::kReserved, n.peer = Peer::kShared, done(n); });
        then_cut(s, [&](State& n) { n.spare = Spare::kReserved, n.peer = Peer::kShared, failed(n); });
        return;
      case Step::kCopy:
        if (!is_up(s, kD)) return then(s, failed);
        then(s, [&](State& n) { n.d = n.b, done(n); });
        then_cut(s, failed);
        return;
      case Step::kCompare:
        if (!is_up(s, kD)) return then(s, failed);
        then(s, [&](State& n) { n.d = n.b, done(n); });
        then_cut(s, failed);
        return;
      case Step::kFreeze: {
        if (s.b_live != 0) return then(s, [](State& n) { n.b_live = 0; });
        const bool idle = std::none_of(s.writers.begin(), s.writers.end(),
                                       [](const Writer& w) { return w.op[kB] == Op::kInside; });
        if (idle) then(s, done);
        then_cut(s, failed);
        return;
      }
      case Step::kDecide:
        // The plan first.
        if (s.ended == 0 && s.peer == Peer::kShared && !OCM_MUTATION("decide-without-a-plan")) {
          if (!p_hears) return then(s, failed);
          then(s, [](State& n) { n.peer = Peer::kPlanned; });
          then_cut(s, [&](State& n) { n.peer = Peer::kPlanned, failed(n); });
          then_cut(s, failed);
          return;
        }
        if (s.ended == 0 && s.spare == Spare::kReserved) {
          if (!is_up(s, kD)) return then(s, failed);
          then(s, [](State& n) { n.spare = Spare::kPlanned; });
          then_cut(s, [&](State& n) { n.spare = Spare::kPlanned, failed(n); });
          then_cut(s, failed);
          return;
        }
        if (s.ended == 0 && s.lost != 0) return then(s, failed);  // another decision was faster
        then(s, [&](State& n) { n.ended = 1, done(n); });
        then_cut(s, [&](State& n) {
          n.ended = 1;
          if (OCM_MUTATION("thaw-what-may-be-decided")) n.remake.failed();
        });
        return;
      case Step::kGive: return give(s);
      case Step::kSwitch: return then(s, [&](State& n) { n.over = 1, n.b_live = 0, done(n); });
      case Step::kThaw: return then(s, [&](State& n) { n.b_live = (n.dropped & bit(kB)) == 0, done(n); });
      case Step::kRelease: {
        // Each until it is heard.
        const bool d = is_up(s, kD) && (s.spare == Spare::kReserved || s.spare == Spare::kPlanned);
        const bool p = is_up(s, kP) && (s.peer == Peer::kShared || s.peer == Peer::kPlanned) && s.ended == 0;
        if (d) return then(s, [](State& n) { n.spare = Spare::kFreed; });
        if (p) return then(s, [](State& n) { n.peer = Peer::kNone; });
        return then(s, done);
      }
      default: return;
    }
  }

  void give(const State& s) {
    // The spare home, then P's, which answers when it has switched.
    if (is_up(s, kD) && s.spare == Spare::kPlanned) {
      then(s, [](State& n) { n.spare = Spare::kGiven; });
      then_cut(s, [](State& n) { n.remake.failed(); });
      return;
    }
    if (is_up(s, kP) && s.peer == Peer::kPlanned) {
      then(s, [](State& n) { n.peer = Peer::kFollowing, n.p_live = 0; });
      then_cut(s, [](State& n) { n.remake.failed(); });
      return;
    }
    if (is_up(s, kP) && s.peer == Peer::kFollowing) {
      then_cut(s, [](State& n) { n.remake.failed(); });
      return;  // it waits
    }
    then(s, [](State& n) { n.remake.done(); });
  }

  /// P's home.
  void follow(const State& s) {
    if (!is_up(s, kP) || s.peer != Peer::kFollowing) return;
    const bool under_way = std::any_of(s.writers.begin(), s.writers.end(), [](const Writer& writer) {
      return writer.op[kP] == Op::kInside || writer.late_at_p != 0;
    });
    if (under_way && !OCM_MUTATION("follow-without-waiting")) return;
    then(s, [](State& n) { n.peer = (n.dropped & bit(kP2)) != 0 ? Peer::kEnded : Peer::kSwitched; });
  }

  /// What was given up is freed first.
  static void hear_votes(State& n, Home home) {
    for (uint8_t m = 0; m < kMembers; ++m) {
      if (kHomeOf[m] != home || (n.lost & bit(m)) == 0) continue;
      n.dropped |= bit(m);
      if (m == kB) n.b_live = 0;
      if (m == kP) n.p_live = 0, n.peer = Peer::kEnded;
      if (m == kD) n.spare = Spare::kFreed;
      // Its part is told, so the one before is over, whether the same vote says so or not.
      if (m == kP2 && n.peer != Peer::kEnded && !OCM_MUTATION("drop-only-the-second-id")) {
        n.p_live = 0;
        n.peer = Peer::kEnded;
      }
    }
    n.leased |= bit(home);
    const bool watched =
        (n.dropped & bit(kP2)) == 0 || !OCM_MUTATION("drop-only-the-second-id");  // 64 with each vote
    if (home == kHomeP && n.ended != 0 && n.peer == Peer::kPlanned && watched)
      n.peer = Peer::kFollowing, n.p_live = 0;
    // So its part is told.
    if (home == kHomeD && n.spare == Spare::kPlanned && (n.lost & (bit(kB2) | bit(kP2))) != 0)
      n.spare = Spare::kGiven;
    if (home == kHomeP && (n.lost & bit(kB)) != 0 && (n.peer == Peer::kShared || n.peer == Peer::kPlanned))
      n.peer = Peer::kNone;
  }

  // ---- a writer and its daemon

  static void post(Writer& writer) {
    writer.stage = Stage::kPosting;
    for (uint8_t m = 0; m < kMembers; ++m) {
      const bool to = (kPart[writer.part] & bit(m)) != 0 && (writer.lost & bit(m)) == 0;
      writer.op[m] = to ? Op::kSent : Op::kNone;
    }
  }

  void write(const State& s, size_t w) {
    const Writer& writer = s.writers[w];
    if (writer.late_at_p != 0) {
      then(s, [&](State& n) {
        // Nothing of an older connection is applied under one id after something of a newer one.
        uint8_t& late = n.writers[w].late_at_p;
        if (late > n.by_p[w]) n.p[w] = late;
        late = 0;
      });
    }
    switch (writer.stage) {
      case Stage::kIdle:
        return then(s, [&](State& n) { ++n.writers[w].number, n.writers[w].again = 0, post(n.writers[w]); });
      case Stage::kPosting: {
        bool answered = true;
        for (uint8_t m = 0; m < kMembers; ++m) {
          if (writer.op[m] != Op::kSent && writer.op[m] != Op::kInside) continue;
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

  void step(const State& s, size_t w, uint8_t m) {
    const auto set = [&](Op op) { return [w, m, op](State& n) { n.writers[w].op[m] = op; }; };
    if (!is_up(s, m)) return then(s, set(Op::kFailed));
    const auto own_cut = [&](auto change) { then_cut(s, [&](State& n) { n.own_cuts = 1, change(n); }); };
    if (s.writers[w].op[m] == Op::kSent) {
      const bool leased = (s.leased & bit(kHomeOf[m])) != 0;
      then(s, set(answers(s, m) ? Op::kInside : leased ? Op::kRevoked : Op::kFailed));
      own_cut(set(Op::kFailed));
      return;
    }
    then(s, [&](State& n) { store(n, w, m, n.writers[w].number), set(Op::kGood)(n); });
    own_cut([&](State& n) { store(n, w, m, n.writers[w].number), set(Op::kFailed)(n); });
    if (m == kP)
      own_cut([&](State& n) { n.writers[w].late_at_p = n.writers[w].number, set(Op::kFailed)(n); });
  }
  static void store(State& n, size_t w, uint8_t m, uint8_t number) {
    (m == kD ? n.d[w] : m == kB || m == kB2 ? n.b[w] : n.p[w]) = number;
    if (m == kP) n.by_p[w] = number;
  }

  static uint8_t having(const Writer& writer, Op op) {
    uint8_t out = 0;
    for (uint8_t m = 0; m < kMembers; ++m) out |= writer.op[m] == op ? bit(m) : 0;
    return out & static_cast<uint8_t>(~writer.lost);
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
    const uint8_t missed = having(writer, Op::kRevoked) | having(writer, Op::kFailed);
    if (having(writer, Op::kGood) == 0)
      writer.stage = Stage::kResolving;
    else if (missed == 0)
      end_put(writer, true);
    else
      writer.stage = Stage::kLosing;
  }

  void lose(const State& s, size_t w) {
    const Writer& writer = s.writers[w];
    const auto missed = static_cast<uint8_t>(having(writer, Op::kRevoked) | having(writer, Op::kFailed));
    const auto m = static_cast<uint8_t>(std::countr_zero(missed));
    // Its daemon asks the home first whether a replica that was revoked is only frozen, or goes on elsewhere.
    if (writer.op[m] == Op::kRevoked && is_up(s, m) && !OCM_MUTATION("lose-what-is-frozen")) {
      if (is_closed(s, m)) {
        then_cut(s, [&](State& n) { n.own_cuts = 1, lose_now(n, w, m); });  // for too long
        return;
      }
      const bool gone = (s.dropped & bit(m)) != 0 || (m == kD && s.spare == Spare::kFreed);
      if (!gone) return then(s, [&](State& n) { n.writers[w].stage = Stage::kResolving; });
    }
    then(s, [&](State& n) { lose_now(n, w, m); });
  }
  /// Frozen, or a second id that does not answer yet.
  static bool is_closed(const State& s, uint8_t m) {
    if ((s.dropped & bit(m)) != 0) return false;
    switch (m) {
      case kB:
      case kB2: return s.over == 0 && s.remake.is_frozen();
      case kP: return s.peer == Peer::kFollowing;
      case kP2: return s.peer == Peer::kPlanned || s.peer == Peer::kFollowing;
      default: return false;
    }
  }

  void lose_now(State& n, size_t w, uint8_t m) {
    Writer& mine = n.writers[w];
    if (mine.part == 0 && n.forgotten != 0) return lose_forgotten(n, w, m);
    if ((n.lost & bit(m)) == 0) {
      if (mine.part == 0 && n.ended != 0 && !OCM_MUTATION("lose-after-the-end")) {
        mine.stage = Stage::kResolving;
        return;
      }
      auto living = static_cast<uint8_t>(kPart[mine.part] & ~n.lost & ~bit(m));
      for (uint8_t i = 0; i < kMembers; ++i) {
        if (!is_up(n, i) || (n.leased & bit(kHomeOf[i])) == 0) living &= static_cast<uint8_t>(~bit(i));
      }
      if (living == 0) return end_put(mine, false);
      n.lost |= bit(m);
    }
    const bool quiet = !is_up(n, m) || (n.leased & bit(kHomeOf[m])) == 0 || (n.dropped & bit(m)) != 0;
    if (!quiet) return;  // it waits
    mine.lost |= bit(m);
    conclude(mine);
  }

  /// The voters begin anew with part 0, and no home has a replica of it: they decide and are quiet at once. So a home of
  /// another replica is asked then what became of the part (Remaker::check_given_up).
  void lose_forgotten(State& n, size_t w, uint8_t m) {
    Writer& mine = n.writers[w];
    const uint8_t other = m == kB ? kP : kB;
    if ((n.lost_anew & bit(other)) != 0 || !is_up(n, other)) return end_put(mine, false);
    n.lost_anew |= bit(m);
    if (OCM_MUTATION("ask-no-home-afterwards")) {
      mine.lost |= bit(m);
      return conclude(mine);
    }
    mine.stage = Stage::kResolving;  // the part goes on with that replica, under another id
  }

  static bool is_told_of_next(const State& s, const Writer& writer) {
    return writer.part == 0 &&
           ((is_up(s, kB) && s.over != 0) || (is_up(s, kP) && s.peer == Peer::kSwitched) ||
            (is_up(s, kD) && s.spare == Spare::kGiven));
  }

  void resolve(const State& s, size_t w) {
    const Writer& writer = s.writers[w];
    // Who finds one frozen waits; what is not heard is as nobody.
    for (uint8_t m = 0; m < kMembers; ++m) {
      if ((kPart[writer.part] & bit(m)) != 0 && is_up(s, m) && is_closed(s, m) && !is_told_of_next(s, writer))
        return;
    }
    if (is_told_of_next(s, writer)) {
      return then(s, [&](State& n) {
        Writer& mine = n.writers[w];
        mine.part = 1, mine.again = 0, mine.lost = 0;
        post(mine);
      });
    }
    then(s, [&](State& n) {
      Writer& mine = n.writers[w];
      if (mine.again != 0) return end_put(mine, false);
      mine.again = 1;
      post(mine);
    });
  }

  const World world_;
  State from_;
  size_t successors_ = 0;
};

constexpr uint8_t kAny = 7;
const std::vector<World> kGate = {
    {.name = "nothing fails", .writers = 2, .puts = {3, 3}},
    {.name = "messages are lost", .puts = {3}, .cuts_max = 4},
    {.name = "the voters forget", .puts = {2}, .cuts_max = 3, .forgets = true},
    {.name = "the voters forget, two writers", .writers = 2, .puts = {1, 1}, .cuts_max = 1, .forgets = true},
    {.name = "the leading home ends, the voters forget",
     .puts = {2},
     .cuts_max = 2,
     .crash = bit(kHomeB),
     .forgets = true},
    {.name = "two writers, lost messages", .writers = 2, .puts = {1, 1}, .cuts_max = 2},
    {.name = "the leading home ends", .puts = {3}, .cuts_max = 2, .crash = bit(kHomeB)},
    {.name = "the other home ends", .puts = {3}, .cuts_max = 2, .crash = bit(kHomeP)},
    {.name = "the spare home ends", .puts = {3}, .cuts_max = 2, .crash = bit(kHomeD)},
};
const std::vector<World> kDeep = {
    {.name = "two writers, more lost", .writers = 2, .puts = {2, 2}, .cuts_max = 3},
    {.name = "all at once", .writers = 2, .puts = {2, 1}, .cuts_max = 2, .crash = kAny, .forgets = true},
    {.name = "five lost messages", .puts = {4}, .cuts_max = 5, .crash = kAny},
};

/// Each breaks one rule; a world of the gate must notice.
constexpr Mutation kMutations[] = {
    {"give-without-deciding", "messages are lost"},
    {"give-without-freeze", "nothing fails"},
    {"thaw-what-may-be-decided", "messages are lost"},
    {"decide-without-a-plan", "the leading home ends"},
    {"second-id-answers", "messages are lost"},
    {"free-what-is-planned", "the leading home ends"},
    {"follow-without-waiting", "messages are lost"},
    {"forget-the-plan", "the leading home ends"},
    {"drop-only-the-second-id", "messages are lost"},
    {"lose-what-is-frozen", "nothing fails"},
    {"lose-after-the-end", "messages are lost"},
    {"ask-no-home-afterwards", "the voters forget"},
    {"settle-what-is-forgotten", "the leading home ends, the voters forget"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 10'000'000);
}
