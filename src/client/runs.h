// What a transfer moves, as a sequence of runs: ranges that are contiguous at both ends.
//
// One generator for the plain, strided and vectored forms, so that nothing below knows which it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ocm::client {

class Allocation;

/// One end of a run: a place in an allocation, or (allocation null) memory of this program.
struct End {
  Allocation* allocation = nullptr;
  uint64_t offset = 0;
  std::byte* pointer = nullptr;

  End after(uint64_t bytes) const {
    return allocation != nullptr ? End{allocation, offset + bytes, nullptr}
                                 : End{nullptr, 0, pointer + bytes};
  }
};

struct Run {
  End target;
  End source;
  uint64_t bytes = 0;
};

/// The same layout as ocm_segment.
struct Segment {
  uint64_t offset;
  void* pointer;
  uint64_t bytes;
};

class Runs {
 public:
  Runs() = default;
  static Runs one(const Run& run) { return rows(run, 0, 0, 1); }
  /// `first` and then each end moved on by its stride. Empty runs are allowed.
  static Runs rows(const Run& first, uint64_t target_stride, uint64_t source_stride, uint64_t rows) {
    Runs runs;
    runs.run_ = first;
    runs.target_stride_ = target_stride;
    runs.source_stride_ = source_stride;
    runs.count_ = rows;
    return runs;
  }
  /// The segments are copied if the caller's array may go before the end.
  static Runs vectored(Allocation* allocation, bool put, const Segment* segments, size_t count, bool copy) {
    Runs runs;
    if (copy) {
      runs.own_segments_.assign(segments, segments + count);
    } else {
      runs.segments_ = segments;
    }
    runs.vectored_ = true;
    runs.put_ = put;
    runs.run_.target.allocation = allocation;
    runs.count_ = count;
    return runs;
  }

  bool next(Run& run) {
    if (at_ == count_) return false;
    if (vectored_) {
      const Segment& segment = segments_ != nullptr ? segments_[at_] : own_segments_[at_];
      const End there{run_.target.allocation, segment.offset, nullptr};
      const End here{nullptr, 0, static_cast<std::byte*>(segment.pointer)};
      run = put_ ? Run{there, here, segment.bytes} : Run{here, there, segment.bytes};
    } else {
      run = {run_.target.after(at_ * target_stride_), run_.source.after(at_ * source_stride_), run_.bytes};
    }
    ++at_;
    return true;
  }
  /// Begins anew.
  void rewind() { at_ = 0; }
  uint64_t count() const { return count_; }

 private:
  Run run_;
  uint64_t target_stride_ = 0, source_stride_ = 0;
  uint64_t at_ = 0, count_ = 0;
  const Segment* segments_ = nullptr;
  std::vector<Segment> own_segments_;
  bool vectored_ = false, put_ = false;
};

}  // namespace ocm::client
