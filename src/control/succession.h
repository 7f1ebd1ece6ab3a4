// Which council follows which: one decision of those who vote in the councils that end, so that a coordinator
// that dies in the middle is followed by another run of it, which finishes what it began. Pure: without time.
//
//   bases [X Y]   the councils that the next one follows; each has voters of its own
//   seal          a majority of each base promised a ballot. Who promised votes no more in its council.
//   accept        a majority of each base accepted the value: it is chosen
//   install       the voters of the chosen council vote in it
//
// Single-decree Paxos (Lamport, "Paxos Made Simple", 2001), whose quorum is a majority of each base: a
// proposer that hears of an accepted value of some bases proposes it again, on the same bases.
//
// Invariants
//   S1 of the values that name a base one is chosen at most.
//   S2 a council acts only after a majority of each of its bases was sealed, and what those knew is in it.
//   S3 whoever seals a council learns what it was made of, so it can install it where the run before could not.
//   S4 a voter never forgets what it promised or accepted: it is one run of a daemon, or remembered by the next one. Any
//      later run of the coordinator may finish what one began.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "base/mutation.h"
#include "control/loss.h"

namespace ocm::control {

/// One voter's part in the end of its council.
template <class Value>
class SuccessionVoter {
 public:
  /// False: it promised a higher one, promised().
  bool promise(const Ballot& ballot) {
    if (ballot < promised_ && !OCM_MUTATION("promise-a-lower-ballot")) return false;
    const bool by_one_run = OCM_MUTATION("refuse-another-run") || fault::at(fault::Point::kSealedByOneRun);
    if (by_one_run && promised_ != Ballot{} && promised_.by != ballot.by) return false;
    promised_ = ballot;
    return true;
  }
  /// False: it promised a higher one.
  bool accept(const Ballot& ballot, Value value) {
    if (ballot < promised_ && !OCM_MUTATION("accept-below-the-promise")) return false;
    promised_ = accepted_at_ = ballot;
    accepted_ = std::move(value);
    return true;
  }
  /// What a former run promised and accepted.
  void remember(const Ballot& promised, const Ballot& accepted_at, std::optional<Value> accepted) {
    promised_ = promised;
    accepted_at_ = accepted_at;
    accepted_ = std::move(accepted);
  }
  void start_over() {
    promised_ = accepted_at_ = Ballot{};
    accepted_.reset();
  }
  bool is_sealed() const { return promised_ != Ballot{} && !OCM_MUTATION("seal-but-vote-on"); }
  const Ballot& promised() const { return promised_; }
  const Ballot& accepted_at() const { return accepted_at_; }  // round 0: nothing
  const std::optional<Value>& accepted() const { return accepted_; }

 private:
  Ballot promised_, accepted_at_;
  std::optional<Value> accepted_;
};

/// One attempt of one proposer. `Value` has bases(), the ids of its bases.
template <class Value>
class Succession {
 public:
  /// `is_past`: of a base; true if a council that acted is known to come after it, so nothing else can.
  Succession(const Ballot& ballot, std::function<bool(uint64_t)> is_past)
      : ballot_(ballot), is_past_(std::move(is_past)) {
    using Bases = decltype(std::declval<const Value&>().bases());
    static_assert(std::is_convertible_v<Bases, std::vector<uint64_t>>);
    OCM_DASSERT(is_past_ != nullptr);
  }

  const Ballot& ballot() const { return ballot_; }

  /// A council to be sealed by `majority` of its voters; 0: it is surely over, and nobody is left to ask.
  void add(uint64_t base, size_t majority) {
    if (is_past_(base) && !OCM_MUTATION("follow-what-is-past")) return;
    bases_.try_emplace(base).first->second.majority =
        OCM_MUTATION("seal-a-minority") ? std::min<size_t>(majority, 1) : majority;
  }
  bool knows(uint64_t base) const { return bases_.contains(base); }
  /// A voter of `base` promised, and told what it accepted before.
  void promised(uint64_t base, const std::string& voter, const Ballot& accepted_at,
                const std::optional<Value>& accepted) {
    const auto it = bases_.find(base);
    if (it == bases_.end()) return;
    it->second.promised.insert(voter);
    if (!accepted) return;
    // What names a base that another council followed was never chosen, and never will be.
    const std::vector<uint64_t> bases = accepted->bases();
    if (std::any_of(bases.begin(), bases.end(), is_past_) && !OCM_MUTATION("finish-what-is-past")) return;
    heard_.insert_or_assign(accepted_at, *accepted);
  }
  bool is_sealed(uint64_t base) const {
    const auto it = bases_.find(base);
    return it != bases_.end() && it->second.promised.size() >= it->second.majority;
  }
  /// What was accepted before, by ballot: its bases must be sealed too before it can be proposed again.
  const std::map<Ballot, Value>& heard() const { return heard_; }
  /// Sealed, and nothing was accepted that follows it: a new value may follow these, and no others.
  std::vector<uint64_t> free() const {
    const std::set<uint64_t> taken =
        OCM_MUTATION("propose-ones-own") ? std::set<uint64_t>() : bases_of_heard();
    std::vector<uint64_t> out;
    for (const auto& [id, base] : bases_) {
      if (is_sealed(id) && !taken.contains(id)) out.push_back(id);
    }
    return out;
  }
  /// The value that must be proposed again, if one can be: the highest of each of its bases, which are all
  /// sealed.
  const Value* to_finish() const {
    if (OCM_MUTATION("propose-ones-own")) return nullptr;
    std::set<uint64_t> taken;
    for (auto it = heard_.rbegin(); it != heard_.rend(); ++it) {
      const std::vector<uint64_t> bases = it->second.bases();
      const bool can = std::all_of(bases.begin(), bases.end(),
                                   [&](uint64_t base) { return is_sealed(base) && !taken.contains(base); });
      if (can) return &it->second;
      if (!OCM_MUTATION("finish-the-lower-ballot")) taken.insert(bases.begin(), bases.end());
    }
    return nullptr;
  }

  /// Proposes to_finish(), or a new value that follows some of free().
  void propose(Value value) { value_ = std::move(value); }
  const std::optional<Value>& value() const { return value_; }
  /// The base whose voters are to accept next: one after the other, so that the proposer's own council, which
  /// may be the proposer alone, holds the value before any other does. Nothing: it is chosen, or there is no
  /// value.
  std::optional<uint64_t> to_ask() const {
    if (!value_) return {};
    for (const uint64_t id : value_->bases()) {
      if (!has_accepted(id)) return id;
    }
    return {};
  }
  void accepted(uint64_t base, const std::string& voter) {
    const auto it = bases_.find(base);
    if (it != bases_.end()) it->second.accepted.insert(voter);
  }
  bool is_chosen() const {
    if (!value_) return false;
    const std::vector<uint64_t> bases = value_->bases();
    const auto has = [this](uint64_t base) { return has_accepted(base); };
    if (OCM_MUTATION("one-base-is-enough")) return std::any_of(bases.begin(), bases.end(), has);
    return std::all_of(bases.begin(), bases.end(), has);
  }

  /// visit(base, voters that promised, voters that accepted), in the order of the ids.
  template <class Visit>
  void visit(Visit visit) const {
    for (const auto& [id, base] : bases_) visit(id, base.promised, base.accepted);
  }

 private:
  struct Base {
    size_t majority = 0;
    std::set<std::string> promised, accepted;  // voters
  };
  bool has_accepted(uint64_t id) const {
    const auto it = bases_.find(id);
    return it != bases_.end() && it->second.accepted.size() >= it->second.majority;
  }
  std::set<uint64_t> bases_of_heard() const {
    std::set<uint64_t> out;
    for (const auto& [ballot, value] : heard_) {
      for (const uint64_t base : value.bases()) out.insert(base);
    }
    return out;
  }

  Ballot ballot_;
  std::function<bool(uint64_t)> is_past_;
  std::map<uint64_t, Base> bases_;
  std::map<Ballot, Value> heard_;
  std::optional<Value> value_;
};

}  // namespace ocm::control
