// What every model checker here has in common: states told apart by a digest, worlds that must hold, rules
// that are broken on purpose, and the command line.
//
//   MODEL              the worlds of the gate, then every mutation, each of which its world must notice
//   MODEL --mutations  the mutations only
//   MODEL --deep       the worlds of the gate and the larger ones (the long suite)
//
// A checker is made of a world and a bound of states; it has run(), true if everything held, states(),
// complete(), failure() and counts(), a few words about what it walked. Included once by each program.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutation.h"

namespace ocm {
namespace model {

inline std::string_view mutation;  // that is on

struct Mutation {
  const char* name;
  const char* world;  // that must notice it
};

struct Digest {
  uint64_t a, b;
  bool operator==(const Digest&) const = default;
};
struct DigestHash {
  size_t operator()(const Digest& digest) const { return digest.a; }
};

inline Digest digest_of(std::string_view state) {
  const auto hash = [state](uint64_t value) {
    for (size_t i = 0; i < state.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, state.data() + i, std::min<size_t>(8, state.size() - i));
      value = (value ^ word) * 0xFF51AFD7ED558CCDull;
      value ^= value >> 32;
    }
    return value ^ state.size();
  };
  return {hash(0x9E3779B97F4A7C15ull), hash(0xC2B2AE3D27D4EB4Full)};
}

/// The states that are still to be expanded, those that were seen, and what failed first.
template <class State>
class Walk {
 public:
  explicit Walk(size_t states_max) : states_max_(states_max) {}
  size_t states() const { return seen_.size(); }
  bool complete() const { return stack_.empty() || !failure_.empty(); }
  const std::string& failure() const { return failure_; }

 protected:
  bool has_failed() const { return !failure_.empty(); }
  void fail(const char* what) {
    if (failure_.empty()) failure_ = what;
  }
  /// True if it is new: then to be kept.
  bool is_new(const Digest& digest) { return seen_.insert(digest).second; }
  template <class Kept>
  void keep(Kept&& state) {
    stack_.push_back(std::forward<Kept>(state));
  }
  /// expand(state) for each that is kept, also meanwhile. True if everything held.
  template <class Expand>
  bool walk(Expand expand) {
    while (!stack_.empty() && failure_.empty() && seen_.size() < states_max_) {
      const State state = std::move(stack_.back());
      stack_.pop_back();
      expand(state);
    }
    return failure_.empty();
  }

 private:
  const size_t states_max_;
  std::vector<State> stack_;
  std::unordered_set<Digest, DigestHash> seen_;
  std::string failure_;
};

/// True if everything held in all states of the world.
template <class Checker, class World>
bool check(const World& world, size_t states_max) {
  const auto begin = std::chrono::steady_clock::now();
  Checker checker(world, states_max);
  const bool good = checker.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-32s %9zu states%s %6.1f s  %s: %s\n", world.name, checker.states(),
              checker.complete() ? "" : " (cut)", seconds, checker.counts().c_str(),
              good ? "good" : checker.failure().c_str());
  return good && checker.complete();
}

/// main(). `states_max`: of a world of the gate.
template <class Checker, class World>
int run(int argc, char** argv, std::span<const World> gate, std::span<const World> deep,
        std::span<const Mutation> mutations, size_t states_max) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string_view what = argc > 1 ? argv[1] : "";
  int failed = 0;
  if (what.empty() || what == "--deep") {
    for (const World& world : gate) failed += check<Checker>(world, states_max) ? 0 : 1;
  }
  if (what == "--deep") {
    for (const World& world : deep) failed += check<Checker>(world, 200'000'000) ? 0 : 1;
  }
  if (what.empty() || what == "--mutations") {
    for (const Mutation& one : mutations) {
      mutation = one.name;
      const auto world = std::find_if(gate.begin(), gate.end(),
                                      [&](const World& w) { return std::string_view(w.name) == one.world; });
      Checker checker(*world, states_max);
      const bool found = !checker.run();
      std::printf("%-26s %s in \"%s\": %s\n", one.name, found ? "found" : "NOT FOUND", one.world,
                  checker.failure().c_str());
      failed += found ? 0 : 1;
    }
  }
  std::printf("%s\n", failed == 0 ? "all held" : "FAILED");
  return failed == 0 ? 0 : 1;
}

}  // namespace model

bool is_mutated(std::string_view name) { return name == model::mutation; }

}  // namespace ocm
