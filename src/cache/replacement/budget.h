// How many frames a page cache has now, how many of them may be dirty, and how many a prefetch may take. Pure: the time is
// given.
//
// Invariants
//   B1 growing is at once; shrinking takes kShrinkPercent of the frames there were for each kShrinkStepNs, to kFewest at
//      least.
//   B2 cleaning begins at a quarter of the frames dirty and stops at an eighth; at half, writers wait.
//   B3 while dirty pages wait to be cleaned, a prefetch leaves a tenth of the frames empty.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace ocm::cache {

class Budget {
 public:
  static constexpr uint32_t kFewest = 4, kShrinkPercent = 2;
  static constexpr uint64_t kShrinkStepNs = 10'000'000;

  explicit Budget(uint32_t frames) : from_(std::max(frames, kFewest)), to_(from_) {}

  void resize(uint32_t frames, uint64_t now_ns) {
    from_ = this->frames(now_ns);
    since_ns_ = now_ns;
    to_ = std::max(frames, kFewest);
    OCM_DASSERT(is_valid());
  }
  /// What is beyond goes (B1).
  uint32_t frames(uint64_t now_ns) const {
    if (to_ >= from_) return to_;
    const uint64_t step = std::max<uint64_t>(1, uint64_t{from_} * kShrinkPercent / 100);
    const uint64_t steps = now_ns <= since_ns_ ? 0 : (now_ns - since_ns_) / kShrinkStepNs;
    // So many steps at most: no product of them is too large.
    return steps >= from_ ? to_
                          : static_cast<uint32_t>(
                                std::max<uint64_t>(to_, from_ - std::min<uint64_t>(from_, steps * step)));
  }

  /// B2. Asked whenever the number of dirty frames changes.
  bool cleans(uint32_t dirty, uint64_t now_ns) {
    const uint32_t now = frames(now_ns);
    cleaning_ = dirty >= std::max(1u, cleaning_ ? now / 8 : now / 4);
    return cleaning_;
  }
  bool writers_wait(uint32_t dirty, uint64_t now_ns) const { return dirty >= frames(now_ns) / 2; }

  /// How many pages may be brought in ahead. `used`: frames with a page.
  uint32_t room(uint32_t used, uint64_t now_ns) const {
    const uint32_t now = frames(now_ns), kept = cleaning_ ? (now + 9) / 10 : 0;
    OCM_DASSERT(now >= kFewest && now <= std::max(from_, to_));  // B1
    return now - std::min(now, kept + std::min(now, used));
  }
  /// B1.
  bool is_valid() const { return from_ >= kFewest && to_ >= kFewest; }

 private:
  uint32_t from_, to_;
  uint64_t since_ns_ = 0;
  bool cleaning_ = false;
};

}  // namespace ocm::cache
