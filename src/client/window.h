// What an operation has under way: its legs, in the order in which they were posted, as many as there is room for.
//
// Most operations have one leg; a few have places of their own, made when they are first used, and a long one gets more.
//
// Invariants
//   P1 the legs of [tail, head) are under way; an Op and its buffers are not touched until its leg is reaped.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>

#include "base/assert.h"
#include "client/control.h"
#include "client/cutter.h"
#include "fabric/channel.h"
#include "fabric/op.h"

namespace ocm::client {

/// A cut that is under way: an operation of a channel, or a request to the daemon.
struct Leg {
  fabric::Op op;
  std::shared_ptr<fabric::Channel> channel;
  std::shared_ptr<Call> call;
  Cut cut;
  uint64_t posted_ns = 0;  // puts to replicas
  bool done() const {
    if (call != nullptr) return call->done.load(std::memory_order_acquire);
    return op.done() && (op.notify == nullptr || op.notify->done());
  }
  Code code() const { return op.code == Code::kOk && op.notify != nullptr ? op.notify->code : op.code; }
};

class Window {
 public:
  static constexpr uint32_t kFew = 4, kMany = 128;
  static_assert(std::has_single_bit(kFew) && std::has_single_bit(kMany));  // numbers wrap

  Window() {}  // NOLINT: `few_` is not made here
  ~Window() {
    while (made_ > 0) few_[--made_].~Leg();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Room for many, before the first leg. False: there is no memory.
  bool grow() {
    OCM_DASSERT(head_ == 0 && made_ == 0);
    many_.reset(new (std::nothrow) Leg[kMany]);
    if (many_ == nullptr) return false;
    legs_ = many_.get();
    size_ = kMany;
    return true;
  }
  /// P1: what is under way has a place. Cost: a few comparisons.
  bool is_valid() const {
    const bool many = many_ != nullptr;
    if (size_ != (many ? kMany : kFew) || legs_ != (many ? many_.get() : few_) || in_flight() > size_)
      return false;
    return many ? made_ == 0 : made_ <= kFew && made_ >= std::min(head_, kFew);
  }
  uint32_t tail() const { return tail_; }
  uint32_t head() const { return head_; }
  uint32_t in_flight() const { return head_ - tail_; }
  uint32_t room() const { return size_ - in_flight(); }
  bool is_empty() const { return head_ == tail_; }
  Leg& operator[](uint32_t number) { return legs_[number & (size_ - 1)]; }
  Leg& first() {
    OCM_DASSERT(!is_empty());
    return (*this)[tail_];
  }
  Leg& last() {
    OCM_DASSERT(!is_empty());
    return (*this)[head_ - 1];
  }
  /// The next one, not under way yet.
  Leg& fresh(const Cut& cut) {
    OCM_DASSERT(room() > 0);
    if (many_ == nullptr) {
      for (const uint32_t index = head_ & (kFew - 1); made_ <= index; ++made_) new (&few_[made_]) Leg();
    }
    Leg& leg = (*this)[head_];
    leg.op.~Op();
    new (&leg.op) fabric::Op{};
    leg.channel.reset();
    leg.call.reset();
    leg.cut = cut;
    return leg;
  }
  /// The fresh one is under way.
  void add() {
    OCM_DASSERT(room() > 0 && is_valid());  // P1
    ++head_;
  }
  /// The first one, which is done.
  Leg& reap() {
    OCM_DASSERT(!is_empty() && first().done());
    return (*this)[tail_++];
  }

 private:
  uint32_t head_ = 0, tail_ = 0, size_ = kFew, made_ = 0;
  Leg* legs_ = few_;
  std::unique_ptr<Leg[]> many_;
  union {
    Leg few_[kFew];
  };
};

}  // namespace ocm::client
