// The memory that requests for bytes on devices take while they are under way: of one user so much, on all its connections to
// this home together. Who finds none waits.
//
// Invariants
//   M1 of one user at most `user_max` bytes are taken; root and the daemon's own user are not counted.
//   M2 who was refused is rung for once something of its user is given back.
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "fabric/tcp/bell.h"

namespace ocm::fabric::tcp {

class Buffers {
 public:
  static constexpr uint64_t kUserBytesMax = uint64_t{256} << 20;

  Buffers(uint64_t user_max, uint32_t privileged) : user_max_(user_max), privileged_(privileged) {}

  /// Bytes that are taken as long as this lives.
  class Taken {
   public:
    Taken() = default;
    Taken(Taken&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), uid_(other.uid_), bytes_(other.bytes_) {}
    Taken& operator=(Taken&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(uid_, other.uid_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Taken() {
      if (of_ != nullptr) of_->give(uid_, bytes_);
    }

   private:
    friend class Buffers;
    Taken(Buffers* of, uint32_t uid, uint64_t bytes) : of_(of), uid_(uid), bytes_(bytes) {}
    Buffers* of_ = nullptr;
    uint32_t uid_ = 0;
    uint64_t bytes_ = 0;
  };

  /// False: not now; `bell` will ring for `who`. `bytes` is at most `user_max`.
  bool take(uint32_t uid, uint64_t bytes, const std::shared_ptr<Bell>& bell, const void* who, Taken& out) {
    if (uid == 0 || uid == privileged_ || bytes == 0) return true;
    OCM_ASSERT(bytes <= user_max_);  // else it would wait for ever
    {
      const std::lock_guard lock(mutex_);
      User& user = users_[uid];
      if (bytes > user_max_ - user.bytes) {
        user.waiting[who] = bell;
        return false;
      }
      user.bytes += bytes;
    }
    out = Taken(this, uid, bytes);
    return true;
  }
  uint64_t taken(uint32_t uid) {
    const std::lock_guard lock(mutex_);
    const auto user = users_.find(uid);
    return user == users_.end() ? 0 : user->second.bytes;
  }
  /// M1; and who waits waits for bytes of its own user. Cost: the users.
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(users_.begin(), users_.end(), [this](const auto& one) {
      return one.first != 0 && one.first != privileged_ && one.second.bytes > 0 &&
             one.second.bytes <= user_max_;
    });
  }

 private:
  using Waiting = std::unordered_map<const void*, std::weak_ptr<Bell>>;
  struct User {
    uint64_t bytes = 0;
    Waiting waiting;
  };

  void give(uint32_t uid, uint64_t bytes) {
    Waiting waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto user = users_.find(uid);
      OCM_ASSERT(user != users_.end() && user->second.bytes >= bytes);  // M1
      user->second.bytes -= bytes;
      waiting.swap(user->second.waiting);
      if (user->second.bytes == 0) users_.erase(user);
    }
    for (const auto& [who, bell] : waiting) {
      if (const auto rings = bell.lock()) rings->ring(who);
    }
  }

  const uint64_t user_max_;
  const uint32_t privileged_;
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, User> users_;
};

}  // namespace ocm::fabric::tcp
