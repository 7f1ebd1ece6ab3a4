// Memory for what is moved: taken again and again, so that its pages are there already (a first touch costs
// more than the transfer).
//
// Invariants
//   P1 memory that somebody holds is in no list; the last holder gives it back or, over the bound, to the system.
// Threads: any. In a forked child memory of its parent is unmapped and never pooled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace ocm::table {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// What lies idle at most.
  static constexpr uint64_t kIdleBytesMax = uint64_t{1} << 30;

  Pool() = default;
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// At least `bytes` bytes, aligned to 64 and readable 64 bytes further. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(uint64_t bytes);

 private:
  struct Block {
    std::byte* data;
    uint64_t capacity_bytes;
  };
  static Block make(uint64_t capacity_bytes);
  static void end(Block block);
  void give_back(Block block);

  std::mutex mutex_;                          // guards what follows
  std::multimap<uint64_t, std::byte*> idle_;  // by capacity
  uint64_t idle_bytes_ = 0;
};

}  // namespace ocm::table
