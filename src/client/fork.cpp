#include "client/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace ocm::client {
namespace {

constexpr int kSocketsMax = 1024;
std::atomic<int> sockets[kSocketsMax];  // fd + 1; 0: free
std::atomic<void (*)()> hooks[8];

void after_fork_in_child() {
  for (std::atomic<int>& entry : sockets) {
    const int fd = entry.exchange(0, std::memory_order_relaxed) - 1;
    if (fd >= 0) ::close(fd);
  }
  for (auto& hook : hooks) {
    if (auto* function = hook.load(std::memory_order_relaxed)) function();
  }
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
}

}  // namespace

void remember_socket(int fd) {
  install();
  for (std::atomic<int>& entry : sockets) {
    int free = 0;
    if (entry.compare_exchange_strong(free, fd + 1)) return;
  }
}

void forget_socket(int fd) {
  for (std::atomic<int>& entry : sockets) {
    int held = fd + 1;
    if (entry.compare_exchange_strong(held, 0)) return;
  }
}

void run_in_child(void (*child)()) {
  install();
  for (auto& hook : hooks) {
    void (*free)() = nullptr;
    if (hook.compare_exchange_strong(free, child) || free == child) return;
  }
}

}  // namespace ocm::client
