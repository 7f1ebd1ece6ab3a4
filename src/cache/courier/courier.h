// What lies under the page protocol between two nodes, one at each end: each message is taken exactly once, in any order, or
// the term ends. Whatever carries the frames may lose, repeat, delay and reorder them. Pure: no lock, no I/O; the time is
// given.
//
// A frame has a header and, where its sequence is not 0, one message. Every header acknowledges what arrived so far, so an
// end that has something to say acknowledges at no cost.
//
// Invariants, checked by tests/model/courier_model.cpp
//   C1 a message is taken once at most, and only in the term in which it was sent.
//   C2 what is acknowledged was taken; until then its sender keeps it.
//   C3 at most `window` messages are not acknowledged yet, the first of them included. So what arrived beyond a gap is
//      known by 64 bits, and a peer can make this end keep nothing more.
//   C4 if frames get through at all, everything is taken and acknowledged; if for give_up_ns nothing of what is under way
//      is acknowledged, the term is over, for good.
//   C5 what no correct end sends changes nothing, and is a fault of the peer: an acknowledgement of what was never sent, a
//      sequence beyond the window.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace ocm::cache {

struct CourierHeader {
  uint64_t term = 0;
  uint64_t sequence = 0;    // of the message in the frame, from 1 on; 0: none
  uint64_t all_before = 1;  // every one of the other end below it arrived
  uint64_t beyond = 0;      // bit i: all_before + 1 + i did, too
};

struct CourierLimits {
  static constexpr uint64_t kWindowMost = 64;
  uint64_t window = kWindowMost;
  uint64_t again_ns = 20'000'000;        // a frame that was not acknowledged; doubled each time,
  uint64_t again_most_ns = 320'000'000;  // to this
  uint64_t acknowledge_ns = 2'000'000;   // how long an acknowledgement waits for a frame that leaves anyway
  uint64_t give_up_ns = 1'500'000'000;
};

class Courier {
 public:
  Courier(uint64_t term, CourierLimits limits) : term_(term), limits_(limits) {
    OCM_DASSERT(limits.window >= 1 && limits.window <= CourierLimits::kWindowMost);  // C3
  }

  uint64_t term() const { return term_; }
  /// Until it can, messages wait at the caller's.
  bool can_send() const { return next_ - first_ < limits_.window; }
  /// The sequence of one more message, which the caller keeps. Only if it can.
  uint64_t send(uint64_t now_ns);
  /// Of the frame that leaves now; 0: without a message.
  CourierHeader header(uint64_t sequence);

  enum class Outcome : uint8_t {
    kNew,    // the frame's message is to be taken
    kKnown,  // it was taken before, or there is none
    kOther,  // of another term
    kFault,  // C5
  };
  /// `acknowledged`: the messages that the caller need keep no longer are added.
  Outcome receive(const CourierHeader& header, uint64_t now_ns, std::vector<uint64_t>& acknowledged);

  /// When the newest message that was acknowledged was sent first: the other end was there at that time or later.
  uint64_t heard_since_ns() const { return heard_since_ns_; }

  /// What is due: `again`, the messages to be sent once more, is added to. True if a frame is to leave in any case, to
  /// acknowledge.
  bool due(uint64_t now_ns, std::vector<uint64_t>& again);
  /// When to ask again; never: all ones.
  uint64_t due_ns() const;
  /// C4. The caller ends the term.
  bool is_over(uint64_t now_ns) const {
    return next_ != first_ && now_ns - progress_ns_ >= limits_.give_up_ns;
  }

  /// C3, of both directions.
  bool is_valid() const;

 private:
  friend struct CourierName;  // of tests/model: what two of them are told apart by
  static constexpr uint64_t kNever = ~uint64_t{0};
  struct Sent {
    uint64_t first_ns = 0, again_ns = 0, wait_ns = 0;
    bool acknowledged = false;
  };
  Sent& sent(uint64_t sequence) { return sent_[sequence % sent_.size()]; }
  const Sent& sent(uint64_t sequence) const { return sent_[sequence % sent_.size()]; }
  static bool is_told(const CourierHeader& header, uint64_t sequence);
  bool is_correct(const CourierHeader& header) const;

  uint64_t term_;
  CourierLimits limits_;
  uint64_t first_ = 1, next_ = 1;  // [first_, next_) are under way; the first is not acknowledged
  std::array<Sent, CourierLimits::kWindowMost> sent_{};
  uint64_t heard_since_ns_ = 0;
  uint64_t progress_ns_ = 0;              // of what is under way: begun, or acknowledged
  uint64_t all_before_ = 1, beyond_ = 0;  // as in a header: of what arrived here
  uint64_t acknowledge_ns_ = kNever;      // by when
};

}  // namespace ocm::cache
