#include "client/big_copy.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "client/fork.h"
#include "fabric/shm/copy.h"
#include "os/signals.h"

namespace ocm::client {
namespace {

constexpr size_t kSliceBytes = size_t{1} << 20;
constexpr unsigned kThreadsMax = 16;

/// One copy, cut into slices that the threads take one by one.
struct Job {
  std::byte* target;
  const std::byte* source;
  size_t bytes;
  size_t slices;
  std::atomic<size_t> next{0};

  void work() {
    for (;;) {
      const size_t slice = next.fetch_add(1, std::memory_order_relaxed);
      if (slice >= slices) return;
      const size_t start = slice * kSliceBytes;
      const size_t length = std::min(kSliceBytes, bytes - start);
      // A slice is short, the whole is not: what will not stay in the cache goes around it.
      if (bytes >= fabric::shm::kStreamBytes) {
        fabric::shm::copy_streaming(target + start, source + start, length);
      } else {
        std::memcpy(target + start, source + start, length);
      }
    }
  }
};

/// Threads that sleep until there is a job; one job at a time, a second caller copies alone.
class CopyThreads {
 public:
  explicit CopyThreads(unsigned helpers) : helpers_(helpers) {
    const os::BlockedSignals none_for_them;
    for (unsigned i = 0; i < helpers; ++i) {
      try {
        std::thread([this] { run(); }).detach();
      } catch (...) {  // no thread to be had: fewer share the work
        --helpers_;
      }
    }
  }

  /// False if another job runs.
  bool copy(Job& job) {
    std::unique_lock lock(callers_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    job_ = &job;
    // A helper enters only while the round is odd (open); leaving it is its last touch of the job.
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    job.work();
    round_.fetch_add(1, std::memory_order_seq_cst);
    while (inside_.load(std::memory_order_seq_cst) != 0) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return true;
  }

 private:
  void run() {
    uint32_t seen = 0;
    for (;;) {
      round_.wait(seen, std::memory_order_acquire);
      inside_.fetch_add(1, std::memory_order_seq_cst);
      const uint32_t now = round_.load(std::memory_order_seq_cst);
      if (now % 2 == 1) job_->work();
      inside_.fetch_sub(1, std::memory_order_seq_cst);
      seen = now;
    }
  }

  unsigned helpers_;
  std::mutex callers_;
  Job* job_ = nullptr;
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> inside_{0};
};

std::atomic<CopyThreads*> threads{nullptr};
std::mutex starting;

CopyThreads* copy_threads() {
  if (CopyThreads* running = threads.load(std::memory_order_acquire)) return running;
  const unsigned cores = std::min(std::thread::hardware_concurrency(), kThreadsMax);
  if (cores < 2) return nullptr;
  std::lock_guard lock(starting);
  if (CopyThreads* running = threads.load(std::memory_order_acquire)) return running;
  // A child of fork has none of the threads: it starts its own.
  run_in_child([] { threads.store(nullptr, std::memory_order_relaxed); });
  auto* fresh = new CopyThreads(cores - 1);  // lives as long as the process
  threads.store(fresh, std::memory_order_release);
  return fresh;
}

}  // namespace

void parallel_copy(void* target, const void* source, size_t bytes) {
  Job job{static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes,
          (bytes + kSliceBytes - 1) / kSliceBytes};
  CopyThreads* pool = copy_threads();
  if (pool == nullptr || !pool->copy(job)) fabric::shm::copy_bytes(target, source, bytes);
}

}  // namespace ocm::client
