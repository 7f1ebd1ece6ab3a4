// What remake_model.cpp walks: the parties' state, the worlds and the rules that are broken on purpose.
//
// The part is [A B]: A cannot be reached and is given up. B and B' are two ids of the same bytes. Writer i
// writes the numbers 1, 2, ... to chunk i. A put over shm is: look at the slot, store, look again; over tcp:
// the home looks, stores, answers. Time is a few ticks of one lease length, and only real voters have it.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "control/loss.h"
#include "control/remake.h"
#include "model.h"

namespace ocm {
namespace {

using namespace control;
using namespace model;
using Step = Remake::Step;
using Outcome = LossAsker::Outcome;

constexpr uint64_t kTick = 20;
constexpr size_t kVoters = 3, kWriters = 2;

enum Home : uint8_t { kHomeA, kHomeB, kHomeC };
enum Member : uint8_t { kA, kB, kB2, kC };  // B' is kB2
constexpr std::array<Home, 4> kHomeOf{kHomeA, kHomeB, kHomeB, kHomeC};
constexpr uint8_t bit(uint8_t i) { return static_cast<uint8_t>(1u << i); }
constexpr uint8_t other(uint8_t m) { return m ^ 1; }  // in its part: [A B], [B' C]
ExtentId id_of(uint8_t m) {
  return {GlobalAddress(kHomeOf[m] + 1u, m == kB2 ? uint64_t{8192} : uint64_t{4096}), 1};
}

struct World {
  const char* name;
  uint8_t writers = 1;
  std::array<uint8_t, kWriters> puts{1, 1};
  std::array<bool, kWriters> shm{false, false};  // the writer is on B's host
  uint8_t chunks = 1;
  uint8_t cuts_max = 0;  // messages that are lost, late, or whose answer is lost
  bool crash_b = false, crash_c = false, crash_writer = false;  // one of them
  bool freed = false;                                           // the owner may free B
  bool a_answers = false;     // A is not given up yet, and goes on answering until it is quiet
  bool much_differs = false;  // so that it is compared again before the freeze
  bool voters = false;        // real ones
  uint8_t ticks_max = 0;
};

enum class Stage : uint8_t { kIdle, kPosting, kLosing, kResolving, kOver, kCrashed };
enum class Op : uint8_t { kNone, kSent, kInside, kLooked, kStored, kGood, kRevoked, kFailed };
enum class Copy : uint8_t { kNone, kAsked, kRead };
enum class Spare : uint8_t { kNone, kReserved, kPlanned, kGiven, kFreed };

struct Writer {
  Stage stage = Stage::kIdle;
  uint8_t part = 0;          // it has [A B] or [B' C]
  uint8_t puts = 0;          // to do
  uint8_t number = 0;        // of the put
  uint8_t acknowledged = 0;  // the newest
  uint8_t failed = 0;        // a put did
  uint8_t again = 0;         // it was posted again to the same part
  uint8_t lost = 0;          // members that it knows to be lost
  std::array<Op, 4> op{};
  std::array<uint8_t, 4> late{};  // numbers under way that it gave up
};

/// All but the voters; no padding, so its bytes are its name.
struct Plain {
  Remake remake;
  std::array<Writer, kWriters> writers;
  std::array<uint8_t, kWriters> b{}, c{};     // bytes of B and B', and of C
  uint8_t alive = 7, leased = 7;              // by home
  uint8_t lost = bit(kA), dropped = bit(kA);  // by member
  uint8_t b_live = 1, b2_live = 0, b2_made = 0, over = 0, given = 0;
  Spare spare = Spare::kNone;
  uint8_t started = 1;
  uint8_t closed = 0;  // kFreeze: B refuses, operations under way end
  Copy copy = Copy::kNone;
  uint8_t chunk = 0, value = 0, changed = 0;
  Copy late_copy = Copy::kNone;
  uint8_t late_chunk = 0, late_value = 0, late_reserve = 0, late_plan = 0, late_give = 0, late_release = 0;
  uint8_t ended = 0;  // decided: [B' C] follows
  uint8_t cuts = 0, crashed = 0, freed = 0, ticks = 0;
  uint8_t own_cuts = 0;  // of messages of writers
};
static_assert(std::has_unique_object_representations_v<Plain>);

struct State : Plain {
  std::vector<Shared<LossLedger>> voters;
  uint64_t now() const { return 1000 + ticks * kTick * 2; }
};

// ---- the voters: a question reaches two of them

constexpr std::array<std::array<size_t, 2>, 3> kPairs{{{0, 1}, {0, 2}, {1, 2}}};
constexpr int kRoundsMax = 8;
inline LossAsker::Answers answers_of(State& n, const LossAsker& asker, std::array<size_t, 2> reached) {
  LossAsker::Answers out;
  for (const size_t v : reached) {
    const std::string name(1, static_cast<char>('0' + v));
    const auto answer = n.voters[v].change().answer(n.now(), asker.request(name));
    if (answer.is_ok()) out.emplace_back(name, answer.value());
  }
  return out;
}
inline bool end_by_voters(State& n, std::array<size_t, 2> reached, int rounds) {
  LossAsker asker = LossAsker::ending({id_of(kA), id_of(kB)}, {id_of(kA)}, id_of(kB2), 30);
  for (int round = 0; round < rounds && asker.outcome() == Outcome::kAsking; ++round)
    asker.answered(2, answers_of(n, asker, reached));
  return asker.outcome() == Outcome::kEnded || (OCM_MUTATION("end-unlearned") && asker.ended().has_value());
}

const std::vector<World> kGate = {
    {.name = "nothing fails",
     .writers = 2,
     .puts = {3, 3},
     .shm = {true, false},
     .chunks = 2,
     .a_answers = true},
    {.name = "much differs", .puts = {6}, .shm = {true}, .chunks = 2, .much_differs = true},
    {.name = "messages are lost",
     .writers = 2,
     .puts = {2, 1},
     .shm = {true, false},
     .chunks = 2,
     .cuts_max = 2},
    {.name = "more messages are lost", .puts = {3}, .chunks = 2, .cuts_max = 4},
    {.name = "two writers over tcp", .writers = 2, .puts = {1, 1}, .chunks = 2, .cuts_max = 3},
    {.name = "A answers for a while",
     .writers = 2,
     .puts = {2, 1},
     .chunks = 2,
     .cuts_max = 1,
     .a_answers = true},
    {.name = "the leading home ends", .puts = {3}, .cuts_max = 3, .crash_b = true},
    {.name = "the spare home ends", .puts = {3}, .cuts_max = 3, .crash_c = true},
    {.name = "a writer ends",
     .writers = 2,
     .puts = {1, 1},
     .shm = {true, false},
     .chunks = 2,
     .cuts_max = 2,
     .crash_writer = true},
    {.name = "two writers, lost messages, homes end",
     .writers = 2,
     .puts = {1, 1},
     .shm = {true, false},
     .chunks = 2,
     .cuts_max = 1,
     .crash_b = true,
     .crash_c = true},
    {.name = "the owner frees", .puts = {2}, .cuts_max = 3, .freed = true},
    {.name = "freed, and a home ends",
     .puts = {1},
     .cuts_max = 2,
     .crash_b = true,
     .crash_c = true,
     .freed = true},
    {.name = "real voters", .puts = {2}, .cuts_max = 1, .voters = true, .ticks_max = 1},
    {.name = "real voters, two writers, a lost message, a home ends",
     .writers = 2,
     .puts = {1, 1},
     .chunks = 2,
     .cuts_max = 1,
     .crash_b = true,
     .voters = true},
    {.name = "real voters, a home ends", .puts = {1}, .crash_b = true, .crash_c = true, .voters = true},
};
const std::vector<World> kDeep = {
    {.name = "real voters, two writers, a home ends",
     .writers = 2,
     .puts = {1, 1},
     .chunks = 2,
     .crash_b = true,
     .crash_c = true,
     .voters = true,
     .ticks_max = 1},
    {.name = "two writers, lost messages",
     .writers = 2,
     .puts = {2, 2},
     .shm = {true, false},
     .chunks = 2,
     .cuts_max = 3},
    {.name = "two writers over tcp, longer", .writers = 2, .puts = {2, 2}, .chunks = 2, .cuts_max = 3},
    {.name = "five lost messages", .puts = {4}, .shm = {true}, .chunks = 2, .cuts_max = 5},
    {.name = "much differs, lost messages", .puts = {6}, .chunks = 2, .cuts_max = 2, .much_differs = true},
    {.name = "all at once",
     .writers = 2,
     .puts = {2, 1},
     .shm = {true, false},
     .chunks = 2,
     .cuts_max = 2,
     .crash_b = true,
     .crash_c = true,
     .crash_writer = true,
     .freed = true,
     .a_answers = true},
    {.name = "real voters, two writers",
     .writers = 2,
     .puts = {1, 1},
     .chunks = 2,
     .cuts_max = 1,
     .voters = true,
     .ticks_max = 1},
    {.name = "real voters, all at once",
     .puts = {2},
     .cuts_max = 1,
     .crash_b = true,
     .crash_c = true,
     .voters = true,
     .ticks_max = 1},
};

/// Each breaks one rule; a world of the gate must notice.
constexpr Mutation kMutations[] = {
    {"give-without-freeze", "nothing fails"},
    {"freeze-without-compare", "nothing fails"},
    {"thaw-after-give", "more messages are lost"},
    {"give-after-failed-copy", "more messages are lost"},
    {"give-after-failed-compare", "more messages are lost"},
    {"switch-before-give", "nothing fails"},
    {"failed-freeze-stays", "more messages are lost"},
    {"no-release", "more messages are lost"},
    {"release-once", "more messages are lost"},
    {"freed-goes-on", "the owner frees"},
    {"no-second-look", "nothing fails"},
    {"no-fence", "nothing fails"},
    {"freeze-does-not-wait", "nothing fails"},
    {"rebind-in-a-put", "nothing fails"},
    {"old-id-stays", "nothing fails"},
    {"resolve-while-frozen", "nothing fails"},
    {"name-no-loss", "real voters"},
    {"quiet-at-once", "real voters"},
    {"resolve-while-freezing", "nothing fails"},
    {"resolve-while-thawing", "more messages are lost"},
    {"release-to-nobody", "the spare home ends"},
    {"start-when-named", "A answers for a while"},
    {"tell-what-is-reserved", "more messages are lost"},
    {"tell-without-c", "nothing fails"},
    {"lose-both", "messages are lost"},
    {"lose-without-a-good-one", "more messages are lost"},
    {"drop-only-what-lives", "more messages are lost"},
    {"release-remembers-nothing", "more messages are lost"},
    {"keep-for-a-dead-home", "the leading home ends"},
    {"give-without-deciding", "more messages are lost"},
    {"decide-without-a-plan", "more messages are lost"},
    {"free-what-is-planned", "the leading home ends"},
    {"keep-what-is-planned", "the leading home ends"},
    {"end-unlearned", "real voters, two writers, a lost message, a home ends"},
};

}  // namespace
}  // namespace ocm
