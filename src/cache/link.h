// One courier and what it carries: parcels wait here for its window, and are kept until they are acknowledged.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "cache/courier/courier.h"
#include "cache/packet.h"

namespace ocm::cache {

class Link {
 public:
  Link(uint64_t term, const CourierLimits& limits) : courier_(term, limits) {}

  const Courier& courier() const { return courier_; }
  void post(Parcel parcel) { waiting_.push_back(std::move(parcel)); }
  /// Nothing waits and nothing is under way.
  bool is_idle() const { return waiting_.empty() && under_way_.empty(); }

  /// What is to leave now: `leave(const CourierHeader&, const Parcel&)`; without a parcel to acknowledge only.
  template <class Leave>
  void leave(uint64_t now_ns, Leave leave) {
    while (!waiting_.empty() && courier_.can_send()) {
      const uint64_t sequence = courier_.send(now_ns);
      const Parcel& parcel = under_way_.emplace(sequence, std::move(waiting_.front())).first->second;
      waiting_.pop_front();
      leave(courier_.header(sequence), parcel);
    }
    again_.clear();
    const bool acknowledges = courier_.due(now_ns, again_);
    for (const uint64_t sequence : again_) {
      const auto it = under_way_.find(sequence);
      OCM_ASSERT(it != under_way_.end());  // C2
      leave(courier_.header(sequence), it->second);
    }
    if (acknowledges && again_.empty()) leave(courier_.header(0), Parcel());
  }
  Courier::Outcome receive(const CourierHeader& header, uint64_t now_ns) {
    acknowledged_.clear();
    const Courier::Outcome outcome = courier_.receive(header, now_ns, acknowledged_);
    for (const uint64_t sequence : acknowledged_) under_way_.erase(sequence);
    return outcome;
  }
  bool is_over(uint64_t now_ns) const { return courier_.is_over(now_ns); }
  /// 0: now.
  uint64_t due_ns() const { return waiting_.empty() || !courier_.can_send() ? courier_.due_ns() : 0; }

 private:
  Courier courier_;
  std::deque<Parcel> waiting_;
  std::map<uint64_t, Parcel> under_way_;  // by sequence
  std::vector<uint64_t> again_, acknowledged_;
};

}  // namespace ocm::cache
