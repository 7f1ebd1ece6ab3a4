// The memory of a node's cached pages: frames of one length, taken from the system as they are first used, and given back
// when there are to be fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/replacement/two_queue.h"
#include "os/memory.h"

namespace ocm::cache {

/// Threads: one at a time.
class Frames {
 public:
  explicit Frames(uint64_t page_bytes) : page_bytes_(page_bytes), in_chunk_(frames_in_chunk(page_bytes)) {}

  uint64_t page_bytes() const { return page_bytes_; }
  uint32_t in_chunk() const { return in_chunk_; }
  uint32_t used() const { return used_; }
  /// Every frame's number is below it.
  uint32_t count() const { return static_cast<uint32_t>(chunks_.size()) * in_chunk_; }
  /// kNoFrame: the system has no memory.
  Frame take();
  void give(Frame frame);
  std::byte* bytes(Frame frame) {
    OCM_DASSERT(frame < count());
    return chunks_[frame / in_chunk_].data() + uint64_t{frame % in_chunk_} * page_bytes_;
  }
  /// The used frame has no memory until it is touched again: its bytes are elsewhere.
  void strip(Frame frame);
  /// Memory of frames that are not used goes back to the system while more than `frames` have some.
  void shrink(uint32_t frames);
  /// What is free and what is used are all that there is.
  bool is_valid() const { return used_ + free_.size() + bare_.size() == count(); }

 private:
  static constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
  static uint32_t frames_in_chunk(uint64_t page_bytes) {
    return page_bytes >= kChunkBytes ? 1 : static_cast<uint32_t>(kChunkBytes / page_bytes);
  }

  const uint64_t page_bytes_;
  const uint32_t in_chunk_;
  uint32_t used_ = 0;
  std::vector<os::Mapping> chunks_;
  std::vector<Frame> free_;  // have memory; the last one given is the next to be taken
  std::vector<Frame> bare_;  // never used, or gave it back
};

}  // namespace ocm::cache
