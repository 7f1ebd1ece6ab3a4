// The names of things: nodes, partitions, extents, sessions, capabilities, and the global address.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "base/fabrics.h"
#include "base/kinds.h"
#include "base/status.h"

namespace ocm {

/// Same numbers as `ocm_layout`.
enum class Layout : uint8_t { kSingle = 0, kStriped = 1, kReplicated = 2, kSequence = 3 };
const char* layout_name(Layout layout);
/// Of one part of an allocation: an operation keeps a bit for each.
inline constexpr uint32_t kReplicasMax = 64;
/// Same numbers as `ocm_access`.
enum class Access : uint8_t { kRead = 1, kReadWrite = 3 };

/// 24 bits of partition, 40 bits of offset. Source: DPGAS (thesis 3.4).
class GlobalAddress {
 public:
  static constexpr int kOffsetBits = 40;
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;
  static constexpr uint32_t kPartitionMax = (1u << 24) - 1;

  GlobalAddress() = default;
  explicit GlobalAddress(uint64_t bits) : bits_(bits) {}
  GlobalAddress(uint32_t partition, uint64_t offset) : bits_((uint64_t{partition} << kOffsetBits) | offset) {
    OCM_ASSERT(partition <= kPartitionMax && offset <= kOffsetMask);
  }

  uint32_t partition() const { return static_cast<uint32_t>(bits_ >> kOffsetBits); }
  uint64_t offset() const { return bits_ & kOffsetMask; }
  uint64_t bits() const { return bits_; }
  auto operator<=>(const GlobalAddress&) const = default;
  /// "00000a:0000001000"
  std::string to_string() const;

 private:
  uint64_t bits_ = 0;
};
static_assert(sizeof(GlobalAddress) == 8 && std::is_trivially_copyable_v<GlobalAddress>);
static_assert((uint64_t{GlobalAddress::kPartitionMax} << GlobalAddress::kOffsetBits |
               GlobalAddress::kOffsetMask) == ~uint64_t{0},
              "partition and offset share no bit, and none is left");

/// 128 random bits. The tag keeps a session's id from being taken for a capability.
template <class Tag>
struct Bits128 {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Bits128&) const = default;
};
/// Names a session in the whole cluster. Its last four bytes are the uid that opened it: who proves the key
/// of this id, which its daemon gave to that user only, proves the uid with it.
using SessionId = Bits128<struct SessionTag>;
inline constexpr size_t kSessionUidAt = 12;
static_assert(kSessionUidAt + sizeof(uint32_t) == sizeof(SessionId));
inline SessionId with_uid(SessionId random, uint32_t uid) {
  __builtin_memcpy(random.bytes.data() + kSessionUidAt, &uid, sizeof(uid));
  return random;
}
inline uint32_t uid_of(const SessionId& session) {
  uint32_t uid = 0;
  __builtin_memcpy(&uid, session.bytes.data() + kSessionUidAt, sizeof(uid));
  return uid;
}
/// Names an allocation in the whole cluster.
using AllocationId = Bits128<struct AllocationTag>;
/// Names one run of a daemon.
using Incarnation = Bits128<struct IncarnationTag>;
/// The secret that opens an extent. Never logged, never compared with ==: see os/crypto.h.
using Capability = Bits128<struct CapabilityTag>;

/// 32 hexadecimal digits.
std::string to_hex(const std::byte* bytes, size_t count);
template <class Tag>
std::string to_hex(const Bits128<Tag>& id) {
  return to_hex(id.bytes.data(), id.bytes.size());
}

/// Of generations of one table, which begin anywhere and go round: `a` was made before `b` (as in RFC 1982).
inline bool made_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

/// Which extent, and which life of it: the generation differs whenever the address is used again.
struct ExtentId {
  GlobalAddress address;
  uint32_t generation = 0;
  auto operator<=>(const ExtentId&) const = default;
};

}  // namespace ocm

template <class Tag>
struct std::hash<ocm::Bits128<Tag>> {
  size_t operator()(const ocm::Bits128<Tag>& id) const noexcept {
    size_t value = 0;
    __builtin_memcpy(&value, id.bytes.data(), sizeof(value));
    return value;  // the bits are random already
  }
};
template <>
struct std::hash<ocm::GlobalAddress> {
  size_t operator()(ocm::GlobalAddress address) const noexcept {
    return std::hash<uint64_t>{}(address.bits() * 0x9E3779B97F4A7C15ull);
  }
};
