// Node-to-node copies: the target's home pulls the bytes into its own extent, in threads of their own, so
// that they never pass through the program nor hold up the control thread.
//
// Invariants
//   C1 at most `threads` copies run at once; more wait, and beyond kWaitingMax are refused.
//   C2 both extents are held until the copy has ended, so a free meanwhile is safe; the copy then fails.
// Threads: copy() on the loop's; the work in the copier's own, started by the first copy.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fabric/channel.h"
#include "node/core.h"
#include "node/home.h"

namespace ocm::node {

class Copier {
 public:
  struct Job {
    std::shared_ptr<memory::Extent> target;
    std::shared_ptr<memory::Extent> local_source;  // null: remote
    fabric::ExtentDescriptor source;
    uint64_t target_offset = 0, source_offset = 0, bytes = 0;
    std::function<void(Status)> done;  // once, by any thread
  };
  /// Moves the bytes of a job and calls `done`.
  using Mover = std::function<void(Job)>;

  /// `mover`: instead of threads here (C1 is its own then).
  Copier(Core& core, Home& home, Mover mover = nullptr);
  ~Copier();

  /// Ends when the bytes are in the target, or with the first error.
  /// Errors: kOutOfRange, kPermission, kRevoked, kPeerLost, kQueueFull, kInvalidArgument (overlap).
  control::Task<Status> copy(wire::CopyRequest request);
  /// Ends what runs with kCancelled and joins the threads.
  void stop();

 private:
  static constexpr size_t kWaitingMax = 1024;
  class Worker;

  Result<Job> prepare(const wire::CopyRequest& request) const;
  /// Queues it for the threads. Errors: kDraining, kQueueFull.
  Status push(Job job);

  Core& core_;
  Home& home_;
  const Mover mover_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ocm::node
