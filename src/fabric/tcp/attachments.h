// How many extents the clients of one user have attached at one server, on all their connections together: what an
// attachment takes is the home's memory, and of no pool.
//
// Invariants
//   A1 the attachments of one uid are at most `most`; root and the server's own user have no such limit.
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/assert.h"

namespace ocm::fabric::tcp {

/// Of a home's memory, for one: its place in the two growing tables of its connection, and what is left of an extent that
/// was removed and is attached yet.
inline constexpr uint32_t kAttachmentBytes = 256;
inline constexpr uint32_t kUserAttachmentsMax = (uint32_t{256} << 20) / kAttachmentBytes;

class Attachments {
 public:
  /// `own_uid`: besides root the one who has no limit.
  Attachments(uint32_t most, uint32_t own_uid) : most_(most), own_uid_(own_uid) {}

  /// False: the uid has all that it may have.
  [[nodiscard]] bool take(uint32_t uid) {
    const std::lock_guard lock(mutex_);
    const auto mine = by_uid_.find(uid);
    const uint32_t before = mine == by_uid_.end() ? 0 : mine->second;
    if (before >= most_ && uid != 0 && uid != own_uid_) return false;
    by_uid_[uid] = before + 1;
    return true;
  }
  void give(uint32_t uid, uint32_t count) {
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    const auto mine = by_uid_.find(uid);
    OCM_ASSERT(mine != by_uid_.end() && mine->second >= count);  // A1: given back once
    mine->second -= count;
    if (mine->second == 0) by_uid_.erase(mine);
  }
  uint32_t most() const { return most_; }
  /// A1. Cost: the users.
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(by_uid_.begin(), by_uid_.end(), [this](const auto& one) {
      return one.second > 0 && (one.second <= most_ || one.first == 0 || one.first == own_uid_);
    });
  }

 private:
  const uint32_t most_;
  const uint32_t own_uid_;
  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<uint32_t, uint32_t> by_uid_;
};

}  // namespace ocm::fabric::tcp
