// The asynchronous operations of a session whose handles exist: what a fence waits for, and what the mover moves.
//
// Threads: any. An operation enters when it was started and leaves before its handle is destroyed; leave() waits while another
// thread moves it, which holds no lock of all then: it may dial a node.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "client/mover.h"
#include "client/operation.h"
#include "client/polls.h"
#include "client/word_wait.h"

namespace ocm::client {

class UnderWay {
 public:
  void enter(Operation& operation);
  void leave(Operation& operation);
  /// `eventfd` becomes readable when the operation, which has entered, is done. Errors: kNoMemory (nobody would move it).
  Status signal(Operation& operation, int eventfd);
  /// Moves everything that touches `allocation` (null: everything); true when all of it is done. `polls`: what the rest waits
  /// for. `until`: of those that entered up to it.
  bool step(const Allocation* allocation, Polls* polls = nullptr, uint64_t until = UINT64_MAX) {
    return step_some(allocation, true, polls, until);
  }
  /// Until step() is true of what has entered by now. Ends by itself: operations without progress fail. False: interrupted.
  [[nodiscard]] bool drain(const Allocation* allocation) { return drain_some(allocation, true); }
  /// What its thread started before it on its allocations is done. It stays so.
  bool is_first(const Operation& operation);
  /// What uses this handle is done, or is taken back if that is interrupted, and then nothing refers to it any more: it is
  /// about to end.
  void detach(const Allocation* allocation);
  /// The list: each stands in it once, in the order in which they entered. Cost: all of them.
  bool is_valid() const;

  /// Those that are waited for.
  WordWaits& words() { return words_; }

  // ---- the mover's
  /// Who waits looks more often than that.
  static constexpr uint64_t kQuietNs = 3'000'000;
  /// Of the operations that nobody moves: what they moved in all, and whether there are others that are not done.
  struct Moved {
    uint64_t total = 0;
    bool has_more = false;
  };
  Moved move_what_is_left_alone(uint64_t now_ns, Polls& polls);
  /// All that entered is done, and no word is waited for.
  bool is_idle();

 private:
  /// `all_handles`: of the allocation; else of this handle alone.
  bool step_some(const Allocation* allocation, bool all_handles, Polls* polls, uint64_t until);
  bool drain_some(const Allocation* allocation, bool all_handles);
  /// Some wait for others before them.
  bool has_turns() const;
  /// Lets go of `lock` while `operation`, which stays in the list, is moved.
  template <class Move>
  void with(Operation& operation, std::unique_lock<std::mutex>& lock, Move move) {
    ++operation.movers;
    lock.unlock();
    move();
    lock.lock();
    OCM_ASSERT(operation.movers > 0 && operation.link_under_way != nullptr);  // leave() waited for this
    if (--operation.movers == 0) let_go_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable let_go_;
  std::atomic<uint32_t> count_{0};
  uint64_t entered_ = 0;
  Operation* first_ =
      nullptr;  // in the order in which they entered, so that of a thread what started first comes first
  Operation** last_ = &first_;
  WordWaits words_{mover_};
  Mover mover_{*this};
};

}  // namespace ocm::client
