// One bit for each vertex.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace ocm::bfs {

class Bitmap {
 public:
  Bitmap() = default;
  explicit Bitmap(uint64_t bits) : words_((bits + 63) / 64) {}

  bool test(uint64_t bit) const { return (words_[bit / 64] >> (bit % 64) & 1) != 0; }
  /// No other thread may touch the bit's word.
  void set(uint64_t bit) { words_[bit / 64] |= mask(bit); }

  /// The next two are for bits that several threads set; the order of other memory does not follow from them.
  bool test_shared(uint64_t bit) const {
    return (shared(bit).load(std::memory_order_relaxed) & mask(bit)) != 0;
  }
  /// True for the one thread that set it.
  bool claim(uint64_t bit) {
    return (shared(bit).fetch_or(mask(bit), std::memory_order_relaxed) & mask(bit)) == 0;
  }

  uint64_t words() const { return words_.size(); }
  uint64_t& word(uint64_t index) { return words_[index]; }
  uint64_t word(uint64_t index) const { return words_[index]; }
  void swap(Bitmap& other) noexcept { words_.swap(other.words_); }

 private:
  static uint64_t mask(uint64_t bit) { return uint64_t{1} << (bit % 64); }
  std::atomic_ref<uint64_t> shared(uint64_t bit) const {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(words_[bit / 64]));
  }

  std::vector<uint64_t> words_;
};

}  // namespace ocm::bfs
