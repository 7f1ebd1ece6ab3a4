// Data frames of the tcp fabric: a fixed 48-byte header, then the payload. Little endian.
//
//   offset  0  u16 magic 0x4D4F ("OM")   2  u8 version   3  u8 type
//           4  u32 tag       the requester's number, echoed in the reply
//           8  u32 index     the extent, as given by the attach reply on this connection
//          12  u32 flags     kFlag*
//          16  u64 offset    in the extent
//          24  u64 length    put: payload bytes; get: bytes wanted; reply: payload bytes
//          32  u64 operand   atomics: operand; notify: value added; reply: old value or code (as int)
//          40  u32 payload_crc   CRC32C of the payload if kFlagPayloadCrc, else 0
//          44  u32 header_crc    CRC32C of bytes 0..43
//
// Invariants
//   F1 a decoded header has a known type, length <= kFrameBytesMax and a matching CRC; anything else
//      is kProtocol and the connection closes.
//   F2 replies on one connection come in the order of their requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/status.h"

namespace ocm::wire {

enum class FrameType : uint8_t {
  // requests
  kHello =
      1,  // payload: SessionId(16) + client nonce(16), + versions(16); operand: route, 0: none; offset: its attempt
  kProof = 2,   // payload: HMAC(32)
  kAttach = 3,  // payload: AttachBody
  kDetach = 4,
  kPut = 5,
  kGet = 6,
  kFetchAdd = 7,
  kSwap = 8,
  kCompareSwap = 9,  // payload: expected(8); operand: desired
  kAnd = 10,
  kOr = 11,
  kXor = 12,
  kFence = 13,   // replied to when every earlier request on this connection was applied
  kNotify = 14,  // adds `operand` to the word at `offset` and wakes its waiters; after all earlier puts
  // replies
  kReply = 32,  // operand: code, or the old value of an atomic; payload: get's bytes
  kError =
      33,  // operand: code as a negative int; no payload; offset: in LIMIT, a user's share, or 0; to a hello in
           // PROTOCOL, the server's versions: min << 32 | max
  kChallenge = 34,  // payload: server nonce(16) + server proof(32), + versions(16) where the hello had them
};

inline constexpr uint16_t kFrameMagic = 0x4D4F;
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 48;
/// One frame's payload at most; the fabric splits longer operations.
inline constexpr uint64_t kFrameBytesMax = uint64_t{8} << 20;
inline constexpr uint32_t kFlagPayloadCrc = 1u << 0;
/// An op with it is refused with the code of the request before it on this connection, if that was refused:
/// the notify behind a put, and the frames of such a put but the first. Who does not know it closes the
/// connection (F1).
inline constexpr uint32_t kFlagChained = 1u << 1;
inline constexpr uint32_t kFlagsKnown = kFlagPayloadCrc | kFlagChained;
static_assert((kFlagPayloadCrc & kFlagChained) == 0);

struct FrameHeader {
  FrameType type = FrameType::kReply;
  uint32_t tag = 0;
  uint32_t index = 0;
  uint32_t flags = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t operand = 0;
  uint32_t payload_crc = 0;

  bool operator==(const FrameHeader&) const = default;
};
static_assert(std::is_trivially_copyable_v<FrameHeader>);

/// Writes the 48 bytes, CRC included.
void encode_frame(const FrameHeader& header, std::byte* out);
/// Checks F1. Errors: kProtocol, and kBadChecksum for the header's CRC.
Status decode_frame(const std::byte* in, FrameHeader& header);
/// Payload bytes that follow this header on the wire (a get's length is a wish, not a payload).
uint64_t payload_bytes(const FrameHeader& header);

/// The payload of kAttach: which extent and proof of its capability; the secret itself never travels.
/// proof = HMAC(capability, server nonce + address + generation + access).
struct AttachBody {
  uint64_t address = 0;
  uint32_t generation = 0;
  uint8_t access = 0;
  std::array<std::byte, 32> proof{};
};
inline constexpr size_t kAttachBodyBytes = 48;  // 8 + 4 + 1 + 3 zeros + 32
void encode_attach(const AttachBody& body, std::byte* out);
Status decode_attach(std::span<const std::byte> in, AttachBody& body);

}  // namespace ocm::wire
