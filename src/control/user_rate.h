// How often a user may do what costs others: kBurst times at once, and then once in each period. Pure.
//
// Invariant: in any time t one user takes at most kBurst + t / period.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/assert.h"

namespace ocm::control {

class UserRate {
 public:
  static constexpr uint64_t kBurst = 512;

  explicit UserRate(uint64_t period_ns) : period_ns_(period_ns) {
    OCM_DASSERT(period_ns > 0 && period_ns <= ~uint64_t{0} / kBurst);
  }

  /// False: `uid` has to wait; nothing is taken then.
  [[nodiscard]] bool take(uint32_t uid, uint64_t now_ns) {
    const auto known = paid_until_ns_.find(uid);
    const uint64_t from_ns = std::max(now_ns, known == paid_until_ns_.end() ? 0 : known->second);
    if (from_ns - now_ns > (kBurst - 1) * period_ns_) return false;
    if (known == paid_until_ns_.end())  // so that the table does not grow with users who come and go
      std::erase_if(paid_until_ns_, [&](const auto& one) { return one.second <= now_ns; });
    paid_until_ns_[uid] = from_ns + period_ns_;
    OCM_DASSERT(from_ns + period_ns_ - now_ns <= kBurst * period_ns_);
    return true;
  }

 private:
  uint64_t period_ns_;
  std::unordered_map<uint32_t, uint64_t> paid_until_ns_;
};

}  // namespace ocm::control
