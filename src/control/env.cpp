#include "control/env.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace ocm::control {
namespace {

Task<void> counted(Task<void> task, size_t& left, Signal& done) {
  co_await task;
  OCM_DASSERT(left > 0);
  if (--left == 0) done.notify();
}

}  // namespace

/// One that sleeps until its deadline. Either of the two may end first.
struct Signal::Sleeper {
  explicit Sleeper(Signal& of) : signal(&of) { of.sleeping_.push_back(this); }
  ~Sleeper() {
    if (signal != nullptr) std::erase(signal->sleeping_, this);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  Signal* signal;  // null: notified
  std::function<void()> wake;
};

Task<void> Signal::wait_until(uint64_t deadline_ns) {
  const uint64_t now_ns = env_.now_ns();
  if (now_ns >= deadline_ns) co_return;
  Sleeper self(*this);
  co_await env_.sleep_ns(deadline_ns - now_ns, &self.wake);
}

void Signal::notify() {
  for (const std::coroutine_handle<> one : waiting_) env_.resume_soon(one);
  waiting_.clear();
  for (Sleeper* const one : std::exchange(sleeping_, {})) {
    OCM_DASSERT(one->signal == this && one->wake);
    one->signal = nullptr;
    one->wake();
  }
}

void Env::task_failed(const char* what) { log::error("control_task_failed", {{"what", what}}); }

Task<void> Env::guarded(Task<void> task) {
  try {
    co_await task;
  } catch (const std::exception& e) {
    task_failed(e.what());
  } catch (...) {
    task_failed("not a std::exception");
  }
}

void Env::spawn(Task<void> task) {
  const std::coroutine_handle<> root = roots_.add(guarded(std::move(task)));
  OCM_DASSERT(root && !root.done());
  if (running_)
    root.resume();
  else
    resume_soon(root);
}

Task<void> Env::join(std::vector<Task<void>> tasks) {
  if (tasks.empty()) co_return;
  Signal done(*this);
  size_t left = tasks.size();
  for (Task<void>& task : tasks) spawn(counted(guarded(std::move(task)), left, done));
  while (left > 0) co_await done.wait();  // NOLINT: counted() counts it down
}

}  // namespace ocm::control
