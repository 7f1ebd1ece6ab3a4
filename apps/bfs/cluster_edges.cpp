#include "bfs/cluster_edges.h"

#include <algorithm>

namespace ocm::bfs {

Window::Window(const WindowOptions& options)
    : options_(options),
      capacity_(options.bytes / sizeof(uint32_t)),
      buffer_(std::make_unique<uint32_t[]>(capacity_)) {}

void Window::clear() {
  used_ = 0;
  segments_.clear();
  pieces_.clear();
}

uint64_t Window::take(uint32_t vertex, uint64_t from, uint64_t to) {
  const uint64_t gap = from - end_;  // wraps where the row lies before: too far then
  const bool joins = !segments_.empty() && from >= end_ && gap * sizeof(uint32_t) <= options_.gap_bytes_max &&
                     used_ + gap < capacity_;
  if (joins) {
    used_ += gap;
    segments_.back().bytes += gap * sizeof(uint32_t);
  } else {
    segments_.push_back({from * sizeof(uint32_t), buffer_.get() + used_, 0});
  }
  const uint64_t count = std::min(to - from, capacity_ - used_);
  pieces_.push_back({vertex, static_cast<uint32_t>(used_), static_cast<uint32_t>(count)});
  segments_.back().bytes += count * sizeof(uint32_t);
  used_ += count;
  end_ = from + count;
  return count;
}

Done Window::start(const Allocation& rest, Moved& moved) {
  ocm_op* op = nullptr;
  const int status = ocm_getv_start(rest.get(), segments_.data(), segments_.size(), &op);
  if (status < 0) return Done::from(status);
  op_ = Op(op);
  moved.bytes += used_ * sizeof(uint32_t);
  moved.segments += segments_.size();
  ++moved.windows;
  return {};
}

ClusterEdges::ClusterEdges(const LocalPart& local, const Allocation& rest, unsigned workers,
                           const WindowOptions& options)
    : local_(local), rest_(rest), options_(options), rings_(workers) {
  for (Ring& ring : rings_) {
    for (uint32_t i = 0; i < options_.count; ++i) ring.windows.emplace_back(options_);
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
