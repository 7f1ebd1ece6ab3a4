// One run of the local daemon, as a session sees it: the control connection, who the session is, and the
// tables that the daemon shares with it. When the daemon restarts, the session gets another Daemon; extents
// of this host keep theirs, so that they know that their home is gone.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "client/control.h"
#include "fabric/channel.h"
#include "fabric/settings.h"
#include "fabric/shm/tables.h"
#include "os/memory.h"

namespace ocm::client {

class Daemon {
 public:
  /// Says hello on a connected socket. `resume`: the run whose session is to be taken up.
  /// Errors: kNoDaemon, kLimit, kAuth, kDraining, kProtocol.
  static Result<std::shared_ptr<Daemon>> greet(os::Fd socket, const std::string& program,
                                               const Daemon* resume, os::Deadline deadline);
  ~Daemon();

  ControlConnection& control() { return *control_; }
  const fabric::Credentials& who() const { return who_; }
  const std::string& node() const { return node_; }
  /// Whom the daemon takes this program for.
  uint32_t uid() const { return uid_; }
  /// Of all runs that this process has spoken to.
  uint64_t run() const { return run_; }
  uint64_t failure_deadline_ns() const { return failure_deadline_ns_; }
  uint64_t slab_bytes() const { return slab_bytes_; }
  /// What it says of the fabrics' ends here.
  const fabric::Settings& fabrics() const { return fabrics_; }

  /// The entry of the generation table. Errors: kProtocol (no such slot).
  Result<const std::atomic<uint32_t>*> slot(uint32_t index) const;
  /// Until when replicas on this host may be read and written. A slot was given out: the table is mapped.
  const std::atomic<uint64_t>& lease_until_ns() const { return generations()->lease_until_ns; }
  fabric::shm::SessionPage* page() const { return reinterpret_cast<fabric::shm::SessionPage*>(page_.data()); }

  /// Set within moments of the daemon's end, by a thread that sleeps until then.
  const std::atomic<bool>& lost() const { return lost_; }
  /// Set when the session speaks to a run of the daemon that has nothing of what this one had.
  const std::atomic<bool>& replaced() const { return replaced_; }
  void note_successor(const Daemon& now) { replaced_.store(now.partition_ != partition_); }

  /// Starts that thread. After the end it calls `resume` again and again, until that gives true. It also reads replies whose
  /// callers gave up, and calls `due` when it is woken, and again soon while that gives true. Errors: kNoMemory.
  Status watch(std::function<bool()> resume, std::function<bool()> due);
  /// Ends it; neither runs any more afterwards.
  void stop_watching();
  /// Something is due.
  void wake_watcher();
  /// Its end was met: what it did not answer it never will.
  bool is_over() const { return lost_.load(std::memory_order_acquire) || control_->failed(); }
  /// The thread will not touch anything any more: the end of the run was met and dealt with.
  bool watched_to_the_end() const { return watched_.load(std::memory_order_acquire); }

 private:
  Daemon();
  void run_watcher();
  /// Sleeps until woken, `poll_ms` at most.
  bool is_stopped(int poll_ms);

  const uint64_t run_;
  std::unique_ptr<ControlConnection> control_;
  fabric::Credentials who_;
  std::string resume_key_;
  std::string node_;
  uint64_t failure_deadline_ns_ = 0;
  uint64_t slab_bytes_ = 0;
  fabric::Settings fabrics_;
  const fabric::shm::GenerationTable* generations() const {
    return reinterpret_cast<const fabric::shm::GenerationTable*>(generations_.data());
  }
  uint32_t slots_ = 0;
  uint32_t uid_ = 0;
  uint32_t partition_ = 0;  // the run's
  os::Mapping generations_;
  os::Mapping page_;
  std::atomic<bool> lost_{false}, replaced_{false};
  os::Fd wake_;  // eventfd: the watcher looks at stopping_ and at what is late
  std::atomic<bool> stopping_{false};
  std::function<bool()> resume_, due_;
  std::atomic<bool> watched_{false};
  std::thread watcher_;
};

}  // namespace ocm::client
