// A device in memory that loses what was not flushed, and fails where a test says so; and a queue of requests to it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "memory/nvme/device.h"
#include "memory/nvme/queue.h"

namespace ocm::memory::nvme::test {

/// What there is of a disk for good, and what was written since.
struct Image {
  struct Write {
    uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<std::byte> kept;
  std::vector<Write> pending;

  static void put(std::vector<std::byte>& into, const Write& write, size_t bytes) {
    std::memcpy(into.data() + write.offset, write.bytes.data(), bytes);
  }
  /// One of the disks that a crash may leave: of each pending write all, nothing, or its first sectors.
  std::vector<std::byte> after_crash(std::mt19937& random) const {
    std::vector<std::byte> out = kept;
    const uint32_t kind = random() % 4;  // nothing, everything, whole writes, torn ones
    for (const Write& write : pending) {
      size_t bytes = write.bytes.size();
      if (kind == 0 || (kind > 1 && random() % 2 == 0)) bytes = 0;
      if (kind == 3 && random() % 2 == 0) bytes = bytes / 512 * (random() % 512) / 512 * 512;
      put(out, write, bytes);
    }
    return out;
  }
};

class Disk final : public Device {
 public:
  using Op = Request::Op;

  explicit Disk(uint64_t bytes) : Disk(std::vector<std::byte>(bytes)) {}
  explicit Disk(std::vector<std::byte> of) : now_(of), image_{std::move(of), {}} {}

  uint64_t bytes() const override { return now_.size(); }
  Status read(uint64_t offset, std::span<std::byte> to) override {
    std::lock_guard lock(mutex);
    const Status status = failure(Op::kRead, offset);
    if (offset + to.size() > now_.size()) return Status(Code::kIo, "past the disk's end");
    if (status.is_ok()) std::memcpy(to.data(), now_.data() + offset, to.size());
    return status;
  }
  Status write(uint64_t offset, std::span<const std::byte> from) override {
    std::lock_guard lock(mutex);
    EXPECT_LE(offset + from.size(), now_.size());
    if (on_step) on_step(image_);
    const Status status = failure(Op::kWrite, offset);
    image_.pending.push_back({offset, {from.begin(), from.end()}});
    // In half, if it fails.
    if (!status.is_ok()) image_.pending.back().bytes.resize(from.size() / 2);
    Image::put(now_, image_.pending.back(), image_.pending.back().bytes.size());
    return status;
  }
  Status flush() override {
    std::unique_lock lock(mutex);
    ++flushes;
    released_.wait(lock, [this] { return !holds_flushes_; });
    if (on_step) on_step(image_);
    const Status status = failure(Op::kFlush, 0);
    if (!status.is_ok()) return status;
    for (const Image::Write& write : image_.pending) Image::put(image_.kept, write, write.bytes.size());
    image_.pending.clear();
    return {};
  }

  /// Flushes take until they may go on.
  void hold_flushes(bool hold) {
    {
      std::lock_guard lock(mutex);
      holds_flushes_ = hold;
    }
    released_.notify_all();
  }
  /// One bit of a byte that is there for good.
  void damage(uint64_t offset) {
    std::lock_guard lock(mutex);
    now_[offset] ^= std::byte{1};
    image_.kept[offset] ^= std::byte{1};
  }
  Image image() const {
    std::lock_guard lock(mutex);
    return image_;
  }
  /// What a clean end leaves.
  std::vector<std::byte> now() const {
    std::lock_guard lock(mutex);
    return now_;
  }

  mutable std::mutex mutex;                   // held while these are called
  std::function<void(const Image&)> on_step;  // before each write and flush
  std::function<bool(Op, uint64_t)> fails;
  uint64_t flushes = 0;

 private:
  Status failure(Op op, uint64_t offset) {
    return fails && fails(op, offset) ? Status(Code::kIo, "the test's device fails") : Status();
  }

  std::condition_variable released_;
  bool holds_flushes_ = false;
  std::vector<std::byte> now_;
  Image image_;
};

/// Of two threads: requests end in any order.
class DiskQueue final : public Queue {
 public:
  explicit DiskQueue(Disk& disk) : disk_(disk) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~DiskQueue() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    EXPECT_TRUE(waiting_.empty());
  }
  void submit(Request request) override {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(request));
    }
    changed_.notify_one();
  }
  const char* way() const override { return "disk"; }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty() || ending_; });
      if (waiting_.empty()) return;
      const Request request = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      const std::span<std::byte> bytes(request.bytes, request.length);
      request.done(request.op == Request::Op::kRead ? disk_.read(request.offset, bytes)
                                                    : disk_.write(request.offset, bytes));
      lock.lock();
    }
  }

  Disk& disk_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ocm::memory::nvme::test
