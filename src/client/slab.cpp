#include "client/slab.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "os/interrupt.h"

namespace ocm::client {

static_assert(size_class(kPieceBytesMax) == kSizeClasses - 1);
static_assert(class_bytes(kSizeClasses - 1) == kPieceBytesMax);
static_assert(size_class(kPieceBytesMin) == 0 && class_bytes(size_class(129)) >= 129);
constexpr uint32_t kPiecesMax = 1u << 16;  // as many as free names

Slab::Slab(std::unique_ptr<Grant> granted, uint32_t size_class_index, uint32_t piece_count)
    : grant(std::move(granted)),
      binding(grant->bindings.empty() ? nullptr : grant->bindings.back().get()),
      class_index(size_class_index),
      pieces(piece_count) {
  OCM_ASSERT(class_index < kSizeClasses && pieces > 0 && pieces <= kPiecesMax);
  free.reserve(pieces);
  for (uint32_t i = pieces; i-- > 0;) free.push_back(static_cast<uint16_t>(i));
}

Slabs::~Slabs() {
  for (SizeClass& size : classes_) {
    OCM_DASSERT(size.borrowing.empty());  // L4: nobody is inside
    for (Slab* slab : size.all) delete slab;
  }
}

Result<SlabPiece> Slabs::take(uint64_t bytes) {
  OCM_DASSERT(bytes > 0 && bytes <= kPieceBytesMax);
  const uint32_t index = size_class(bytes);
  SizeClass& size = classes_[index];
  std::unique_lock lock(size.mutex);
  if (!has_room(size)) OCM_TRY(make_room(size, index, lock));
  OCM_DASSERT(lock.owns_lock() && !size.with_room.empty());
  Slab* slab = size.with_room.back();
  const uint32_t piece = slab->free.back();
  slab->free.pop_back();
  OCM_DASSERT(size.free_pieces > 0 && piece < slab->pieces && class_bytes(index) >= bytes);
  --size.free_pieces;
  if (slab->free.empty()) unlist(size, slab);
  return SlabPiece{slab, piece, piece * class_bytes(index)};
}

bool Slabs::has_room(SizeClass& size) {
  while (!size.with_room.empty() && !source_.usable(*size.with_room.back())) {
    Slab* slab = size.with_room.back();
    slab->retired = true;
    unlist(size, slab);
    if (slab->free.size() == slab->pieces) {
      std::erase(size.all, slab);
      size.gone.emplace_back(slab);  // its node may only have been silent for a moment
    }
  }
  return !size.with_room.empty();
}

Status Slabs::make_room(SizeClass& size, uint32_t index, std::unique_lock<std::mutex>& lock) {
  const std::thread::id self = std::this_thread::get_id();
  os::Interrupts interrupts;
  while (!has_room(size)) {
    const auto own = std::find(size.borrowing.begin(), size.borrowing.end(), self);
    if (size.borrowing.empty() || own != size.borrowing.end()) return borrow_slab(size, index, lock);  // L4
    size.lent.wait_for(lock, std::chrono::milliseconds(os::Interrupts::kMs));
    lock.unlock();
    const bool is_interrupted = interrupts.came();
    lock.lock();
    if (is_interrupted) return os::interrupted();
  }
  return {};
}

Status Slabs::borrow_slab(SizeClass& size, uint32_t index, std::unique_lock<std::mutex>& lock) {
  const uint64_t slab_bytes = std::min<uint64_t>(source_.slab_bytes(), kPieceBytesMin << 16);
  const uint64_t pieces = slab_bytes / class_bytes(index);
  if (pieces == 0) return Status(Code::kUnsupported, "the daemon lends no slabs");
  size.borrowing.push_back(std::this_thread::get_id());
  Result<std::unique_ptr<Grant>> grant = Status(Code::kNoMemory);
  {
    struct Unlocked {
      Unlocked(SizeClass& of, std::unique_lock<std::mutex>& l) : size(of), lock(l) { lock.unlock(); }
      ~Unlocked() {
        lock.lock();
        const auto mine = std::find(size.borrowing.begin(), size.borrowing.end(), std::this_thread::get_id());
        OCM_DASSERT(mine != size.borrowing.end());
        size.borrowing.erase(mine);
        size.lent.notify_all();
      }
      SizeClass& size;
      std::unique_lock<std::mutex>& lock;
    } const unlocked(size, lock);
    grant = source_.lend(slab_bytes);
  }
  OCM_TRY(grant.status());
  auto fresh = std::make_unique<Slab>(std::move(*grant), index, static_cast<uint32_t>(pieces));
  size.all.reserve(size.all.size() + 1);
  size.with_room.reserve(size.with_room.size() + 1);
  fresh->listed = true;
  size.all.push_back(fresh.get());
  size.with_room.push_back(fresh.get());
  size.free_pieces += fresh->pieces;
  (void)fresh.release();
  return {};
}

void Slabs::give(Slab* slab, uint32_t index) {
  SizeClass& size = classes_[slab->class_index];
  std::vector<std::unique_ptr<Slab>> gone;
  {
    std::lock_guard lock(size.mutex);
    gone.swap(size.gone);
    OCM_DASSERT(index < slab->pieces && slab->free.size() < slab->pieces);  // L2
    OCM_DASSERT(std::find(slab->free.begin(), slab->free.end(), index) == slab->free.end());
    slab->free.push_back(static_cast<uint16_t>(index));
    if (slab->listed) {
      ++size.free_pieces;
    } else if (!slab->retired) {
      slab->listed = true;
      // Below the others: what is nearly full is left to empty itself.
      size.with_room.insert(size.with_room.begin(), slab);
      size.free_pieces += slab->free.size();
    }
    const uint64_t elsewhere = size.free_pieces - (slab->listed ? slab->free.size() : 0);
    const bool is_empty = slab->free.size() == slab->pieces;
    if (is_empty && (slab->retired || elsewhere >= slab->pieces / 2)) {  // L3
      if (slab->listed) unlist(size, slab);
      std::erase(size.all, slab);
      gone.emplace_back(slab);
    }
  }
  for (std::unique_ptr<Slab>& one : gone) source_.give_back(std::move(one));
}

void Slabs::unlist(SizeClass& size, Slab* slab) {
  OCM_DASSERT(slab->listed && size.free_pieces >= slab->free.size());  // L1
  size.free_pieces -= slab->free.size();
  slab->listed = false;
  std::erase(size.with_room, slab);
}

size_t Slabs::count() const {
  size_t count = 0;
  for (const SizeClass& size : classes_) {
    std::lock_guard lock(size.mutex);
    count += size.all.size();
  }
  return count;
}

bool Slabs::is_valid(const SizeClass& size) {
  uint64_t free_pieces = 0;
  for (const Slab* slab : size.all) {
    const bool listed = std::find(size.with_room.begin(), size.with_room.end(), slab) != size.with_room.end();
    if (listed != slab->listed || listed != (!slab->free.empty() && !slab->retired)) return false;
    const std::set<uint16_t> free(slab->free.begin(), slab->free.end());
    if (free.size() != slab->free.size() || (!free.empty() && *free.rbegin() >= slab->pieces)) return false;
    if (listed) free_pieces += free.size();
  }
  return free_pieces == size.free_pieces && size.with_room.size() <= size.all.size();
}

bool Slabs::is_valid() const {
  return std::all_of(classes_.begin(), classes_.end(), [](const SizeClass& size) {
    const std::lock_guard lock(size.mutex);
    return is_valid(size);
  });
}

}  // namespace ocm::client
