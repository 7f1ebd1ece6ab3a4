#include "memory/nvme/scratch.h"

#include "base/units.h"

namespace ocm::memory::nvme {

ScratchPool::ScratchPool(Queue& queue, uint64_t first_byte, uint32_t slots, uint64_t page_bytes)
    : PagePool(queue, first_byte, slots, page_bytes) {}

ScratchPool::~ScratchPool() {
  OCM_DASSERT(free_.size() + bad_ == fresh_ && is_valid());  // X1: no page is left
}

Result<std::unique_ptr<Backing>> ScratchPool::make(uint64_t bytes) {
  OCM_TRY(writable());
  if (count_of(bytes) > slots())
    return Status(Code::kNoMemory, "the device has room for " + format_bytes(slots() * page_bytes()));
  return make_pages({}, bytes, {});
}

ScratchPool::State ScratchPool::state() const {
  std::lock_guard lock(mutex_);
  return {slots(), free_.size() + (slots() - fresh_), bad_, lost_, writable_};
}

bool ScratchPool::is_valid() const {
  std::lock_guard lock(mutex_);
  std::vector<bool> met(fresh_, false);
  for (const uint32_t slot : free_) {
    if (slot >= fresh_ || met[slot]) return false;
    met[slot] = true;
  }
  return fresh_ <= slots() && free_.size() + bad_ <= fresh_ && buffers_are_valid();
}

std::optional<ScratchPool::MaybeSlot> ScratchPool::take_slot(OwnSlot own, std::function<void(MaybeSlot)>) {
  if (own) return MaybeSlot(*own);
  std::lock_guard lock(mutex_);
  if (!writable_.is_ok()) return MaybeSlot(writable_);
  if (!free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return MaybeSlot(slot);
  }
  if (fresh_ == slots()) return MaybeSlot(Status(Code::kIo, "too many of the pool's slots are bad"));
  return MaybeSlot(fresh_++);
}

Status ScratchPool::written(const PageId&, OwnSlot own, uint32_t slot, uint32_t) {
  if (own && *own != slot) slot_is_bad();  // its own had failed before
  return {};
}

void ScratchPool::not_written(OwnSlot own, uint32_t slot) {
  if (own != slot) slot_is_bad();
}

void ScratchPool::lost(uint32_t) {
  std::unique_lock lock(mutex_);
  OCM_DASSERT(free_.size() + bad_ < fresh_);  // X1
  const uint64_t lost = ++lost_, bad = ++bad_;
  lock.unlock();
  tell_lost(lost, bad);
}

void ScratchPool::gone(uint32_t slot) {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(slot < fresh_ && free_.size() + bad_ < fresh_);  // X1
  free_.push_back(slot);
}

void ScratchPool::slot_is_bad() {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(free_.size() + bad_ < fresh_);  // X1
  ++bad_;
}

Status ScratchPool::stop_writes(const Status& why) {
  std::lock_guard lock(mutex_);
  if (writable_.is_ok()) writable_ = read_only(why);
  return writable_;
}

}  // namespace ocm::memory::nvme
