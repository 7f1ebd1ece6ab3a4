// What one user may take of a daemon's memory, and of its time: the connections of one uid together (requests that arrive or
// are being answered, and replies that wait to be read), and the records of what its sessions have attached.
//
// Invariant: `used_bytes` is the sum of all Charges on it, and at most `bytes_max`.
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "control/env.h"

namespace ocm::control {

/// Of a daemon's memory, for one uid: so much for messages, and so much for what it holds there (ownership.h).
/// Not of root and of the daemon's own user.
inline constexpr size_t kUserBytesMax = size_t{256} << 20;
/// What a byte of a message may take once it is parsed: an empty submessage has two bytes and is an object.
inline constexpr size_t kParsedBytesPerByte = 64;

/// What a byte of a record of extents (node, address, capability) takes where it is kept.
inline constexpr size_t kKeptBytesPerWireByte = 4;

/// Taking a longer message keeps the loop busy long enough to count: millions of empty submessages fit into one.
inline constexpr size_t kLargeMessageBytes = 16 << 10;
/// After one, its user's next waits for so many times as long as that took.
inline constexpr uint64_t kRestAfterLarge = 8;

/// Requests of one user that are being answered; the next ones wait in their sockets.
inline constexpr size_t kUserAnsweringMax = 2048;

/// So many connections of one user take messages in one pass of the loop.
inline constexpr size_t kUserTakingMax = 4;
static_assert(kUserTakingMax <= kUserAnsweringMax);
static_assert(kLargeMessageBytes * kParsedBytesPerByte <= kUserBytesMax, "a large one may come");

struct Allowance {
  struct Waiter {
    explicit Waiter(Env& env) : signal(env) {}
    Signal signal;
    bool is_called = false;
  };
  size_t bytes_max;
  size_t used_bytes = 0;
  size_t answering = 0;
  uint64_t large_from_ns = 0;  // the next large message is taken then
  size_t taking = 0;
  std::deque<std::shared_ptr<Waiter>> waiting;  // to take messages, in their order

  /// The invariant above, and R6 of control/rpc.h.
  bool is_valid() const {
    return used_bytes <= bytes_max && answering <= kUserAnsweringMax && taking <= kUserTakingMax &&
           (waiting.empty() || taking == kUserTakingMax);
  }
};

/// A part of an allowance that is used as long as this lives. Of none: nothing is counted.
class Charge {
 public:
  Charge() = default;
  explicit Charge(std::shared_ptr<Allowance> of) : of_(std::move(of)) {}
  Charge(Charge&& other) noexcept : of_(std::move(other.of_)), bytes_(std::exchange(other.bytes_, 0)) {
    OCM_DASSERT(of_ != nullptr || bytes_ == 0);
  }
  Charge& operator=(Charge&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (!of_) return;
    OCM_DASSERT(of_->used_bytes >= bytes_);
    of_->used_bytes -= bytes_;
  }

  /// False if that is more than is left: nothing changes then.
  [[nodiscard]] bool resize(size_t bytes) {
    if (!of_) return true;
    OCM_DASSERT(bytes_ <= of_->used_bytes && of_->used_bytes <= of_->bytes_max);
    if (bytes > bytes_ && bytes - bytes_ > of_->bytes_max - of_->used_bytes) return false;
    of_->used_bytes = of_->used_bytes - bytes_ + bytes;
    bytes_ = bytes;
    OCM_DASSERT(of_->is_valid());
    return true;
  }

 private:
  std::shared_ptr<Allowance> of_;
  size_t bytes_ = 0;
};

/// The allowances of one thing: one for each user who has some of it.
class Allowances {
 public:
  explicit Allowances(size_t bytes_max) : bytes_max_(bytes_max) {}
  std::shared_ptr<Allowance> of(uint32_t uid) {
    std::erase_if(by_uid_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = by_uid_[uid];
    auto allowance = known.lock();
    if (!allowance) known = allowance = std::make_shared<Allowance>(Allowance{bytes_max_});
    OCM_DASSERT(allowance->bytes_max == bytes_max_ && allowance->is_valid());
    return allowance;
  }

 private:
  const size_t bytes_max_;
  std::unordered_map<uint32_t, std::weak_ptr<Allowance>> by_uid_;
};

}  // namespace ocm::control
