// Slabs: extents lent to the session, out of which small allocations are cut without a call.
//
// A slab serves one size class. Its pieces form a stack, so that what was freed last, and is warm, is given
// out first. Sizes are multiples of 64 with at most a third wasted above 128 bytes.
//
// Invariants
//   L1 a slab stands in its class' list  <=>  it has a free piece and is not retired
//   L2 used + free.size() == pieces
//   L3 an empty slab is given back unless the class' other slabs have less than half a slab of free pieces:
//      a program that allocates and frees around the edge does not pay a call each time
//   L4 one thread of a class borrows a slab at a time, and others wait for that; but not a thread for itself, for a signal's
//      handler may take a piece while the thread that it interrupts waits for its slab
// Threads: any; one lock a class, never held across a call. Cost: a lock and a pop.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/grant.h"

namespace ocm::client {

inline constexpr uint64_t kPieceBytesMax = 32 * 1024;
inline constexpr uint64_t kPieceBytesMin = 64;
inline constexpr uint32_t kSizeClasses = 18;

/// 0: 64, then 128, 192, 256, 384, 512, 768, ... 24576, 32768.
constexpr uint32_t size_class(uint64_t bytes) {
  if (bytes <= 64) return 0;
  if (bytes <= 128) return 1;
  const auto width = static_cast<uint32_t>(std::bit_width(bytes - 1));  // 2^(width-1) < bytes <= 2^width
  const uint64_t half = uint64_t{3} << (width - 2);                     // 1.5 * 2^(width-1)
  return 2 * (width - 8) + (bytes <= half ? 2 : 3);
}
constexpr uint64_t class_bytes(uint32_t index) {
  if (index < 2) return uint64_t{64} << index;
  const uint32_t width = (index - 2) / 2 + 8;
  return index % 2 == 0 ? uint64_t{3} << (width - 2) : uint64_t{1} << width;
}

class Slab {
 public:
  Slab(std::unique_ptr<Grant> granted, uint32_t size_class_index, uint32_t pieces);

  Extent& extent() const { return (*binding.load(std::memory_order_acquire))[0]; }

  const std::unique_ptr<Grant> grant;
  std::atomic<const Binding*> binding;  // the grant's last one, of one extent
  const uint32_t class_index;
  const uint32_t pieces;
  // Guarded by the class' lock.
  std::vector<uint16_t> free;
  bool listed = false;
  bool retired = false;  // unusable: its node went; goes when its last piece does
};

/// Where slabs come from and go to.
class SlabSource {
 public:
  virtual ~SlabSource() = default;
  virtual uint64_t slab_bytes() = 0;
  virtual Result<std::unique_ptr<Grant>> lend(uint64_t bytes) = 0;
  virtual void give_back(std::unique_ptr<Slab> slab) = 0;
  /// False if nothing more should be cut out of it.
  virtual bool usable(const Slab& slab) = 0;
};

struct SlabPiece {
  Slab* slab = nullptr;
  uint32_t index = 0;
  uint64_t offset = 0;  // in the slab's extent
};

class Slabs {
 public:
  explicit Slabs(SlabSource& source) : source_(source) {}
  ~Slabs();
  /// A piece of at least `bytes` (1 to kPieceBytesMax). Errors: the source's.
  Result<SlabPiece> take(uint64_t bytes);
  void give(Slab* slab, uint32_t index);
  /// Slabs that are held now; for tests.
  size_t count() const;
  /// L1, L2, and no piece is free twice. O(pieces).
  bool is_valid() const;

 private:
  struct SizeClass {
    mutable std::mutex mutex;
    std::vector<Slab*> with_room;  // the last one is cut first
    uint64_t free_pieces = 0;      // of those in with_room
    size_t slabs = 0;
    std::vector<Slab*> all;
    std::vector<std::unique_ptr<Slab>> gone;  // unusable and empty: go back with the next piece that is given
    std::vector<std::thread::id> borrowing;   // who asks for a slab now
    std::condition_variable lent;             // one of them has ended
  };
  /// Without what is not usable any more.
  bool has_room(SizeClass& size);
  /// Of these two the lock is held, and let go meanwhile. Errors: the source's, kDeadline (interrupted).
  Status make_room(SizeClass& size, uint32_t index, std::unique_lock<std::mutex>& lock);
  Status borrow_slab(SizeClass& size, uint32_t index, std::unique_lock<std::mutex>& lock);
  void unlist(SizeClass& size, Slab* slab);
  static bool is_valid(const SizeClass& size);

  SlabSource& source_;
  std::array<SizeClass, kSizeClasses> classes_;
};

}  // namespace ocm::client
