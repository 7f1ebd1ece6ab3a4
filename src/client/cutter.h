// A transfer's runs, cut into ranges that are contiguous in one extent at each end.
//
// Invariants
//   K1 the cuts of a run follow each other, and are the run together.
//   K2 a cut lies in one extent (of each replica) at each end, and is no longer than kCutBytesMax, unless it lies on this host at
//      both ends: threads share the long copies.
#pragma once

#include <cstdint>
#include <utility>

#include "client/binding.h"
#include "client/runs.h"

namespace ocm::client {

struct Cut {
  End target, source;  // offsets are in the extent
  uint32_t target_extent = 0, source_extent = 0;
  uint32_t sources = 1;         // replicas: source_first and those after it hold the bytes
  uint32_t source_first = 0;    // of them
  uint64_t source_failed = 0;   // of them, by bit
  uint64_t source_revoked = 0;  // of those
  uint64_t bytes = 0;
  bool again = false;  // a put that is posted for the second time
  bool sent = false;
};

class Cutter {
 public:
  static constexpr uint64_t kCutBytesMax = uint64_t{4} << 20;

  void take(Runs runs) { runs_ = std::move(runs); }
  /// To the first run. False: there is none.
  bool begin() {
    runs_.rewind();
    exhausted_ = !runs_.next(run_);
    return !exhausted_;
  }
  /// Some of the runs is not cut yet.
  bool has_more() {
    while (!exhausted_ && run_.bytes == 0) exhausted_ = !runs_.next(run_);
    return !exhausted_;
  }
  bool exhausted() const { return exhausted_; }
  /// Of the run that is being cut.
  const End& target() const { return run_.target; }
  const End& source() const { return run_.source; }
  uint64_t bytes_left() const { return run_.bytes; }
  /// The next one; there is one. `whole`: of all of the run, which lies in one extent at each end.
  Cut next(const Binding* target, const Binding* source, bool whole);
  /// How many there will be, at least; `bytes_hint`: of all runs.
  uint64_t count(uint64_t bytes_hint) const;

 private:
  Runs runs_;
  Run run_;  // the rest of the run that is being cut
  bool exhausted_ = false;
};

}  // namespace ocm::client
