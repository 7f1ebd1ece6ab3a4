// Which pages of an extent a cache brings in before they are asked for: sequential readers, each a stream. Pure: no clock,
// no lock, no I/O.
//
// Invariants
//   S1 a stream asks for a page once, until a page of its window is dropped unused: then from there on again.
//   S2 it asks when it is no more than half its window ahead of its reader, and never goes further ahead than that window,
//      which begins with kFirstPages, doubles with every request, to kWindowBytes at most, and is halved where a page that it
//      brought was dropped unused.
//   S3 one miss opens no stream: two in a row do. kMost readers have one each; misses here and there end none of kMost -
//      kCandidates streams.
#pragma once

#include <array>
#include <cstdint>

namespace ocm::cache {

class Streams {
 public:
  static constexpr uint32_t kMost = 16, kCandidates = 4;
  static constexpr uint64_t kFirstPages = 2, kWindowBytes = uint64_t{4} << 20;

  /// `page_bytes`: a power of two, from 4 KiB to 4 MiB. `pages`: of the extent.
  Streams(uint64_t page_bytes, uint64_t pages);

  /// Pages [first, first + count); none: count is 0.
  struct Run {
    uint64_t first = 0, count = 0;
    bool operator==(const Run&) const = default;
  };
  /// A program used `page`, which was not here (`missed`), or which is used for the first time since it was brought in ahead.
  /// What to bring in now: at most `room` pages, those behind the page.
  Run used(uint64_t page, bool missed, uint64_t room);
  /// It was brought in ahead, and went without having been used.
  void dropped_unused(uint64_t page);

  /// S2.
  bool is_valid() const;

 private:
  struct Stream {
    uint64_t next = 0, end = 0;  // [next, end) was asked for, and is not used yet
    uint64_t window = 0;         // S2; 0: one miss, no stream yet
    uint64_t used = 0;           // when last; 0: no reader
  };
  /// Whose next page it is; or one of those that were asked for. Null: nobody's.
  Stream* reader_of(uint64_t page);
  void note_miss(uint64_t page);
  Stream& oldest();

  const uint64_t pages_, most_;
  uint64_t uses_ = 0;
  std::array<Stream, kMost> streams_{};
};

}  // namespace ocm::cache
