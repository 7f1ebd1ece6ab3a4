// A device for tests: bytes in memory that are moved later, by a thread, in any order that Staged allows.
#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/staged.h"

namespace ocm::fabric {

class TestDevice final : public Staged {
 public:
  /// `bytes` outlive it.
  explicit TestDevice(std::byte* bytes) : bytes_(bytes), thread_([this] { loop(); }) {}
  ~TestDevice() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    add({offset, into.size(), [=, this] { std::memcpy(into.data(), bytes_ + offset, into.size()); },
         std::move(done)});
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    add({offset, from.size(), [=, this] { std::memcpy(bytes_ + offset, from.data(), from.size()); },
         std::move(done)});
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    add({offset, 8, [=, this] { change(bytes_ + offset); }, std::move(done)});
  }

 private:
  struct Call {
    uint64_t offset, bytes;
    std::function<void()> move;
    Done done;
  };

  void add(Call call) {
    if (call.bytes == 0) return call.done({});
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
  }
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !calls_.empty(); });
      if (calls_.empty()) return;
      auto chosen = std::next(calls_.begin(), static_cast<ptrdiff_t>(random_() % calls_.size()));
      for (auto earlier = calls_.begin(); earlier != chosen; ++earlier) {
        if (earlier->offset < chosen->offset + chosen->bytes &&
            chosen->offset < earlier->offset + earlier->bytes) {
          chosen = earlier;
          break;
        }
      }
      const Call call = std::move(*chosen);
      calls_.erase(chosen);
      lock.unlock();
      call.move();
      call.done({});
      lock.lock();
    }
  }

  std::byte* const bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Call> calls_;
  bool ending_ = false;
  std::mt19937 random_{7};
  std::thread thread_;
};

}  // namespace ocm::fabric
