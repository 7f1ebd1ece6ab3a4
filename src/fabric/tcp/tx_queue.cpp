#include "fabric/tcp/tx_queue.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ocm::fabric::tcp {
namespace {

/// memcpy() of what may be no memory: the user's pointer.
void copy_readable(std::byte* to, const std::byte* from, size_t count) {
  const iovec here{to, count}, there{const_cast<std::byte*>(from), count};
  const ssize_t n = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  if (n < 0 && errno != EFAULT) std::memcpy(to, from, count);  // the call is forbidden here
}

}  // namespace

bool TxQueue::is_valid() const {
  uint64_t bytes = 0;
  size_t arena = 0;  // the end of the segment before
  for (size_t i = head_; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    if (s.bytes == 0) return false;
    bytes += s.bytes;
    if (s.data != nullptr) continue;
    if (s.arena_offset < arena || s.arena_offset + s.bytes > arena_bytes_) return false;  // T3
    arena = s.arena_offset + s.bytes;
  }
  if (bytes != bytes_ || head_ > segments_.size()) return false;  // T1
  return arena_bytes_ <= arena_capacity_ && (bytes_ > 0 || arena_bytes_ == 0);
}

std::byte* TxQueue::append(size_t count) {
  OCM_DASSERT(count > 0);
  if (arena_bytes_ + count > arena_capacity_) compact();
  if (arena_bytes_ + count > arena_capacity_) {
    const size_t capacity = std::max<size_t>({arena_capacity_ * 2, arena_bytes_ + count, 1024});
    std::unique_ptr<std::byte[]> grown(new std::byte[capacity]);
    if (arena_bytes_ > 0) std::memcpy(grown.get(), arena_.get(), arena_bytes_);
    arena_ = std::move(grown);
    arena_capacity_ = capacity;
  }
  if (segments() > 0 && segments_.back().data == nullptr) {
    segments_.back().bytes += count;
  } else {
    segments_.push_back({nullptr, arena_bytes_, count, nullptr});
  }
  std::byte* out = arena_.get() + arena_bytes_;
  arena_bytes_ += count;
  OCM_DASSERT(arena_bytes_ <= arena_capacity_);
  bytes_ += count;
  return out;
}

void TxQueue::compact() {
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<ptrdiff_t>(head_));
  head_ = 0;
  size_t start = arena_bytes_;
  for (const Segment& s : segments_) {
    if (s.data == nullptr) {
      start = s.arena_offset;
      break;
    }
  }
  if (start == 0) return;
  std::memmove(arena_.get(), arena_.get() + start, arena_bytes_ - start);
  arena_bytes_ -= start;
  for (Segment& s : segments_) {
    if (s.data == nullptr) s.arena_offset -= start;
  }
}

void TxQueue::append_reference(const std::byte* data, size_t count,
                               std::shared_ptr<const ServedExtent> keep) {
  if (count == 0) return;
  OCM_DASSERT(data != nullptr);  // null: in the arena
  segments_.push_back({data, 0, count, std::move(keep)});
  bytes_ += count;
}

bool TxQueue::refers_to(const std::byte* data, size_t count) const {
  return std::any_of(segments_.begin() + static_cast<ptrdiff_t>(head_), segments_.end(),
                     [&](const Segment& s) {
                       return s.data != nullptr && s.data < data + count && data < s.data + s.bytes;
                     });
}

void TxQueue::keep_copy(const std::byte* data, size_t count) {
  const auto lies_in = [&](const Segment& s) {
    return s.data != nullptr && s.data >= data && s.data < data + count;
  };
  const auto begin = segments_.begin() + static_cast<ptrdiff_t>(head_);
  size_t bytes = 0;
  for (auto s = begin; s != segments_.end(); ++s) bytes += lies_in(*s) ? s->bytes : 0;
  if (bytes == 0) return;
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes]());
  size_t at = 0;
  for (auto s = begin; s != segments_.end(); ++s) {
    if (!lies_in(*s)) continue;
    copy_readable(copy.get() + at, s->data, s->bytes);
    s->data = copy.get() + at;
    s->keep = std::shared_ptr<const ServedExtent>(copy, nullptr);  // no extent: it holds the copy
    at += s->bytes;
  }
  OCM_DASSERT(at == bytes && !refers_to(data, count));
}

uint64_t TxQueue::revoked_until() const {
  uint64_t end = sent_total_, until = 0;
  for (size_t i = head_; i < segments_.size(); ++i) {
    const Segment& s = segments_[i];
    end += s.bytes;
    if (s.keep != nullptr && s.keep->revoked.load(std::memory_order_acquire)) until = end;
  }
  return until;
}

int TxQueue::gather(iovec* parts) const {
  int count = 0;
  for (size_t i = head_; i < segments_.size() && count < kPartsMax; ++i) {
    const Segment& s = segments_[i];
    const std::byte* data = s.data != nullptr ? s.data : arena_.get() + s.arena_offset;
    parts[count++] = {const_cast<std::byte*>(data), s.bytes};
  }
  return count;
}

void TxQueue::advance(size_t count) {
  OCM_ASSERT(count <= bytes_);  // T1
  bytes_ -= count;
  sent_total_ += count;
  if (bytes_ == 0) {
    clear();
    return;
  }
  while (count > 0) {
    OCM_DASSERT(segments() > 0);  // T1
    Segment& s = segments_[head_];
    const size_t step = std::min(count, s.bytes);
    if (s.data != nullptr) {
      s.data += step;
    } else {
      s.arena_offset += step;
    }
    s.bytes -= step;
    count -= step;
    if (s.bytes == 0) {
      s.keep.reset();
      ++head_;
    }
  }
}

ssize_t TxQueue::send(Stream& stream) {
  ssize_t total = 0;
  while (bytes_ > 0 || stream.keeps_output()) {
    iovec parts[kPartsMax];
    const int count = gather(parts);
    const ssize_t n = stream.send(parts, count);
    if (n < 0) return n;
    if (n == 0) break;
    total += n;
    advance(static_cast<size_t>(n));
  }
  return total;
}

ssize_t TxQueue::send_first(Stream& stream) {
  OCM_ASSERT(segments() > 0);
  const Segment& s = segments_[head_];
  const iovec part{const_cast<std::byte*>(s.data != nullptr ? s.data : arena_.get() + s.arena_offset),
                   s.bytes};
  const ssize_t n = stream.send(&part, 1);
  if (n > 0) advance(static_cast<size_t>(n));
  return n;
}

bool TxQueue::blank_first() {
  static std::byte zeros[kZerosBytes];  // never written
  OCM_ASSERT(segments() > 0);
  const Segment first = segments_[head_];
  if (first.data == nullptr) return false;
  std::vector<Segment> blank;
  for (size_t at = 0; at < first.bytes; at += kZerosBytes)
    blank.push_back({zeros, 0, std::min(kZerosBytes, first.bytes - at), nullptr});
  const auto place = segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(head_));
  segments_.insert(place, blank.begin(), blank.end());
  OCM_DASSERT(is_valid());
  return true;
}

std::byte* TxQueue::unsent(uint64_t mark) {
  OCM_DASSERT(mark <= appended_total());
  uint64_t at = sent_total_;
  if (mark < at) return nullptr;
  for (size_t i = head_; i < segments_.size(); at += segments_[i++].bytes) {
    const Segment& s = segments_[i];
    if (mark < at + s.bytes) return s.data != nullptr ? nullptr : arena_.get() + s.arena_offset + (mark - at);
  }
  return nullptr;
}

void TxQueue::clear() {
  sent_total_ += bytes_;
  bytes_ = 0;
  segments_.clear();
  head_ = 0;
  arena_bytes_ = 0;
  if (arena_capacity_ > kArenaKeptBytes) {
    arena_.reset();
    arena_capacity_ = 0;
  }
}

}  // namespace ocm::fabric::tcp
