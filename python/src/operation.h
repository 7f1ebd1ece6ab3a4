// An operation that goes on by itself: what `start_...` gives, and what an event loop awaits.
//
//   made --begin()--> under way --its end, cancel(), a session or an allocation that ends--> done
//
// Invariants
//   O1 `op_` is live from begin() on until the operation is done and no thread is in wait(); then its buffers are let go.
//   O2 An Operation that nobody has any more is cancelled. Where that cannot be waited for, the session keeps what is under way,
//      and its buffers, to its end.
// Threads: under the GIL; begin() and wait() leave it.
#pragma once

#include <memory>
#include <optional>

#include "allocation.h"

namespace ocm::python {

/// `oncilla._core.Ready`: a descriptor for an event loop, and the operations whose ends it tells.
class Ready {
 public:
  Ready();
  int fd() const { return fd_->fd; }
  /// Has it tell of `operation`, which was begun. False: it is done.
  bool watch(const nb::object& operation);
  /// Those that are done since, which it forgets. It is not readable until another one is.
  nb::list ended();
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
  std::vector<nb::object> watched_;
};

/// `oncilla._core.Operation`.
class Operation {
 public:
  explicit Operation(Plan plan);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// begin() would wait for nothing, and take no longer than a thread needs to be asked for it.
  bool begins_at_once() const;
  /// Once, by any thread. What fails is told by result().
  void begin();
  /// Never blocks.
  bool done();
  void cancel();
  /// Of an allocation that ends: what result() raises then.
  void end(Failure why);
  /// Raises DeadlineExceeded after `deadline_s`, and what a signal handler raised: it goes on then.
  nb::object wait(std::optional<double> deadline_s);
  /// Of one that is done. Raises what failed.
  nb::object result() const;

 private:
  friend class Ready;
  void note(int status);
  void let_go();
  void forget_word();

  Plan plan_;
  std::shared_ptr<Ready::Owned> told_;  // outlives what tells it
  ocm_op* op_ = nullptr;
  Interruptible* beginning_ = nullptr;  // of the thread in begin()
  uint32_t waiting_ = 0;                // threads
  bool begun_ = false, done_ = false, cancelled_ = false;
  Failure failure_;
};

void register_operation(nb::module_& module);

}  // namespace ocm::python
