// How many connections of one server may be open: those that proved themselves. Strangers take no place here;
// a worker bounds them by itself (worker.h).
//
// Invariants
//   P1 at most `most` are taken, by one uid at most half and by all but root and the server's own user all but a
//      sixteenth; those may have all.
// Threads: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/share.h"

namespace ocm::fabric::tcp {

class Places;

/// One of them, as long as it lives. Empty: none.
class Place {
 public:
  Place() = default;
  Place(Places& of, uint32_t uid) : of_(&of), uid_(uid) {}
  Place(Place&& other) noexcept : of_(std::exchange(other.of_, nullptr)), uid_(other.uid_) {}
  Place& operator=(Place&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(uid_, other.uid_);
    return *this;
  }
  ~Place();
  explicit operator bool() const { return of_ != nullptr; }

 private:
  Places* of_ = nullptr;
  uint32_t uid_ = 0;
};

class Places {
 public:
  /// `own_uid`: besides root the one who may have all.
  Places(uint32_t most, uint32_t own_uid) : most_(most), own_uid_(own_uid) {}

  /// Empty: all are taken, or the uid has its share().
  Place take(uint32_t uid) {
    const std::lock_guard lock(mutex_);
    if (taken_ >= most_) return {};
    uint32_t& mine = by_uid_[uid];
    const bool privileged = is_privileged(uid);
    if (used_up_share(privileged, mine, of_users_, most_) != Share::kOk) {
      if (mine == 0) by_uid_.erase(uid);
      return {};
    }
    if (!privileged) ++of_users_;
    ++mine;
    ++taken_;
    return {*this, uid};
  }
  /// True if the uid has all that it may have, and others may have more.
  bool has_its_share(uint32_t uid) {
    const std::lock_guard lock(mutex_);
    const auto mine = by_uid_.find(uid);
    return !is_privileged(uid) && mine != by_uid_.end() && mine->second >= share();
  }
  /// P1. Cost: the users.
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    uint64_t taken = 0, of_users = 0;
    for (const auto& [uid, mine] : by_uid_) {
      taken += mine;
      if (!is_privileged(uid)) of_users += mine;
      if (mine == 0 || (!is_privileged(uid) && mine > share())) return false;
    }
    return taken == taken_ && taken <= most_ && of_users == of_users_ &&
           of_users <= share_of_all_users(most_);
  }
  uint32_t share() const { return static_cast<uint32_t>(share_of_one_user(most_)); }

 private:
  friend class Place;
  bool is_privileged(uint32_t uid) const { return uid == 0 || uid == own_uid_; }
  void give(uint32_t uid) {
    const std::lock_guard lock(mutex_);
    const auto mine = by_uid_.find(uid);
    OCM_ASSERT(mine != by_uid_.end() && mine->second > 0 && taken_ > 0);  // P1: given back once
    --taken_;
    if (!is_privileged(uid)) --of_users_;
    if (--mine->second == 0) by_uid_.erase(mine);
  }

  const uint32_t most_;
  const uint32_t own_uid_;
  mutable std::mutex mutex_;  // guards the rest
  uint32_t taken_ = 0, of_users_ = 0;
  std::unordered_map<uint32_t, uint32_t> by_uid_;
};

inline Place::~Place() {
  if (of_ != nullptr) of_->give(uid_);
}

}  // namespace ocm::fabric::tcp
