// Every schedule of a few messages both ways between two nodes, over the very code of src/cache/courier: frames are never
// taken off the network, so that each is delivered at any time, any number of times or not at all; either end may leave the
// term for a next one at any moment.
//
// How to run it: model.h.
//
// What must hold in every state
//   C1 a message is taken once at most, and in the term in which it was sent
//   C2 what is acknowledged was taken
//   C3 each end is valid, and finds the other one at no fault
//   C4 if frames get through from now on, and both ends come to one term, all that was sent in it is taken and acknowledged
#define OCM_MODEL
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../../src/cache/courier/courier.cpp"  // NOLINT: compiled again, with mutations
#include "model.h"

namespace ocm {
namespace cache {

struct CourierName {
  static void add(std::string& out, const Courier& courier) {
    for (const uint64_t value :
         {courier.term_, courier.first_, courier.next_, courier.all_before_, courier.beyond_})
      out += static_cast<char>(value);
    for (uint64_t one = courier.first_; one < courier.next_; ++one)
      out += static_cast<char>(courier.sent(one).acknowledged);
    out += static_cast<char>(courier.acknowledge_ns_ == Courier::kNever);
  }
};

}  // namespace cache

namespace {

using cache::Courier;
using cache::CourierHeader;
using cache::CourierLimits;

struct World {
  const char* name;
  uint64_t window = 2;
  std::array<uint64_t, 2> messages{};  // of each end, in each term
  uint64_t terms = 1;
};

/// Everything is due at once, and nothing too late: when, and whether, is the schedule's.
constexpr uint64_t kNow = 0;
CourierLimits limits(const World& world) { return {world.window, 0, 0, 0, ~uint64_t{0}}; }

struct Frame {
  CourierHeader header;
  auto key() const { return std::tuple(header.term, header.sequence, header.all_before, header.beyond); }
  bool operator<(const Frame& other) const { return key() < other.key(); }
};

struct State {
  std::array<Courier, 2> ends;
  std::array<std::set<Frame>, 2> network;                  // by who sent them
  std::array<std::array<uint64_t, 4>, 2> sent{}, taken{};  // by who sent them, and term: how many, and which
};

class Checker : public model::Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {}

  bool run() {
    add(State{{Courier(1, limits(world_)), Courier(1, limits(world_))}, {}, {}, {}});
    return walk([this](const State& state) { expand(state); });
  }
  std::string counts() const { return std::to_string(delivered_) + " deliveries"; }

 private:
  void expand(const State& from) {
    for (size_t e = 0; e < 2; ++e) {
      if (may_send(from, e)) {
        State state = from;
        send(state, e);
        add(std::move(state));
      }
      {
        State state = from;
        if (repeat(state, e) != 0) add(std::move(state));
      }
      for (const Frame& frame : from.network[e]) {
        State state = from;
        deliver(state, 1 - e, frame);
        add(std::move(state));
      }
      if (from.ends[e].term() < world_.terms) {
        State state = from;
        next_term(state, e);
        add(std::move(state));
      }
    }
  }
  bool may_send(const State& state, size_t e) const {
    return state.ends[e].can_send() && state.sent[e][state.ends[e].term()] < world_.messages[e];
  }
  void send(State& state, size_t e) {
    Courier& end = state.ends[e];
    const uint64_t sequence = end.send(kNow);
    ++state.sent[e][end.term()];
    state.network[e].insert({end.header(sequence)});
  }
  /// How many frames left.
  size_t repeat(State& state, size_t e) {
    Courier& end = state.ends[e];
    std::vector<uint64_t> again;
    const bool acknowledges = end.due(kNow, again);
    for (const uint64_t sequence : again) state.network[e].insert({end.header(sequence)});
    if (again.empty() && acknowledges) state.network[e].insert({end.header(0)});
    return again.size() + (acknowledges ? 1 : 0);
  }
  void next_term(State& state, size_t e) {
    state.ends[e] = Courier(state.ends[e].term() + 1, limits(world_));
  }

  void deliver(State& state, size_t e, const Frame& frame) {
    ++delivered_;
    Courier& end = state.ends[e];
    std::vector<uint64_t> acknowledged;
    const auto outcome = end.receive(frame.header, kNow, acknowledged);
    if (outcome == Courier::Outcome::kFault) fail("C3: a correct end is found at fault");
    if (!end.is_valid()) fail("C3: an end is not valid");
    const uint64_t term = end.term();
    for (const uint64_t sequence : acknowledged) {
      if ((state.taken[e][term] >> sequence & 1) == 0) fail("C2: acknowledged, and never taken");
    }
    if (outcome != Courier::Outcome::kNew) return;
    if (frame.header.term != term) fail("C1: taken in another term");
    uint64_t& taken = state.taken[1 - e][term];
    if ((taken >> frame.header.sequence & 1) != 0) fail("C1: taken twice");
    taken |= uint64_t{1} << frame.header.sequence;
  }

  /// C4, on a copy: rounds in which every frame that leaves arrives.
  void end_well(State state) {
    const uint64_t term = std::max(state.ends[0].term(), state.ends[1].term());
    for (size_t e = 0; e < 2; ++e) {
      while (state.ends[e].term() < term) next_term(state, e);
    }
    for (int round = 0; round < 16 && !has_failed(); ++round) {
      for (size_t e = 0; e < 2; ++e) {
        state.network[e].clear();
        (void)repeat(state, e);
        while (may_send(state, e)) send(state, e);
        for (const Frame& frame : std::set<Frame>(state.network[e])) deliver(state, 1 - e, frame);
      }
    }
    for (size_t e = 0; e < 2; ++e) {
      const uint64_t all = ((uint64_t{1} << world_.messages[e]) - 1) << 1;
      std::vector<uint64_t> again;
      if (state.taken[e][term] != all) fail("C4: sent, and never taken");
      if (!state.ends[e].can_send() || (state.ends[e].due(kNow, again), !again.empty()))
        fail("C4: taken, and never acknowledged");
    }
  }

  void add(State&& state) {
    if (has_failed()) return;
    std::string name;
    for (const Courier& end : state.ends) cache::CourierName::add(name, end);
    for (size_t e = 0; e < 2; ++e) {
      for (const Frame& frame : state.network[e]) {
        const CourierHeader& h = frame.header;
        for (const uint64_t value : {h.term, h.sequence, h.all_before, h.beyond})
          name += static_cast<char>(value);
      }
      name += '|';
      for (uint64_t term = 1; term <= world_.terms; ++term) {
        name += static_cast<char>(state.sent[e][term]);
        name += static_cast<char>(state.taken[e][term]);
      }
    }
    if (!is_new(model::digest_of(name))) return;
    end_well(state);
    keep(std::move(state));
  }

  const World world_;
  size_t delivered_ = 0;
};

const World kGate[] = {
    {.name = "one way", .window = 3, .messages = {4, 0}},
    {.name = "both ways", .window = 2, .messages = {2, 2}},
    {.name = "two terms", .window = 2, .messages = {2, 0}, .terms = 2},
    {.name = "two terms, both ways", .window = 1, .messages = {1, 1}, .terms = 2},
};
const World kDeep[] = {
    {.name = "one way, more", .window = 3, .messages = {5, 0}},
    {.name = "both ways, more", .window = 2, .messages = {3, 2}},
    {.name = "two terms, more", .window = 2, .messages = {2, 1}, .terms = 2},
};

constexpr model::Mutation kMutations[] = {
    {"acknowledge-the-gap", "one way"}, {"take-another-terms", "two terms"}, {"slide-over-a-gap", "one way"},
    {"acknowledge-once", "one way"},    {"shift-too-little", "one way"},     {"take-twice-beyond", "one way"},
    {"send-once", "one way"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
