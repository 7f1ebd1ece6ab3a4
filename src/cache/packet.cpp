#include "cache/packet.h"

#include <bit>
#include <cstring>

namespace ocm::cache {

namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");
constexpr uint32_t kMagic = 0x50434f01;  // and the format's number

enum Flag : uint8_t {
  kWhole = 1,
  kCopy = 2,
  kExclusive = 4,
  kWaiting = 8,
  kKept = 16,
  kForgot = 32,
  kData = 64
};

class Writer {
 public:
  template <class T>
  void field(const T& value) {
    OCM_ASSERT(at_ + sizeof(T) <= out.size());
    std::memcpy(out.data() + at_, &value, sizeof(T));
    at_ += sizeof(T);
  }
  PacketHeader out{};

 private:
  size_t at_ = 0;
};
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  void field(T& value) {
    OCM_ASSERT(at_ + sizeof(T) <= from_.size());
    std::memcpy(&value, from_.data() + at_, sizeof(T));
    at_ += sizeof(T);
  }
  bool is_rest_zero() const {
    for (size_t i = at_; i < from_.size(); ++i) {
      if (from_[i] != std::byte{0}) return false;
    }
    return true;
  }

 private:
  std::span<const std::byte> from_;
  size_t at_ = 0;
};

struct Fields {
  uint32_t magic = kMagic;
  uint8_t kind = 0, channel = 0, what = 0, has_bytes = 0;
  uint64_t asked_ns = 0, term = 0, sequence = 0, all_before = 1, beyond = 0;
  uint64_t count = 0, address = 0;
  uint32_t generation = 0, page = 0;
  uint8_t message = 0, flags = 0, forgot = 0, none = 0;
  uint32_t peer = kNobody, epoch = 0;
  int32_t code = 0;
  uint64_t request = 0, ticket = 0, version = 0;
};
/// One field after the other, in both directions.
template <class Stream, class F>
void each(Stream& stream, F& f) {
  stream.field(f.magic);
  stream.field(f.kind), stream.field(f.channel), stream.field(f.what), stream.field(f.has_bytes);
  stream.field(f.asked_ns), stream.field(f.term), stream.field(f.sequence);
  stream.field(f.all_before), stream.field(f.beyond);
  stream.field(f.count), stream.field(f.address);
  stream.field(f.generation), stream.field(f.page);
  stream.field(f.message), stream.field(f.flags), stream.field(f.forgot), stream.field(f.none);
  stream.field(f.peer), stream.field(f.epoch), stream.field(f.code);
  stream.field(f.request), stream.field(f.ticket), stream.field(f.version);
}

uint8_t flags_of(const Message& m) {
  const auto bit = [](bool set, Flag flag) { return set ? static_cast<unsigned>(flag) : 0u; };
  return static_cast<uint8_t>(bit(m.whole, kWhole) | bit(m.copy, kCopy) | bit(m.exclusive, kExclusive) |
                              bit(m.waiting, kWaiting) | bit(m.kept, kKept) | bit(m.forgot, kForgot) |
                              bit(m.data, kData));
}

bool is_node(uint32_t number) { return number <= GlobalAddress::kPartitionMax; }

}  // namespace

PacketHeader write_packet(const Packet& packet) {
  const Parcel& parcel = packet.parcel;
  const Message& message = parcel.message;
  Fields f;
  f.kind = static_cast<uint8_t>(packet.kind);
  f.channel = static_cast<uint8_t>(packet.channel);
  f.asked_ns = packet.asked_ns;
  f.term = packet.courier.term, f.sequence = packet.courier.sequence;
  f.all_before = packet.courier.all_before, f.beyond = packet.courier.beyond;
  f.what = static_cast<uint8_t>(parcel.what);
  f.has_bytes = parcel.bytes != nullptr ? 1 : 0;
  f.count = parcel.count, f.forgot = parcel.forgot ? 1 : 0;
  f.address = parcel.name.extent.address.bits(), f.generation = parcel.name.extent.generation;
  f.page = parcel.name.page;
  f.message = static_cast<uint8_t>(message.kind), f.flags = flags_of(message);
  f.peer = message.peer, f.epoch = message.epoch, f.code = static_cast<int32_t>(message.code);
  f.request = message.request, f.ticket = message.ticket, f.version = message.version;
  Writer writer;
  each(writer, f);
  return writer.out;
}

std::optional<Packet> read_packet(std::span<const std::byte> header, bool& has_bytes) {
  has_bytes = false;
  if (header.size() != kPacketBytes) return std::nullopt;
  Fields f;
  Reader reader(header);
  each(reader, f);
  if (f.magic != kMagic || f.kind >= kPacketKinds || f.channel >= kChannels || f.what >= kParcelKinds ||
      f.has_bytes > 1 || f.forgot > 1 || f.none != 0 || !reader.is_rest_zero())
    return std::nullopt;
  if (!is_kind(f.message) || (f.flags & 0x80) != 0 || !is_code(f.code)) return std::nullopt;
  if (!is_node(f.peer) && f.peer != kNobody) return std::nullopt;
  // A courier's packet has something exactly where it has a sequence, and nothing else has.
  const bool courier = f.kind == static_cast<uint8_t>(Packet::Kind::kCourier);
  if ((courier && f.sequence != 0) != (f.what != 0)) return std::nullopt;
  if (f.has_bytes != 0 && f.what != static_cast<uint8_t>(Parcel::What::kMessage)) return std::nullopt;

  Packet packet;
  packet.kind = static_cast<Packet::Kind>(f.kind);
  packet.channel = static_cast<Channel>(f.channel);
  packet.asked_ns = f.asked_ns;
  packet.courier = {f.term, f.sequence, f.all_before, f.beyond};
  Parcel& parcel = packet.parcel;
  parcel.what = static_cast<Parcel::What>(f.what);
  parcel.forgot = f.forgot != 0, parcel.count = f.count;
  parcel.name = {{GlobalAddress(f.address), f.generation}, f.page};
  Message& m = parcel.message;
  m.kind = static_cast<MessageKind>(f.message);
  m.payload = f.has_bytes != 0 ? Message::Payload::kPage : Message::Payload::kNone;
  m.peer = f.peer, m.epoch = f.epoch, m.code = static_cast<Code>(f.code);
  m.request = f.request, m.ticket = f.ticket, m.version = f.version;
  m.whole = (f.flags & kWhole) != 0, m.copy = (f.flags & kCopy) != 0;
  m.exclusive = (f.flags & kExclusive) != 0, m.waiting = (f.flags & kWaiting) != 0;
  m.kept = (f.flags & kKept) != 0, m.forgot = (f.flags & kForgot) != 0, m.data = (f.flags & kData) != 0;
  has_bytes = f.has_bytes != 0;
  return packet;
}

}  // namespace ocm::cache
