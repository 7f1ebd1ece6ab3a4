// Edges in cluster memory, packed: fetched in windows of coalesced vectored gets while earlier windows are worked on.
//
// Each worker has a ring of windows. It fills a free one with the rows that its search asks for next, starts
// the get, and goes on to the oldest window under way. Rows that lie near each other become one segment: the
// gap between them is fetched too where that is cheaper than another segment. A long row is cut over windows.
//
//   free --fill, start--> under way --wait--> filled --each()--> free
//
// Invariants
//   C1 A window's buffer is the library's from start() until wait() has returned.
//   C2 stream() returns only when no window of its worker is under way, well or not.
#pragma once

#include <memory>
#include <oncilla/oncilla.hpp>
#include <utility>
#include <vector>

#include "bfs/packed_edges.h"
#include "bfs/split.h"

namespace ocm::bfs {

struct WindowOptions {
  uint64_t bytes = 256 << 10;     // 16 at least; all of a worker's stay in its cache
  uint32_t count = 2;             // of one worker
  uint32_t segments = 120;        // of one window: what the library has under way at once
  uint64_t gap_bytes_max = 1024;  // fetched rather than left out
};

/// What moved; of all workers.
struct Moved {
  uint64_t bytes = 0;
  uint64_t segments = 0;
  uint64_t windows = 0;
};

/// A window of a worker.
class Window {
 public:
  /// A piece of a row.
  struct Piece {
    uint32_t vertex;
    uint32_t count;
    uint64_t bit;  // of its first edge, in the buffer
  };

  /// `bits`: of an edge.
  Window(const WindowOptions& options, unsigned bits);

  void clear();
  /// Takes as much of the row [from, to) of the rest as has room; how many edges that was.
  uint64_t take(uint32_t vertex, uint64_t from, uint64_t to);
  bool full() const { return capacity_ - used_ < kEdgeBytesMax || segments_.size() == options_.segments; }
  bool empty() const { return pieces_.empty(); }
  /// Errors: those of ocm_getv_start.
  Done start(const Allocation& rest, Moved& moved);
  Done wait() { return std::exchange(op_, Op()).wait(); }

  const std::vector<Piece>& pieces() const { return pieces_; }
  PackedReader edges(const Piece& piece) const { return {buffer_.get(), piece.bit, bits_}; }

 private:
  static constexpr uint64_t kEdgeBytesMax = sizeof(uint64_t);  // what one may touch, and a reader looks at

  const WindowOptions& options_;
  const unsigned bits_;
  const uint64_t capacity_;  // in bytes, as both below
  uint64_t used_ = 0;
  uint64_t end_ = 0;  // in the rest, of the last segment
  std::unique_ptr<std::byte[]> buffer_;
  std::vector<ocm_segment> segments_;
  std::vector<Piece> pieces_;
  Op op_;  // after buffer_: it ends first
};

class ClusterEdges {
 public:
  /// Both must outlive this. Shapes: rest has local.rest_edges() edges of neighbour_bits(local.vertices).
  ClusterEdges(const LocalPart& local, const Allocation& rest, unsigned workers,
               const WindowOptions& options = {});

  const LocalPart& local() const { return local_; }
  Moved moved() const;

  /// As Search asks. Errors: those of ocm_getv, PEER_LOST among them.
  template <class Next, class Each>
  Done stream(unsigned worker, Next&& next, Each&& each) {
    Ring& ring = rings_[worker];
    Row row;
    bool more = true;
    uint64_t filled = 0, worked = 0;  // windows since the start; window i is at i % count
    Done done;
    for (;;) {
      while (done && more && filled - worked < options_.count) {
        Window& window = ring.windows[filled % options_.count];
        more = fill(window, row, next);
        if (window.empty()) break;
        done = window.start(rest_, ring.moved);
        if (!done) break;
        ++filled;
      }
      if (worked == filled) return done;
      Window& window = ring.windows[worked++ % options_.count];
      if (Done arrived = window.wait(); !arrived && done) done = arrived;
      if (!done) continue;
      for (const Window::Piece& piece : window.pieces()) each(piece.vertex, window.edges(piece), piece.count);
    }
  }

 private:
  /// What is left of the row that did not fit.
  struct Row {
    uint32_t vertex = 0;
    uint64_t from = 0, to = 0;
  };
  struct alignas(64) Ring {
    std::vector<Window> windows;
    Moved moved;
  };

  /// False when there is nothing more to ask for.
  template <class Next>
  bool fill(Window& window, Row& row, Next& next) {
    window.clear();
    while (!window.full()) {
      if (row.from == row.to) {
        if (!next(row.vertex)) return false;
        row.from = local_.offsets[row.vertex];
        row.to = local_.offsets[row.vertex + 1];
      }
      row.from += window.take(row.vertex, row.from, row.to);
    }
    return true;
  }

  const LocalPart& local_;
  const Allocation& rest_;
  const WindowOptions options_;
  std::vector<Ring> rings_;
};

}  // namespace ocm::bfs
