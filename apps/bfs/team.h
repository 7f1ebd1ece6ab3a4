// Threads that run one function together and wait for each other, again and again.
//
// A level of a search takes microseconds to milliseconds, so the threads live as long as the team and spin
// briefly before they sleep. The caller is worker 0.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ocm::bfs {

class Team {
 public:
  static constexpr uint64_t kThingsMin = 1024;  // edges or vertices: a few microseconds

  explicit Team(unsigned workers) : workers_(workers == 0 ? 1 : workers) {
    for (unsigned w = 1; w < workers_; ++w) threads_.emplace_back([this, w] { serve(w); });
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    stopping_.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& thread : threads_) thread.join();
  }

  unsigned workers() const { return workers_; }

  /// Calls work(worker) for each worker and returns when all are done. `work` must not throw. Where `things`,
  /// how much there is to do, is so little that waking the others costs more, the caller does their parts
  /// too.
  void run(const std::function<void(unsigned)>& work, uint64_t things = UINT64_MAX) {
    if (threads_.empty() || things < kThingsMin) {
      for (unsigned w = 0; w < workers_; ++w) work(w);
      return;
    }
    work_ = &work;
    left_.store(workers_ - 1, std::memory_order_relaxed);
    announce();
    work(0);
    wait_while(left_, [](uint32_t left) { return left != 0; });
  }

  /// The worker's share [begin, end) of `count` things, in whole `grain`s.
  struct Share {
    uint64_t begin, end;
  };
  Share share(unsigned worker, uint64_t count, uint64_t grain = 1) const {
    const uint64_t grains = (count + grain - 1) / grain;
    const auto cut = [&](uint64_t w) { return std::min(count, grains * w / workers_ * grain); };
    return {cut(worker), cut(worker + 1)};
  }

 private:
  static constexpr int kSpins = 2000;  // some tens of microseconds: what a wake-up costs

  template <class Waits>
  static uint32_t wait_while(std::atomic<uint32_t>& word, Waits waits) {
    uint32_t seen = word.load(std::memory_order_acquire);
    for (int i = 0; waits(seen) && i < kSpins; ++i) {
      __builtin_ia32_pause();
      seen = word.load(std::memory_order_acquire);
    }
    while (waits(seen)) {
      word.wait(seen, std::memory_order_acquire);
      seen = word.load(std::memory_order_acquire);
    }
    return seen;
  }
  void announce() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  void serve(unsigned worker) {
    for (uint32_t seen = 0;;) {
      seen = wait_while(round_, [seen](uint32_t round) { return round == seen; });
      if (stopping_.load(std::memory_order_relaxed)) return;
      (*work_)(worker);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }

  const unsigned workers_;
  const std::function<void(unsigned)>* work_ = nullptr;  // written before round_ is released
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> left_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ocm::bfs
