// Threads of the library take no signals: they are the program's.
#pragma once

#include <pthread.h>
#include <signal.h>

#include "base/assert.h"

namespace ocm::os {

/// While it lives, this thread has all signals blocked, and so do threads that it starts, for good.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    [[maybe_unused]] const int failed = pthread_sigmask(SIG_SETMASK, &all, &before_);
    OCM_DASSERT(failed == 0);  // or what it restores later is garbage
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ocm::os
