// Handles of the C ABI: numbers in the form of pointers, so that a freed handle is recognised instead of
// followed.
//
//   63..60 type   59..28 generation (odd while live)   27..0 index into the table
//
// A slot's object is built once and used again; its memory is never given back, so whatever number a program
// passes in, looking it up reads valid memory.
//
// Invariants
//   N1 find(handle) != null  =>  the slot is live and of the handle's generation.
//   N2 retire() has one winner: two threads that free the same handle free it once.
//   N3 a slot is free once, and only while it is not live.
// Threads: any. A forked child starts with empty tables: its parent's handles are kInvalidArgument there.
// Cost: find() is two loads and three comparisons.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "base/assert.h"
#include "base/status.h"

namespace ocm::capi {

template <class T, uint32_t kType>
class HandleTable {
 public:
  /// A slot whose handle is not live yet; null when the table is full.
  struct Reserved {
    T* object = nullptr;
    uint32_t index = 0;
  };
  Reserved reserve() {
    std::lock_guard lock(mutex_);
    if (free_.empty() && !grow()) return {};
    const uint32_t index = free_.back();
    free_.pop_back();
    OCM_DASSERT(slot(index).generation.load(std::memory_order_relaxed) % 2 == 0);  // N3
    return {&slot(index).object, index};
  }
  /// Makes the handle live; everything written to the object before is visible to who finds it.
  uint64_t publish(uint32_t index) {
    Slot& s = slot(index);
    const uint32_t generation = s.generation.load(std::memory_order_relaxed) + 1;
    OCM_ASSERT(generation % 2 == 1);  // N1: it was reserved, and is made live once
    s.generation.store(generation, std::memory_order_release);
    return uint64_t{kType} << 60 | uint64_t{generation} << 28 | index;
  }
  /// Gives a slot back that is not live.
  void release(uint32_t index) {
    std::lock_guard lock(mutex_);
    OCM_DASSERT(index < count_.load(std::memory_order_relaxed));
    OCM_DASSERT(slot(index).generation.load(std::memory_order_relaxed) % 2 == 0);  // N3
    free_.push_back(index);
  }

  T* find(uint64_t handle) {
    const uint32_t index = index_of(handle);
    // One comparison for the type and for the generation being odd.
    if ((handle & kLiveMask) != kLive || index >= count_.load(std::memory_order_acquire)) [[unlikely]]
      return nullptr;
    Slot& s = slot(index);
    if (s.generation.load(std::memory_order_acquire) != generation_of(handle)) [[unlikely]]
      return nullptr;
    return &s.object;
  }
  /// Why find() gave null: kRevoked for a handle that once was, else kInvalidArgument.
  Code why(uint64_t handle) const {
    const uint32_t generation = generation_of(handle);
    if (handle >> 60 != kType || index_of(handle) >= count_.load(std::memory_order_acquire) ||
        generation % 2 == 0 || generation <= first_generation_) {
      return Code::kInvalidArgument;
    }
    return Code::kRevoked;
  }
  /// Ends the handle; null if it was not live. The caller clears the object and releases the slot.
  T* retire(uint64_t handle) {
    T* object = find(handle);
    if (object == nullptr) return nullptr;
    uint32_t generation = generation_of(handle);
    return slot(index_of(handle)).generation.compare_exchange_strong(generation, generation + 1) ? object
                                                                                                 : nullptr;
  }
  static uint32_t index_of(uint64_t handle) { return static_cast<uint32_t>(handle) & kIndexMask; }

  /// Calls visit(handle, object) for each live handle.
  template <class Visit>
  void for_each(Visit visit) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t generation = slot(i).generation.load(std::memory_order_acquire);
      if (generation % 2 == 1) visit(uint64_t{kType} << 60 | uint64_t{generation} << 28 | i, slot(i).object);
    }
  }

  /// N3; O(slots).
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    std::vector<bool> is_free(count_.load(std::memory_order_acquire));
    for (const uint32_t index : free_) {
      if (index >= is_free.size() || is_free[index]) return false;
      if (slot(index).generation.load(std::memory_order_acquire) % 2 == 1) return false;
      is_free[index] = true;
    }
    return true;
  }

  /// In a forked child: forgets everything, without freeing what the parent's threads may hold half built.
  void reset_in_child() {
    count_.store(0, std::memory_order_relaxed);
    new (&mutex_) std::mutex;
    new (&free_) std::vector<uint32_t>;
    first_generation_ += kGenerationsForChild;
  }

 private:
  static constexpr uint32_t kIndexMask = (1u << 28) - 1;
  static constexpr uint64_t kLiveMask = uint64_t{15} << 60 | uint64_t{1} << 28;
  static constexpr uint64_t kLive = uint64_t{kType} << 60 | uint64_t{1} << 28;
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kChunksMax = 1u << 14;  // 16 million handles
  static constexpr uint32_t kGenerationsForChild = 1u << 28;
  static_assert(kType > 0 && kType < 16);  // 0: no number that a program makes up is a handle
  static_assert(uint64_t{kChunkSlots} * kChunksMax <= uint64_t{kIndexMask} + 1);
  static_assert(kGenerationsForChild % 2 == 0);  // a child's free slots are free
  struct Slot {
    std::atomic<uint32_t> generation{0};
    T object;
  };

  static uint32_t generation_of(uint64_t handle) { return static_cast<uint32_t>(handle >> 28); }
  Slot& slot(uint32_t index) const {
    return chunks_[index / kChunkSlots].load(std::memory_order_relaxed)[index % kChunkSlots];
  }
  [[gnu::noinline]] bool grow() {  // reserve() without it is short enough to be inlined
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (count / kChunkSlots == kChunksMax) return false;
    auto* chunk = new (std::nothrow) Slot[kChunkSlots];
    if (chunk == nullptr) return false;
    for (uint32_t i = 0; i < kChunkSlots; ++i) chunk[i].generation.store(first_generation_);
    for (uint32_t i = kChunkSlots; i-- > 0;) free_.push_back(count + i);
    chunks_[count / kChunkSlots].store(chunk, std::memory_order_relaxed);
    count_.store(count + kChunkSlots, std::memory_order_release);
    return true;
  }

  std::atomic<uint32_t> count_{0};
  uint32_t first_generation_ = 0;
  mutable std::mutex mutex_;  // guards free_ and growing
  std::vector<uint32_t> free_;
  std::atomic<Slot*> chunks_[kChunksMax] = {};
};

}  // namespace ocm::capi
