#include "client/cutter.h"

#include <algorithm>

#include "client/allocation.h"

namespace ocm::client {
namespace {

/// How many more cuts a transfer of `bytes` makes because of how its extents lie.
uint64_t cuts_of(const Allocation& allocation, uint64_t bytes) {
  const Shape& shape = allocation.shape();
  if (shape.layout == Layout::kStriped) return bytes / shape.chunk_bytes + 1;
  return shape.layout == Layout::kSequence && shape.extents > 1
             ? 2 + bytes / (shape.bytes / shape.extents + 1)
             : 0;
}

/// All of a run's end lies on this host.
bool is_here(const End& end, const Binding* binding, uint64_t bytes) {
  if (end.allocation == nullptr) return true;
  const Shape& shape = end.allocation->shape();
  if (shape.extents > 1 && shape.layout != Layout::kSequence) return false;
  return (*binding)[end.allocation->piece_at(end.offset, bytes).extent].on_this_host();
}

/// `bytes` becomes what is contiguous there.
Piece place(const End& end, uint64_t& bytes, End& out) {
  out = end;
  if (end.allocation == nullptr) return Piece{};
  const Piece piece = end.allocation->piece_at(end.offset, bytes);
  out.offset = piece.offset + end.allocation->base();
  bytes = piece.bytes;
  return piece;
}

}  // namespace

Cut Cutter::next(const Binding* target, const Binding* source, bool whole) {
  OCM_DASSERT(!exhausted_ && run_.bytes > 0);
  Cut cut;
  const bool here = is_here(run_.target, target, run_.bytes) && is_here(run_.source, source, run_.bytes);
  uint64_t bytes = whole || here ? run_.bytes : std::min(run_.bytes, kCutBytesMax);
  cut.target_extent = place(run_.target, bytes, cut.target).extent;
  const Piece from = place(run_.source, bytes, cut.source);
  cut.source_first = cut.source_extent = from.extent;
  cut.sources = std::min(from.replicas, kReplicasMax);
  cut.bytes = bytes;
  OCM_DASSERT(cut.bytes > 0 && cut.bytes <= run_.bytes);                             // K1
  OCM_DASSERT(whole ? cut.bytes == run_.bytes : here || cut.bytes <= kCutBytesMax);  // K2
  run_.target = run_.target.after(bytes);
  run_.source = run_.source.after(bytes);
  run_.bytes -= bytes;
  return cut;
}

uint64_t Cutter::count(uint64_t bytes_hint) const {
  uint64_t cuts = runs_.count() + bytes_hint / kCutBytesMax;
  for (const Allocation* one : {run_.target.allocation, run_.source.allocation}) {
    if (one != nullptr) cuts += cuts_of(*one, bytes_hint);
  }
  return cuts;
}

}  // namespace ocm::client
