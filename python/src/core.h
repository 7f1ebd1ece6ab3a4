// What the parts of oncilla._core share: the session's holder, errors as exceptions, and leaving the GIL.
//
// Ownership: SessionHandle closes the session when the last who holds it lets go. Allocations, and arrays that
//            point into cluster memory, hold it: they outlive `pool.close()`, which refuses new work only.
// Threads:   everything here under the GIL, except where said otherwise.
#pragma once

#include <nanobind/nanobind.h>
#include <oncilla/oncilla.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "buffer.h"
#include "gil.h"
#include "text.h"

namespace ocm::python {

namespace nb = nanobind;

/// Why a call of the C library failed, kept from this thread's next call.
struct Failure {
  int status = OCM_OK;
  std::string text, node, subject;
  int subject_kind = OCM_SUBJECT_NONE;

  /// Of this thread's last call, which returned `status`.
  static Failure last(int status);
};
/// The arguments of errors.from_status(). With the GIL.
nb::tuple arguments_of(const Failure& failure);

/// Raises its exception.
[[noreturn]] void raise_failure(const Failure& failure);
/// Raises the exception of `status`, what this thread's last call returned.
[[noreturn]] void raise_status(int status);
/// The same with a text of our own.
[[noreturn]] void raise_status(int status, const std::string& text);
inline void check(int status) {
  if (status < 0) raise_status(status);
}

/// Runs `call` without the GIL and returns what it returns.
template <class Call>
auto without_gil(Call call) {
  const GilLeft left;
  return call();
}

/// For ocm_interrupt_check().
int ask_python(int may_call, void* context);

/// While one lives, a signal's handler that raises ends the waits of this thread's calls of the library. They nest: a handler
/// may call, too. With the GIL, or without it where nothing is said.
class Interruptible {
 public:
  Interruptible();
  /// What a handler raised, and nobody heard of, is raised as soon as Python code runs.
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Raises what a handler raises or has raised. With the GIL.
  void check_signals();
  /// Raises that, or the exception of `status`, what this thread's last call returned, if it is an error. With the
  /// GIL.
  void check(int status);
  bool raised() const { return raised_.has_value(); }
  /// Waits end as soon as they sleep, whatever signals come. Any thread.
  void end_waits() { ends_waits_.store(true); }
  /// The same once this is set, by whatever thread; it outlives this.
  void end_waits_when(const std::atomic<bool>& set) { ends_waits_when_.push_back(&set); }
  /// The same if a handler ended another wait a moment ago: what the program has ends now, and should not make it wait for
  /// the same node once more. The home hears of it all the same.
  void end_waits_after_interrupt();

 private:
  friend int ask_python(int may_call, void* context);
  Interruptible* const outer_;
  std::optional<nb::python_error> raised_;
  std::atomic<bool> ends_waits_{false};
  std::vector<const std::atomic<bool>*> ends_waits_when_;
};

/// Runs a call that may wait, without the GIL; a signal's handler that raises ends it. Raises its exception, or that of what
/// it returned.
template <class Call>
void check_interruptible(Call call) {
  Interruptible waits;
  waits.check(without_gil(call));
}
/// The interpreter ends.
inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing() != 0;
#else
  return !Py_IsInitialized() || _Py_IsFinalizing() != 0;
#endif
}
/// Has Python asked whether a handler raises while such a call waits.
void watch_interrupts();

/// An open session. The last owner's end closes it, on any thread, with the GIL or without.
class SessionHandle {
 public:
  explicit SessionHandle(ocm_session* session) : session_(session) {}
  ~SessionHandle();
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  ocm_session* get() const { return session_; }

  /// From now on the end of the session is that of its allocations.
  void begin_to_close() { closes_.store(true); }
  /// An allocation was not freed in time: the daemon stands still, or a node that has some of it.
  void was_unanswered() { unanswered_.store(true); }
  /// An allocation that goes need not ask the daemon, and wait as long as those before: the session ends it.
  bool ends_allocations() const { return unanswered_.load() && (closes_.load() || is_finalizing()); }

  /// Handles that an operation uses.
  using Ends = std::vector<const ocm_allocation*>;
  /// Keeps an operation whose caller was interrupted, and its buffers, until it has ended. Any thread.
  void abandon(ocm_op* op, std::shared_ptr<Buffers> buffers, const Ends& ends);
  /// Lets go of abandoned operations that have ended.
  void reap();
  /// Ends those that use `end` (null: all) soon, done or not: nobody waits for them. Without the GIL.
  void end_abandoned(const ocm_allocation* end);

 private:
  struct Abandoned {
    ocm_op* op;
    std::shared_ptr<Buffers> buffers;
    Ends ends;
  };
  ocm_session* session_;
  std::atomic<bool> closes_{false}, unanswered_{false};
  std::mutex mutex_;  // guards abandoned_
  std::vector<Abandoned> abandoned_;
};

class Allocation;

/// What a Session of Python and its allocations share.
struct SessionState {
  std::shared_ptr<SessionHandle> handle;  // null when closed
  std::unordered_set<Allocation*> allocations;
};

/// `oncilla._core.Session`.
class Session {
 public:
  explicit Session(std::shared_ptr<SessionHandle> handle) : state_(std::make_shared<SessionState>()) {
    state_->handle = std::move(handle);
  }
  ~Session() { close(); }
  Session(Session&&) = default;

  /// The open session. Raises Cancelled when it is closed.
  std::shared_ptr<SessionHandle> handle() const;
  /// Frees every allocation that has no exported buffer, and refuses new work.
  void close();
  bool closed() const { return state_->handle == nullptr; }
  const std::shared_ptr<SessionState>& state() const { return state_; }

 private:
  std::shared_ptr<SessionState> state_;
};

void register_session(nb::module_& module);
void register_allocation(nb::module_& module);
void register_table(nb::module_& module);

}  // namespace ocm::python
