// Transfers as operations in windows, which are waited for without the GIL, in slices, so that a signal or a
// cancellation is seen soon.
//
// Invariants
//   W1 At most two windows are under way, each of at most kWindowBytes.
//   W2 A function here returns or raises only when its operations have ended or were taken back. A Transfer that is not seen
//      through hands what is under way, and its buffers, to the session to keep.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "core.h"

namespace ocm::python {

inline constexpr uint64_t kWindowBytes = uint64_t{32} << 20;
inline constexpr uint64_t kSliceNs = 50'000'000;

/// `oncilla._core.Cancel`: asks the transfers that were given it to stop, from any thread.
class Cancel {
 public:
  void cancel() { cancelled_.store(true); }
  bool cancelled() const { return cancelled_.load(); }

 private:
  std::atomic<bool> cancelled_{false};
};

/// Starts the next window and gives its operation, or leaves `*op` null when there is none. Called without
/// the GIL. It owns what it needs.
using StartNext = std::function<int(ocm_op** op)>;

/// A transfer that was checked, to be run window by window.
struct Plan {
  std::shared_ptr<SessionHandle> session;
  StartNext start_next;
  std::shared_ptr<Buffers> buffers = std::make_shared<Buffers>();  // what they read and write
  SessionHandle::Ends ends;                                        // of them
  uint64_t bytes = 0;                                              // that it moves
  nb::object result;                                               // null: `bytes`
};

/// Runs all windows to their end; its result.
/// Errors: those of the operations; Cancelled; what a signal handler raised (KeyboardInterrupt).
nb::object run_windows(Plan plan, const Cancel* cancel);

/// The windows under way, oldest first. Without the GIL.
class Windows {
 public:
  explicit Windows(const Plan& plan) : session_(*plan.session), buffers_(plan.buffers), ends_(plan.ends) {}
  /// What nobody waits for any more goes to the session, with its buffers.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  /// Starts windows while there is room; `eventfd`, if not negative, is told of the end of each.
  void start(const StartNext& start_next, int eventfd = -1);
  /// Waits at most `slice_ns` (0: not at all) for the oldest. False if it is still under way.
  bool end_oldest(uint64_t slice_ns);
  /// Nothing is started any more.
  void stop() { more_ = false; }
  /// Nor is anything under way any more: nothing touches the buffers.
  void take_back();
  bool wants_start() const { return more_ && failure_.status == OCM_OK && under_way_.size() < 2; }
  bool empty() const { return under_way_.empty(); }
  const Failure& failure() const { return failure_; }

 private:
  void note(int status);

  SessionHandle& session_;
  std::shared_ptr<Buffers> buffers_;
  SessionHandle::Ends ends_;
  std::deque<ocm_op*> under_way_;
  std::atomic<bool> more_{true};  // stop() comes from any thread
  Failure failure_;               // the first
};

/// `oncilla._core.Ready`: a descriptor for an event loop.
class Ready {
 public:
  Ready();
  int fd() const { return fd_->fd; }
  /// Nothing has ended until the next time that it is readable.
  void clear() const;
  struct Owned {
    explicit Owned(int number) : fd(number) {}
    ~Owned();
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    const int fd;
  };
  const std::shared_ptr<Owned>& owned() const { return fd_; }

 private:
  std::shared_ptr<Owned> fd_;
};

/// `oncilla._core.Transfer`: a transfer that an event loop sees through. begin() in any one thread at a time, and reap() when
/// it says so, in the loop's.
class Transfer {
 public:
  explicit Transfer(Plan plan) : plan_(std::move(plan)), windows_(plan_) {}
  /// Takes back what was told to tell.
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  enum class State : int { kUnderWay, kBegin, kEnded };
  /// Starts windows; may block where a node must be dialled. Leaves the GIL.
  void begin(const Ready& ready);
  /// What to do next: wait for `ready`, begin() again, or take the result. Never blocks.
  State reap();
  /// Starts nothing any more: what is under way ends.
  void stop();
  /// Raises what failed first; Cancelled after stop().
  nb::object result();

 private:
  Plan plan_;
  std::shared_ptr<Ready::Owned> told_;  // outlives what tells it
  Windows windows_;
  bool stopped_ = false;
};

void register_wait(nb::module_& module);

/// Raises Cancelled if it was.
void check_cancelled(const Cancel* cancel);
/// The same, or what a signal handler raised.
void check_interrupts(const Cancel* cancel);

}  // namespace ocm::python
