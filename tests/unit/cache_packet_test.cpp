// Between two page caches: what was written of a packet's header, and of a batch, is read, and nothing else is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cache/batch.h"
#include "cache/packet.h"

namespace ocm::cache {
namespace {

Packet full() {
  Packet packet;
  packet.channel = Channel::kToPeer;
  packet.asked_ns = 11;
  packet.courier = {12, 13, 14, 15};
  Parcel& parcel = packet.parcel;
  parcel.what = Parcel::What::kMessage;
  parcel.count = 16, parcel.forgot = true;
  parcel.name = {{GlobalAddress(17, 18 * 4096), 19}, 20};
  Message& m = parcel.message;
  m.kind = MessageKind::kDataM;
  m.payload = Message::Payload::kPage;
  m.peer = 21, m.epoch = 22, m.code = Code::kLost;
  m.request = 23, m.ticket = 24, m.version = 25;
  m.whole = m.copy = m.exclusive = m.waiting = m.kept = m.forgot = m.data = true;
  parcel.bytes = std::make_shared<std::byte[]>(1);
  return packet;
}

TEST(CachePacket, WhatWasWrittenIsRead) {
  const Packet in = full();
  bool has_bytes = false;
  const std::optional<Packet> out = read_packet(write_packet(in), has_bytes);
  ASSERT_TRUE(out.has_value());
  EXPECT_TRUE(has_bytes);
  EXPECT_EQ(out->kind, in.kind);
  EXPECT_EQ(out->channel, in.channel);
  EXPECT_EQ(out->asked_ns, in.asked_ns);
  EXPECT_EQ(out->courier.term, 12u);
  EXPECT_EQ(out->courier.sequence, 13u);
  EXPECT_EQ(out->courier.all_before, 14u);
  EXPECT_EQ(out->courier.beyond, 15u);
  EXPECT_EQ(out->parcel.what, in.parcel.what);
  EXPECT_EQ(out->parcel.count, 16u);
  EXPECT_TRUE(out->parcel.forgot);
  EXPECT_EQ(out->parcel.name, in.parcel.name);
  EXPECT_EQ(out->parcel.message, in.parcel.message);

  Packet ask;
  ask.kind = Packet::Kind::kAskTerm;
  ask.courier.term = 3;
  const std::optional<Packet> asked = read_packet(write_packet(ask), has_bytes);
  ASSERT_TRUE(asked.has_value());
  EXPECT_FALSE(has_bytes);
  EXPECT_EQ(asked->kind, Packet::Kind::kAskTerm);
  EXPECT_EQ(asked->courier.term, 3u);
}

TEST(CachePacket, NoCacheSendsThese) {
  bool has_bytes = false;
  const auto refused = [&](auto change) {
    PacketHeader header = write_packet(full());
    change(header);
    return !read_packet(header, has_bytes).has_value();
  };
  const auto with = [&](size_t at, uint8_t value) {
    return refused([&](PacketHeader& header) { header[at] = std::byte{value}; });
  };
  EXPECT_TRUE(with(0, 2));  // another format
  EXPECT_TRUE(with(4, kPacketKinds));
  EXPECT_TRUE(with(5, kChannels));
  EXPECT_TRUE(with(6, kParcelKinds));
  EXPECT_TRUE(with(6, 0));  // a sequence, and no parcel
  EXPECT_TRUE(with(7, 2));
  EXPECT_TRUE(with(6, static_cast<uint8_t>(Parcel::What::kBeat)));  // with bytes
  EXPECT_TRUE(with(72, kMessageKinds));
  EXPECT_TRUE(with(73, 0x80));
  EXPECT_TRUE(with(74, 2));
  EXPECT_TRUE(with(75, 1));
  EXPECT_TRUE(with(79, 1));  // a peer that is no partition
  EXPECT_TRUE(with(84, 1));  // no code
  EXPECT_TRUE(with(kPacketBytes - 1, 1));
  EXPECT_FALSE(with(8, 99));  // a time is a time

  PacketHeader header = write_packet(full());
  EXPECT_FALSE(read_packet({header.data(), kPacketBytes - 1}, has_bytes).has_value());
  Packet silent = full();
  silent.kind = Packet::Kind::kGivenTerm;
  EXPECT_FALSE(read_packet(write_packet(silent), has_bytes).has_value());  // a parcel without a courier
}

TEST(CachePacket, WhateverIsReadIsInRange) {
  std::mt19937_64 random(7);
  size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    PacketHeader header = write_packet(full());
    for (int change = 0; change < 3; ++change)
      header[random() % header.size()] = static_cast<std::byte>(random());
    bool has_bytes = false;
    const std::optional<Packet> packet = read_packet(header, has_bytes);
    if (!packet.has_value()) continue;
    ++taken;
    EXPECT_TRUE(is_kind(static_cast<uint8_t>(packet->parcel.message.kind)));
    EXPECT_TRUE(is_code(static_cast<int>(packet->parcel.message.code)));
    EXPECT_EQ(has_bytes, packet->parcel.message.payload == Message::Payload::kPage);
    bool again = false;
    Packet copy = *packet;
    if (has_bytes) copy.parcel.bytes = std::make_shared<std::byte[]>(1);
    EXPECT_EQ(write_packet(copy), header);
    (void)again;
  }
  EXPECT_GT(taken, 100u);
}

constexpr uint64_t kBatchPage = 4096;

/// The n-th of a batch: every second one has a page, of bytes n.
Sent sent(uint32_t n) {
  Packet packet = full();
  packet.parcel.name.page = n;
  packet.parcel.bytes = nullptr;
  packet.parcel.message.payload = Message::Payload::kNone;
  Sent out;
  if (n % 2 == 1) {
    const auto page = std::make_shared<std::byte[]>(kBatchPage);
    std::memset(page.get(), static_cast<int>(n), kBatchPage);
    out.bytes = page;
    packet.parcel.bytes = page;
  }
  out.header = write_packet(packet);
  return out;
}
std::vector<std::byte> batch_of(uint32_t count) {
  Batch batch(3, 4, kBatchPage);
  for (uint32_t n = 0; n < count; ++n) batch.add(sent(n));
  const BatchBytes message = batch.write();
  return {message.bytes.get(), message.bytes.get() + message.count};
}
const auto kAll = [](const BatchHead&) { return true; };

TEST(CacheBatch, ItsPacketsAreReadInTheirOrder) {
  uint32_t count = 0;
  EXPECT_TRUE(read_batch(
      batch_of(7), kAll, [&](const BatchHead& head, std::span<const std::byte> header, PageBytes bytes) {
        EXPECT_EQ(head.from, 3u);
        EXPECT_EQ(head.to, 4u);
        EXPECT_EQ(head.page_bytes, kBatchPage);
        EXPECT_EQ(head.count, 7u);
        const PacketHeader wanted = sent(count).header;
        EXPECT_TRUE(std::equal(header.begin(), header.end(), wanted.begin(), wanted.end()));
        ASSERT_EQ(bytes != nullptr, count % 2 == 1);
        for (uint64_t i = 0; bytes != nullptr && i < kBatchPage; ++i)
          ASSERT_EQ(bytes[static_cast<ptrdiff_t>(i)], static_cast<std::byte>(count));
        ++count;
      }));
  EXPECT_EQ(count, 7u);
  bool looked = false;
  EXPECT_TRUE(read_batch(
      batch_of(2), [](const BatchHead&) { return false; },
      [&](const BatchHead&, std::span<const std::byte>, PageBytes) { looked = true; }));
  EXPECT_FALSE(looked);
}

TEST(CacheBatch, ItIsOfBoundedLength) {
  EXPECT_TRUE(Batch::pages_fit(kBatchBytesMost / 2));
  EXPECT_FALSE(Batch::pages_fit(kBatchBytesMost));
  EXPECT_FALSE(Batch::pages_fit(0));
  Batch batch(3, 4, kBatchPage);
  while (batch.has_room(sent(1))) batch.add(sent(1));
  const size_t count = batch.write().count;
  EXPECT_LE(count, kBatchBytesMost);
  EXPECT_GT(count, kBatchBytesMost - kBatchPage - kPacketBytes);
}

TEST(CacheBatch, NothingElseIsTaken) {
  const std::vector<std::byte> good = batch_of(4);
  size_t called = 0;
  const auto each = [&](const BatchHead&, std::span<const std::byte>, const PageBytes&) { ++called; };
  for (size_t length = 0; length < good.size(); length += length < 700 ? 1 : 97) {
    EXPECT_FALSE(read_batch(std::span(good).first(length), kAll, each)) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(read_batch(longer, kAll, each));
  EXPECT_EQ(called, 0u);
  // Counts and lengths that add up to what they are not: by every value of the head's bytes.
  for (size_t at = 0; at < 24; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<std::byte> bad = good;
      bad[at] = static_cast<std::byte>(value);
      const bool taken = read_batch(bad, kAll, each);
      const bool is_of_whom = at >= 4 && at < 12;  // nodes: any number is one
      EXPECT_EQ(taken, bad == good || is_of_whom) << at << " " << value;
    }
  }
  // More pages than headers have, and fewer.
  std::vector<std::byte> bad = good;
  bad[24 + 7] = std::byte{1};  // the first header's
  EXPECT_FALSE(read_batch(bad, kAll, each));
}

}  // namespace
}  // namespace ocm::cache
