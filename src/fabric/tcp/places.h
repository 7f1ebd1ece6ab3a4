// How many connections of one server may be open: those that proved themselves. Strangers take no place here;
// a worker bounds them by itself (worker.h).
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace ocm::fabric::tcp {

class Places {
 public:
  explicit Places(uint32_t most) : most_(most) {}
  /// False: all are taken.
  bool take() {
    if (taken_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
    give();
    return false;
  }
  void give() { taken_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const uint32_t most_;
  std::atomic<uint32_t> taken_{0};
};

}  // namespace ocm::fabric::tcp
