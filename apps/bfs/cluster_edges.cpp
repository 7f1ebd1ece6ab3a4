#include "bfs/cluster_edges.h"

#include <algorithm>

namespace ocm::bfs {

Window::Window(const WindowOptions& options, unsigned bits)
    : options_(options),
      bits_(bits),
      capacity_(std::max(options.bytes, 2 * kEdgeBytesMax)),
      buffer_(std::make_unique<std::byte[]>(capacity_ + kEdgeBytesMax)) {}

void Window::clear() {
  used_ = 0;
  segments_.clear();
  pieces_.clear();
}

uint64_t Window::take(uint32_t vertex, uint64_t from, uint64_t to) {
  const uint64_t first = from * bits_ / 8, shift = from * bits_ % 8;
  // The row before may end in the byte in which this one begins: -1, modulo 2^64. Far too much where it lies before.
  const uint64_t gap = first - end_;
  const bool joins =
      !segments_.empty() && gap + 1 <= options_.gap_bytes_max + 1 && used_ + gap + kEdgeBytesMax <= capacity_;
  if (joins) {
    used_ += gap;
    segments_.back().bytes += gap;
  } else {
    segments_.push_back({first, buffer_.get() + used_, 0});
  }
  const uint64_t room = ((capacity_ - used_) * 8 - shift) / bits_;
  const uint64_t count = std::min(to - from, room);
  pieces_.push_back({vertex, static_cast<uint32_t>(count), used_ * 8 + shift});
  const uint64_t bytes = packed_bytes(from + count, bits_) - first;
  segments_.back().bytes += bytes;
  used_ += bytes;
  end_ = first + bytes;
  return count;
}

Done Window::start(const Allocation& rest, Moved& moved) {
  ocm_op* op = nullptr;
  const int status = ocm_getv_start(rest.get(), segments_.data(), segments_.size(), &op);
  if (status < 0) return Done::from(status);
  op_ = Op(op);
  moved.bytes += used_;
  moved.segments += segments_.size();
  ++moved.windows;
  return {};
}

ClusterEdges::ClusterEdges(const LocalPart& local, const Allocation& rest, unsigned workers,
                           const WindowOptions& options)
    : local_(local), rest_(rest), options_(options), rings_(workers) {
  for (Ring& ring : rings_) {
    for (uint32_t i = 0; i < options_.count; ++i)
      ring.windows.emplace_back(options_, neighbour_bits(local.vertices));
  }
}

Moved ClusterEdges::moved() const {
  Moved sum;
  for (const Ring& ring : rings_) {
    sum.bytes += ring.moved.bytes;
    sum.segments += ring.moved.segments;
    sum.windows += ring.moved.windows;
  }
  return sum;
}

}  // namespace ocm::bfs
