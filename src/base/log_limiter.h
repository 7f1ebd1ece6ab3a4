// Which log lines to leave out, so that nobody who can cause an event can fill a disk with it.
//
// Of one event of one peer the first line is written at once and then one in each period. It says how many
// were left out. A line for another reason than those is written at once, too; reasons beyond kReasonsMax share
// one line in each period. Peers beyond the table's size share one line in each period and event.
//
// Invariant: in one period at most kKeysMax lines, and one more for each event, are written; of one event and
// peer at most kReasonsMax + 1.
// Threads: the caller's; one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ocm::log {

class Limiter {
 public:
  static constexpr size_t kKeysMax = 256;
  static constexpr size_t kReasonsMax = 4;
  static constexpr size_t kReasonBytesMax = 128;  // the rest is not compared
  static constexpr uint64_t kPeriodNs = 60'000'000'000;

  /// The lines of this event, peer and reason that were left out before this one; none: leave it out, too.
  /// `event` is a word of the program, `peer` and `reason` may be a stranger's.
  std::optional<uint64_t> admit(std::string_view event, std::string_view peer, uint64_t now_ns,
                                std::string_view reason = {});

  /// The table's size; O(events).
  bool is_valid() const;

 private:
  struct Key {
    uint64_t next_ns = 0;  // nothing is written before
    uint64_t left_out = 0;
  };
  void forget(uint64_t now_ns);
  /// The key of this reason; where the peer has enough of them, that of all others.
  std::string with_reason(std::string name, std::string_view reason, uint64_t now_ns) const;

  std::map<std::string, Key, std::less<>> keys_;    // "event peer", or with "\nreason"
  std::map<std::string, Key, std::less<>> others_;  // by event
};

}  // namespace ocm::log
