#include "wire/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace ocm::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the encoders below copy native integers");
static_assert(44 + sizeof(uint32_t) == kFrameHeaderBytes, "the header's CRC is its end");
static_assert(16 + sizeof(AttachBody::proof) == kAttachBodyBytes, "the proof is the end");

template <class T>
void store(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof(value));
}
template <class T>
T load(const std::byte* in) {
  T value{};
  std::memcpy(&value, in, sizeof(value));
  return value;
}

bool is_known(uint8_t type) {
  return (type >= static_cast<uint8_t>(FrameType::kHello) &&
          type <= static_cast<uint8_t>(FrameType::kNotify)) ||
         (type >= static_cast<uint8_t>(FrameType::kReply) &&
          type <= static_cast<uint8_t>(FrameType::kChallenge));
}

/// Whether that is what the bytes say.
[[maybe_unused]] bool is_encoded(const FrameHeader& header, const std::byte* in) {
  std::array<std::byte, kFrameHeaderBytes> again;
  encode_frame(header, again.data());
  return std::equal(again.begin(), again.end(), in);
}

}  // namespace

void encode_frame(const FrameHeader& header, std::byte* out) {
  store(out + 0, kFrameMagic);
  store(out + 2, kFrameVersion);
  store(out + 3, static_cast<uint8_t>(header.type));
  store(out + 4, header.tag);
  store(out + 8, header.index);
  store(out + 12, header.flags);
  store(out + 16, header.offset);
  store(out + 24, header.length);
  store(out + 32, header.operand);
  store(out + 40, header.payload_crc);
  store(out + 44, crc32c(0, out, 44));
}

Status decode_frame(const std::byte* in, FrameHeader& header) {
  if (load<uint16_t>(in) != kFrameMagic) return Status(Code::kProtocol, "not an Oncilla data frame");
  if (load<uint8_t>(in + 2) != kFrameVersion) {
    return Status(Code::kProtocol, "data frame of another version: run the same Oncilla on all nodes");
  }
  if (load<uint32_t>(in + 44) != crc32c(0, in, 44)) {
    return Status(Code::kBadChecksum, "frame header checksum");
  }
  const auto type = load<uint8_t>(in + 3);
  if (!is_known(type)) return Status(Code::kProtocol, "unknown frame type");
  FrameHeader out;
  out.type = static_cast<FrameType>(type);
  out.tag = load<uint32_t>(in + 4);
  out.index = load<uint32_t>(in + 8);
  out.flags = load<uint32_t>(in + 12);
  out.offset = load<uint64_t>(in + 16);
  out.length = load<uint64_t>(in + 24);
  out.operand = load<uint64_t>(in + 32);
  out.payload_crc = load<uint32_t>(in + 40);
  if (out.flags & ~kFlagsKnown) return Status(Code::kProtocol, "unknown frame flags");
  if (out.length > kFrameBytesMax) return Status(Code::kProtocol, "oversized frame");
  OCM_DASSERT(is_encoded(out, in));  // F1, and no byte was passed over
  header = out;
  return {};
}

uint64_t payload_bytes(const FrameHeader& header) {
  return header.type == FrameType::kGet ? 0 : header.length;
}

void encode_attach(const AttachBody& body, std::byte* out) {
  std::memset(out, 0, kAttachBodyBytes);
  store(out + 0, body.address);
  store(out + 8, body.generation);
  store(out + 12, body.access);
  std::copy(body.proof.begin(), body.proof.end(), out + 16);
}

Status decode_attach(std::span<const std::byte> in, AttachBody& body) {
  if (in.size() != kAttachBodyBytes) return Status(Code::kProtocol, "attach of a wrong length");
  const auto access = load<uint8_t>(in.data() + 12);
  if (access != 1 && access != 3) return Status(Code::kProtocol, "attach with an unknown access");
  body.address = load<uint64_t>(in.data());
  body.generation = load<uint32_t>(in.data() + 8);
  body.access = access;
  std::copy_n(in.begin() + 16, body.proof.size(), body.proof.begin());
  return {};
}

}  // namespace ocm::wire
