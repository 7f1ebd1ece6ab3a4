// When the first of the seeds founds a cluster's first council. Pure: time is given.
//
// A majority of nothing can decide twice, so founding is narrow: one node does it, and only when no seed that answers
// knows a council, and none of those that vote in one that a seed's former run was of. All of them answered for two
// heartbeats: at once. A majority of the seeds did for a failure deadline: then, too, for what others know was told to a seed
// meanwhile; where a voter is silent, after two.
//
// What no node may decide is left to an operator: to found without the first seed, or in place of a council of which a
// majority is gone for good. Then the council says of which chains it does not go on (Council::instead_of). Who knows one of
// those, and has no lease by it, follows the new one at once, and frees its replicas when it has heard of nothing else for
// ten failure deadlines: nobody knows any more which of them are old. The chain is followed again if a majority of its voters
// comes back after all, and is sealed with the new one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/assert.h"

namespace ocm::control {

/// How a voter looks from a node that may have to found.
enum class VoterSeen { kAnswers, kRestarted, kSilent };
/// False: so many of the voters answer that they make a coordinator by themselves.
inline bool may_found_by_hand(const std::vector<VoterSeen>& voters) {
  const auto answer = static_cast<size_t>(std::count(voters.begin(), voters.end(), VoterSeen::kAnswers));
  return 2 * answer <= voters.size();
}

/// Two nodes that are told to at the same moment must not each found a cluster. Each says so to who asks, then asks all that it
/// knows, and founds if nobody else does; of those that do, the first by name goes on, and it waits until the others have seen
/// that. So of two that reach each other the later one to say so hears of the other.
enum class FoundingStep { kFound, kWait, kRefuse };
struct FoundingAnswer {
  bool founds = false;   // it is just told to
  bool founded = false;  // or follows who did
};
inline FoundingStep founding_step(const std::string& self,
                                  const std::map<std::string, FoundingAnswer>& answers) {
  bool waits = false;
  for (const auto& [node, answer] : answers) {
    OCM_DASSERT(node != self);
    if (answer.founded || (answer.founds && node < self)) return FoundingStep::kRefuse;
    waits = waits || answer.founds;
  }
  return waits ? FoundingStep::kWait : FoundingStep::kFound;
}

class Founding {
 public:
  /// `others`: how many seeds there are besides this node.
  Founding(size_t others, uint64_t heartbeat_ns, uint64_t failure_deadline_ns, uint64_t now_ns)
      : others_(others),
        round_ns_(2 * heartbeat_ns),
        deadline_ns_(failure_deadline_ns),
        all_since_ns_(now_ns),
        majority_since_ns_(now_ns) {}

  /// A voter that is no seed is to be asked, too.
  void awaits(uint64_t now_ns, const std::string& voter) {
    if (voters_.insert(voter).second) all_since_ns_ = now_ns;
  }
  /// A seed or a voter answered; `knows`: of a council.
  void answered(uint64_t now_ns, const std::string& who, bool knows) {
    if (knows) {
      none_at_ns_.clear();
      all_since_ns_ = majority_since_ns_ = now_ns;
    } else {
      none_at_ns_[who] = now_ns;
    }
  }
  /// To be asked with each heartbeat.
  bool may_found(uint64_t now_ns) {
    const bool is_voter_silent = look(now_ns);
    return now_ns >= all_since_ns_ + round_ns_ ||
           now_ns >= majority_since_ns_ + (is_voter_silent ? 2 : 1) * deadline_ns_;
  }

 private:
  /// Returns whether a voter does not answer.
  bool look(uint64_t now_ns) {
    OCM_DASSERT(all_since_ns_ <= now_ns && majority_since_ns_ <= now_ns);
    std::erase_if(none_at_ns_, [&](const auto& one) { return one.second + round_ns_ < now_ns; });
    const auto voters =
        static_cast<size_t>(std::count_if(none_at_ns_.begin(), none_at_ns_.end(),
                                          [this](const auto& one) { return voters_.contains(one.first); }));
    const size_t seeds = none_at_ns_.size() - voters;
    OCM_DASSERT(seeds <= others_ && voters <= voters_.size());
    if (seeds < others_ || voters < voters_.size()) all_since_ns_ = now_ns;
    if (2 * (seeds + 1) <= others_ + 1) majority_since_ns_ = now_ns;
    return voters < voters_.size();
  }

  const size_t others_;
  const uint64_t round_ns_, deadline_ns_;
  std::set<std::string> voters_;
  std::map<std::string, uint64_t> none_at_ns_;  // by seed or voter: when it said last that it knows none
  uint64_t all_since_ns_, majority_since_ns_;
};

}  // namespace ocm::control
