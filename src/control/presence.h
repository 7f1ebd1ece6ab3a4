// Whom the coordinator misses among the voters. One that hears of no majority may itself be the one that is
// cut off, so it takes nobody's silence for an end until it was in touch for a whole failure deadline. Pure:
// time is given.
//
// Invariants
//   E1 a voter is missed only if another run of its daemon was heard, or if it was silent for a failure
//      deadline in which a majority of the council was heard all the time.
//   E2 a council is over only if no majority of the runs that vote in it lives: silence alone ends none.
//   E3 none of its voters is asked for its end while no majority of them is near: who promised it votes no more, and the
//      others, which went on without the coordinator, may be too few then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/fault.h"
#include "control.pb.h"

namespace ocm::control {

class Presence {
 public:
  explicit Presence(uint64_t failure_deadline_ns) : deadline_ns_(failure_deadline_ns) {}

  void heard(uint64_t now_ns, const std::string& name, const std::string& incarnation) {
    heard_[name] = {incarnation, now_ns};
  }
  /// To be called often. is_near()
  bool look(uint64_t now_ns, const wire::Council& council, const std::string& self) {
    std::erase_if(heard_, [&](const auto& one) {
      return one.second.second + 4 * deadline_ns_ < now_ns &&
             std::none_of(council.voters().begin(), council.voters().end(),
                          [&](const wire::Voter& voter) { return voter.name() == one.first; });
    });
    const bool in_touch = is_near(now_ns, council, self);
    if (!in_touch && !fault::at(fault::Point::kShrinksAlone)) since_ns_ = now_ns;
    return in_touch;
  }
  /// A majority of its voters was heard within half a deadline; `self` counts unheard.
  bool is_near(uint64_t now_ns, const wire::Council& council, const std::string& self = {}) const {
    const auto lives = [&](const wire::Voter& voter) {
      const auto it = heard_.find(voter.name());
      return it != heard_.end() && it->second.first == voter.incarnation() &&
             now_ns < it->second.second + deadline_ns_ / 2;
    };
    const auto near = std::count_if(council.voters().begin(), council.voters().end(),
                                    [&](const auto& voter) { return voter.name() == self || lives(voter); });
    return 2 * near > council.voters_size();
  }
  /// True if so many of its voters were followed by another run of their daemon that no majority can be made:
  /// nobody can ask or change it any more.
  bool is_over(const wire::Council& council) const {
    const auto ended =
        std::count_if(council.voters().begin(), council.voters().end(), [&](const wire::Voter& voter) {
          const auto it = heard_.find(voter.name());
          return it != heard_.end() && it->second.first != voter.incarnation();
        });
    return council.voters_size() > 0 && 2 * (council.voters_size() - ended) <= council.voters_size();
  }
  bool misses(uint64_t now_ns, const wire::Voter& voter) const {
    const auto it = heard_.find(voter.name());
    if (it != heard_.end() && it->second.first != voter.incarnation()) return true;
    const uint64_t last_ns = it == heard_.end() ? 0 : it->second.second;
    return now_ns >= std::max(last_ns, since_ns_) + deadline_ns_;
  }

 private:
  const uint64_t deadline_ns_;
  std::map<std::string, std::pair<std::string, uint64_t>> heard_;  // by name: the run, and when
  uint64_t since_ns_ = 0;                                          // in touch
};

}  // namespace ocm::control
