// An allocation as Python holds it.
//
// Ownership: the Allocation of Python and each exported buffer share one AllocationHandle, which frees the
//            allocation when the last of them lets go; it holds the session.
// Threads:   under the GIL. A call that runs without it holds the handle: free() in another thread ends the
//            allocation when that call has ended.
#pragma once

#include <atomic>
#include <unordered_set>

#include "core.h"
#include "wait.h"

namespace ocm::python {

class Operation;

class AllocationHandle {
 public:
  AllocationHandle(std::shared_ptr<SessionHandle> session, ocm_allocation* allocation);
  ~AllocationHandle();
  AllocationHandle(const AllocationHandle&) = delete;
  AllocationHandle& operator=(const AllocationHandle&) = delete;

  ocm_allocation* get() const { return allocation_; }
  SessionHandle& session() const { return *session_; }
  const std::shared_ptr<SessionHandle>& shared_session() const { return session_; }
  uint64_t bytes() const { return bytes_; }
  /// The allocation went into a joined one.
  void ended() { allocation_ = nullptr; }
  /// True if all bytes lie in one piece on this host: a transfer is a copy then and never waits. Without the
  /// GIL: the first call may ask the daemon.
  bool direct();
  /// Operations that wait for a word of it, which end with it.
  std::unordered_set<Operation*> word_waits;

  /// direct() without asking anybody.
  bool known_direct() const { return reach_.load(std::memory_order_relaxed) == Reach::kDirect; }

 private:
  enum class Reach : int { kUnknown, kDirect, kFar };
  std::shared_ptr<SessionHandle> session_;
  ocm_allocation* allocation_;
  uint64_t bytes_;
  std::atomic<Reach> reach_{Reach::kUnknown};
};

/// `oncilla._core.Allocation`.
class Allocation {
 public:
  Allocation(std::shared_ptr<SessionState> state, std::shared_ptr<AllocationHandle> handle);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  /// Raises Revoked when it was freed, Cancelled when its session was closed.
  std::shared_ptr<AllocationHandle> handle() const;
  bool freed() const { return handle_ == nullptr; }
  uint64_t bytes() const { return bytes_; }
  /// Raises BufferError while buffers are exported.
  void free();
  /// The session closes: lets go of the handle; exported buffers keep it.
  void leave();
  /// Hands the handle out, or back, so that no call of Python runs on it meanwhile.
  /// Raises Revoked when it was freed, BufferError while buffers are exported or calls run.
  std::shared_ptr<AllocationHandle> take();
  void give(std::shared_ptr<AllocationHandle> handle);

  int exports = 0;  // buffers out there

 private:
  /// Raises BufferError.
  void check_no_exports() const;
  /// Why there is no handle.
  Failure gone() const;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<AllocationHandle> handle_;  // null when freed
  uint64_t bytes_;
};

/// The slots of the buffer protocol.
extern PyType_Slot allocation_slots[];

/// Puts, gets, copies: transfer.cpp. Atomics and notifications: atomics.cpp.
void register_transfer(nb::class_<Allocation>& allocation, nb::module_& module);
void register_atomics(nb::class_<Allocation>& allocation);

}  // namespace ocm::python
