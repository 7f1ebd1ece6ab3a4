// Every schedule of a small cluster that loses replicas: voters, homes, writers, an unreliable network, a crash and a
// change of the council, walked exhaustively over the very code of src/control/loss.cpp.
//
// How to run it: model.h.
//
// A message is delivered at most once, at any later time or never: that covers cuts of nodes, links and directions,
// of any length. A reply is delivered at once; a lost one is as
// a request that arrives after its asker gave up.
//
// What must hold in every state
//   S1 voters never learn of different decisions for one instance, and one replica is never decided lost (R1, R2)
//   S2 a home that serves has every write that was acknowledged
//   S3 without a crash some replica that is not freed has every acknowledged write; with a crash of one home, the
//      other's replica, unless it was given up before (R4)
//   S4 no accept counts later than a lease after its promise (R5)
//   S6 a part ends in favour of one other, and nothing is decided after it (R9)
//   S7 a home that ended by itself was not the last (R11)
//   S5 a voter forgets no decision while a replica of the part may be there (R8)
#define OCM_MODEL
#include <array>
#include <functional>

#include "../../src/control/loss.cpp"  // NOLINT: compiled again, with mutations
#include "model.h"

namespace ocm {
namespace {

using namespace control;
using namespace model;

constexpr uint64_t kTick = 20;
constexpr size_t kVoters = 4;  // three of a council, and one that may come

ExtentId replica_id(size_t i) { return {GlobalAddress(static_cast<uint32_t>(i) + 1, 4096), 1}; }
ExtentId successor() { return {GlobalAddress(1, 8192), 1}; }
std::string voter_name(size_t i) { return std::string(1, static_cast<char>('0' + i)); }

struct World {
  const char* name;
  size_t replicas = 2;
  std::vector<size_t> gives_up;  // by writer: the replica that it cannot reach
  uint64_t lease_ticks = 1;
  uint64_t ticks_max = 3;
  uint64_t rounds_max = 2;
  size_t voting = 0;      // homes 0.. whose votes come and end one by one; the others get all with each tick
  bool deaf = false;      // those homes are cut off: they hear no vote after the first
  bool leases = false;    // votes come and end; else every home is always known and never quiet at once
  bool delays = false;    // votes reach the home later than they were given
  bool council = false;   // voter 2 is replaced by voter 3
  bool one_each = false;  // the last writer asks the new council only, the others the old one
  bool others_follow = false;  // then: they go on in the new one, and have the higher ballots
  bool ends = false;           // the first writer is the home of replica 0, which has the part ended
  bool crash = false;          // the home of replica 0 and its node's voter may end
  bool stops = false;          // that home ends by itself, once it may (R11)
  size_t late_max = 2;         // messages under way whose asker gave up
  uint64_t lease_ns() const { return lease_ticks * kTick; }
  /// Who proposes a loss asks whether the replica is there (R7).
  bool asks_home() const { return leases && !crash && !stops && !ends; }
};

struct Reply {
  uint64_t asked_ns = 0;  // 0: none
  bool dropped = false;
};
struct Home {
  bool dropped = false;
  uint8_t council = 0;
  uint8_t told = 0;    // by voter: it named the replica, and its freeing is to be echoed
  uint8_t writes = 0;  // by writer
  std::array<uint64_t, kVoters> asked_ns{};
  std::array<Reply, kVoters> replies{};  // on their way
  uint64_t until_ns = 0;
};

enum class Stage : uint8_t { kPutting, kLosing, kAcknowledged, kFailed };
struct Writer {
  Stage stage = Stage::kPutting;
  uint8_t put = 0;  // by replica: tried
  uint8_t council = 0;
  uint8_t unheard = 0;           // by voter: the request of this round is under way
  std::vector<LossAsker> asker;  // none or one
  LossAsker::Answers answers;
};
struct Late {
  LossRequest request;
  uint8_t voter = 0, council = 0;
};

struct State {
  uint64_t now = 1000;
  std::vector<Shared<LossLedger>> voters;
  std::array<uint8_t, kVoters> council{0, 0, 0, 9};
  uint8_t sealed = 0, dead = 0;
  std::array<Home, 3> homes;
  std::vector<Shared<Writer>> writers;
  std::vector<Late> late;
  LossState merged;
  uint8_t seals = 0;
  bool proposed = false;
  uint64_t crash_ns = 0;
  bool given_up = false;  // replica 1, before the crash of replica 0
  // The end of home 0: by voter, who heard of it, and who has accepted a loss; what the home knows; that it ended.
  uint8_t told = 0, doubted = 0;
  bool knows_last = false, ended = false;
};

std::vector<size_t> voters_of(uint8_t council) {
  return council == 0 ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0, 1, 3};
}

class Checker : public Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {}

  /// True if everything held.
  bool run() {
    State first;
    for (size_t i = 0; i < kVoters; ++i) first.voters.emplace_back(LossLedger(world_.lease_ns()));
    for (size_t r = 0; r < world_.replicas; ++r) {
      for (size_t v = 0; v < 3; ++v) {
        (void)first.voters[v].change().grant(first.now, static_cast<uint32_t>(r) + 1, {}, {});
        first.homes[r].asked_ns[v] = first.now;
      }
      renew(first.homes[r]);
    }
    first.writers.resize(world_.gives_up.size());
    if (world_.one_each) first.writers.back().change().council = 1;
    push(std::move(first));
    return walk([this](const State& state) { expand(state); });
  }
  std::string counts() const {
    return std::to_string(acknowledged) + " acknowledged, " + std::to_string(was_last) + " last, " +
           std::to_string(gave_up) + " gave up, " + std::to_string(ended) + " ended";
  }
  uint64_t acknowledged = 0, gave_up = 0, was_last = 0, ended = 0;

 private:
  void renew(Home& home) const {
    std::vector<uint64_t> asked;
    for (const size_t v : voters_of(home.council)) {
      if (home.asked_ns[v] != 0) asked.push_back(home.asked_ns[v]);
    }
    home.until_ns = std::max(home.until_ns, lease_until_ns(std::move(asked), 2, world_.lease_ns()));
  }
  bool serves(const State& state, size_t replica) const {
    const Home& home = state.homes[replica];
    return !home.dropped && !is_dead_home(state, replica) && (!world_.leases || state.now < home.until_ns);
  }
  static size_t node_of(size_t replica) { return (replica + 1) % 3; }
  static bool is_dead_home(const State& state, size_t replica) {
    return (state.dead >> node_of(replica) & 1) != 0;
  }
  static bool is_dead(const State& state, size_t voter) { return (state.dead >> voter & 1) != 0; }

  // ---- the state's name

  static void add(std::string& out, uint64_t value) { add_number(out, value); }
  void add_request(std::string& out, const State& state, const LossRequest& request) const {
    for (const uint64_t value :
         {static_cast<uint64_t>(request.phase), request.ballot.round, request.ballot.by,
          request.replica.address.bits(), static_cast<uint64_t>(request.lost.size())})
      add(out, value);
    for (const ExtentId& id : request.lost) add(out, id.address.bits());
    add(out, request.ended.has_value());
    add(out, request.phase != LossRequest::Phase::kAccept
                 ? 0
                 : 1 + std::min(state.now - request.promised_at_ns, world_.lease_ns() + 1));
  }
  /// Everything of one voter: where the world has no place for a certain one, its name does not matter.
  std::string voter_text(const State& state, size_t v) const {
    std::string out;
    const auto age = [&](uint64_t at) {
      return at == 0 ? 0 : 1 + std::min(state.now - at, world_.lease_ns() + 1);
    };
    state.voters[v]->fingerprint(state.now, out);
    add(out, state.council[v]);
    add(out, (state.sealed >> v & 1) | (state.dead >> v & 1) << 1 | (state.seals >> v & 1) << 2 |
                 (state.told >> v & 1) << 3 | (state.doubted >> v & 1) << 4);
    for (const Home& home : state.homes) {
      if (world_.leases) add(out, age(home.asked_ns[v]) << 1 | (home.told >> v & 1));
      if (world_.delays) add(out, age(home.replies[v].asked_ns) << 1 | (home.replies[v].dropped ? 1 : 0));
    }
    for (const Shared<Writer>& one_writer : state.writers) {
      const Writer& writer = *one_writer;
      if (writer.stage != Stage::kLosing) continue;
      add(out, writer.unheard >> v & 1);
      add(out, age(writer.asker[0].request(voter_name(v)).promised_at_ns));
      for (const auto& [voter, answer] : writer.answers) {
        if (voter != voter_name(v)) continue;
        for (const uint64_t value :
             {uint64_t{255}, static_cast<uint64_t>(answer.agreed), answer.promised.round,
              answer.accepted_at.round, answer.accepted.address.bits(),
              static_cast<uint64_t>(answer.lost.size()), static_cast<uint64_t>(answer.ended.has_value()),
              answer.wait_ns, age(answer.at_ns)})
          add(out, value);
      }
    }
    std::vector<std::string> late;
    for (const Late& one : state.late) {
      if (one.voter != v) continue;
      late.emplace_back(1, static_cast<char>(one.council));
      add_request(late.back(), state, one.request);
    }
    std::sort(late.begin(), late.end());
    for (const std::string& text : late) out += text;
    return out;
  }
  Digest digest(const State& state) const {
    std::string out;
    out.reserve(512);
    std::array<std::string, kVoters> voters;
    for (size_t v = 0; v < kVoters; ++v) voters[v] = voter_text(state, v);
    const bool has_place = world_.crash || world_.stops;
    if (has_place) std::swap(voters[1], voters[2]);  // the one that may end has a place of its own
    std::sort(voters.begin(), voters.begin() + (has_place || world_.council ? 2 : 3));
    add(out, (state.now - 1000) / kTick);
    for (const std::string& text : voters) {
      add(out, text.size());
      out += text;
    }
    add(out, state.proposed);
    add(out, state.given_up);
    add(out, (state.knows_last ? 1 : 0) | (state.ended ? 2 : 0));
    add(out, state.crash_ns == 0 ? 0 : 1 + std::min(state.now - state.crash_ns, 3 * world_.lease_ns()));
    for (const Home& home : state.homes) {
      for (const uint64_t value : {static_cast<uint64_t>(home.dropped), static_cast<uint64_t>(home.council),
                                   static_cast<uint64_t>(home.writes)})
        add(out, value);
      if (world_.leases) add(out, home.until_ns > state.now ? home.until_ns - state.now : 0);
    }
    for (const Shared<Writer>& one_writer : state.writers) {
      const Writer& writer = *one_writer;
      for (const uint64_t value : {static_cast<uint64_t>(writer.stage), static_cast<uint64_t>(writer.put),
                                   static_cast<uint64_t>(writer.council)})
        add(out, value);
      if (writer.stage == Stage::kLosing) writer.asker[0].fingerprint(out);
    }
    add_number(out, state.merged.parts.size());
    for (const auto& [first, part] : state.merged.parts) {
      add(out, part.accepted_at.round);
      add(out, part.accepted_at.by);
      add(out, part.accepted.address.bits());
      for (const auto& lost : part.lost) add(out, lost.id.address.bits() * 2 + lost.freed);
      add(out, part.ended ? 1 : 0);
    }
    for (const auto& [partition, left] : state.merged.votes_ns) add(out, left);
    for (const auto& [partition, end] : state.merged.ends) add(out, partition * 4 + (end.is_near() ? 1 : 2));
    return digest_of(out);
  }
  void push(State state) {
    if (!is_new(digest(state))) return;
    check(state);
    keep(std::move(state));
  }

  // ---- what must hold

  void check(const State& state) {
    uint8_t acknowledged_writes = 0;
    for (size_t w = 0; w < state.writers.size(); ++w) {
      if (state.writers[w]->stage == Stage::kAcknowledged)
        acknowledged_writes |= static_cast<uint8_t>(1u << w);
    }
    std::vector<ExtentId> longest;
    for (const Shared<LossLedger>& ledger : state.voters) {
      if (!ledger->is_valid()) fail("S1: a voter's memory is not valid");
      for (const auto& [first, part] : ledger->state(state.now).parts) {
        std::vector<ExtentId> lost = ids_of(part.lost);
        if (lost.size() >= world_.replicas) fail("S1: the last replica is lost");
        if (part.ended) lost.push_back(*part.ended);  // S6
        if (!is_prefix(lost, longest) && !is_prefix(longest, lost)) fail("S1: two decisions in one instance");
        if (lost.size() > longest.size()) longest = lost;
      }
    }
    bool whole = false;
    for (size_t r = 0; r < world_.replicas; ++r) {
      const Home& home = state.homes[r];
      const bool has_all = (home.writes & acknowledged_writes) == acknowledged_writes;
      if (world_.leases && serves(state, r) && !has_all) fail("S2: old bytes are served");
      whole = whole || (!home.dropped && !is_dead_home(state, r) && has_all);
    }
    if (!whole && state.ended) fail("S7: acknowledged writes ended with a home that was not the last");
    if (!whole && !(state.crash_ns != 0 && state.given_up)) fail("S3: acknowledged writes are lost");
  }

  // ---- what may happen

  void expand(const State& state) {
    if (state.now < 1000 + world_.ticks_max * kTick) {
      State next = state;
      next.now += kTick;
      for (size_t r = world_.leases ? world_.voting : 0; r < world_.replicas; ++r) vote_whole(next, r);
      push(std::move(next));
    }
    if (world_.leases) {
      for (size_t r = 0; r < world_.voting && !world_.deaf; ++r) votes(state, r);
    }
    for (size_t w = 0; w < state.writers.size(); ++w) write(state, w);
    for (size_t i = 0; i < state.late.size(); ++i) {
      State next = state;
      const Late late = next.late[i];
      next.late.erase(next.late.begin() + static_cast<long>(i));
      (void)deliver(next, late.voter, late.council, late.request);
      push(std::move(next));
    }
    if (world_.council) change_council(state);
    if (world_.stops && !state.ended) stop(state);
    if (world_.crash && state.crash_ns == 0) {
      State next = state;
      next.dead |= static_cast<uint8_t>(1u << node_of(0));
      next.crash_ns = next.now;
      next.given_up = accepted_by_majority(state, 1);
      push(std::move(next));
    }
  }

  /// A voter decided, or may within a lease of a crash still decide, that `replica` is lost.
  bool accepted_by_majority(const State& state, size_t replica) const {
    size_t count = 0;
    for (const Shared<LossLedger>& ledger : state.voters) {
      for (const auto& [first, part] : ledger->state(state.now).parts) {
        const bool lost = has(ids_of(part.lost), replica_id(replica));
        count += lost || (part.accepted_at.round != 0 && part.accepted == replica_id(replica)) ? 1 : 0;
      }
    }
    return count >= 2;
  }

  bool may_vote(const State& state, size_t voter, uint8_t council) const {
    return state.council[voter] == council && (state.sealed >> voter & 1) == 0 && !is_dead(state, voter);
  }

  /// Home 0 is told to stop: it tells the voters, and ends where it may.
  void stop(const State& state) {
    const uint8_t council = state.homes[0].council;
    for (const size_t v : voters_of(council)) {
      if ((state.told >> v & 1) != 0 || !may_vote(state, v, council)) continue;
      State next = state;
      next.told |= static_cast<uint8_t>(1u << v);
      const auto vote = next.voters[v].change().grant(next.now, 1, {}, {}, {1, 0}, true);
      for (const auto& watched : vote.watched) {
        next.knows_last = next.knows_last || has(watched.lost, replica_id(1));
        if (watched.in_doubt) next.doubted |= static_cast<uint8_t>(1u << v);
      }
      push(std::move(next));
    }
    const int needed = OCM_MUTATION("end-without-a-majority") ? 1 : 2, heard = std::popcount(state.told);
    const bool in_doubt = state.doubted != 0 && std::popcount(state.doubted) + 3 - heard >= 2;
    // It asks the other home itself.
    if (heard < needed || in_doubt || state.knows_last || state.homes[1].dropped) return;
    State next = state;
    next.dead |= static_cast<uint8_t>(1u << node_of(0));
    next.ended = true;
    push(std::move(next));
  }

  /// Every voter that may votes for the home, which hears it.
  void vote_whole(State& state, size_t r) {
    if (is_dead_home(state, r)) return;
    Home& home = state.homes[r];
    home.council = state.proposed && std::popcount(state.seals) >= 2 ? 1 : 0;
    for (const size_t v : voters_of(home.council)) {
      if (!may_vote(state, v, home.council)) continue;
      const std::vector<ExtentId> freed = home.dropped ? std::vector{replica_id(r)} : std::vector<ExtentId>{};
      const auto vote = state.voters[v].change().grant(state.now, static_cast<uint32_t>(r) + 1, freed, {});
      home.dropped = home.dropped || !vote.dropped.empty();
      home.asked_ns[v] = state.now;
    }
    renew(home);
  }

  /// The home gets a vote.
  void hear(State& state, size_t r, size_t v) const {
    Home& home = state.homes[r];
    home.told &= static_cast<uint8_t>(~(1u << v));
    if (home.replies[v].dropped) {
      if (!OCM_MUTATION("count-the-vote-first")) home.dropped = true;  // before the vote counts
      home.told |= static_cast<uint8_t>(1u << v);
    }
    home.asked_ns[v] = std::max(home.asked_ns[v], home.replies[v].asked_ns);
    if (OCM_MUTATION("count-from-the-answer")) home.asked_ns[v] = state.now;
    home.replies[v] = {};
    renew(home);
  }

  void votes(const State& state, size_t r) {
    if (is_dead_home(state, r)) return;
    const uint8_t council = state.homes[r].council;
    for (const size_t v : voters_of(council)) {
      if (!may_vote(state, v, council)) continue;
      State next = state;
      Home& home = next.homes[r];
      std::vector<ExtentId> freed;
      if ((home.told >> v & 1) != 0) freed.push_back(replica_id(r));
      const size_t parts = next.voters[v]->parts();
      const auto vote = next.voters[v].change().grant(next.now, static_cast<uint32_t>(r) + 1, freed, {});
      if (next.voters[v]->parts() < parts) fail("S5: a decision is forgotten");
      home.replies[v] = {next.now, !vote.dropped.empty()};
      push(next);  // it is lost, or late
      hear(next, r, v);
      push(std::move(next));
    }
    for (const size_t v : voters_of(council)) {
      if (!world_.delays || state.homes[r].replies[v].asked_ns == 0) continue;
      State next = state;
      hear(next, r, v);
      push(std::move(next));
    }
    if (world_.council && state.proposed && council == 0) {
      State next = state;
      Home& home = next.homes[r];
      home.council = 1;
      home.asked_ns = {};
      home.replies = {};
      home.told = 0;
      push(std::move(next));
    }
  }

  Result<LossAnswer> deliver(State& state, size_t voter, uint8_t council, const LossRequest& request) {
    if (!may_vote(state, voter, council)) return Status(Code::kPeerLost);
    auto answer = state.voters[voter].change().answer(state.now, request);
    if (answer.is_ok() && answer.value().agreed && request.phase == LossRequest::Phase::kAccept &&
        state.now > request.promised_at_ns + world_.lease_ns())
      fail("S4: a request decides although its asker may have given up");
    if (answer.is_ok() && answer.value().agreed && request.phase == LossRequest::Phase::kAccept &&
        state.crash_ns != 0 && request.replica == replica_id(1)) {
      if (state.now > state.crash_ns + world_.lease_ns())
        fail("S3: the last copy was given up after the other's end");
      state.given_up = true;  // within a lease of the crash: two failures at once
    }
    return answer;
  }

  void write(const State& state, size_t w) {
    const Writer& writer = *state.writers[w];
    const size_t unreached = world_.gives_up[w];
    if (writer.stage == Stage::kPutting) {
      for (size_t r = 0; r < world_.replicas; ++r) {
        if ((writer.put >> r & 1) != 0) continue;
        if (writer.put != (1u << r) - 1) break;  // in their order
        if (r == unreached) {
          for (const bool applied : {true, false}) {  // it fails, whether it was applied or not
            if (applied && !serves(state, r)) continue;
            State next = state;
            if (applied) next.homes[r].writes |= static_cast<uint8_t>(1u << w);
            put(next, w, r, true);
          }
        } else {
          State next = state;
          const bool applied = serves(state, r);
          if (applied) next.homes[r].writes |= static_cast<uint8_t>(1u << w);
          put(next, w, r, applied);
        }
      }
      return;
    }
    if (writer.stage != Stage::kLosing) return;
    for (const size_t v : voters_of(writer.council)) {
      if ((writer.unheard >> v & 1) == 0) continue;
      State next = state;
      Writer& mine = next.writers[w].change();
      const auto answer = deliver(next, v, mine.council, mine.asker[0].request(voter_name(v)));
      mine.unheard &= static_cast<uint8_t>(~(1u << v));
      if (answer.is_ok()) {
        mine.answers.emplace_back(voter_name(v), answer.value());
        std::sort(mine.answers.begin(), mine.answers.end(),
                  [](const auto& a, const auto& b) { return a.first < b.first; });
      }
      push(std::move(next));
    }
    end_round(state, w);
  }

  void put(State& state, size_t w, size_t replica, bool good) {
    Writer& writer = state.writers[w].change();
    writer.put |= static_cast<uint8_t>(1u << replica);
    if (!good) {  // neither replica has it for sure
      writer.stage = Stage::kFailed;
    } else if (writer.put == (1u << world_.replicas) - 1) {
      std::vector<ExtentId> part;
      for (size_t r = 0; r < world_.replicas; ++r) part.push_back(replica_id(r));
      if (world_.ends && w == 0)
        writer.asker.push_back(LossAsker::ending(std::move(part), {}, successor(), w + 1));
      else
        writer.asker.emplace_back(std::move(part), replica_id(world_.gives_up[w]),
                                  world_.others_follow ? world_.gives_up.size() - w : w + 1);
      control::LossKnown known;
      known.is_unread = state.homes[world_.gives_up[w]].dropped || OCM_MUTATION("unread-unasked");
      if (world_.asks_home()) writer.asker[0].knows(std::move(known));
      writer.stage = Stage::kLosing;
      begin_round(writer);
    }
    push(std::move(state));
  }

  static void begin_round(Writer& writer) {
    writer.answers.clear();
    writer.unheard = 0;
    for (const size_t v : voters_of(writer.council)) writer.unheard |= static_cast<uint8_t>(1u << v);
  }

  void end_round(const State& state, size_t w) {
    // A round of one answer is like one of none, whose requests arrive late, unless the one brings news.
    const auto& heard = state.writers[w]->answers;
    if (heard.size() == 1 && heard[0].second.lost.size() <= state.writers[w]->asker[0].lost().size()) return;
    State next = state;
    Writer& writer = next.writers[w].change();
    LossAsker& asker = writer.asker[0];
    for (const size_t v : voters_of(writer.council)) {
      if ((writer.unheard >> v & 1) == 0) continue;
      const LossRequest request = asker.request(voter_name(v));
      const bool matters = request.phase == LossRequest::Phase::kAccept && request.promised_at_ns != 0;
      if (matters && next.late.size() < world_.late_max)
        next.late.push_back({request, static_cast<uint8_t>(v), writer.council});
    }
    asker.answered(2, writer.answers);
    if (asker.outcome() == LossAsker::Outcome::kLost) {
      writer.stage = Stage::kAcknowledged;
      ++acknowledged;
    } else if (asker.outcome() == LossAsker::Outcome::kEnded ||
               asker.outcome() == LossAsker::Outcome::kOvertaken) {
      writer.stage = Stage::kFailed;
      ++ended;
    } else if (asker.outcome() == LossAsker::Outcome::kLast) {
      writer.stage = Stage::kFailed;
      ++was_last;
    } else if (!world_.leases && asker.request("0").phase == LossRequest::Phase::kLearn) {
      // Nobody serves in this world: what matters is who learns of it.
      const bool won = has(asker.lost(), asker.request("0").replica);
      writer.stage = won ? Stage::kAcknowledged : Stage::kFailed;
      ++(won ? acknowledged : was_last);
      writer.unheard = 0, writer.answers.clear();
      State told = next;
      for (const size_t v : voters_of(writer.council)) {
        (void)deliver(told, v, writer.council, asker.request(voter_name(v)));
        State one = next;
        (void)deliver(one, v, writer.council, asker.request(voter_name(v)));
        push(std::move(one));
      }
      push(std::move(told));
    } else if (asker.request("0").phase == LossRequest::Phase::kPrepare &&
               asker.request("0").ballot.round > world_.rounds_max) {
      writer.stage = Stage::kFailed;
      ++gave_up;
    } else {
      begin_round(writer);
    }
    if (writer.stage != Stage::kLosing) writer.unheard = 0, writer.answers.clear();
    push(std::move(next));
    const bool follows = !world_.one_each || world_.others_follow;
    if (world_.council && follows && state.proposed && state.writers[w]->council == 0) {
      State other = state;
      Writer& mine = other.writers[w].change();
      mine.council = 1;
      mine.asker[0].restart();
      begin_round(mine);
      push(std::move(other));
    }
  }

  void change_council(const State& state) {
    if (!state.proposed) {
      for (size_t v = 0; v < 3; ++v) {
        if ((state.seals >> v & 1) != 0 || is_dead(state, v)) continue;
        State next = state;
        next.sealed |= static_cast<uint8_t>(1u << v);
        next.seals |= static_cast<uint8_t>(1u << v);
        if (OCM_MUTATION("seal-but-vote-on")) next.sealed = 0;
        control::merge(next.merged, next.voters[v]->state(next.now));
        const size_t needed = OCM_MUTATION("seal-a-minority") ? 1 : 2;
        if (std::popcount(next.seals) >= static_cast<int>(needed)) next.proposed = true;
        push(std::move(next));
      }
      return;
    }
    for (const size_t v : voters_of(1)) {
      if (state.council[v] == 1 || is_dead(state, v)) continue;
      State next = state;
      next.council[v] = 1;
      next.sealed &= static_cast<uint8_t>(~(1u << v));
      next.voters[v].change().install(next.now, next.merged);
      push(std::move(next));
    }
  }

  const World world_;
};

const std::vector<World> kGate = {
    {.name = "a request that is too late", .gives_up = {0}, .ticks_max = 2, .rounds_max = 1, .late_max = 2},
    {.name = "two writers, late requests",
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 1,
     .late_max = 2},
    {.name = "three replicas",
     .replicas = 3,
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 1,
     .late_max = 1},
    {.name = "a part ends", .gives_up = {1, 1}, .ticks_max = 0, .rounds_max = 1, .ends = true, .late_max = 2},
    {.name = "a part of three ends",
     .replicas = 3,
     .gives_up = {1, 2},
     .ticks_max = 0,
     .rounds_max = 1,
     .ends = true,
     .late_max = 1},
    {.name = "a part ends, the council changes",
     .gives_up = {1, 1},
     .ticks_max = 0,
     .rounds_max = 0,
     .council = true,
     .one_each = true,
     .ends = true,
     .late_max = 0},
    {.name = "two writers", .gives_up = {0, 1}, .ticks_max = 0, .late_max = 0},
    {.name = "a home ends", .gives_up = {1}, .rounds_max = 0, .leases = true, .crash = true, .late_max = 0},
    {.name = "two writers, a home ends",
     .gives_up = {0, 1},
     .ticks_max = 1,
     .rounds_max = 0,
     .leases = true,
     .crash = true,
     .late_max = 0},
    {.name = "a home stops",
     .gives_up = {1},
     .ticks_max = 2,
     .rounds_max = 1,
     .leases = true,
     .stops = true,
     .late_max = 1},
    {.name = "a home stops, the council changes",
     .gives_up = {1},
     .ticks_max = 0,
     .rounds_max = 0,
     .council = true,
     .stops = true,
     .late_max = 1},
    {.name = "leases",
     .gives_up = {0},
     .ticks_max = 1,
     .rounds_max = 0,
     .voting = 1,
     .leases = true,
     .late_max = 0},
    {.name = "two writers, leases, a home hears no vote",
     .gives_up = {0, 1},
     .ticks_max = 1,
     .rounds_max = 0,
     .voting = 1,
     .deaf = true,
     .leases = true,
     .late_max = 0},
    {.name = "late votes",
     .gives_up = {0},
     .ticks_max = 1,
     .rounds_max = 0,
     .voting = 1,
     .leases = true,
     .delays = true,
     .late_max = 0},
    {.name = "the council changes",
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 0,
     .council = true,
     .one_each = true,
     .late_max = 0},
    {.name = "the council changes, a writer goes on",
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 0,
     .council = true,
     .one_each = true,
     .others_follow = true,
     .late_max = 0},
    {.name = "the council changes, leases",
     .gives_up = {0},
     .ticks_max = 1,
     .rounds_max = 0,
     .voting = 1,
     .deaf = true,
     .leases = true,
     .council = true,
     .late_max = 0},
};
const std::vector<World> kDeep = {
    {.name = "two writers, three attempts",
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 3,
     .late_max = 1},
    {.name = "two writers, late, with time",
     .gives_up = {0, 1},
     .ticks_max = 2,
     .rounds_max = 1,
     .late_max = 2},
    {.name = "three replicas, three writers",
     .replicas = 3,
     .gives_up = {0, 1, 2},
     .ticks_max = 0,
     .rounds_max = 1,
     .late_max = 0},
    {.name = "leases, longer",
     .gives_up = {0},
     .ticks_max = 2,
     .rounds_max = 1,
     .voting = 1,
     .leases = true,
     .late_max = 0},
    {.name = "leases of two ticks",
     .gives_up = {0},
     .lease_ticks = 2,
     .ticks_max = 4,
     .rounds_max = 1,
     .voting = 1,
     .leases = true,
     .delays = true,
     .late_max = 0},
    {.name = "two writers, leases",
     .gives_up = {0, 1},
     .ticks_max = 2,
     .rounds_max = 1,
     .voting = 2,
     .leases = true,
     .late_max = 0},
    {.name = "the council changes, leases, anyone",
     .gives_up = {0},
     .ticks_max = 1,
     .rounds_max = 0,
     .voting = 1,
     .leases = true,
     .council = true,
     .late_max = 0},
    {.name = "a home stops, the council changes, leases",
     .gives_up = {1},
     .ticks_max = 1,
     .rounds_max = 0,
     .leases = true,
     .council = true,
     .stops = true,
     .late_max = 1},
    {.name = "the council changes under both",
     .gives_up = {0, 1},
     .ticks_max = 0,
     .rounds_max = 1,
     .council = true,
     .late_max = 1},
    {.name = "a home ends, two writers",
     .gives_up = {0, 1},
     .ticks_max = 3,
     .rounds_max = 1,
     .voting = 1,
     .leases = true,
     .crash = true,
     .late_max = 1},
};

/// Each breaks one rule; a world of the gate must notice.
constexpr Mutation kMutations[] = {
    {"accept-late", "a request that is too late"},
    {"accept-without-a-sibling", "a home ends"},
    {"accept-below-the-promise", "two writers, late requests"},
    {"promise-twice", "two writers, late requests"},
    {"promise-nothing", "two writers, late requests"},
    {"hide-what-was-accepted", "two writers, late requests"},
    {"propose-ones-own", "two writers, late requests"},
    {"minority-accepts", "two writers, late requests"},
    {"count-on-who-leaves", "a home stops"},
    {"hide-what-is-in-doubt", "a home stops"},
    {"end-without-a-majority", "a home stops"},
    {"merge-without-who-leaves", "a home stops, the council changes"},
    {"install-without-who-leaves", "a home stops, the council changes"},
    {"quiet-at-once", "a home ends"},
    {"unread-unasked", "leases"},
    {"name-no-loss", "a home ends"},
    {"minority-is-quiet", "leases"},
    {"forget-too-early", "leases"},
    {"count-the-vote-first", "leases"},
    {"count-from-the-answer", "late votes"},
    {"decide-after-the-end", "a part of three ends"},
    {"merge-without-the-end", "a part ends, the council changes"},
    {"merge-the-lower-ballot", "the council changes"},
    {"install-without-accepted", "the council changes"},
    {"install-beside-ones-own", "the council changes, a writer goes on"},
    {"seal-but-vote-on", "the council changes"},
    {"seal-a-minority", "the council changes"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
