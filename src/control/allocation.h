// What daemons know of an allocation: its extents at their places, and what becomes of one of its parts. Values only; what
// holds of them stands in control/parts.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/extent.h"
#include "base/ids.h"
#include "control/ownership.h"

namespace ocm::control {

/// An extent at its place of an allocation.
struct PlacedExtent : ExtentDescriptor {
  uint32_t part = 0;    // of a sequence; its addresses stand in Allocation::homes
  uint32_t epoch = 0;   // of its part: how often it went on elsewhere
  bool lost = false;    // a replica that was given up: it still names its part (control/loss.h)
  bool vacant = false;  // lost, and not of the part any more: a place that no spare home took

  PlacedExtent() = default;
  /// Where a home has just made it.
  PlacedExtent(ExtentDescriptor extent)
      : ExtentDescriptor(std::move(extent)) {}  // NOLINT: a place of its own
};

struct HomeAddresses {
  std::string node;
  std::vector<FabricAddress> addresses;
};

struct Allocation {
  AllocationId id;  // zeros: none
  uint64_t bytes_total = 0;
  Kind kind = kDefaultKind;
  bool durable = false;   // homes keep it beyond their runs once it is published
  bool coherent = false;  // any node may cache pages of it, and all see one memory
  Layout layout = Layout::kSingle;
  uint64_t chunk_bytes = 0;
  std::vector<PlacedExtent> extents;
  std::optional<Access> access;  // of who was granted it
  std::string name;              // if published
  uint32_t owner_uid = 0;
  uint32_t mode = 0;
  bool lost = false;  // as the coordinator says: a part has no replica left
  // A sequence: see control/parts.h.
  std::vector<uint64_t> part_bytes;
  bool replicated_parts = false;
  std::vector<HomeAddresses> homes;

  bool has_id() const { return id != AllocationId(); }
};

inline std::vector<ExtentId> ids_in(const std::vector<PlacedExtent>& extents) {
  std::vector<ExtentId> out;
  out.reserve(extents.size());
  for (const PlacedExtent& one : extents) out.push_back(one.id);
  return out;
}

/// A part goes on in other extents: it was made again, or moved.
struct PartMoved {
  ExtentId was;  // the living replica whose home led
  std::vector<PlacedExtent>
      now;  // the same bytes under another id first, then the new replicas; with addresses
  uint32_t epoch = 0;
  AllocationId allocation;       // that the home knows it by; a part of a sequence has its own
  std::vector<ExtentId> former;  // what `was` was before, the oldest first
  std::vector<ExtentId> peers;   // the other living replicas; `now` has another id of each
  uint32_t replicas_wanted = 0;  // as many as it was allocated with; more than `now` where there was no room
};

/// A replica of a part that was made again, for its owner: a session, or the name of `published`.
struct GivenReplica {
  ExtentId replica;  // of the spare home
  PartMoved part;
  SessionId session;  // its owner, with its daemon
  std::string owner_node;
  Incarnation owner_incarnation;
  std::optional<Allocation> published;   // or the name's allocation, as it is now
  std::vector<Ownership::HeldBy> holds;  // on it
  std::vector<std::string> instead_of;   // whose it may be now: Title::owner(); others keep it
  uint64_t attempt = 0;                  // with `published`: that published it
};

/// What may be decided to follow a part: told to homes of it, and to the spare homes.
struct PlannedPart {
  ExtentId replica;
  GivenReplica give;           // if it is: `replica` is its second id
  std::vector<ExtentId> of;    // the part that it follows, in ascending order
  std::vector<ExtentId> lost;  // of these, in the order of the decisions
};

}  // namespace ocm::control
