// The coroutines of the control code. A task starts when it is awaited and runs until it waits for something that is not
// there yet; what ends it goes on with whoever awaits it, on the same thread. Nothing here knows what runs it: a root is
// started by an environment (control/env.h), what waits is woken by a Signal or by what the sockets complete.
//
// Lifetime: a task owns its frame, and a frame what it awaits; so a root that is destroyed takes its whole chain along.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace ocm::control {

template <class T>
class Task;

/// What the promises of all tasks have in common.
class TaskPromise {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept {
    struct GoOn {
      std::coroutine_handle<> awaiting;
      bool await_ready() noexcept { return false; }
      void await_suspend(std::coroutine_handle<>) noexcept {
        if (awaiting) awaiting.resume();  // it destroys this frame: nothing after it
      }
      void await_resume() noexcept {}
    };
    return GoOn{awaiting_};
  }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  /// Once it has been suspended: one that ends before needs nobody to be resumed.
  void set_awaiting(std::coroutine_handle<> by) {
    OCM_DASSERT(by && !awaiting_);  // one waits for it
    awaiting_ = by;
  }

 protected:
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::coroutine_handle<> awaiting_;
  std::exception_ptr error_;
};

template <class T>
class ValuePromise : public TaskPromise {
 public:
  template <class Value>
  void return_value(Value&& value) {
    OCM_DASSERT(!value_.has_value());
    value_.emplace(std::forward<Value>(value));
  }
  T take() {
    rethrow();
    OCM_DASSERT(value_.has_value());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class ValuePromise<void> : public TaskPromise {
 public:
  void return_void() noexcept {}
  void take() { rethrow(); }
};

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type : ValuePromise<T> {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  /// Runs it: no stack grows where many that need not wait are awaited in a row.
  bool await_suspend(std::coroutine_handle<> awaiting) {
    OCM_DASSERT(frame_ && !frame_.done());  // it was not moved away, nor awaited before
    frame_.resume();
    if (frame_.done()) return false;
    frame_.promise().set_awaiting(awaiting);
    return true;
  }
  T await_resume() {
    OCM_DASSERT(frame_ && frame_.done());
    return frame_.promise().take();
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};
static_assert(!std::is_copy_constructible_v<Task<void>>, "a frame has one owner");

/// Tasks that nobody awaits. Each leaves this set when it ends; those that never end are destroyed with it.
class Roots {
 public:
  Roots() = default;
  Roots(const Roots&) = delete;
  Roots& operator=(const Roots&) = delete;
  ~Roots() { destroy_all(); }

  /// Not started yet: whoever resumes the handle starts it. It must not end with an exception.
  std::coroutine_handle<> add(Task<void> task) { return run(*this, std::move(task)).frame; }

  /// The oldest first, and what their ends add.
  void destroy_all() {
    while (first_.next != &first_) static_cast<Root::promise_type*>(first_.next)->frame().destroy();
    OCM_DASSERT(first_.previous == &first_);
  }

 private:
  struct Link {
    Link() : previous(this), next(this) {}
    explicit Link(Link& last_of) : previous(last_of.previous), next(&last_of) {
      previous->next = next->previous = this;
    }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link() {
      OCM_DASSERT(previous->next == this && next->previous == this);
      previous->next = next;
      next->previous = previous;
    }
    Link* previous;
    Link* next;
  };
  struct Root {
    struct promise_type : Link {
      promise_type(Roots& roots, Task<void>&) : Link(roots.first_) {}
      std::coroutine_handle<promise_type> frame() {
        return std::coroutine_handle<promise_type>::from_promise(*this);
      }
      Root get_return_object() { return {frame()}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<> frame;
  };
  static Root run(Roots&, Task<void> task) { co_await task; }

  Link first_;
};

}  // namespace ocm::control
