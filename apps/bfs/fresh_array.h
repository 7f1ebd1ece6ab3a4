// An array on pages that nobody touched before: the allocator would hand out those of an earlier run.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <span>
#include <utility>

namespace ocm::bfs {

class FreshArray {
 public:
  FreshArray() = default;
  /// Zeros. Null where the system refuses memory. Shapes: count > 0.
  explicit FreshArray(uint64_t count) : count_(count) {
    void* pages = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) data_ = static_cast<uint32_t*>(pages);
  }
  FreshArray(FreshArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  FreshArray& operator=(FreshArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~FreshArray() {
    if (data_ != nullptr) ::munmap(data_, bytes());
  }

  uint32_t* data() const { return data_; }
  uint32_t operator[](uint64_t index) const { return data_[index]; }
  std::span<uint32_t> span() const { return {data_, count_}; }

 private:
  uint64_t bytes() const { return count_ * sizeof(uint32_t); }
  uint32_t* data_ = nullptr;
  uint64_t count_ = 0;
};

}  // namespace ocm::bfs
