// The budget: one atomic, so that "does it fit" and "take it" are one step.
#include "base/assert.h"
#include "memory/pool.h"

namespace ocm::memory {

bool Budget::take(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    OCM_DASSERT(used <= budget_bytes_);  // T1
    if (bytes > budget_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Budget::give(uint64_t bytes) {
  const uint64_t before = used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  OCM_ASSERT(before >= bytes);
  OCM_DASSERT(before <= budget_bytes_);  // T1
}

uint64_t Budget::used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

}  // namespace ocm::memory
