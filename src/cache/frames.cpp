#include "cache/frames.h"

#include <sys/mman.h>

#include <utility>

#include "base/assert.h"

namespace ocm::cache {

Frame Frames::take() {
  if (free_.empty() && bare_.empty()) {
    Result<os::Mapping> chunk = os::Mapping::anonymous(uint64_t{in_chunk_} * page_bytes_);
    if (!chunk.is_ok()) return kNoFrame;
    const uint32_t first = count();
    chunks_.push_back(std::move(chunk.value()));
    chunks_.back().keep_from_core_dumps();
    for (uint32_t i = in_chunk_; i > 0; --i) bare_.push_back(first + i - 1);
  }
  std::vector<Frame>& from = free_.empty() ? bare_ : free_;
  const Frame frame = from.back();
  from.pop_back();
  ++used_;
  OCM_DASSERT(is_valid());
  return frame;
}

void Frames::give(Frame frame) {
  OCM_ASSERT(frame < count() && used_ > 0);
  --used_;
  free_.push_back(frame);
  OCM_DASSERT(is_valid());
}

void Frames::strip(Frame frame) { (void)::madvise(bytes(frame), page_bytes_, MADV_DONTNEED); }

void Frames::shrink(uint32_t frames) {
  while (!free_.empty() && used_ + free_.size() > frames) {
    const Frame frame = free_.back();
    free_.pop_back();
    bare_.push_back(frame);
    (void)::madvise(bytes(frame), page_bytes_, MADV_DONTNEED);
  }
  OCM_DASSERT(is_valid());
}

}  // namespace ocm::cache
