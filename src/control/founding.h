// When the first of the seeds founds a cluster's first council. Pure: time is given.
//
// A majority of nothing can decide twice, so founding is narrow: one node does it, and only when no seed that answers
// knows a council. All of them answered for two heartbeats: at once. A majority did for a failure deadline: then, too,
// for what others know was told to a seed meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/assert.h"

namespace ocm::control {

class Founding {
 public:
  /// `others`: how many seeds there are besides this node.
  Founding(size_t others, uint64_t heartbeat_ns, uint64_t failure_deadline_ns, uint64_t now_ns)
      : others_(others),
        round_ns_(2 * heartbeat_ns),
        deadline_ns_(failure_deadline_ns),
        all_since_ns_(now_ns),
        majority_since_ns_(now_ns) {}

  /// A seed answered; `knows`: of a council.
  void answered(uint64_t now_ns, const std::string& seed, bool knows) {
    if (knows) {
      none_at_ns_.clear();
      all_since_ns_ = majority_since_ns_ = now_ns;
    } else {
      none_at_ns_[seed] = now_ns;
    }
  }
  /// To be asked with each heartbeat.
  bool may_found(uint64_t now_ns) {
    look(now_ns);
    return now_ns >= all_since_ns_ + round_ns_ || now_ns >= majority_since_ns_ + deadline_ns_;
  }

 private:
  void look(uint64_t now_ns) {
    OCM_DASSERT(all_since_ns_ <= now_ns && majority_since_ns_ <= now_ns);
    std::erase_if(none_at_ns_, [&](const auto& one) { return one.second + round_ns_ < now_ns; });
    const size_t none = none_at_ns_.size();
    OCM_DASSERT(none <= others_);
    if (none < others_) all_since_ns_ = now_ns;
    if (2 * (none + 1) <= others_ + 1) majority_since_ns_ = now_ns;
  }

  const size_t others_;
  const uint64_t round_ns_, deadline_ns_;
  std::map<std::string, uint64_t> none_at_ns_;  // by seed: when it said last that it knows none
  uint64_t all_since_ns_, majority_since_ns_;
};

}  // namespace ocm::control
