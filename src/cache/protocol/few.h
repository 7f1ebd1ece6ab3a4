// A short list: N values lie in the object itself, more of them on the heap. Of a page's holders there are few.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/assert.h"

namespace ocm::cache {

template <class T, size_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return is_spilled() ? more_.data() : inside_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return is_spilled() ? more_.data() : inside_.data(); }
  const T* end() const { return begin() + size_; }
  T& operator[](size_t i) {
    OCM_DASSERT(i < size_);
    return begin()[i];
  }
  const T& operator[](size_t i) const {
    OCM_DASSERT(i < size_);
    return begin()[i];
  }
  const T& front() const {
    OCM_DASSERT(size_ > 0);
    return begin()[0];
  }
  /// All values are in one of the two places.
  bool is_valid() const { return is_spilled() ? more_.size() == size_ : size_ <= N; }

  void push_back(const T& value) {
    if (is_spilled()) {
      more_.push_back(value);
    } else if (size_ == N) {
      more_.reserve(2 * N);
      more_.assign(inside_.begin(), inside_.end());
      more_.push_back(value);
    } else {
      inside_[size_] = value;
    }
    ++size_;
    OCM_DASSERT(is_valid());
  }
  void push_front(const T& value) {
    push_back(value);
    std::rotate(begin(), end() - 1, end());
  }
  void pop_front() { erase_at(begin()); }
  /// Every one that `is_it` names. True if there was one.
  template <class Is>
  bool erase_if(Is is_it) {
    const size_t before = size_;
    for (size_t i = 0; i < size_;) {  // an index: the last to go moves the list back inside
      if (is_it(begin()[i])) {
        erase_at(begin() + i);
      } else {
        ++i;
      }
    }
    return size_ != before;
  }
  void clear() {
    more_.clear();
    size_ = 0;
  }

 private:
  bool is_spilled() const { return !more_.empty(); }
  void erase_at(T* at) {
    OCM_DASSERT(at >= begin() && at < end());
    std::copy(at + 1, end(), at);
    --size_;
    if (is_spilled()) more_.pop_back();
    OCM_DASSERT(is_valid());
  }

  std::array<T, N> inside_{};
  std::vector<T> more_;  // all of them, once there were more than N; until none is left
  uint32_t size_ = 0;
};

}  // namespace ocm::cache
