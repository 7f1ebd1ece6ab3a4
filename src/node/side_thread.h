// Work that would hold up the control thread, done one piece after the other by a thread beside it.
//
// Threads: run() and stop() on the loop's thread or after it; `work` on the thread here, started by the
// first. Lifetime: the loop outlives this; stop() waits for the piece under way and drops those that wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "control/loop.h"

namespace ocm::node {

class SideThread {
 public:
  explicit SideThread(control::Loop& loop) : loop_(loop) {}
  ~SideThread() { stop(); }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  template <class T>
  control::Task<T> run(std::function<T()> work) {
    struct Waiting {
      explicit Waiting(asio::io_context& context) : timer(context) {
        timer.expires_at(asio::steady_timer::time_point::max());
      }
      asio::steady_timer timer;
      std::optional<T> result;
    };
    const auto waiting = std::make_shared<Waiting>(loop_.context());
    push([this, waiting, work = std::move(work)] {
      const auto result = std::make_shared<T>(work());
      loop_.post([waiting, result] {
        waiting->result.emplace(std::move(*result));
        waiting->timer.cancel();
      });
    });
    while (!waiting->result) {
      asio::error_code ignored;
      co_await waiting->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
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
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  control::Loop& loop_;
  std::mutex mutex_;  // guards waiting_, stopping_
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ocm::node
