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
