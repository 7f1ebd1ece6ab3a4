// Node-to-node copies: the target's home pulls the bytes into its own extent, in threads of their own, so
// that they never pass through the program nor hold up the control thread.
//
// Invariants
//   C1 at most [limits] copies threads move bytes, kPieceBytes of one copy at a time; the others wait their
//      turn (node/copy_queue.h).
//   C2 an extent here is held only while a piece is moved, so a free meanwhile is safe; the copy then fails.
//   C3 both ends are checked before and after the loads of each piece as on every fabric: generation, bounds
//      and, for replicas, the lease (node/copy_piece.h).
//   C4 the source is reached where the cluster's view says that its node is; what a request says is not used.
//   C5 what is forwarded or waits is of bounded size; of the programs here at most kAskedMax copies are under
//      way, of one user's kUserAskedMax, so that others' requests pass between the daemons.
//   C6 a thread waits at most a failure deadline for a node without progress, and nobody asks that node again
//      for half of one.
// Threads: copy() and what it needs on the loop's; the work in the copier's own, started by the first copy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fabric/channel.h"
#include "node/cluster.h"
#include "node/copy_queue.h"
#include "node/core.h"
#include "node/home.h"
#include "node/sessions.h"

namespace ocm::node {

class Copier {
 public:
  /// Moves the bytes of a job and calls `done`.
  using Mover = std::function<void(CopyJob)>;

  /// `mover`: instead of threads here (C1 and C6 are its own then).
  Copier(Core& core, Home& home, Cluster& cluster, Mover mover = nullptr);
  ~Copier();

  /// A program's request, to the target's home. Errors: those of copy(), kUnknownNode, kPeerLost.
  control::Task<control::Reply> ask(std::shared_ptr<Session> session, wire::CopyRequest request);
  /// Into an extent of this home.
  /// Ends when the bytes are in the target, or with the first error; its reply says if that is the source's.
  /// Errors: kOutOfRange, kPermission, kRevoked, kPeerLost, kQueueFull, kInvalidArgument (overlap).
  control::Task<control::Reply> copy(wire::CopyRequest request);
  /// Ends what runs with kCancelled and joins the threads.
  void stop();

 private:
  class Worker;
  static constexpr size_t kUserAskedMax = 1024, kAskedMax = 2048;

  Result<CopyJob> prepare(const wire::CopyRequest& request, bool& source_failed) const;
  /// Queues it for the threads. Errors: kDraining, kQueueFull.
  Status push(CopyJob job);
  void serve();
  /// C6
  bool is_avoided(const std::string& node);
  void avoid(const std::string& node);

  Core& core_;
  Home& home_;
  const Cluster& cluster_;
  Homes& homes_;
  const Mover mover_;
  size_t asked_ = 0;
  std::unordered_map<uint32_t, size_t> asked_by_uid_;
  std::mutex mutex_;  // guards queue_, avoided_until_ns_
  std::condition_variable wake_;
  CopyQueue queue_;
  std::unordered_map<std::string, uint64_t> avoided_until_ns_;  // nodes that did not answer
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ocm::node
