// Packets of one page cache to another that travel together: one message of at most kBatchBytesMost.
//
//   BatchHead | a PacketHeader for each packet | the page of each that has one, in their order
//
// The bytes of a message are hostile until read_batch() has taken them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/packet.h"

namespace ocm::cache {

inline constexpr uint64_t kBatchBytesMost = uint64_t{1} << 20;

/// A packet as PageCache::Ports::send() gives it.
struct Sent {
  PacketHeader header;
  PageBytes bytes;  // null, or a page
};

struct BatchBytes {
  std::unique_ptr<std::byte[]> bytes;
  size_t count = 0;
};
/// Gathers packets between the same two runs of daemons, of pages of one length.
class Batch {
 public:
  Batch(NodeNumber from, NodeNumber to, uint64_t page_bytes)
      : from_(from), to_(to), page_bytes_(page_bytes) {}
  /// A message has room for this packet, too; for the first one it has where pages_fit().
  bool has_room(const Sent& packet) const { return bytes_with(packet) <= kBatchBytesMost; }
  static bool pages_fit(uint64_t page_bytes);
  void add(Sent packet);
  size_t count() const { return packets_.size(); }
  uint64_t page_bytes() const { return page_bytes_; }
  /// Of one packet at least.
  BatchBytes write() const;

 private:
  uint64_t bytes_with(const Sent& packet) const;

  const NodeNumber from_, to_;
  const uint64_t page_bytes_;
  std::vector<Sent> packets_;
  uint64_t bytes_ = 0;
};

struct BatchHead {
  NodeNumber from = 0, to = 0;
  uint64_t page_bytes = 0;
  uint32_t count = 0;
};
/// Calls `each` with its packets, in their order, whose headers nobody has looked at yet. False: it is none; nothing was
/// called. `wanted`: whether it is looked at further.
bool read_batch(std::span<const std::byte> message, const std::function<bool(const BatchHead&)>& wanted,
                const std::function<void(const BatchHead&, std::span<const std::byte>, PageBytes)>& each);

}  // namespace ocm::cache
