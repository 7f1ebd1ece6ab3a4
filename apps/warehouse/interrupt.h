// Ctrl-C for an engine that computes: a thread that asks now and then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "apps/warehouse/engine.h"
#include "tools/signals.h"

namespace ocm::warehouse {

/// Interrupts `engine` once after Ctrl-C. The engine must outlive it.
class InterruptWatch {
 public:
  explicit InterruptWatch(Engine& engine)
      : thread_([&engine](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any ended;
          std::unique_lock lock(mutex);
          while (!stop.stop_requested() && !tools::interrupted()) {
            ended.wait_for(lock, stop, std::chrono::milliseconds(20), [] { return false; });
          }
          if (tools::interrupted()) engine.interrupt();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace ocm::warehouse
