#include "memory/nvme/queue.h"

#include <liburing.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "memory/nvme/block.h"

namespace ocm::memory::nvme {
namespace {

using Op = Request::Op;

bool is_whole(const Request& request) {
  return request.length > 0 && request.length % kBlockBytes == 0 && request.offset % kBlockBytes == 0 &&
         reinterpret_cast<uintptr_t>(request.bytes) % kBlockBytes == 0;
}

/// What both ways share: what a result of the kernel means for a request.
class Results {
 public:
  explicit Results(FileDevice& device) : device_(device) {}

  /// `result`: bytes, or -errno. True: `request` came to an end, with `status`; else what is left of it is asked for again.
  bool ends(Request& request, ssize_t result, Status& status) {
    if (result == -EINTR || result == -EAGAIN) return false;
    if (request.op == Op::kFlush) {
      if (result < 0) flush_failed_.store(true, std::memory_order_release);
      status = result < 0 ? device_.failure("flushing", static_cast<int>(-result), 0) : Status();
      return true;
    }
    const bool reads = request.op == Op::kRead;
    // Nothing, and no error: the device ends here.
    if (result == 0) result = reads ? -ENODATA : -ENOSPC;
    if (result < 0) {
      status = device_.failure(reads ? "reading" : "writing", static_cast<int>(-result), request.offset);
      return true;
    }
    const auto moved = static_cast<size_t>(result);
    request.bytes += moved;
    request.offset += moved;
    request.length -= moved;
    status = {};
    return request.length == 0;
  }
  /// Q3.
  bool flush_has_failed() const { return flush_failed_.load(std::memory_order_acquire); }
  Status flush_failure() const { return device_.failure("flushing", EIO, 0); }

 private:
  FileDevice& device_;
  std::atomic<bool> flush_failed_{false};
};

class UringQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> open(FileDevice& device) {
    std::unique_ptr<UringQueue> queue(new UringQueue(device));
    const int result = ::io_uring_queue_init(kDepth, &queue->ring_, 0);
    if (result < 0) return Status::from_errno(-result, "io_uring").with_code(Code::kUnsupported);
    queue->ready_ = true;
    try {
      queue->thread_ = std::thread([raw = queue.get()] { raw->loop(); });
    } catch (const std::system_error&) {
      return Status(Code::kNoMemory, "no thread for the pool's queue");
    }
    return std::unique_ptr<Queue>(std::move(queue));
  }

  ~UringQueue() override {
    if (thread_.joinable()) {
      std::unique_lock lock(mutex_);
      idle_.wait(lock, [this] { return under_way_ == 0 && waiting_.empty() && !telling_; });
      start(nullptr);  // ends the thread
      lock.unlock();
      thread_.join();
      OCM_DASSERT(waiting_.empty() && under_way_ == 0);  // Q4
    }
    if (ready_) ::io_uring_queue_exit(&ring_);
  }

  void submit(Request request) override {
    OCM_ASSERT(request.op == Op::kFlush || is_whole(request));
    OCM_DASSERT(request.done != nullptr);
    auto* held = new Request(std::move(request));
    std::lock_guard lock(mutex_);
    if (under_way_ == kDepth) {
      waiting_.push_back(held);
    } else {
      start(held);
    }
  }
  const char* way() const override { return "io_uring"; }

 private:
  explicit UringQueue(FileDevice& device) : device_(device), results_(device) {}

  /// The lock is held. Null ends the thread.
  void start(Request* request) {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    OCM_ASSERT(entry != nullptr);  // each is submitted at once, and the ring has as many as may be under way
    if (request == nullptr || (request->op == Op::kFlush && results_.flush_has_failed())) {
      ::io_uring_prep_nop(entry);
    } else if (request->op == Op::kFlush) {
      ::io_uring_prep_fsync(entry, device_.fd(), IORING_FSYNC_DATASYNC);
    } else if (request->op == Op::kRead) {
      ::io_uring_prep_read(entry, device_.fd(), request->bytes, static_cast<unsigned>(request->length),
                           request->offset);
    } else {
      ::io_uring_prep_write(entry, device_.fd(), request->bytes, static_cast<unsigned>(request->length),
                            request->offset);
    }
    ::io_uring_sqe_set_data(entry, request);
    if (request != nullptr) ++under_way_;
    OCM_DASSERT(under_way_ <= kDepth);
    // What the kernel does not take now, for it is out of memory, it takes in a moment.
    while (::io_uring_submit(&ring_) < 0) std::this_thread::yield();
  }

  void loop() {
    while (true) {
      io_uring_cqe* entry = nullptr;
      if (::io_uring_wait_cqe(&ring_, &entry) != 0) continue;
      auto* request = static_cast<Request*>(::io_uring_cqe_get_data(entry));
      const int result = entry->res;
      ::io_uring_cqe_seen(&ring_, entry);
      if (request == nullptr) return;
      Status status;
      std::unique_lock lock(mutex_);  // what the submitting thread wrote is seen
      OCM_DASSERT(under_way_ > 0);
      --under_way_;
      if (!ends_locked(*request, result, status)) {
        start(request);
        continue;
      }
      OCM_DASSERT(waiting_.empty() || under_way_ == kDepth - 1);
      if (!waiting_.empty()) {
        start(waiting_.front());
        waiting_.pop_front();
      }
      telling_ = true;
      lock.unlock();
      request->done(std::move(status));
      delete request;
      lock.lock();
      telling_ = false;
      if (under_way_ == 0 && waiting_.empty()) idle_.notify_all();
    }
  }
  bool ends_locked(Request& request, int result, Status& status) {
    if (request.op == Op::kFlush && results_.flush_has_failed()) {
      status = results_.flush_failure();
      return true;
    }
    return results_.ends(request, result, status);
  }

  FileDevice& device_;
  Results results_;
  io_uring ring_{};
  bool ready_ = false;
  std::thread thread_;
  std::mutex mutex_;  // of the submission side, and what follows
  std::condition_variable idle_;
  uint32_t under_way_ = 0;
  bool telling_ = false;  // a `done` runs
  std::deque<Request*> waiting_;
};

class ThreadQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> open(FileDevice& device) {
    std::unique_ptr<ThreadQueue> queue(new ThreadQueue(device));
    try {
      for (uint32_t i = 0; i < kThreads; ++i)
        queue->threads_.emplace_back([raw = queue.get()] { raw->loop(); });
    } catch (const std::system_error&) {
      if (queue->threads_.empty()) return Status(Code::kNoMemory, "no thread for the pool's queue");
    }
    return std::unique_ptr<Queue>(std::move(queue));
  }

  ~ThreadQueue() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    OCM_DASSERT(waiting_.empty() && working_ == 0);  // Q4
  }

  void submit(Request request) override {
    OCM_ASSERT(request.op == Op::kFlush || is_whole(request));
    OCM_DASSERT(request.done != nullptr);
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(request));
    }
    changed_.notify_one();
  }
  const char* way() const override { return "threads"; }

 private:
  explicit ThreadQueue(FileDevice& device) : device_(device), results_(device) {}

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      // Who is at work may submit yet.
      changed_.wait(lock, [this] { return !waiting_.empty() || (ending_ && working_ == 0); });
      if (waiting_.empty()) break;
      Request request = std::move(waiting_.front());
      waiting_.pop_front();
      ++working_;
      lock.unlock();
      Status status = carried_out(request);
      request.done(std::move(status));
      lock.lock();
      OCM_DASSERT(working_ > 0 && working_ <= kThreads);
      if (--working_ == 0 && ending_) changed_.notify_all();
    }
  }
  Status carried_out(Request& request) {
    Status status;
    if (request.op == Op::kFlush && results_.flush_has_failed()) return results_.flush_failure();
    for (bool over = false; !over;) {
      const auto at = static_cast<off_t>(request.offset);
      const ssize_t result = request.op == Op::kFlush ? ::fdatasync(device_.fd())
                             : request.op == Op::kRead
                                 ? ::pread(device_.fd(), request.bytes, request.length, at)
                                 : ::pwrite(device_.fd(), request.bytes, request.length, at);
      over = results_.ends(request, result < 0 ? -errno : result, status);
    }
    return status;
  }

  FileDevice& device_;
  Results results_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  uint32_t working_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Queue>> Queue::open(FileDevice& device, Way way) {
  if (way != Way::kThreads) {
    auto queue = UringQueue::open(device);
    if (queue.is_ok() || way == Way::kUring) return queue;
  }
  return ThreadQueue::open(device);
}

}  // namespace ocm::memory::nvme
