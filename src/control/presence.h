// Whom the coordinator misses among the voters. One that hears of no majority may itself be the one that is
// cut off, so it takes nobody's silence for an end until it was in touch for a whole failure deadline. Pure:
// time is given.
//
// Invariants
//   E1 a voter is missed only if another run of its daemon was heard, or if it was silent for a failure
//      deadline in which a majority of the council was heard all the time.
//   E2 a council is over only if no majority of the runs that vote in it lives or is remembered: silence alone ends none.
//   E3 none of its voters is asked for its end while no majority of them is near: who promised it votes no more, and the
//      others, which went on without the coordinator, may be too few then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "control/council.h"

namespace ocm::control {

class Presence {
 public:
  explicit Presence(uint64_t failure_deadline_ns) : deadline_ns_(failure_deadline_ns) {}

  void heard(uint64_t now_ns, const std::string& name, VoterRun run) {
    heard_[name] = {std::move(run), now_ns};
  }
  /// To be called often. is_near()
  bool look(uint64_t now_ns, const Council& council, const std::string& self) {
    std::erase_if(heard_, [&](const auto& one) {
      return one.second.at_ns + 4 * deadline_ns_ < now_ns && !council.has_node(one.first);
    });
    const bool in_touch = is_near(now_ns, council, self);
    if (!in_touch && !fault::at(fault::Point::kShrinksAlone)) since_ns_ = now_ns;
    return in_touch;
  }
  /// A majority of its voters was heard within half a deadline; `self` counts unheard. Those that are remembered count where
  /// no majority of the others runs any more.
  bool is_near(uint64_t now_ns, const Council& council, const std::string& self = {}) const {
    size_t running = 0, near = 0, near_or_remembered = 0;
    for (const VoterInfo& voter : council.voters) {
      const auto it = heard_.find(voter.name);
      const bool is_self = voter.name == self;
      const bool runs = it == heard_.end() || it->second.run.incarnation == voter.incarnation;
      const bool heard = is_self || (it != heard_.end() && now_ns < it->second.at_ns + deadline_ns_ / 2);
      running += runs ? 1 : 0;
      near += heard && (runs || is_self) ? 1 : 0;
      near_or_remembered += heard && (runs || is_self || it->second.run.may_promise(voter, council)) ? 1 : 0;
    }
    OCM_DASSERT(near <= near_or_remembered && near_or_remembered <= council.voters.size());
    return 2 * (2 * running > council.voters.size() ? near : near_or_remembered) > council.voters.size();
  }
  /// True if so many of its voters were followed by another run of their daemon that no majority can be made:
  /// nobody can ask or change it any more.
  bool is_over(const Council& council) const {
    const auto ended = static_cast<size_t>(
        std::count_if(council.voters.begin(), council.voters.end(), [&](const VoterInfo& voter) {
          const auto it = heard_.find(voter.name);
          return it != heard_.end() && !it->second.run.may_promise(voter, council);
        }));
    OCM_DASSERT(ended <= council.voters.size());
    return !council.voters.empty() && 2 * (council.voters.size() - ended) <= council.voters.size();
  }
  bool heard_lately(uint64_t now_ns, const VoterInfo& node) const {
    const auto it = heard_.find(node.name);
    return it != heard_.end() && it->second.run.incarnation == node.incarnation &&
           now_ns < it->second.at_ns + deadline_ns_;
  }
  bool misses(uint64_t now_ns, const VoterInfo& voter) const {
    const auto it = heard_.find(voter.name);
    if (it != heard_.end() && it->second.run.incarnation != voter.incarnation) return true;
    const uint64_t last_ns = it == heard_.end() ? 0 : it->second.at_ns;
    return now_ns >= std::max(last_ns, since_ns_) + deadline_ns_;
  }

 private:
  const uint64_t deadline_ns_;
  struct Heard {
    VoterRun run;
    uint64_t at_ns = 0;
  };
  std::map<std::string, Heard> heard_;  // by name
  uint64_t since_ns_ = 0;               // in touch
};

}  // namespace ocm::control
