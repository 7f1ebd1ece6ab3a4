// What waits to be sent on one connection: small bytes copied into an arena, long payloads by reference.
//
// Invariants
//   T1 bytes() = sum of the segments; sent_total() + bytes() = everything ever appended.
//   T2 a referenced payload stays put until sent_total() has passed its end, or clear() was called.
//   T3 arena offsets of segments grow; the arena is emptied when the queue is.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/served.h"
#include "fabric/tcp/stream.h"

namespace ocm::fabric::tcp {

class TxQueue {
 public:
  bool empty() const { return bytes_ == 0; }
  uint64_t bytes() const { return bytes_; }
  uint64_t sent_total() const { return sent_total_; }
  uint64_t appended_total() const { return sent_total_ + bytes_; }
  size_t segments() const { return segments_.size() - head_; }

  /// Room for `count` bytes that the caller writes at once; good until the next call.
  std::byte* append(size_t count);
  /// Queues [data, data + count) where it lies; `keep` lives until it is sent (null: T2 is the caller's).
  void append_reference(const std::byte* data, size_t count, std::shared_ptr<const ServedExtent> keep);

  /// The bytes of [data, data + count) that wait here by reference lie in a copy from now on; zeros for what cannot be read.
  void keep_copy(const std::byte* data, size_t count);

  /// True if bytes of [data, data + count) wait here by reference.
  bool refers_to(const std::byte* data, size_t count) const;

  /// sent_total() at which no removed extent is kept here any more; 0: none is.
  uint64_t revoked_until() const;

  /// Sends until the queue is empty or the socket is full. < 0: -errno, the stream is over.
  /// Returns bytes sent.
  ssize_t send(Stream& stream);
  void clear();
  /// T1 and T3. Cost: the segments.
  bool is_valid() const;

  // After send() returned -EFAULT: bytes somewhere in what it tried cannot be read, and none of it was sent.
  /// Sends of the first segment alone.
  ssize_t send_first(Stream& stream);
  /// Zeros go out in the place of the first segment. False if it is not one by reference.
  bool blank_first();
  /// What was appended when appended_total() was `mark`; null if it was sent, or is not in the arena.
  std::byte* unsent(uint64_t mark);

 private:
  struct Segment {
    const std::byte* data;  // null: in the arena
    size_t arena_offset;
    size_t bytes;
    std::shared_ptr<const ServedExtent> keep;
  };
  static constexpr size_t kArenaKeptBytes = 64 * 1024;
  static constexpr int kPartsMax = 64;
  static constexpr size_t kZerosBytes = 64 * 1024;

  int gather(iovec* parts) const;
  void advance(size_t count);
  /// Drops what was sent, so that a queue that never runs empty does not grow.
  void compact();

  std::vector<Segment> segments_;
  size_t head_ = 0;
  std::unique_ptr<std::byte[]> arena_;
  size_t arena_bytes_ = 0;
  size_t arena_capacity_ = 0;
  uint64_t bytes_ = 0;
  uint64_t sent_total_ = 0;
};

}  // namespace ocm::fabric::tcp
