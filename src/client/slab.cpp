#include "client/slab.h"

#include <algorithm>
#include <set>

namespace ocm::client {

static_assert(size_class(kPieceBytesMax) == kSizeClasses - 1);
static_assert(class_bytes(kSizeClasses - 1) == kPieceBytesMax);

Slab::Slab(std::unique_ptr<Lease> granted, uint32_t size_class_index, uint32_t piece_count)
    : lease(std::move(granted)),
      binding(lease->bindings.empty() ? nullptr : lease->bindings.back().get()),
      class_index(size_class_index),
      pieces(piece_count) {
  free.reserve(pieces);
  for (uint32_t i = pieces; i-- > 0;) free.push_back(static_cast<uint16_t>(i));
}

Slabs::~Slabs() {
  for (SizeClass& size : classes_) {
    for (Slab* slab : size.all) delete slab;
  }
}

Result<SlabPiece> Slabs::take(uint64_t bytes) {
  const uint32_t index = size_class(bytes);
  SizeClass& size = classes_[index];
  std::lock_guard lock(size.mutex);
  while (!size.with_room.empty() && !source_.usable(*size.with_room.back())) {
    Slab* slab = size.with_room.back();
    slab->retired = true;
    unlist(size, slab);
    if (slab->free.size() == slab->pieces) {
      std::erase(size.all, slab);
      size.gone.emplace_back(slab);  // its node may only have been silent for a moment
    }
  }
  if (size.with_room.empty()) {
    const uint64_t slab_bytes = std::min<uint64_t>(source_.slab_bytes(), kPieceBytesMin << 16);
    const uint64_t pieces = slab_bytes / class_bytes(index);
    if (pieces == 0) return Status(Code::kUnsupported, "the daemon leases no slabs");
    OCM_TRY_ASSIGN(std::unique_ptr<Lease> lease, source_.lease(slab_bytes));
    auto* fresh = new Slab(std::move(lease), index, static_cast<uint32_t>(pieces));
    fresh->listed = true;
    size.all.push_back(fresh);
    size.with_room.push_back(fresh);
    size.free_pieces += fresh->pieces;
  }
  Slab* slab = size.with_room.back();
  const uint32_t piece = slab->free.back();
  slab->free.pop_back();
  --size.free_pieces;
  if (slab->free.empty()) unlist(size, slab);
  return SlabPiece{slab, piece, piece * class_bytes(index)};
}

void Slabs::give(Slab* slab, uint32_t index) {
  SizeClass& size = classes_[slab->class_index];
  std::vector<std::unique_ptr<Slab>> gone;
  {
    std::lock_guard lock(size.mutex);
    gone.swap(size.gone);
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
  size.free_pieces -= slab->free.size();
  slab->listed = false;
  std::erase(size.with_room, slab);
}

size_t Slabs::count() {
  size_t count = 0;
  for (SizeClass& size : classes_) {
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

bool Slabs::is_valid() {
  return std::all_of(classes_.begin(), classes_.end(), [](SizeClass& size) {
    const std::lock_guard lock(size.mutex);
    return is_valid(size);
  });
}

}  // namespace ocm::client
