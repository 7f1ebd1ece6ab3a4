#include "cache/batch.h"

#include <cstring>
#include <utility>

#include "base/assert.h"

namespace ocm::cache {

namespace {

constexpr uint32_t kBatchMagic = 0x424d4f01;  // and the format's number

/// As it stands in a message, little endian.
struct Head {
  uint32_t magic = kBatchMagic, from = 0, to = 0, page_bytes = 0, count = 0, pages = 0;
};
static_assert(sizeof(Head) == 24);

}  // namespace

bool Batch::pages_fit(uint64_t page_bytes) {
  return page_bytes != 0 && page_bytes <= kBatchBytesMost - sizeof(Head) - kPacketBytes;
}

uint64_t Batch::bytes_with(const Sent& packet) const {
  return sizeof(Head) + bytes_ + kPacketBytes + (packet.bytes != nullptr ? page_bytes_ : 0);
}

void Batch::add(Sent packet) {
  OCM_ASSERT(has_room(packet));
  bytes_ += kPacketBytes + (packet.bytes != nullptr ? page_bytes_ : 0);
  packets_.push_back(std::move(packet));
}

BatchBytes Batch::write() const {
  OCM_ASSERT(!packets_.empty());
  Head head;
  head.from = from_, head.to = to_;
  head.page_bytes = static_cast<uint32_t>(page_bytes_);
  head.count = static_cast<uint32_t>(packets_.size());
  BatchBytes out;
  out.count = sizeof(Head) + bytes_;
  out.bytes = std::make_unique_for_overwrite<std::byte[]>(out.count);
  std::byte* at = out.bytes.get() + sizeof(Head);
  for (const Sent& packet : packets_) {
    std::memcpy(at, packet.header.data(), kPacketBytes);
    at += kPacketBytes;
  }
  for (const Sent& packet : packets_) {
    if (packet.bytes == nullptr) continue;
    std::memcpy(at, packet.bytes.get(), page_bytes_);
    at += page_bytes_;
    ++head.pages;
  }
  std::memcpy(out.bytes.get(), &head, sizeof(Head));
  OCM_DASSERT(at == out.bytes.get() + out.count);
  return out;
}

bool read_batch(std::span<const std::byte> message, const std::function<bool(const BatchHead&)>& wanted,
                const std::function<void(const BatchHead&, std::span<const std::byte>, PageBytes)>& each) {
  Head head;
  if (message.size() < sizeof(Head) || message.size() > kBatchBytesMost) return false;
  std::memcpy(&head, message.data(), sizeof(Head));
  const uint64_t bytes =
      sizeof(Head) + uint64_t{head.count} * kPacketBytes + uint64_t{head.pages} * head.page_bytes;
  if (head.magic != kBatchMagic || head.count == 0 || head.pages > head.count || bytes != message.size())
    return false;
  const std::span<const std::byte> headers = message.subspan(sizeof(Head), size_t{head.count} * kPacketBytes);
  uint32_t pages = 0;
  for (uint32_t i = 0; i < head.count; ++i)
    pages += packet_has_bytes(headers.subspan(size_t{i} * kPacketBytes, kPacketBytes)) ? 1 : 0;
  if (pages != head.pages) return false;
  const BatchHead told{.from = head.from, .to = head.to, .page_bytes = head.page_bytes, .count = head.count};
  if (!wanted(told)) return true;
  std::span<const std::byte> rest = message.subspan(sizeof(Head) + headers.size());
  for (uint32_t i = 0; i < head.count; ++i) {
    const std::span<const std::byte> header = headers.subspan(size_t{i} * kPacketBytes, kPacketBytes);
    PageBytes page;
    if (packet_has_bytes(header)) {
      const auto copy = std::make_shared_for_overwrite<std::byte[]>(head.page_bytes);
      std::memcpy(copy.get(), rest.data(), head.page_bytes);
      rest = rest.subspan(head.page_bytes);
      page = copy;
    }
    each(told, header, std::move(page));
  }
  return true;
}

}  // namespace ocm::cache
