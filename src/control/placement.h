// Where a node is chosen: a request and what is known of every node's room -> which nodes, with how many
// bytes.
//
// Pure. The room may be out of date; the homes hold the truth and answer kPoolFull, and the caller plans
// again.
//
// Rules
//   opaque single      the own node if it fits, else the node with the most free bytes
//   opaque striped     the nodes with the most free bytes: as many as have room, or `extents`
//   replicated         distinct nodes, the own node first
//   transparent        the named nodes in the named order, equal shares
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"

namespace ocm::control {

// Bits of AllocateRequest.flags, as OCM_ALLOCATION_* in include/oncilla/oncilla.h.
inline constexpr uint32_t kFlagPopulate = 1u << 2;
inline constexpr uint32_t kFlagHugepages = 1u << 3;
inline constexpr uint32_t kFlagLocal = 1u << 4;
inline constexpr uint32_t kFlagRemote = 1u << 5;
inline constexpr uint32_t kFlagDurable = 1u << 7;
inline constexpr uint32_t kFlagCoherent = 1u << 8;
static_assert((kFlagPopulate ^ kFlagHugepages ^ kFlagLocal ^ kFlagRemote ^ kFlagDurable ^ kFlagCoherent) ==
                  0x1bcu,
              "a bit each");

inline constexpr uint32_t kExtentsMax = 1024;  // of one allocation
inline constexpr uint64_t kChunkBytesDefault = uint64_t{1} << 20;
inline constexpr uint64_t kChunkBytesUnit = 64;
inline constexpr uint64_t kAllocationBytesMax = uint64_t{1} << 56;

/// What one node has, as last heard.
struct NodeRoom {
  std::string name;
  bool usable = true;    // alive: new extents may go there
  uint32_t fabrics = 0;  // bit 1 << Fabric for each that it serves
  std::array<uint64_t, kKindsMax> bytes_total{};
  std::array<uint64_t, kKindsMax> bytes_used{};
  std::array<bool, kKindsMax> lasts{};     // extents of the kind may be durable there
  std::array<bool, kKindsMax> coherent{};  // or coherent

  uint64_t bytes_free(Kind kind) const {
    const auto k = static_cast<size_t>(kind);
    OCM_DASSERT(k < kKindsMax);
    return bytes_used[k] >= bytes_total[k] ? 0 : bytes_total[k] - bytes_used[k];
  }
};

struct PlaceRequest {
  uint64_t bytes_total = 0;
  Kind kind = Kind::kDram;
  Layout layout = Layout::kSingle;
  uint32_t extents = 0;
  uint64_t chunk_bytes = 0;
  std::vector<std::string> nodes;  // empty: opaque
  Fabric fabric = Fabric::kAny;
  bool own_node_only = false;  // the fabric reaches the asking node's memory and no other
  bool kind_built = true;      // there is a build of nodes that offer the kind: this one
  bool kind_coherent = false;  // the kind is always, also without kFlagCoherent
  uint32_t flags = 0;
};

/// That a replicated one asks for.
inline size_t replicas_of(const PlaceRequest& r) {
  return !r.nodes.empty() ? r.nodes.size() : r.extents != 0 ? r.extents : 2;
}

struct Share {
  size_t node = 0;  // index into the rooms given
  uint64_t bytes = 0;
};

struct Plan {
  Layout layout = Layout::kSingle;
  uint64_t chunk_bytes = 0;  // striped only
  std::vector<Share> shares;
};

/// Bytes of stripe `index` of `extents`, when chunks go round robin.
uint64_t stripe_bytes(uint64_t bytes_total, uint64_t chunk_bytes, uint32_t extents, uint32_t index);

/// `self` is the asking node; nodes in `excluded` (by index) get nothing.
/// Errors: kInvalidArgument, kTooLarge, kPoolFull (says what is free and where), kUnknownNode, kPeerLost (a
/// named node is not alive), kUnsupported (kind or fabric that the node does not offer).
Result<Plan> place(const PlaceRequest& request, std::span<const NodeRoom> rooms, const std::string& self,
                   std::span<const size_t> excluded = {});

/// "a 1 GiB of 2 GiB, b 0 B of 2 GiB": at most 16 nodes.
std::string describe_room(std::span<const NodeRoom> rooms, Kind kind);

}  // namespace ocm::control
