// Every schedule of councils that follow one another while the coordinator's daemon is restarted in the
// middle: requests and answers are lost, requests come late, voters have not heard; walked exhaustively over
// the very code of src/control/succession.h.
//
// How to run it: model.h.
//
// The coordinator's node has run A, then B, then C: each run is a voter of its own, and begins with a council
// of itself alone. The council X = [A, n1, n2] decided something about a part (a fact: what a majority of X
// noted).
//
// What must hold in every state
//   S1 no two councils that were installed anywhere follow one base
//   S2 no council acts (a majority of its voters votes in it) while one acts that it follows
//   S3 who votes in a council that follows X knows what X decided
//   S4 from here, if nothing more is lost and nobody dies, the run that lives comes to a council that
//   continues all
//      whose voters live
#define OCM_MODEL
#include <array>
#include <bit>
#include <functional>
#include <vector>

#include "control/succession.h"
#include "model.h"

namespace ocm {
namespace {

using namespace control;
using namespace model;

// Voters: runs A, B and C of the coordinator's node, and the nodes n1 to n4.
constexpr uint8_t kRuns = 3, kVoters = 7;
constexpr uint8_t bit(uint8_t i) { return static_cast<uint8_t>(1u << i); }
constexpr uint8_t kN1 = bit(3), kN2 = bit(4), kN3 = bit(5);
constexpr uint8_t kCouncilsMax = 12;

struct Value {
  uint8_t id = 0;
  std::vector<uint64_t> follows;
  std::vector<uint64_t> bases() const { return follows; }
};

struct World {
  const char* name;
  std::vector<uint8_t> next;  // whom a new council may have, besides the coordinator's run
  uint8_t crashes = 1;
  uint8_t attempts = 1, attempts_after = 1;  // of the first run, and of each that follows
  uint8_t lost_max = 1;                      // messages
  uint8_t late_max = 0;                      // requests that come after their attempt
  bool two_chains = false;                   // n3 votes in a council Y of its own, which a run before A left
  bool facts = true;
};

struct Council {
  uint8_t voters = 0, number = 0, chains = 0, facts = 0;
  std::vector<uint64_t> follows;
  bool installed = false;
};
struct VoterState {
  uint8_t council = 0, facts = 0;
  bool dead = false;
  SuccessionVoter<Value> end;
};
enum class Stage : uint8_t { kIdle, kSealing, kAccepting, kInstalling };
struct Request {
  uint8_t base = 0;
  Ballot ballot;
  uint8_t value = 0;  // 0: seal
};
struct State {
  std::vector<Council> councils{1};  // by id; 0 is none
  std::array<VoterState, kVoters> voters;
  bool decided = false;
  uint8_t crashes = 0, attempts = 0, lost = 0, late = 0;
  // The run of the coordinator that lives.
  uint8_t run = 0, own = 0, round = 0;
  std::vector<uint8_t> foreign;
  Stage stage = Stage::kIdle;
  std::optional<Succession<Value>> attempt;
  uint8_t facts = 0;     // of those that it sealed
  uint16_t learned = 0;  // councils that it may install where they were not heard of
  uint8_t installing = 0, installed = 0;
  std::vector<Request> sent;  // of attempts before
};

class Checker : public Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {}

  bool run() {
    push(first());
    return walk([this](const State& state) { expand(state); });
  }
  std::string counts() const {
    return std::to_string(chosen_) + " chosen, " + std::to_string(finished_) + " of an earlier run, " +
           std::to_string(taught_) + " installed late";
  }

 private:
  static std::string name_of(uint8_t voter) { return std::string(1, static_cast<char>('a' + voter)); }

  State first() const {
    State s;
    s.crashes = world_.crashes, s.attempts = world_.attempts, s.lost = world_.lost_max,
    s.late = world_.late_max;
    const auto make = [&s](uint8_t voters, uint8_t chains) {
      s.councils.push_back({voters, 1, chains, 0, {}, true});
      const auto id = static_cast<uint8_t>(s.councils.size() - 1);
      for (uint8_t v = 0; v < kVoters; ++v) {
        if ((voters & bit(v)) != 0) s.voters[v].council = id;
      }
      return id;
    };
    s.own = make(bit(0) | kN1 | kN2, 1);
    if (world_.two_chains) s.foreign.push_back(make(kN3, 8));
    return s;
  }

  // ---- what a state is

  static bool continues(const Council& newer, const Council& older) {
    return (older.chains & ~newer.chains) == 0;
  }
  /// A council of one run alone, which is over.
  static bool is_over(const State& s, uint64_t id) {
    const uint8_t voters = s.councils[id].voters;
    return std::popcount(voters) == 1 && (voters & (bit(kRuns) - 1)) != 0 && voters != bit(s.run);
  }
  size_t majority(const State& s, uint64_t id) const {
    if (is_over(s, id)) return 0;
    return static_cast<size_t>(std::popcount(s.councils[id].voters)) / 2 + 1;
  }
  static bool votes(const VoterState& v, uint64_t council) {
    return !v.dead && v.council == council && !v.end.is_sealed();
  }
  bool acts(const State& s, uint64_t id) const {
    size_t count = 0;
    for (uint8_t v = 0; v < kVoters; ++v) count += votes(s.voters[v], id) ? 1 : 0;
    return !is_over(s, id) && count >= majority(s, id);
  }
  static bool is_before(const State& s, uint64_t older, uint64_t newer) {
    const auto& bases = s.councils[newer].follows;
    return std::any_of(bases.begin(), bases.end(),
                       [&](uint64_t base) { return base == older || is_before(s, older, base); });
  }

  void push(State state) {
    if (has_failed() || !is_new(digest(state))) return;
    check(state);
    check_recovers(state);
    keep(std::move(state));
  }

  Digest digest(const State& s) const {
    model::Text out;
    const auto put = [&out](uint64_t value) { out += static_cast<char>(value), out += '|'; };
    const auto put_ballot = [&put](const Ballot& b) { put(b.round), put(b.by); };
    const auto put_value = [&put](const std::optional<Value>& v) { put(v ? v->id : 0); };
    for (const Council& c : s.councils) {
      put(c.voters), put(c.number), put(c.chains), put(c.facts), put(c.installed);
      for (const uint64_t base : c.follows) put(base);
      out += ';';
    }
    for (const VoterState& v : s.voters) {
      put(v.council), put(v.facts), put(v.dead), put_ballot(v.end.promised()),
          put_ballot(v.end.accepted_at());
      put_value(v.end.accepted());
    }
    for (const uint64_t value :
         {uint64_t{s.decided}, uint64_t{s.crashes}, uint64_t{s.attempts}, uint64_t{s.lost}, uint64_t{s.late},
          uint64_t{s.run}, uint64_t{s.own}, uint64_t{s.round}, static_cast<uint64_t>(s.stage),
          uint64_t{s.facts}, uint64_t{s.installing}, uint64_t{s.installed}})
      put(value);
    out += std::string_view(reinterpret_cast<const char*>(&s.learned), sizeof(s.learned));
    for (const uint8_t id : s.foreign) put(id);
    out += ';';
    if (s.attempt) {
      put_ballot(s.attempt->ballot()), put_value(s.attempt->value());
      for (const auto& [ballot, value] : s.attempt->heard()) put_ballot(ballot), put(value.id);
      s.attempt->visit(
          [&](uint64_t base, const std::set<std::string>& promised, const std::set<std::string>& accepted) {
            put(base);
            for (const auto& v : promised) out += v;
            out += '/';
            for (const auto& v : accepted) out += v;
          });
    }
    for (const Request& r : s.sent) put(r.base), put_ballot(r.ballot), put(r.value);
    return digest_of(out);
  }

  // ---- what must hold

  void check(const State& s) {
    for (uint8_t c = 1; c < s.councils.size(); ++c) {
      for (uint8_t d = 1; d < s.councils.size(); ++d) {
        if (c == d || !s.councils[c].installed || !s.councils[d].installed) continue;
        for (const uint64_t base : s.councils[c].follows) {
          const auto& others = s.councils[d].follows;
          if (std::find(others.begin(), others.end(), base) != others.end())
            fail("S1: two councils follow one");
        }
        if (is_before(s, c, d) && acts(s, c) && acts(s, d))
          fail("S2: a council acts, and so does one that it follows");
      }
    }
    for (const VoterState& v : s.voters) {
      if (s.decided && v.council > 1 && votes(v, v.council) && is_before(s, 1, v.council) && v.facts == 0)
        fail("S3: a voter does not know what was decided");
    }
  }

  void check_recovers(State s) {
    if (has_failed()) return;
    s.lost = s.late = s.crashes = 0;
    for (int i = 0; i < 8; ++i) {
      if (is_good(s)) return;
      if (s.stage != Stage::kInstalling) s.stage = Stage::kIdle, s.attempt.reset();
      for (uint8_t v = kRuns; v < kVoters; ++v) hear(s, v);
      finish_install(s);
      if (is_good(s)) return;
      if (s.stage == Stage::kInstalling) continue;
      begin(s);
      for (int again = 0; again < 3; ++again) {  // what it hears makes it ask more
        for (uint8_t v = 0; v < kVoters; ++v) {
          for (const uint64_t base : bases_of(s)) (void)seal(s, static_cast<uint8_t>(base), v, true);
        }
        for (uint8_t c = 1; c < s.councils.size(); ++c) {
          for (uint8_t v = 0; v < kVoters; ++v) (void)teach(s, c, v);
        }
      }
      uint8_t living = 0;
      for (uint8_t v = kRuns; v < kVoters; ++v)
        living |= !s.voters[v].dead && s.voters[v].council != 0 ? bit(v) : 0;
      if (std::popcount(living) % 2 != 0) living &= static_cast<uint8_t>(living - 1);
      if (!settle(s, living)) continue;
      for (int again = 0; again < 4; ++again) {
        for (uint8_t v = 0; v < kVoters; ++v) (void)accept(s, v, true);
      }
      finish_install(s);
    }
    if (!is_good(s)) fail("S4: no council continues those whose voters live");
  }
  void finish_install(State& s) {
    for (uint8_t v = 0; v < kVoters && s.stage == Stage::kInstalling; ++v) (void)install(s, v, true);
  }
  bool is_good(const State& s) const {
    const uint8_t wanted = static_cast<uint8_t>(1 | (world_.two_chains ? 8 : 0));
    return acts(s, s.own) && (s.councils[s.own].chains & wanted) == wanted;
  }

  // ---- steps; false where nothing happened

  static std::vector<uint64_t> bases_of(const State& s) {
    std::vector<uint64_t> out;
    if (s.attempt) s.attempt->visit([&](uint64_t base, const auto&, const auto&) { out.push_back(base); });
    return out;
  }
  void add_base(State& s, uint64_t id) const {
    if (!s.attempt->knows(id)) s.attempt->add(id, majority(s, id));
  }

  /// A report of what a node knows.
  bool hear(State& s, uint8_t v) const {
    const uint8_t id = s.voters[v].council;
    if (s.voters[v].dead || id == 0 || id == s.own || continues(s.councils[s.own], s.councils[id]))
      return false;
    if (std::find(s.foreign.begin(), s.foreign.end(), id) != s.foreign.end()) return false;
    if (s.stage == Stage::kInstalling && s.installing != id) {
      // What it installs is over: another run had it acting, and made the next of it.
      const Council &mine = s.councils[s.installing], &theirs = s.councils[id];
      if (!continues(theirs, mine) || theirs.number <= mine.number) return false;
      if (OCM_MUTATION("install-what-is-over")) return false;
      s.installing = s.installed = 0;
      s.stage = Stage::kIdle;
      s.attempt.reset();
    }
    for (const uint8_t f : s.foreign) {
      if (continues(s.councils[f], s.councils[id]) && s.councils[f].number >= s.councils[id].number)
        return false;
    }
    std::erase_if(s.foreign, [&](uint8_t f) {
      return continues(s.councils[id], s.councils[f]) && s.councils[id].number > s.councils[f].number;
    });
    s.foreign.push_back(id);
    std::sort(s.foreign.begin(), s.foreign.end());
    return true;
  }

  void begin(State& s) const {
    s.round = std::max(s.round, s.councils[s.own].number);
    for (const uint8_t f : s.foreign) s.round = std::max(s.round, s.councils[f].number);
    // As after an attempt that was refused.
    for (const VoterState& voter : s.voters) {
      if (!voter.dead) s.round = std::max(s.round, static_cast<uint8_t>(voter.end.promised().round));
    }
    std::set<uint64_t> past;
    for (uint8_t c = 1; c < s.councils.size(); ++c) {
      const auto is_after = [&](uint8_t f) {
        return s.councils[f].number > s.councils[c].number && continues(s.councils[f], s.councils[c]);
      };
      if (is_after(s.own) || std::any_of(s.foreign.begin(), s.foreign.end(), is_after)) past.insert(c);
    }
    s.attempt.emplace(Ballot{++s.round, static_cast<uint64_t>(s.run + 1)},
                      [past](uint64_t base) { return past.contains(base); });
    s.stage = Stage::kSealing;
    s.facts = 0;
    add_base(s, s.own);
    for (const uint8_t f : s.foreign) add_base(s, f);
  }

  bool seal(State& s, uint8_t base, uint8_t v, bool heard) {
    VoterState& voter = s.voters[v];
    if (s.stage != Stage::kSealing || voter.dead || voter.council != base || !s.attempt->knows(base))
      return false;
    const bool agreed = voter.end.promise(s.attempt->ballot());
    if (!heard) return true;
    if (!agreed) {
      s.round = std::max(s.round, static_cast<uint8_t>(voter.end.promised().round));
      return true;
    }
    s.facts |= voter.facts;
    if (!OCM_MUTATION("tell-not-what-it-was-made-of")) s.learned |= static_cast<uint16_t>(1u << base);
    s.attempt->promised(base, name_of(v), voter.end.accepted_at(), voter.end.accepted());
    if (voter.end.accepted()) {
      for (const uint64_t other : voter.end.accepted()->follows) add_base(s, other);
    }
    return true;
  }
  /// A council that a voter told of is installed where it was not heard.
  bool teach(State& s, uint8_t council, uint8_t v) {
    if (s.stage != Stage::kSealing || (s.learned >> council & 1) == 0 || !enter(s, council, v)) return false;
    ++taught_;
    return true;
  }
  static bool enter(State& s, uint8_t council, uint8_t v) {
    VoterState& voter = s.voters[v];
    const Council& to = s.councils[council];
    if (voter.dead || (to.voters & bit(v)) == 0 || voter.council == council) return false;
    if (voter.council != 0 &&
        (!continues(to, s.councils[voter.council]) || to.number <= s.councils[voter.council].number))
      return false;
    voter.council = council;
    voter.facts |= OCM_MUTATION("install-without-what-was-known") ? 0 : to.facts;
    voter.end = {};
    s.councils[council].installed = true;
    return true;
  }

  /// `others`: whom a new council has besides the coordinator's run.
  bool settle(State& s, uint8_t others) {
    if (s.stage != Stage::kSealing) return false;
    if (const Value* old = s.attempt->to_finish()) {
      ++finished_;
      s.attempt->propose(Value(*old));
    } else {
      const std::vector<uint64_t> free = s.attempt->free();
      if (std::find(free.begin(), free.end(), s.own) == free.end() || s.councils.size() >= kCouncilsMax)
        return false;
      Council next{static_cast<uint8_t>(others | bit(s.run)),
                   static_cast<uint8_t>(s.attempt->ballot().round),
                   s.councils[s.own].chains,
                   s.facts,
                   {s.own},
                   false};
      for (const uint64_t base : free) {
        if (base == s.own) continue;
        next.follows.push_back(base);
        next.chains |= s.councils[base].chains;
      }
      // Only nodes whose councils end in this one; an even number of them besides itself.
      for (uint8_t v = kRuns; v < kVoters; ++v) {
        const uint8_t in = s.voters[v].council;
        if (in != 0 && !continues(next, s.councils[in])) next.voters &= static_cast<uint8_t>(~bit(v));
      }
      if (std::popcount(next.voters) % 2 == 0)
        next.voters &= static_cast<uint8_t>(next.voters - 1) | bit(s.run);
      if (std::popcount(next.voters) % 2 == 0) return false;
      s.councils.push_back(next);
      s.attempt->propose({static_cast<uint8_t>(s.councils.size() - 1), next.follows});
    }
    s.stage = Stage::kAccepting;
    if (s.attempt->is_chosen()) choose(s);
    return true;
  }
  void choose(State& s) {
    ++chosen_;
    s.stage = Stage::kInstalling;
    s.installing = s.attempt->value()->id;
    s.installed = 0;
    if (is_over(s, s.installing)) installed(s);
  }

  bool accept(State& s, uint8_t v, bool heard) {
    if (s.stage != Stage::kAccepting) return false;
    const std::optional<uint64_t> base = s.attempt->to_ask();
    VoterState& voter = s.voters[v];
    if (!base || voter.dead || voter.council != *base) return false;
    const bool agreed = voter.end.accept(s.attempt->ballot(), *s.attempt->value());
    if (!heard) return true;
    if (!agreed)
      s.round = std::max(s.round, static_cast<uint8_t>(voter.end.promised().round));
    else
      s.attempt->accepted(*base, name_of(v));
    if (s.attempt->is_chosen()) choose(s);
    return true;
  }

  bool install(State& s, uint8_t v, bool heard) {
    if (s.stage != Stage::kInstalling || (s.councils[s.installing].voters & bit(v)) == 0 || s.voters[v].dead)
      return false;
    const bool entered = enter(s, s.installing, v);
    if (!heard) return entered;
    const bool is_in = s.voters[v].council == s.installing;
    if (!is_in || (s.installed & bit(v)) != 0) return entered;
    s.installed |= bit(v);
    if (static_cast<size_t>(std::popcount(s.installed)) >= majority(s, s.installing)) installed(s);
    return true;
  }
  void installed(State& s) {
    const uint8_t now = s.installing;
    const Council& council = s.councils[now];
    std::erase_if(s.foreign, [&](uint8_t f) {
      return std::find(council.follows.begin(), council.follows.end(), f) != council.follows.end();
    });
    if (std::find(council.follows.begin(), council.follows.end(), s.own) != council.follows.end())
      s.own = now;
    else if (std::find(s.foreign.begin(), s.foreign.end(), now) == s.foreign.end())
      s.foreign.push_back(now), std::sort(s.foreign.begin(), s.foreign.end());
    s.installing = s.installed = 0;
    s.stage = Stage::kIdle;
    s.attempt.reset();
  }

  // ---- all that may happen

  template <class Change>
  void then(const State& s, Change change) {
    if (has_failed()) return;
    State next = s;
    if (change(next)) push(std::move(next));
  }
  template <class Change>
  void then_lost(const State& s, Change change) {
    if (s.lost == 0) return;
    then(s, [&](State& n) { return --n.lost, change(n); });
  }
  /// Requests of an attempt that is over may still lie in a socket.
  void keep_requests(State& s) const {
    if (s.late == 0 || !s.attempt) return;
    for (const uint64_t base : bases_of(s))
      s.sent.push_back({static_cast<uint8_t>(base), s.attempt->ballot(), 0});
    if (const auto base = s.attempt->to_ask())
      s.sent.push_back({static_cast<uint8_t>(*base), s.attempt->ballot(), s.attempt->value()->id});
  }

  void expand(const State& s) {
    for (uint8_t v = 0; v < kVoters && world_.facts; ++v) {
      if (!votes(s.voters[v], 1) || s.voters[v].facts != 0) continue;
      then(s, [&](State& n) {
        n.voters[v].facts = 1;
        size_t count = 0;
        for (const VoterState& voter : n.voters) count += voter.council == 1 && voter.facts != 0 ? 1 : 0;
        if (count >= 2) n.decided = true;
        return true;
      });
    }
    if (s.crashes != 0 && s.councils.size() < kCouncilsMax) {
      then(s, [&](State& n) {
        keep_requests(n);
        --n.crashes;
        n.voters[n.run].dead = true;
        ++n.run;
        n.councils.push_back({bit(n.run), 1, bit(n.run), 0, {}, true});
        n.own = n.voters[n.run].council = static_cast<uint8_t>(n.councils.size() - 1);
        n.foreign.clear();
        n.round = 1;
        n.stage = Stage::kIdle;
        n.attempt.reset();
        n.attempts = world_.attempts_after;
        n.learned = 0;
        n.installing = n.installed = n.facts = 0;
        return true;
      });
    }
    for (uint8_t v = kRuns; v < kVoters; ++v) {
      if (s.stage == Stage::kIdle || s.stage == Stage::kInstalling)
        then(s, [&](State& n) { return hear(n, v); });
    }
    if (s.stage == Stage::kIdle && s.attempts != 0) {
      then(s, [&](State& n) { return --n.attempts, begin(n), true; });
    }
    if (s.stage == Stage::kSealing || s.stage == Stage::kAccepting) {
      if (s.attempts != 0)
        then(s, [&](State& n) { return keep_requests(n), n.stage = Stage::kIdle, n.attempt.reset(), true; });
    }
    for (uint8_t v = 0; v < kVoters; ++v) {
      for (const uint64_t base : bases_of(s)) {
        then(s, [&](State& n) { return seal(n, static_cast<uint8_t>(base), v, true); });
        then_lost(s, [&](State& n) { return seal(n, static_cast<uint8_t>(base), v, false); });
      }
      then(s, [&](State& n) { return accept(n, v, true); });
      then_lost(s, [&](State& n) { return accept(n, v, false); });
      then(s, [&](State& n) { return install(n, v, true); });
      then_lost(s, [&](State& n) { return install(n, v, false); });
      for (uint8_t c = 1; c < s.councils.size(); ++c) then(s, [&](State& n) { return teach(n, c, v); });
    }
    for (const uint8_t others : world_.next) then(s, [&](State& n) { return settle(n, others); });
    for (size_t i = 0; i < s.sent.size() && s.late != 0; ++i) {
      for (uint8_t v = 0; v < kVoters; ++v) {
        const Request& late = s.sent[i];
        if (s.voters[v].dead || s.voters[v].council != late.base) continue;
        then(s, [&](State& n) {
          --n.late;
          if (n.late == 0) n.sent.clear();
          return late.value == 0
                     ? n.voters[v].end.promise(late.ballot)
                     : n.voters[v].end.accept(late.ballot, {late.value, n.councils[late.value].follows});
        });
      }
    }
  }

  const World world_;
  uint64_t chosen_ = 0, finished_ = 0, taught_ = 0;
};

const World kGate[] = {
    {.name = "a coordinator restarts", .next = {kN1 | kN2, kN2 | kN3}},
    {.name = "it restarts twice", .next = {kN1 | kN2}, .crashes = 2, .lost_max = 0, .facts = false},
    {.name = "requests come late",
     .next = {kN1 | kN3},
     .attempts = 2,
     .lost_max = 0,
     .late_max = 2,
     .facts = false},
    {.name = "two chains, attempts",
     .next = {kN1 | kN2},
     .attempts = 2,
     .lost_max = 0,
     .two_chains = true,
     .facts = false},
    {.name = "two chains, attempts after",
     .next = {kN1 | kN2},
     .attempts_after = 2,
     .lost_max = 0,
     .two_chains = true,
     .facts = false},
    {.name = "two chains", .next = {kN1 | kN2}, .lost_max = 1, .two_chains = true, .facts = false},
};
const World kDeep[] = {
    {.name = "restarts and attempts",
     .next = {kN1 | kN2, kN2 | kN3},
     .crashes = 2,
     .attempts = 2,
     .lost_max = 2},
};

/// Each breaks one rule; a world of the gate must notice.
constexpr Mutation kMutations[] = {
    {"refuse-another-run", "a coordinator restarts"},
    {"propose-ones-own", "a coordinator restarts"},
    {"accept-below-the-promise", "requests come late"},
    {"promise-a-lower-ballot", "requests come late"},
    {"seal-but-vote-on", "a coordinator restarts"},
    {"seal-a-minority", "a coordinator restarts"},
    {"install-without-what-was-known", "a coordinator restarts"},
    {"tell-not-what-it-was-made-of", "a coordinator restarts"},
    {"one-base-is-enough", "two chains"},
    {"finish-what-is-past", "two chains"},
    {"follow-what-is-past", "two chains, attempts after"},
    {"finish-the-lower-ballot", "two chains, attempts"},
    {"install-what-is-over", "requests come late"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
