// Work that would hold up the control thread, done one piece after the other by a thread beside it.
//
// Where the environment has no threads, the work is done at once.
// Threads: run() and stop() on the loop's thread or after it; `work` on the thread here, started by the
// first. Lifetime: the environment outlives this; stop() waits for the piece under way and drops those that
// wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/assert.h"
#include "control/env.h"

namespace ocm::node {

class SideThread {
 public:
  explicit SideThread(control::Env& env) : env_(env) {}
  ~SideThread() { stop(); }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  template <class T>
  control::Task<T> run(std::function<T()> work) {
    if (!env_.has_threads()) co_return work();
    struct Waiting {
      explicit Waiting(control::Env& env) : done(env) {}
      control::Signal done;
      std::optional<T> result;
    };
    const auto waiting = std::make_shared<Waiting>(env_);
    push([this, waiting, work = std::move(work)] {
      const auto result = std::make_shared<T>(work());
      env_.post([waiting, result] {
        OCM_DASSERT(!waiting->result);
        waiting->result.emplace(std::move(*result));
        waiting->done.notify();
      });
    });
    while (!waiting->result) co_await waiting->done.wait();
    co_return std::move(*waiting->result);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      waiting_.clear();
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      waiting_.push_back(std::move(work));
      if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    }
    wake_.notify_one();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      OCM_DASSERT(!waiting_.empty() && waiting_.front());
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  control::Env& env_;
  std::mutex mutex_;  // guards waiting_, stopping_
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ocm::node
