// Waits for words that are under way: nobody sleeps in a call for them, and the session's mover looks at the words.
//
//   kWaiting --it is at least the value; an error; the deadline; cancel(); its allocation ends--> kDone
//
// A word of this host is loaded; any other is got, by an Operation of the wait's own, which follows the word's part. Plain puts
// and atomics change a word without telling anybody: so between two looks lies a pause, which grows to kPauseNsMax.
//
// Invariants
//   W1 a wait is in all_ exactly while it is not done; then its status and `*seen` are final.
//   W2 a get under way is touched by who holds the mutex, or by the mover while it has `looked_at_` set. While that is set the
//      wait stays in all_.
//   W3 a session's far words are looked at kFarLooksPerMs times a millisecond at most, each in its turn.
// Threads: any; look() the mover's alone. The handle's owner enters a wait, and leaves it before it is destroyed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "client/mover.h"
#include "client/operation.h"
#include "client/polls.h"
#include "os/clock.h"

namespace ocm::client {

class Allocation;

class WordWait {
 public:
  /// `offset` was checked. `seen`, if it is not null, gets what the word was, before the wait is done well.
  WordWait(Allocation& allocation, uint64_t offset, uint64_t value, os::Deadline deadline, uint64_t* seen)
      : allocation_(&allocation), offset_(offset), value_(value), deadline_(deadline), seen_(seen) {}
  WordWait(const WordWait&) = delete;
  WordWait& operator=(const WordWait&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Once done(). Errors: kDeadline, kCancelled, kRevoked (also: its handle ended), kPeerLost.
  const Status& status() const { return status_; }
  Session* session() const { return session_; }

 private:
  friend class WordWaits;
  Allocation* allocation_;
  const uint64_t offset_, value_;
  const os::Deadline deadline_;
  uint64_t* const seen_;
  Session* session_ = nullptr;
  Status status_;
  Status ending_;  // bad: it ends with that as soon as the mover does not look at it
  std::atomic<bool> ends_{false};
  std::atomic<bool> done_{false};
  bool looked_at_ = false;
  bool is_far_ = false;
  uint64_t next_ns_ = 0, pause_ns_ = 0;
  uint64_t got_ = 0;
  std::unique_ptr<Operation> get_;  // of a far word, into got_
  int eventfd_ = -1;
};

class WordWaits {
 public:
  static constexpr uint64_t kPauseNsMin = 50'000, kPauseNsMax = 1'000'000;
  static constexpr uint64_t kFarLooksPerMs = 64;

  explicit WordWaits(Mover& mover) : mover_(mover) {}

  /// Looks once, which may connect to a node, and leaves the rest to the mover. Errors: those of the look, kNoMemory (there is
  /// no thread for it): nothing has entered then.
  Status enter(WordWait& wait);
  /// Ends it, if it is not done, with kCancelled.
  void leave(WordWait& wait);
  /// The same, soon: at once where the mover does not look at it. Never blocks.
  void cancel(WordWait& wait);
  /// Until it is done, and its status; else kDeadline, or interrupted, and it goes on.
  Status wait(const WordWait& wait, os::Deadline deadline);
  /// `eventfd` becomes readable when it is done; negative: no longer.
  void signal(WordWait& wait, int eventfd);
  /// The handle is about to end.
  void end_of(const Allocation* allocation);
  /// While the result lives, nothing looks at words of `allocation`, whose extents are replaced.
  [[nodiscard]] std::unique_lock<std::mutex> hold(const Allocation* allocation);

  // ---- the mover's
  struct Looked {
    uint64_t next_ns = UINT64_MAX;  // when to look again
    uint64_t gets_total = 0;        // that have ended
  };
  Looked look(uint64_t now_ns, Polls& polls);
  /// Cost: one load.
  bool is_empty() const { return count_.load(std::memory_order_seq_cst) == 0; }

 private:
  /// A word of this host is loaded. True: it need not be got.
  bool look_here(WordWait& wait, uint64_t now_ns);
  /// Starts a get, or moves the one under way.
  static void look_far(WordWait& wait, Polls* polls);
  void take_get(WordWait& wait, uint64_t now_ns);
  void take(WordWait& wait, const Result<uint64_t>& word, uint64_t now_ns);
  void finish(WordWait& wait, Status status);
  void end(WordWait& wait, Status status);

  Mover& mover_;
  std::mutex mutex_;
  std::condition_variable changed_;  // one is done, or not looked at any more
  std::list<WordWait*> all_;
  std::atomic<uint32_t> count_{0};  // of them
  uint64_t far_ = 0;                // of them
  uint64_t gets_total_ = 0;
};

}  // namespace ocm::client
