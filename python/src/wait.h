// Transfers as operations in windows, which are waited for without the GIL, in slices, so that a signal or a
// cancellation is seen soon.
//
// Invariants
//   W1 At most two windows are under way, each of at most kWindowBytes.
//   W2 A function here returns or raises only when its operations have ended or were taken back.
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
  const std::atomic<bool>& flag() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

/// Starts the next window, of at most `window_bytes`, and gives its operation, or leaves `*op` null when there is none.
/// Called without the GIL. It owns what it needs.
using StartNext = std::function<int(uint64_t window_bytes, ocm_op** op)>;

class AllocationHandle;

/// What was checked, to be run window by window, or as one operation (operation.h).
struct Plan {
  std::shared_ptr<SessionHandle> session;
  StartNext start_next;
  std::shared_ptr<Buffers> buffers = std::make_shared<Buffers>();  // what they read and write
  SessionHandle::Ends ends;                                        // of them
  uint64_t bytes = 0;                                              // that it moves
  nb::object result;                                               // null: `bytes`, or the word
  bool gives_word = false;                                         // buffers->word
  // Where it begins: `near_bytes` from `near_offset` on. Null: at two ends, or many.
  std::shared_ptr<AllocationHandle> near;
  uint64_t near_offset = 0, near_bytes = 0;
  bool waits_for_word = false;  // of `near`, which may end first
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

  /// Starts windows while there is room.
  void start(const StartNext& start_next);
  /// Waits at most a slice for the oldest. False if it is still under way.
  bool end_oldest();
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
  bool more_ = true;
  Failure failure_;  // the first
};

/// Waits at most a slice for `op`, without the GIL. True when it has ended, with `status`.
bool wait_slice(ocm_op* op, uint64_t slice_ns, int& status);

void register_wait(nb::module_& module);

/// Raises Cancelled if it was.
void check_cancelled(const Cancel* cancel);
/// The same, or what a signal handler raised.
void check_interrupts(const Cancel* cancel);

}  // namespace ocm::python
