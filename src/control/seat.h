// The seat: the right to act as coordinator, leased by the voters of the council that names it. Pure: time is given.
//
//   council n   [A B C]   its first voter is its coordinator: A acts while a majority's votes for the seat run
//   A is silent           each voter misses it for a lease length, and a while longer by its place
//   B                     seals n, has n+1 = [B C ...] chosen (control/succession.h), installs it
//   council n+1           its voters know what is left of the votes for A, and grant B the seat when they are over
//
// Invariants
//   E1 one council follows another (S1 of succession.h), so each term, the number of a council, has one coordinator.
//   E2 at most one run of a daemon acts: a voter grants the seat only when all votes for another run, its own and
//      those that were handed to it, are over; a majority of the sealed voters knows of every vote that counted.
//   E3 a voter grants for a lease length from when it answers; the holder counts from when it asked, and a twentieth
//      less.
//   E4 who is cut off from its coordinator and not from the others deposes nobody: a voter that granted the seat
//      within half a lease length ends its council for no other run than the holder's.
//   E5 a voter whose council nobody takes the seat of becomes a candidate, at a moment of its own.
//   E6 a holder that stops gives the seat up: it counts no vote any more, and then the voters forget theirs for it. The
//      first of them is a candidate at once.
//   E7 who promised a candidate the end of its council leaves it a quarter of a lease length, once in each council: a
//      candidate that is slow finishes, and one that nobody can answer holds up nobody for longer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "base/ids.h"
#include "base/mutation.h"
#include "control/loss.h"

namespace ocm::control {

/// Votes for the seat: by holder, which is named by the incarnation of its daemon, how long each still runs.
using SeatsLeft = std::map<Incarnation, uint64_t>;

/// One voter's votes for the seat.
class SeatVotes {
 public:
  explicit SeatVotes(uint64_t lease_ns) : lease_ns_(lease_ns) {}

  /// False: a vote for another run still runs (E2).
  bool grant(uint64_t now_ns, const Incarnation& holder) {
    const bool over = OCM_MUTATION("grant-over-running-votes") || fault::at(fault::Point::kSeatStolen);
    if (is_held_by_another(now_ns, holder) && !over) return false;
    std::erase_if(until_ns_, [&](const auto& vote) { return vote.second <= now_ns; });
    until_ns_[holder] = now_ns + lease_ns_;
    last_ns_ = now_ns + lease_ns_;
    return true;
  }
  /// E6: `holder` acts no more, and never will again.
  void release(uint64_t now_ns, const Incarnation& holder) {
    if (until_ns_.erase(holder) == 0) return;
    last_ns_ = now_ns;
    for (const auto& [other, until_ns] : until_ns_) last_ns_ = std::max(last_ns_, until_ns);
    OCM_DASSERT(is_valid());
  }
  /// E4: this voter may promise the end of its council to `candidate`.
  bool allows_end(uint64_t now_ns, const Incarnation& candidate) const {
    if (OCM_MUTATION("depose-a-holder") || fault::at(fault::Point::kSeatStolen)) return true;
    return std::none_of(until_ns_.begin(), until_ns_.end(), [&](const auto& vote) {
      return vote.first != candidate && vote.second > now_ns + lease_ns_ / 2;
    });
  }
  /// E7: this voter promised another one the end of its council.
  void promised(uint64_t now_ns) {
    if (!std::exchange(has_yielded_, true)) yields_until_ns_ = now_ns + lease_ns_ / 4;
  }
  /// When this voter is a candidate, if nobody asks for the seat before. `place`: among the voters of its council that
  /// are not its coordinator, from 0. `jitter`: random, below 1/8 of a lease length; the first voter is before all others
  /// without it.
  uint64_t candidate_at_ns(size_t place, uint64_t jitter_ns) const {
    return std::max(last_ns_, yields_until_ns_) + (place == 0 ? 0 : place * (lease_ns_ / 4) + jitter_ns);
  }
  /// What is left of each vote that still runs: for the voters after this one.
  SeatsLeft left_ns(uint64_t now_ns) const {
    SeatsLeft out;
    for (const auto& [holder, until_ns] : until_ns_) {
      if (until_ns > now_ns) out[holder] = until_ns - now_ns;
    }
    return out;
  }
  /// A council begins, with what the sealed voters of those before knew. Its coordinator has half a lease length to ask.
  void install(uint64_t now_ns, const SeatsLeft& left_ns) {
    for (const auto& [holder, left] : left_ns) {
      if (OCM_MUTATION("forget-votes-for-the-seat")) break;
      uint64_t& until_ns = until_ns_[holder];
      until_ns = std::max(until_ns, now_ns + std::min(left, lease_ns_));
      last_ns_ = std::max(last_ns_, until_ns);
    }
    last_ns_ = std::max(last_ns_, now_ns + lease_ns_ / 2);
    has_yielded_ = false;
    OCM_DASSERT(is_valid());
  }
  void clear() {
    until_ns_.clear();
    last_ns_ = yields_until_ns_ = 0;
    has_yielded_ = false;
  }
  /// Every vote is counted by last_ns_, and of those that run one at most is younger than the others' end (E2).
  bool is_valid() const {
    return std::all_of(until_ns_.begin(), until_ns_.end(),
                       [this](const auto& vote) { return vote.second <= last_ns_; });
  }

 private:
  bool is_held_by_another(uint64_t now_ns, const Incarnation& holder) const {
    return std::any_of(until_ns_.begin(), until_ns_.end(),
                       [&](const auto& vote) { return vote.first != holder && vote.second > now_ns; });
  }

  uint64_t lease_ns_;
  std::map<Incarnation, uint64_t> until_ns_;  // by holder
  uint64_t last_ns_ = 0;  // when the newest vote is over, and a council's beginning at least
  uint64_t yields_until_ns_ = 0;
  bool has_yielded_ = false;  // in this council
};

/// Adds what another sealed voter knew of running votes.
inline void merge(SeatsLeft& into, const SeatsLeft& from) {
  for (const auto& [holder, left_ns] : from) into[holder] = std::max(into[holder], left_ns);
}

/// The votes of one council that a node holds: a lease runs while a majority of them does.
class HeldVotes {
 public:
  explicit HeldVotes(uint64_t lease_ns) : lease_ns_(lease_ns) {}

  /// The voters are others; a lease that runs goes on, for they know of it.
  void change_voters() { asked_ns_.clear(); }
  void drop() {
    asked_ns_.clear();
    until_ns_ = 0;
  }
  /// `voter` granted a request that was sent at `sent_ns`; `needed` of the council's voters are a majority.
  void granted(const std::string& voter, uint64_t sent_ns, size_t needed) {
    OCM_DASSERT(needed > 0);
    uint64_t& newest = asked_ns_[voter];
    newest = std::max(newest, sent_ns);
    std::vector<uint64_t> asked;
    for (const auto& [name, at_ns] : asked_ns_) asked.push_back(at_ns);
    if (OCM_MUTATION("a-minority-holds-the-seat")) needed = 1;
    until_ns_ = std::max(until_ns_, lease_until_ns(std::move(asked), needed, lease_ns_));
  }
  uint64_t until_ns() const { return until_ns_; }
  uint64_t asked_ns(const std::string& voter) const {
    const auto it = asked_ns_.find(voter);
    return it == asked_ns_.end() ? 0 : it->second;
  }

 private:
  uint64_t lease_ns_;
  std::map<std::string, uint64_t> asked_ns_;  // by voter: when the newest granted request was sent
  uint64_t until_ns_ = 0;
};

}  // namespace ocm::control
