// Transfers as operations in windows, which are waited for without the GIL, in slices, so that a signal or a
// cancellation is seen soon.
//
// Invariants
//   W1 At most two windows are under way, each of at most kWindowBytes.
//   W2 A function here returns or raises only when its operations have ended, or when what is under way and
//   its
//      buffers were handed to the session to keep.
#pragma once

#include <atomic>
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
/// the GIL.
using StartNext = std::function<int(ocm_op** op)>;

/// Runs all windows to their end. `buffers`: what they read and write.
/// Errors: those of the operations; Cancelled; what a signal handler raised (KeyboardInterrupt).
void run_windows(SessionHandle& session, const StartNext& start_next, std::shared_ptr<Buffers> buffers,
                 const Cancel* cancel);

/// Raises what a signal handler raised, or Cancelled.
void check_interrupts(const Cancel* cancel);

}  // namespace ocm::python
