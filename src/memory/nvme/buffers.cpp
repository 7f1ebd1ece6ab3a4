#include "memory/nvme/buffers.h"

#include <algorithm>
#include <new>

#include "memory/nvme/queue.h"

namespace ocm::memory::nvme {

Buffers::Buffers(uint64_t page_bytes)
    : count_(static_cast<uint32_t>(std::clamp<uint64_t>(kBytes / page_bytes, 4, Queue::kDepth))),
      memory_(make_buffer(count_ * page_bytes)) {
  if (memory_ == nullptr) throw std::bad_alloc();
  for (uint32_t i = 0; i < count_; ++i) free_.push_back(memory_.get() + i * page_bytes);
}

std::byte* Buffers::try_take() {
  std::lock_guard lock(mutex_);
  if (free_.empty() || !waiting_.empty()) return nullptr;
  std::byte* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void Buffers::await(std::function<void(std::byte*)> use) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(use));
  }
  hand_out();
}

void Buffers::give(std::byte* buffer) {
  {
    std::lock_guard lock(mutex_);
    OCM_DASSERT(free_.size() < count_);  // B1
    free_.push_back(buffer);
  }
  hand_out();
}

void Buffers::hand_out() {
  std::unique_lock lock(mutex_);
  if (handing_out_) return;  // who does so sees this one, too; also the caller's own caller
  handing_out_ = true;
  while (!waiting_.empty() && !free_.empty()) {
    const auto use = std::move(waiting_.front());
    waiting_.pop_front();
    std::byte* buffer = free_.back();
    free_.pop_back();
    lock.unlock();
    use(buffer);
    lock.lock();
  }
  handing_out_ = false;
}

}  // namespace ocm::memory::nvme
