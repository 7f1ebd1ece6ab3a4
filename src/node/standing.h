// A flag that stands while a coroutine runs, however that ends. Threads: the loop's.
#pragma once

#include "base/assert.h"

namespace ocm::node {

class Standing {
 public:
  /// Its owner is kept by the coroutine, and outlives this.
  explicit Standing(bool& flag) : flag_(flag) {
    OCM_DASSERT(!flag);
    flag_ = true;
  }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;
  ~Standing() { flag_ = false; }

 private:
  bool& flag_;
};

}  // namespace ocm::node
