// What tables keep for a session: pooled memory, the cache, and the threads that fetch ahead.
//
// The state outlives the session as long as streams or arrays refer to it; the session's end stops its
// threads first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "table/cache.h"
#include "table/pool.h"

namespace ocm::table {

/// Counts the threads that use a session, so that its end can wait for them.
class Threads {
 public:
  /// False when the session is ending: start none.
  bool enter();
  void leave();
  /// True when they shall end at the next chance.
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  /// Refuses new ones and waits for the others.
  void stop();

 private:
  std::mutex mutex_;  // guards running_
  std::condition_variable none_;
  uint32_t running_ = 0;
  std::atomic<bool> stopping_{false};
};

struct SessionState {
  std::shared_ptr<Pool> pool = std::make_shared<Pool>();
  Cache cache;
  Threads threads;
};

/// The state of a live session, made at the first use.
/// Errors: kInvalidArgument, kRevoked (the session is none, or closed).
Result<std::shared_ptr<SessionState>> state_of(ocm_session* session);

}  // namespace ocm::table
