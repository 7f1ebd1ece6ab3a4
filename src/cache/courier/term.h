// The term between a home and a node that caches its pages: a lease that any acknowledgement renews. Pure: time is given.
//
// The node uses pages only while its term runs, and when it is over drops or freezes them before anything else. The home
// gives them to others once it is sure of that. Their clocks only need the same speed, within a twentieth.
//
//   node   asks at t0 ------------> home   term n, until u0 + length
//          runs until t0 + 19/20 <--       (u0: when it was asked)
//          says anything at t1 ---> u1     until u1 + length
//          acknowledged: until t1 + 19/20 of the length, of which t1 is when that message left first
//
// Invariants
//   T1 while the node's term runs, the home does not take it for ended: what renews it at the node left at or before the
//      moment from which the home counts.
//   T2 a term that ended at either end never runs again there; the next one has a higher number.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace ocm::cache {

/// The node's side.
class HeldTerm {
 public:
  explicit HeldTerm(uint64_t length_ns) : good_for_ns_(length_ns - length_ns / 20), ask_ns_(length_ns / 4) {
    OCM_DASSERT(ask_ns_ < good_for_ns_);
  }

  uint64_t number() const { return number_; }  // 0: none
  /// The home gave it, for a request that left at `asked_ns`. Ignored if it is not newer than every one before.
  void given(uint64_t number, uint64_t asked_ns) {
    if (number <= newest_) return;
    newest_ = number_ = number;
    until_ns_ = 0;
    renewed(number, asked_ns);
    OCM_DASSERT(is_valid());
  }
  /// In that term a message that left first at `sent_ns` was acknowledged (Courier::heard_since_ns()).
  void renewed(uint64_t number, uint64_t sent_ns) {
    if (number != number_ || number == 0) return;
    OCM_DASSERT(number == newest_);  // T2
    until_ns_ = std::max(until_ns_, sent_ns + good_for_ns_);
  }
  bool runs(uint64_t now_ns) const { return number_ != 0 && now_ns < until_ns_; }
  /// Something must be said, so that it is renewed: at this time at the latest.
  uint64_t say_ns() const { return until_ns_ - std::min(until_ns_, good_for_ns_ - ask_ns_); }
  uint64_t until_ns() const { return until_ns_; }
  /// T2. It ran out, or both ends agreed.
  void end() { number_ = until_ns_ = 0; }
  /// T2.
  bool is_valid() const { return number_ == 0 ? until_ns_ == 0 : number_ == newest_; }

 private:
  uint64_t good_for_ns_, ask_ns_;
  uint64_t number_ = 0, newest_ = 0, until_ns_ = 0;
};

/// The home's side, of one run of one node's daemon.
class GivenTerm {
 public:
  explicit GivenTerm(uint64_t length_ns) : length_ns_(length_ns) {}

  uint64_t number() const { return number_; }
  /// The node had that one of this run before, which is not known here any more: the next is newer (T2). Before any is given.
  void follow(uint64_t number) {
    OCM_ASSERT(number_ == 0);
    constexpr uint64_t kMost = uint64_t{1} << 62;  // nobody gave so many
    if (number <= kMost) number_ = number;
  }
  /// The node asks for one. Only when none runs.
  uint64_t give(uint64_t now_ns) {
    OCM_ASSERT(!runs(now_ns));
    runs_ = true;
    until_ns_ = now_ns + length_ns_;
    return ++number_;
  }
  /// A frame of that term came; before it is acknowledged. False: it is over, and the frame is nothing any more.
  bool heard(uint64_t number, uint64_t now_ns) {
    if (number != number_ || !runs(now_ns)) return false;
    OCM_DASSERT(is_valid());
    until_ns_ = std::max(until_ns_, now_ns + length_ns_);
    return true;
  }
  /// Until it is over, its pages are the node's.
  bool runs(uint64_t now_ns) const { return runs_ && now_ns < until_ns_; }
  uint64_t until_ns() const { return runs_ ? until_ns_ : 0; }
  /// The node said that it uses nothing of it any more, or a newer run of its daemon was heard.
  void end() { runs_ = false; }
  /// T2: what runs was given.
  bool is_valid() const { return !runs_ || (number_ != 0 && until_ns_ != 0); }

 private:
  uint64_t length_ns_;
  uint64_t number_ = 0, until_ns_ = 0;
  bool runs_ = false;
};

}  // namespace ocm::cache
