// What two nodes' caches send each other: a header of fixed length, and behind it the bytes of a page, if it has some. The
// bytes of a header are hostile until read_packet() has taken them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "cache/courier/courier.h"
#include "cache/protocol/message.h"

namespace ocm::cache {

/// A page, in the whole cluster. Its home is the run of a daemon whose partition the extent's address has.
struct PageName {
  ExtentId extent;
  uint32_t page = 0;
  bool operator==(const PageName&) const = default;
};
struct PageNameHash {
  size_t operator()(const PageName& name) const {
    uint64_t x = name.extent.address.bits() ^ (uint64_t{name.extent.generation} << 32) ^ name.page;
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ull;
    return x ^ (x >> 29);
  }
};

inline PageName name_in(const PageName& name) { return name; }
template <class Page>
PageName name_in(const std::pair<const PageName, Page>& entry) {
  return entry.first;
}
/// Those of `all`, a set or a map by name, that are of the extent, which has `pages`. Cost: the fewer of both.
template <class All>
std::vector<PageName> names_of(const All& all, const ExtentId& extent, uint32_t pages) {
  std::vector<PageName> out;
  if (pages < all.size()) {
    for (uint32_t page = 0; page < pages; ++page) {
      if (const PageName name{extent, page}; all.contains(name)) out.push_back(name);
    }
  } else {
    for (const auto& one : all) {
      if (name_in(one).extent == extent) out.push_back(name_in(one));
    }
  }
  return out;
}

/// The bytes of one page, which nobody changes any more. Null: none.
using PageBytes = std::shared_ptr<const std::byte[]>;

/// Between a home and a node that caches its pages runs one courier, in their term; from one node that caches a page to
/// another, one in each direction, whose term its sender counts.
enum class Channel : uint8_t { kToHome, kToHolder, kToPeer, kFromPeer };
inline constexpr uint8_t kChannels = 4;

/// What a courier carries.
struct Parcel {
  enum class What : uint8_t {
    kNothing,
    kMessage,   // of the protocol, about page `name`
    kTaken,     // the bytes of `message.request`, of page `name`, are taken
    kReturned,  // node -> home: `count` Returns are all that it froze; `forgot`: it gave up some
    kReady,     // home -> node: they are all there
    kRevoke,    // home -> node: the extent of `name` is gone
    kBeat,      // renews the term
  };
  What what = What::kNothing;
  bool forgot = false;
  uint64_t count = 0;
  PageName name;
  Message message;
  PageBytes bytes;
};
inline constexpr uint8_t kParcelKinds = static_cast<uint8_t>(Parcel::What::kBeat) + 1;

struct Packet {
  enum class Kind : uint8_t {
    kCourier,    // `courier` and, if its sequence is not 0, `parcel`
    kAskTerm,    // node -> home: `courier.term`: the newest that it had; `asked_ns` comes back
    kGivenTerm,  // home -> node
  };
  Kind kind = Kind::kCourier;
  Channel channel = Channel::kToHome;
  uint64_t asked_ns = 0;
  CourierHeader courier;
  Parcel parcel;
};
inline constexpr uint8_t kPacketKinds = static_cast<uint8_t>(Packet::Kind::kGivenTerm) + 1;

inline constexpr size_t kPacketBytes = 144;
using PacketHeader = std::array<std::byte, kPacketBytes>;

/// Little endian; what is not used is 0.
PacketHeader write_packet(const Packet& packet);
/// Of a header of that length, which nobody has looked at: a page is to follow it.
inline bool packet_has_bytes(std::span<const std::byte> header) {
  constexpr size_t kHasBytesAt = 7;
  return header[kHasBytesAt] != std::byte{0};
}
/// Without the parcel's bytes: `has_bytes` says whether a page follows. None: no cache sends such a header.
std::optional<Packet> read_packet(std::span<const std::byte> header, bool& has_bytes);

}  // namespace ocm::cache
