// Two page caches of one process, each with a clock and a thread that carries its packets to the other, and storage that
// answers from a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cache/page_cache.h"

namespace ocm::cache {

/// Carries out what it is given, in order, by one thread.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void give(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(what));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> what = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      what();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ends_ = false;
  std::thread thread_;
};

class Memory final : public Staged {
 public:
  explicit Memory(uint64_t bytes) : bytes_(bytes) {}
  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    worker_.give([=, this, done = std::move(done)] {
      std::memcpy(into.data(), bytes_.data() + offset, into.size());
      done({});
    });
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    worker_.give([=, this, done = std::move(done)] {
      std::memcpy(bytes_.data() + offset, from.data(), from.size());
      done({});
    });
  }
  void modify(uint64_t, std::function<void(std::byte*)>, Done) override { FAIL(); }

 private:
  std::vector<std::byte> bytes_;
  Worker worker_;
};

class Side final : public PageCache::Ports {
 public:
  /// A machine that is busy with other things stands still for long; a test that is about giving up says when.
  static constexpr uint64_t kNeverNs = 600'000'000'000;
  explicit Side(NodeNumber number, uint64_t give_up_ns = kNeverNs) : number_(number) {
    PageCacheOptions options;
    options.self = number;
    options.page_bytes = 4096;
    options.frames = 8;
    options.term_ns = options.courier.give_up_ns = kNeverNs;
    options.give_up_ns = give_up_ns;
    cache = std::make_unique<PageCache>(*this, options);
    clock_ = std::thread([this] {
      while (!ends_) {
        cache->tick();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  ~Side() override {
    ends_ = true;
    clock_.join();
  }
  uint64_t now_ns() override {
    return ahead_ns + static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  uint64_t random() override { return (uint64_t{number_} << 48) + ++random_; }
  void due_changed() override {}
  void send(NodeNumber, const PacketHeader& header, const PageBytes& bytes) override {
    const std::lock_guard lock(sends_);
    if (closed_) return;
    worker.give([this, header, bytes] { EXPECT_TRUE(other->cache->receive(number_, header, bytes)); });
  }

  /// From when it returns on, nothing is sent.
  void stop_sending() {
    const std::lock_guard lock(sends_);
    closed_ = true;
  }
  /// And what was sent has arrived.
  void close() {
    stop_sending();
    std::promise<void> drained;
    worker.give([&] { drained.set_value(); });
    drained.get_future().wait();
  }

  Side* other = nullptr;
  std::atomic<uint64_t> ahead_ns{0};  // how far the clock jumped
  std::unique_ptr<PageCache> cache;
  Worker worker;

 private:
  const NodeNumber number_;
  std::mutex sends_;
  bool closed_ = false;
  std::atomic<uint64_t> random_{0};
  std::atomic<bool> ends_{false};
  std::thread clock_;
};

}  // namespace ocm::cache
