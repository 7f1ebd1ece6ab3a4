// Every schedule of the seat of the coordinator: its holder changes the council, is cut off, resigns or dies, one or two other
// voters become candidates at once, requests and answers come late or never; walked exhaustively over the very code
// of src/control/seat.h and src/control/succession.h.
//
// How to run it: model.h.
//
// The nodes a, b and c vote in the first council, whose coordinator is a; d may come. Each node is one run of its
// daemon. Time passes in ticks, at any moment; a request to vote is answered late or not at all, and so is its answer
// heard; what candidates ask is answered at once, or its answer is lost.
//
// What must hold in every state
//   S1 no two councils that were installed anywhere follow one (E1)
//   S2 one node at most acts as coordinator (E2)
//   S3 a coordinator that hears of a majority of its voters with each tick acts all the time (E4)
//   S4 from here, if nothing more is lost and nobody dies, some node acts, unless a majority of a council died
#define OCM_MODEL
#include <array>
#include <bit>
#include <vector>

#include "../../src/control/loss.cpp"  // NOLINT: compiled again, with mutations
#include "control/seat.h"
#include "control/succession.h"
#include "model.h"

namespace ocm {
namespace {

using namespace control;
using namespace model;

constexpr uint8_t kNodes = 4, kCouncilsMax = 6;
constexpr uint64_t kTick = 20, kLease = 2 * kTick;
constexpr uint8_t bit(uint8_t i) { return static_cast<uint8_t>(1u << i); }
constexpr uint8_t kA = bit(0), kB = bit(1), kC = bit(2), kD = bit(3);
std::string name_of(uint8_t node) { return std::string(1, static_cast<char>('a' + node)); }
Incarnation run_of(uint8_t node) {
  Incarnation out;
  out.bytes[0] = static_cast<std::byte>('a' + node);
  return out;
}

struct World {
  const char* name;
  std::vector<uint8_t> next;  // whom a new council may have, besides its coordinator
  uint8_t proposers = kA | kB | kC;
  uint8_t attempts = 2;
  uint8_t deaths = 1;
  uint8_t lost_max = 0;  // answers
  uint8_t ticks = 5;
  bool prompt = false;     // answers to requests to vote are heard at once or never
  bool asks_late = false;  // requests to vote lie about, else only their answers do
  bool a_died = false;     // while its votes run
  bool steady = false;     // a and b hear of each other with each tick, and c of b
  bool resigns = false;    // a may give the seat up
};

struct Value {
  uint8_t id = 0, follows = 0;
  std::vector<uint64_t> bases() const { return {follows}; }
};
struct Council {
  uint8_t voters = 0, coordinator = 0, number = 0, follows = 0;
  SeatsLeft left;  // of votes for the seat, when it was made
  bool installed = false;
};
enum class Stage : uint8_t { kIdle, kSealing, kAccepting, kInstalling };
struct Mail {
  uint8_t council = 0;  // 0: none
  uint64_t asked_ns = 0;
};
struct Node {
  bool dead = false, resigned = false;
  // The voter.
  uint8_t council = 0;
  SuccessionVoter<Value> end;
  SeatVotes votes{kLease};
  // The holder of the seat.
  uint8_t known = 0;
  HeldVotes held{kLease};
  std::array<Mail, kNodes> requests{}, answers{};  // of votes, by voter
  // The candidate.
  Stage stage = Stage::kIdle;
  uint8_t base = 0, round = 0, installing = 0, installed = 0, learned = 0;
  std::vector<Succession<Value>> attempt;  // none or one
  SeatsLeft left;
};
struct State {
  uint64_t now = 1000;
  std::vector<Council> councils{1};  // by id; 0 is none
  std::array<Shared<Node>, kNodes> nodes;
  uint8_t attempts = 0, deaths = 0, lost = 0, ticks = 0;
};

class Checker : public Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {}

  bool run() {
    State s;
    s.attempts = world_.attempts, s.deaths = world_.deaths, s.lost = world_.lost_max, s.ticks = world_.ticks;
    s.councils.push_back({kA | kB | kC, 0, 1, 0, {}, true});
    for (uint8_t v = 0; v < kNodes; ++v) {
      Node& node = s.nodes[v].change();
      node.known = 1;
      if (v == 3) continue;
      node.council = 1;
      node.votes.install(s.now, {});
    }
    hear_votes(s, kA | kB | kC);
    s.nodes[0].change().dead = world_.a_died;
    push(std::move(s));
    return walk([this](const State& state) { expand(state); });
  }
  std::string counts() const {
    return std::to_string(chosen_) + " chosen, " + std::to_string(finished_) + " of another, " +
           std::to_string(waited_) + " waited for the seat";
  }

 private:
  // ---- what a state is

  static size_t majority(const State& s, uint8_t council) {
    return static_cast<size_t>(std::popcount(s.councils[council].voters)) / 2 + 1;
  }
  static bool is_coordinator(const State& s, uint8_t node) {
    return s.councils[s.nodes[node]->known].coordinator == node;
  }
  static bool acts(const State& s, uint8_t node) {
    const Node& n = *s.nodes[node];
    const bool over = n.resigned && !OCM_MUTATION("resign-but-act");
    return !n.dead && !over && is_coordinator(s, node) && s.now < n.held.until_ns();
  }

  void push(State state) {
    if (has_failed() || !is_new(digest(state))) return;
    check(state);
    check_recovers(state);
    keep(std::move(state));
  }

  static Digest digest(const State& s) {
    model::Text out;
    const auto put = [&out](uint64_t value) { out += static_cast<char>(value), out += '|'; };
    const auto put_left = [&](uint64_t until) { put(until > s.now ? until - s.now : 0); };
    const auto put_ballot = [&put](const Ballot& b) { put(b.round), put(b.by); };
    const auto put_value = [&put](const std::optional<Value>& v) { put(v ? v->id : 0); };
    const auto put_map = [&](const SeatsLeft& map) {
      for (const auto& [holder, left] : map) out += static_cast<char>(holder.bytes[0]), put(left);
      out += ';';
    };
    for (const Council& c : s.councils) {
      put(c.voters), put(c.coordinator), put(c.number), put(c.follows), put(c.installed);
      put_map(c.left);
    }
    for (uint8_t n = 0; n < kNodes; ++n) {
      const Node& node = *s.nodes[n];
      put(node.dead), put(node.resigned), put(node.council), put(node.known);
      put_ballot(node.end.promised()), put_ballot(node.end.accepted_at()), put_value(node.end.accepted());
      put_map(node.votes.left_ns(s.now));
      put_left(node.votes.candidate_at_ns(0, 0));
      put_left(node.held.until_ns());
      for (uint8_t v = 0; v < kNodes; ++v) {
        for (const Mail& mail : {node.requests[v], node.answers[v]}) {
          put(mail.council);
          if (mail.council != 0) put_left(mail.asked_ns + kLease);
        }
        // How old the newest vote of each voter is.
        put_left(node.held.asked_ns(name_of(v)) + kLease);
      }
      put(static_cast<uint64_t>(node.stage)), put(node.base), put(node.round), put(node.installing);
      put(node.installed), put(node.learned), put_map(node.left);
      for (const auto& attempt : node.attempt) {
        put_ballot(attempt.ballot()), put_value(attempt.value());
        for (const auto& [ballot, value] : attempt.heard()) put_ballot(ballot), put(value.id);
        attempt.visit(
            [&](uint64_t, const std::set<std::string>& promised, const std::set<std::string>& accepted) {
              for (const auto& v : promised) out += v;
              out += '/';
              for (const auto& v : accepted) out += v;
            });
      }
    }
    for (const uint64_t value :
         {uint64_t{s.attempts}, uint64_t{s.deaths}, uint64_t{s.lost}, uint64_t{s.ticks}})
      put(value);
    return digest_of(out);
  }

  // ---- what must hold

  void check(const State& s) {
    for (uint8_t c = 1; c < s.councils.size(); ++c) {
      for (uint8_t d = 1; d < c; ++d) {
        const Council &one = s.councils[c], &other = s.councils[d];
        if (one.installed && other.installed && one.follows == other.follows)
          fail("S1: two councils follow one");
      }
    }
    int acting = 0;
    for (uint8_t n = 0; n < kNodes; ++n) acting += acts(s, n) ? 1 : 0;
    if (acting > 1) fail("S2: two coordinators act");
    if (world_.steady && !acts(s, 0)) fail("S3: a coordinator that hears of a majority does not act");
    for (uint8_t n = 0; n < kNodes; ++n) {
      if (!s.nodes[n]->votes.is_valid()) fail("votes for the seat are not valid");
    }
  }

  void check_recovers(const State& now) {
    if (has_failed() || world_.steady) return;
    uint8_t living = 0;
    for (uint8_t n = 0; n < kNodes; ++n) living |= now.nodes[n]->dead ? 0 : bit(n);
    for (uint8_t c = 1; c < now.councils.size(); ++c) {
      const bool is_past = std::any_of(now.councils.begin(), now.councils.end(), [&](const Council& next) {
        return next.installed && next.follows >= c && next.follows != 0;
      });
      const auto alive =
          static_cast<size_t>(std::popcount(static_cast<uint8_t>(now.councils[c].voters & living)));
      if (!is_past && alive < majority(now, c)) return;
    }
    State s = now;
    s.lost = s.deaths = 0;
    s.attempts = 100;
    for (int i = 0; i < 24; ++i) {
      for (uint8_t n = 0; n < kNodes; ++n) {
        for (uint8_t c = 1; c < s.councils.size(); ++c) (void)learn(s, n, c);
      }
      hear_votes(s, kA | kB | kC | kD);
      for (uint8_t n = 0; n < kNodes; ++n) {
        if (acts(s, n)) return;
      }
      for (uint8_t n = 0; n < kNodes; ++n) finish(s, n);
      for (uint8_t n = 0; n < kNodes; ++n) {
        const Node& node = *s.nodes[n];
        if (node.dead || node.resigned || node.council == 0) continue;
        // Its coordinator is one when it has lost the seat, for a voter may have promised to another.
        const bool is_own = s.councils[node.council].coordinator == n && s.now >= node.held.until_ns();
        if (!is_own && s.now < node.votes.candidate_at_ns(place_of(s, n), 0)) continue;
        if (s.councils.size() >= kCouncilsMax) return;  // as far as this model goes
        s.nodes[n].change().stage = Stage::kIdle;
        s.nodes[n].change().attempt.clear();
        if (begin(s, n)) finish(s, n);
      }
      s.now += kTick;
    }
    fail("S4: nobody acts, though a majority lives");
  }
  static size_t place_of(const State& s, uint8_t node) {
    const Council& council = s.councils[s.nodes[node]->council];
    size_t place = 0;
    for (uint8_t v = 0; v < node; ++v)
      place += (council.voters & bit(v)) != 0 && v != council.coordinator ? 1 : 0;
    return place;
  }
  /// The rest of an attempt, with nothing lost.
  void finish(State& s, uint8_t n) {
    if (s.nodes[n]->dead || s.nodes[n]->stage == Stage::kIdle) return;
    for (int again = 0; again < 3; ++again) {
      for (uint8_t v = 0; v < kNodes; ++v) (void)seal(s, n, v, true);
      for (uint8_t c = 1; c < s.councils.size(); ++c) {
        for (uint8_t v = 0; v < kNodes; ++v) (void)teach(s, n, c, v);
      }
    }
    uint8_t others = 0;
    if (!s.nodes[n]->attempt.empty()) {
      s.nodes[n]->attempt.front().visit([&](uint64_t, const std::set<std::string>& promised, const auto&) {
        for (uint8_t v = 0; v < kNodes; ++v) others |= v != n && promised.contains(name_of(v)) ? bit(v) : 0;
      });
    }
    if (std::popcount(others) % 2 != 0) others &= static_cast<uint8_t>(others - 1);
    (void)settle(s, n, others);
    for (uint8_t v = 0; v < kNodes; ++v) (void)accept(s, n, v, true);
    for (uint8_t v = 0; v < kNodes && s.nodes[n]->stage == Stage::kInstalling; ++v)
      (void)install(s, n, v, true);
  }

  // ---- votes for the seat

  /// All who think that they are coordinators ask those of `voters` that live, and hear their answers at once.
  void hear_votes(State& s, uint8_t voters) const {
    for (uint8_t n = 0; n < kNodes; ++n) {
      if (!ask(s, n)) continue;
      for (uint8_t v = 0; v < kNodes; ++v) {
        if ((voters & bit(v)) == 0) continue;
        if (answer(s, n, v)) (void)heard(s, n, v);
      }
    }
  }
  bool ask(State& s, uint8_t n) const {
    if (s.nodes[n]->dead || s.nodes[n]->resigned || !is_coordinator(s, n)) return false;
    Node& node = s.nodes[n].change();
    bool asked = false;
    for (uint8_t v = 0; v < kNodes; ++v) {
      Mail& mail = node.requests[v];
      if ((s.councils[node.known].voters & bit(v)) == 0) continue;
      if (mail.council == node.known && mail.asked_ns == s.now) continue;
      mail = {node.known, s.now};
      asked = true;
    }
    return asked;
  }
  bool answer(State& s, uint8_t n, uint8_t v) const {
    if (s.nodes[n]->requests[v].council == 0) return false;
    const Mail mail = std::exchange(s.nodes[n].change().requests[v], Mail{});
    const Node& voter = *s.nodes[v];
    if (voter.dead || voter.council != mail.council || voter.end.is_sealed()) return true;
    if (s.nodes[v].change().votes.grant(s.now, run_of(n))) s.nodes[n].change().answers[v] = mail;
    return true;
  }
  bool heard(State& s, uint8_t n, uint8_t v) const {
    if (s.nodes[n]->answers[v].council == 0 || s.nodes[n]->dead) return false;
    Node& node = s.nodes[n].change();
    const Mail mail = std::exchange(node.answers[v], Mail{});
    if (mail.council == node.known) node.held.granted(name_of(v), mail.asked_ns, majority(s, node.known));
    return true;
  }
  /// A node hears of a council that was installed somewhere.
  bool learn(State& s, uint8_t n, uint8_t council) const {
    if (s.nodes[n]->dead || !s.councils[council].installed) return false;
    if (s.councils[council].number <= s.councils[s.nodes[n]->known].number) return false;
    Node& node = s.nodes[n].change();
    node.known = council;
    node.held.change_voters();
    return true;
  }

  // ---- a council follows another

  bool begin(State& s, uint8_t n) const {
    const Node& idle = *s.nodes[n];
    if (idle.dead || idle.resigned || idle.council == 0 || idle.stage != Stage::kIdle) return false;
    Node& node = s.nodes[n].change();
    node.base = node.council;
    node.round = std::max(node.round, s.councils[node.base].number);
    node.round = std::max(node.round, static_cast<uint8_t>(node.end.promised().round));
    node.attempt.clear();
    node.attempt.emplace_back(Ballot{++node.round, static_cast<uint64_t>(n + 1)},
                              [](uint64_t) { return false; });
    node.attempt.front().add(node.base, majority(s, node.base));
    node.stage = Stage::kSealing;
    node.left.clear();
    return true;
  }
  bool seal(State& s, uint8_t n, uint8_t v, bool is_heard) {
    const Node& asked = *s.nodes[v];
    if (s.nodes[n]->stage != Stage::kSealing || asked.dead || asked.council != s.nodes[n]->base) return false;
    if (!asked.votes.allows_end(s.now, run_of(n))) return false;
    Node &node = s.nodes[n].change(), &voter = s.nodes[v].change();
    const bool agreed = voter.end.promise(node.attempt.front().ballot());
    if (agreed && n != v) voter.votes.promised(s.now);
    if (!is_heard) return true;
    if (!agreed) {
      node.round = std::max(node.round, static_cast<uint8_t>(voter.end.promised().round));
      return true;
    }
    if (!OCM_MUTATION("hand-no-votes-on")) merge(node.left, voter.votes.left_ns(s.now));
    node.learned |= bit(node.base);
    node.attempt.front().promised(node.base, name_of(v), voter.end.accepted_at(), voter.end.accepted());
    return true;
  }
  bool teach(State& s, uint8_t n, uint8_t council, uint8_t v) {
    const Node& node = *s.nodes[n];
    if (node.stage != Stage::kSealing || (node.learned & bit(council)) == 0) return false;
    return enter(s, council, v);
  }
  static bool enter(State& s, uint8_t council, uint8_t v) {
    Council& to = s.councils[council];
    if (s.nodes[v]->dead || (to.voters & bit(v)) == 0 || to.number <= s.councils[s.nodes[v]->council].number)
      return false;
    Node& voter = s.nodes[v].change();
    voter.council = council;
    voter.end = {};
    voter.votes.install(s.now, to.left);
    to.installed = true;
    if (voter.known < council) {
      voter.known = council;
      voter.held.change_voters();
    }
    return true;
  }
  bool settle(State& s, uint8_t n, uint8_t others) {
    const Node& sealing = *s.nodes[n];
    if (sealing.stage != Stage::kSealing || !sealing.attempt.front().is_sealed(sealing.base)) return false;
    Node& node = s.nodes[n].change();
    Succession<Value>& attempt = node.attempt.front();
    if (const Value* old = attempt.to_finish()) {
      ++finished_;
      attempt.propose(Value(*old));
    } else {
      if (s.councils.size() >= kCouncilsMax) return false;
      const uint8_t voters = others | bit(n);
      if (std::popcount(voters) % 2 == 0) return false;
      s.councils.push_back({voters, n, node.round, node.base, node.left, false});
      attempt.propose({static_cast<uint8_t>(s.councils.size() - 1), node.base});
    }
    node.stage = Stage::kAccepting;
    return true;
  }
  bool accept(State& s, uint8_t n, uint8_t v, bool is_heard) {
    const Node& asked = *s.nodes[v];
    if (s.nodes[n]->stage != Stage::kAccepting || asked.dead || asked.council != s.nodes[n]->base)
      return false;
    Node &node = s.nodes[n].change(), &voter = s.nodes[v].change();
    Succession<Value>& attempt = node.attempt.front();
    const bool agreed = voter.end.accept(attempt.ballot(), *attempt.value());
    if (!is_heard) return true;
    if (agreed)
      attempt.accepted(node.base, name_of(v));
    else
      node.round = std::max(node.round, static_cast<uint8_t>(voter.end.promised().round));
    if (attempt.is_chosen()) {
      ++chosen_;
      node.stage = Stage::kInstalling;
      node.installing = attempt.value()->id;
      node.installed = 0;
    }
    return true;
  }
  bool install(State& s, uint8_t n, uint8_t v, bool is_heard) {
    if (s.nodes[n]->stage != Stage::kInstalling || s.nodes[v]->dead) return false;
    if ((s.councils[s.nodes[n]->installing].voters & bit(v)) == 0) return false;
    Node& node = s.nodes[n].change();
    const bool entered = enter(s, node.installing, v);
    if (entered && !s.councils[node.installing].left.empty()) ++waited_;
    if (!is_heard) return entered;
    if (s.nodes[v]->council != node.installing || (node.installed & bit(v)) != 0) return entered;
    node.installed |= bit(v);
    if (static_cast<size_t>(std::popcount(node.installed)) >= majority(s, node.installing)) {
      (void)learn(s, n, node.installing);
      node.stage = Stage::kIdle;
      node.attempt.clear();
      node.left.clear();
      node.installing = node.installed = 0;
    }
    return true;
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

  void expand(const State& s) {
    if (s.ticks != 0) {
      then(s, [&](State& n) {
        n.now += kTick;
        --n.ticks;
        if (world_.steady) hear_votes(n, kA | kB);
        return true;
      });
    }
    for (uint8_t n = 0; n < kNodes; ++n) {
      if (s.nodes[n]->dead) continue;
      expand_votes(s, n);
      for (uint8_t c = 2; c < s.councils.size(); ++c) then(s, [&](State& t) { return learn(t, n, c); });
      if (s.deaths != 0) {
        then(s, [&](State& t) {
          --t.deaths;
          Node dead;
          dead.dead = true;
          dead.council = t.nodes[n]->council;
          t.nodes[n].change() = dead;
          return true;
        });
      }
      expand_candidate(s, n);
    }
  }
  void expand_votes(const State& s, uint8_t n) {
    if (world_.steady) return;
    const auto ask_one = [&](uint8_t v) {
      then(s, [&](State& t) {
        if (!is_coordinator(t, n)) return false;
        const uint8_t known = t.nodes[n]->known;
        if ((t.councils[known].voters & bit(v)) == 0) return false;
        t.nodes[n].change().requests[v] = {known, t.now};
        if (world_.asks_late) return true;
        return answer(t, n, v) && (!world_.prompt || heard(t, n, v));
      });
    };
    for (uint8_t v = 0; v < kNodes; ++v) {
      ask_one(v);
      if (world_.asks_late) then(s, [&](State& t) { return answer(t, n, v); });
      then(s, [&](State& t) { return heard(t, n, v); });
    }
    if (!world_.resigns || n != 0) return;
    then(s, [&](State& t) {
      if (t.nodes[n]->resigned) return false;
      t.nodes[n].change().resigned = true;
      if (!OCM_MUTATION("resign-but-act")) t.nodes[n].change().held.drop();
      return true;
    });
    for (uint8_t v = 0; v < kNodes; ++v) {
      then(s, [&](State& t) {
        const bool told = t.nodes[n]->resigned || OCM_MUTATION("release-before-the-end");
        if (!told || t.nodes[v]->dead || t.nodes[v]->council != t.nodes[n]->known) return false;
        t.nodes[v].change().votes.release(t.now, run_of(n));
        return true;
      });
    }
  }
  void expand_candidate(const State& s, uint8_t n) {
    if ((world_.proposers & bit(n)) != 0 && s.attempts != 0) {
      then(s, [&](State& t) { return --t.attempts, begin(t, n); });
    }
    if (s.nodes[n]->stage == Stage::kIdle) return;
    for (uint8_t v = 0; v < kNodes; ++v) {
      then(s, [&](State& t) { return seal(t, n, v, true); });
      then_lost(s, [&](State& t) { return seal(t, n, v, false); });
      then(s, [&](State& t) { return accept(t, n, v, true); });
      then_lost(s, [&](State& t) { return accept(t, n, v, false); });
      then(s, [&](State& t) { return install(t, n, v, true); });
      then_lost(s, [&](State& t) { return install(t, n, v, false); });
      for (uint8_t c = 2; c < s.councils.size(); ++c) then(s, [&](State& t) { return teach(t, n, c, v); });
    }
    for (const uint8_t others : world_.next) {
      if ((others & bit(n)) == 0) then(s, [&](State& t) { return settle(t, n, others); });
    }
  }

  const World world_;
  uint64_t chosen_ = 0, finished_ = 0, waited_ = 0;
};

const World kGate[] = {
    {.name = "the coordinator dies", .next = {kC | kD}, .proposers = kB, .attempts = 1, .ticks = 2},
    {.name = "a candidate meets a live one",
     .next = {0, kC | kD},
     .proposers = kB,
     .attempts = 1,
     .deaths = 0,
     .ticks = 3},
    {.name = "two candidates",
     .next = {0, kC | kD},
     .proposers = kB | kC,
     .deaths = 0,
     .lost_max = 1,
     .ticks = 2,
     .a_died = true},
    {.name = "a candidate and the holder",
     .next = {0},
     .proposers = kA | kB,
     .deaths = 0,
     .ticks = 2,
     .prompt = true},
    {.name = "the coordinator resigns",
     .next = {0},
     .proposers = kB,
     .attempts = 1,
     .deaths = 0,
     .ticks = 1,
     .resigns = true},
    {.name = "cut off from one voter",
     .next = {0},
     .proposers = kB | kC,
     .deaths = 0,
     .ticks = 4,
     .steady = true},
};
const World kDeep[] = {
    {.name = "answers are lost", .next = {0, kC | kD}, .proposers = kB | kC, .lost_max = 1, .ticks = 3},
    {.name = "resigns, and time passes",
     .next = {0, kC | kD},
     .proposers = kB,
     .attempts = 1,
     .deaths = 0,
     .ticks = 2,
     .resigns = true},
    {.name = "requests come late",
     .next = {0, kC | kD},
     .proposers = kB,
     .attempts = 1,
     .ticks = 4,
     .asks_late = true},
};

constexpr Mutation kMutations[] = {
    {"grant-over-running-votes", "a candidate meets a live one"},
    {"forget-votes-for-the-seat", "a candidate meets a live one"},
    {"hand-no-votes-on", "a candidate meets a live one"},
    {"a-minority-holds-the-seat", "a candidate meets a live one"},
    {"depose-a-holder", "cut off from one voter"},
    {"seal-a-minority", "two candidates"},
    {"seal-but-vote-on", "a candidate meets a live one"},
    {"propose-ones-own", "two candidates"},
    {"resign-but-act", "the coordinator resigns"},
    {"release-before-the-end", "the coordinator resigns"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
