// What tables keep for a session: pooled memory, the cache, and what fetches have under way.
//
// The state outlives the session as long as streams or arrays refer to it; the session's end comes first in what scans do.
#pragma once

#include <oncilla/oncilla.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "base/status.h"
#include "table/cache.h"
#include "table/pool.h"

namespace ocm::table {

/// The calls that use a session, and the operations that they left under way, so that its end can end both.
///
/// Invariants
///   S1 what an operation of a fetch writes to lives until the operation is out of under_way_.
///   S2 once the session's end has come through stop(), nothing uses it any more.
/// Threads: any.
class Calls {
 public:
  /// One call.
  class Entered {
   public:
    explicit Entered(Calls& calls) : calls_(calls), well_(calls.enter()) {}
    ~Entered() {
      if (well_) calls_.leave();
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    /// False: the session is ending.
    bool well() const { return well_; }

   private:
    Calls& calls_;
    const bool well_;
  };
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  /// By a call that entered.
  void add(ocm_op* op);
  /// It is taken back if it is under way, unless the session's end has done so: then nothing touches its buffers any more.
  void end(ocm_op* op);
  /// Refuses new calls, takes back what is under way, and waits for the calls, which end with that.
  void stop();

 private:
  bool enter();
  void leave();

  std::mutex mutex_;  // guards running_, under_way_
  std::condition_variable none_;
  uint32_t running_ = 0;
  std::set<ocm_op*> under_way_;
  std::atomic<bool> stopping_{false};
};

struct SessionState {
  std::shared_ptr<Pool> pool = std::make_shared<Pool>();
  Cache cache;
  Calls calls;
};

/// The state of a live session, made at the first use.
/// Errors: kInvalidArgument, kRevoked (the session is none, or closed).
Result<std::shared_ptr<SessionState>> state_of(ocm_session* session);

}  // namespace ocm::table
