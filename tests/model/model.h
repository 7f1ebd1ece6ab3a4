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
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
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
  Digest out{0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full};
  const auto take = [](uint64_t& value, uint64_t word) {
    value = (value ^ word) * 0xFF51AFD7ED558CCDull;
    value ^= value >> 32;
  };
  for (size_t i = 0; i < state.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, state.data() + i, std::min<size_t>(8, state.size() - i));
    take(out.a, word), take(out.b, word);
  }
  return {out.a ^ state.size(), out.b ^ state.size()};
}

/// What a state is told apart by, written without an allocation.
class Text {
 public:
  void operator+=(char letter) {
    if (size_ == letters_.size()) std::abort();
    letters_[size_++] = letter;
  }
  void operator+=(std::string_view letters) {
    for (const char letter : letters) *this += letter;
  }
  operator std::string_view() const {
    return {letters_.data(), size_};
  }  // NOLINT(google-explicit-constructor)

 private:
  std::array<char, 8192> letters_;
  size_t size_ = 0;
};

/// A value that copies have in common until one of them changes its own: a step changes one or two of many.
template <class T>
class Shared {
 public:
  Shared() : Shared(T()) {}
  Shared(T value) : box_(new Box{1, std::move(value)}) {}  // NOLINT(google-explicit-constructor)
  Shared(const Shared& other) : box_(other.box_) { ++box_->users; }
  Shared& operator=(Shared other) {
    std::swap(box_, other.box_);
    return *this;
  }
  ~Shared() { drop(box_); }
  const T& operator*() const { return box_->value; }
  const T* operator->() const { return &box_->value; }
  /// This copy's own. What was read before may be of another copy from now on.
  T& change() {
    if (box_->users != 1) {
      Box* own = new Box{1, box_->value};
      drop(std::exchange(box_, own));
    }
    return box_->value;
  }

 private:
  struct Box {
    uint32_t users;
    T value;
  };
  static void drop(Box* box) {
    if (--box->users == 0) delete box;
  }

  Box* box_;
};

/// Tens of millions of digests, 16 to 43 bytes each and no allocation of its own for any.
class DigestSet {
 public:
  size_t size() const { return size_; }
  /// True if it is new.
  bool insert(Digest digest) {
    if (digest == kNone) digest.b = 1;
    if (size_ * 4 >= places_.size() * 3) grow();
    Digest& place = place_of(digest);
    if (place == digest) return false;
    place = digest;
    ++size_;
    return true;
  }

 private:
  static constexpr Digest kNone{0, 0};
  Digest& place_of(const Digest& digest) {
    const size_t mask = places_.size() - 1;
    size_t at = digest.a & mask;
    while (places_[at] != digest && places_[at] != kNone) at = (at + 1) & mask;
    return places_[at];
  }
  void grow() {
    std::vector<Digest> old(std::max<size_t>(1024, places_.size() * 2), kNone);
    old.swap(places_);
    for (const Digest& digest : old) {
      if (digest != kNone) place_of(digest) = digest;
    }
  }

  std::vector<Digest> places_;  // a power of two of them
  size_t size_ = 0;
};

/// Removes states that nothing leads to, again and again: what is left goes round.
inline bool goes_round(size_t states, const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
  std::vector<uint32_t> into(states), begin(states + 2), to(edges.size()), free;
  for (const auto& [a, b] : edges) ++begin[a + 2], ++into[b];
  for (size_t i = 2; i < begin.size(); ++i) begin[i] += begin[i - 1];
  for (const auto& [a, b] : edges) to[begin[a + 1]++] = b;
  for (uint32_t i = 0; i < into.size(); ++i) {
    if (into[i] == 0) free.push_back(i);
  }
  size_t removed = 0;
  while (!free.empty()) {
    const uint32_t one = free.back();
    free.pop_back();
    ++removed;
    for (uint32_t e = begin[one]; e < begin[one + 1]; ++e) {
      if (--into[to[e]] == 0) free.push_back(to[e]);
    }
  }
  return removed != states;
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
  bool is_new(const Digest& digest) { return seen_.insert(digest); }
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
  DigestSet seen_;
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
