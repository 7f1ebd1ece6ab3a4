// Where threads of a device tell a worker which of its connections has something to answer, and how many of the worker's
// requests devices still have. Outlives both.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "os/fd.h"

namespace ocm::fabric::tcp {

class Bell {
 public:
  /// `wake`: an eventfd, which the worker polls.
  explicit Bell(os::Fd wake) : wake_(std::move(wake)) {}

  int fd() const { return wake_.get(); }
  /// Any thread.
  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  }

  /// A device gets one more request of `who`.
  void begin() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  /// It is done. Any thread; the last that it does for the request.
  void end(const void* who) {
    ring(who);
    const std::lock_guard lock(mutex_);
    OCM_ASSERT(under_way_ > 0);
    if (--under_way_ == 0) none_.notify_all();
  }
  /// There may be something to do for `who`. Any thread.
  void ring(const void* who) {
    bool first;
    {
      const std::lock_guard lock(mutex_);
      first = rung_.empty();
      rung_.push_back(who);
    }
    if (first) wake();
  }
  /// The worker's: for whom it rang since the last time.
  std::vector<const void*> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(rung_, {});
  }
  /// Nothing begins any more.
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return under_way_ == 0; });
  }

 private:
  const os::Fd wake_;
  std::mutex mutex_;
  std::condition_variable none_;
  uint64_t under_way_ = 0;
  std::vector<const void*> rung_;
};

}  // namespace ocm::fabric::tcp
