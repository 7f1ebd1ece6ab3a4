// The thread that moves a session's asynchronous operations, and looks at the words that are waited for, while nobody else does, so that a program may compute, or sleep in
// an event loop, and its transfers go on.
//
//   asleep --an operation enters that is not done--> awake: moves what is left alone, sleeps on what that waits for
//      ^------------------nothing is under way for kAwakeNs----------------------/
//
// It starts with the first operation that needs it. It leaves to whoever waits what he waits for, and what somebody moved less
// than kQuietNs ago: a thread that spins is faster than one that must be woken. Where a channel's bytes are others' it looks every
// kQuietNs only, so that it does not compete with them for each reply.
//
// Threads: start(), hurry() any; the destructor's caller is the last user of the session.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "os/fd.h"

namespace ocm::client {

class UnderWay;

/// Nobody moves what is under way while nobody waits for it.
inline Status no_mover() {
  return Status(Code::kNoMemory,
                "the thread that moves operations cannot be started; raise this process' limits on memory, "
                "processes and open files");
}

class Mover {
 public:
  explicit Mover(UnderWay& under_way) : under_way_(under_way) {}
  /// Ends the thread.
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// An operation entered that is not done. Without a thread (there is no memory for one) those who wait move it, as ever.
  /// Cost: one load, as long as it is awake.
  void start() {
    if (asleep_.load(std::memory_order_seq_cst)) (void)wake();
  }
  /// Somebody sleeps until an operation is done: no time is left to see whether he moves it. False: nobody will.
  bool hurry() { return wake(); }

 private:
  /// False: there is no thread, nor can one be started.
  bool wake();
  void run();

  UnderWay& under_way_;
  std::atomic<bool> asleep_{true};
  std::atomic<bool> stopping_{false};
  std::mutex starting_;  // guards the creation of the next two
  os::Fd wake_;
  std::thread thread_;
};

}  // namespace ocm::client
