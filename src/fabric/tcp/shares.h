// How long the connections of each user are run in one pass of a worker over those that have something to do: whoever has few
// does not wait for all of one who has thousands. Pure: time is given.
//
// Invariants
//   H1 connections of a single user are run without a bound.
//   H2 where several users have some, those of one are left out of a pass once kPassNs were spent on them in it; its next
//      pass begins with the first that was left out.
// Threads: its worker only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/assert.h"

namespace ocm::fabric::tcp {

class Shares {
 public:
  static constexpr uint64_t kPassNs = 1'000'000;

  void joined(uint32_t uid) { ++users_[uid].connections; }
  void left(uint32_t uid) {
    const auto user = users_.find(uid);
    OCM_DASSERT(user != users_.end() && user->second.connections > 0);
    if (--user->second.connections == 0) users_.erase(user);
  }
  /// Who is known has connections, and no time is spent in a pass that has not begun. Cost: the users.
  bool is_valid() const {
    return std::all_of(users_.begin(), users_.end(), [this](const auto& one) {
      return one.second.connections > 0 && one.second.pass <= pass_;
    });
  }
  bool is_crowded() const { return users_.size() > 1; }

  void begin_pass() { ++pass_; }
  /// H2: there is time left for this one's connections.
  bool may_run(uint32_t uid) const {
    const auto user = users_.find(uid);
    return user == users_.end() || user->second.pass != pass_ || user->second.spent_ns < kPassNs;
  }
  void spent(uint32_t uid, uint64_t ns) {
    const auto user = users_.find(uid);
    if (user == users_.end()) return;
    if (std::exchange(user->second.pass, pass_) != pass_) user->second.spent_ns = 0;
    user->second.spent_ns += ns;
  }

 private:
  struct User {
    size_t connections = 0;
    uint64_t pass = 0, spent_ns = 0;  // of that pass
  };
  std::unordered_map<uint32_t, User> users_;
  uint64_t pass_ = 0;
};

/// The order of one pass over `count` of something, beginning with what was left out first in the pass before.
class Round {
 public:
  Round(size_t count, size_t& from) : count_(count), next_from_(from), at_(from < count ? from : 0) {
    from = 0;
  }

  bool has_more() const { return done_ < count_; }
  /// What is next, once.
  size_t take() {
    OCM_DASSERT(has_more());
    const size_t out = at_;
    if (++at_ == count_) at_ = 0;
    ++done_;
    return out;
  }
  void left_out(size_t which) {
    OCM_DASSERT(which < count_);
    if (!std::exchange(has_left_out_, true)) next_from_ = which;
  }

 private:
  const size_t count_;
  size_t& next_from_;
  size_t at_, done_ = 0;
  bool has_left_out_ = false;
};

}  // namespace ocm::fabric::tcp
