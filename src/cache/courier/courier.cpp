#include "cache/courier/courier.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/mutation.h"

namespace ocm::cache {

uint64_t Courier::send(uint64_t now_ns) {
  OCM_ASSERT(can_send());
  if (next_ == first_) progress_ns_ = now_ns;
  sent(next_) = {now_ns, now_ns + limits_.again_ns, limits_.again_ns, false};
  OCM_DASSERT(is_valid());
  return next_++;
}

CourierHeader Courier::header(uint64_t sequence) {
  OCM_ASSERT(sequence < next_);
  acknowledge_ns_ = kNever;
  return {term_, sequence, all_before_, beyond_};
}

bool Courier::is_told(const CourierHeader& header, uint64_t sequence) {
  if (OCM_MUTATION("acknowledge-the-gap")) return sequence <= header.all_before;
  if (sequence <= header.all_before) return sequence < header.all_before;
  const uint64_t bit = sequence - header.all_before - 1;
  return bit < 64 && (header.beyond >> bit & 1) != 0;
}

bool Courier::is_correct(const CourierHeader& header) const {
  if (header.all_before == 0 || header.all_before > next_) return false;
  // The highest that it tells of was sent.
  if (header.beyond != 0 && header.all_before + static_cast<uint64_t>(std::bit_width(header.beyond)) >= next_)
    return false;
  return header.sequence < all_before_ + limits_.window;
}

Courier::Outcome Courier::receive(const CourierHeader& header, uint64_t now_ns,
                                  std::vector<uint64_t>& acknowledged) {
  if (header.term != term_ && !OCM_MUTATION("take-another-terms")) return Outcome::kOther;
  if (!is_correct(header)) return Outcome::kFault;
  for (uint64_t one = first_; one < next_; ++one) {
    if (sent(one).acknowledged || !is_told(header, one)) continue;
    sent(one).acknowledged = true;
    progress_ns_ = now_ns;
    heard_since_ns_ = std::max(heard_since_ns_, sent(one).first_ns);
    acknowledged.push_back(one);
  }
  while (first_ < next_ && (sent(first_).acknowledged || OCM_MUTATION("slide-over-a-gap"))) ++first_;
  OCM_DASSERT(is_valid());

  if (header.sequence == 0) return Outcome::kKnown;
  // Also of what is known: that it was acknowledged may have been lost.
  if (!OCM_MUTATION("acknowledge-once") || header.sequence >= all_before_)
    acknowledge_ns_ = std::min(acknowledge_ns_, now_ns + limits_.acknowledge_ns);
  if (header.sequence < all_before_) return Outcome::kKnown;
  if (header.sequence == all_before_) {
    for (++all_before_; (beyond_ & 1) != 0; ++all_before_) beyond_ >>= 1;
    if (!OCM_MUTATION("shift-too-little")) beyond_ >>= 1;
    OCM_DASSERT(is_valid());
    return Outcome::kNew;
  }
  OCM_DASSERT(header.sequence - all_before_ < limits_.window);  // C5
  const uint64_t bit = uint64_t{1} << (header.sequence - all_before_ - 1);
  if ((beyond_ & bit) != 0 && !OCM_MUTATION("take-twice-beyond")) return Outcome::kKnown;
  beyond_ |= bit;
  return Outcome::kNew;
}

bool Courier::due(uint64_t now_ns, std::vector<uint64_t>& again) {
  for (uint64_t one = first_; one < next_; ++one) {
    Sent& it = sent(one);
    if (it.acknowledged || it.again_ns > now_ns || OCM_MUTATION("send-once")) continue;
    it.wait_ns = std::min(2 * it.wait_ns, limits_.again_most_ns);
    it.again_ns = now_ns + it.wait_ns;
    again.push_back(one);
  }
  return acknowledge_ns_ <= now_ns;
}

uint64_t Courier::due_ns() const {
  uint64_t at = acknowledge_ns_;
  for (uint64_t one = first_; one < next_; ++one) {
    if (!sent(one).acknowledged) at = std::min(at, sent(one).again_ns);
  }
  return next_ == first_ ? at : std::min(at, progress_ns_ + limits_.give_up_ns);
}

bool Courier::is_valid() const {
  return first_ >= 1 && next_ - first_ <= limits_.window && limits_.window <= sent_.size() &&
         (next_ == first_ || !sent(first_).acknowledged) &&
         (limits_.window == CourierLimits::kWindowMost || beyond_ >> (limits_.window - 1) == 0);
}

}  // namespace ocm::cache
