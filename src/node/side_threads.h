// Work that would hold up the control thread, begun one piece after the other by threads beside it.
//
// Where the environment has no threads, the work is done at once.
// Threads: run() and stop() on the loop's thread or after it; `work` on the threads here, which are started as there is work
// for them. Lifetime: the environment outlives this; stop() waits for what is under way and drops what waits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "control/env.h"

namespace ocm::node {

class SideThreads {
 public:
  explicit SideThreads(control::Env& env, size_t most = 1) : env_(env), most_(most) {}
  ~SideThreads() { stop(); }
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

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
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      waiting_.push_back(std::move(work));
      if (waiting_.size() > idle_ && threads_.size() < most_) start_locked();
    }
    wake_.notify_one();
  }
  void start_locked() {
    OCM_DASSERT(!waiting_.empty() && threads_.size() < most_);
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // no thread is to be had
      if (!threads_.empty()) return;
      waiting_.pop_back();
      throw;
    }
  }
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      --idle_;
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
  const size_t most_;
  std::mutex mutex_;  // guards waiting_, idle_, stopping_
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ocm::node
