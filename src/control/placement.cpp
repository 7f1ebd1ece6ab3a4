#include "control/placement.h"

#include <algorithm>

#include "base/assert.h"
#include "base/units.h"

namespace ocm::control {
namespace {

constexpr uint64_t kPageBytes = 4096;
static_assert(kChunkBytesDefault % kChunkBytesUnit == 0);
static_assert(kAllocationBytesMax <= ~uint64_t{0} - kPageBytes, "it can be rounded up");
/// In NodeRoom::fabrics.
constexpr bool has_bit(const FabricName& one) { return static_cast<unsigned>(one.fabric) < 32; }
static_assert(std::all_of(std::begin(kFabrics), std::end(kFabrics), has_bit));

/// One planning run: the nodes that may be used, and what they have left while shares are given out.
struct Candidates {
  std::vector<size_t> nodes;   // by preference
  std::vector<uint64_t> left;  // by index into the rooms

  bool take(size_t node, uint64_t bytes) {
    OCM_DASSERT(node < left.size() && bytes <= kAllocationBytesMax);
    const uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (left[node] < pages) return false;
    left[node] -= pages;
    return true;
  }
};

bool fabric_fits(const NodeRoom& room, const std::string& self, const PlaceRequest& r) {
  if (r.own_node_only) return room.name == self;
  return r.fabric == Fabric::kAny || (room.fabrics & (1u << static_cast<unsigned>(r.fabric))) != 0;
}

Status check(const PlaceRequest& r) {
  if (r.bytes_total == 0)
    return Status(Code::kInvalidArgument, "bytes is 0; it must be at least 1")
        .with_subject(Subject::kOption, "bytes");
  if (r.bytes_total > kAllocationBytesMax)
    return Status(Code::kTooLarge, "more bytes than the address space has");
  if (!is_kind(static_cast<uint64_t>(r.kind))) return Status(Code::kInvalidArgument, "unknown kind");
  if (static_cast<unsigned>(r.layout) > 2) return Status(Code::kInvalidArgument, "unknown layout");
  if (!is_fabric(static_cast<uint64_t>(r.fabric))) return Status(Code::kInvalidArgument, "unknown fabric");
  if (r.extents > kExtentsMax || r.nodes.size() > kExtentsMax) {
    return Status(Code::kTooLarge, std::to_string(std::max<size_t>(r.extents, r.nodes.size())) +
                                       " extents are asked for; an allocation can have " +
                                       std::to_string(kExtentsMax));
  }
  if (r.chunk_bytes % kChunkBytesUnit != 0) {
    return Status(Code::kInvalidArgument,
                  "chunk_bytes is " + std::to_string(r.chunk_bytes) + "; it must be a multiple of 64")
        .with_subject(Subject::kOption, "chunk_bytes");
  }
  if (!r.nodes.empty() && r.extents != 0 && r.extents != r.nodes.size()) {
    return Status(Code::kInvalidArgument,
                  "extents is " + std::to_string(r.extents) + ", but " + std::to_string(r.nodes.size()) +
                      " nodes are named; leave extents at 0, or give as many as nodes");
  }
  if ((r.flags & kFlagLocal) != 0 && (r.flags & kFlagRemote) != 0) {
    return Status(Code::kInvalidArgument, "LOCAL and REMOTE exclude each other");
  }
  if (r.own_node_only && (r.flags & kFlagRemote) != 0) {
    return Status(Code::kUnsupported,
                  std::string(fabric_name(r.fabric)) + " reaches only this node, and REMOTE excludes it");
  }
  if ((r.flags & kFlagCoherent) != 0 && (r.flags & kFlagDurable) != 0) {
    return Status(
        Code::kUnsupported,
        "COHERENT and DURABLE are asked for: what is durable has one copy, at its home, and no node "
        "caches it; leave COHERENT out");
  }
  if ((r.flags & kFlagCoherent) != 0 && r.layout == Layout::kReplicated) {
    return Status(Code::kUnsupported,
                  "COHERENT is asked for, and layout replicated, whose copies are written one by one: leave "
                  "COHERENT out, or use layout single or striped");
  }
  if (!r.kind_built) {
    return Status(Code::kUnsupported, std::string("kind ") + kind_name(r.kind) +
                                          " is not in this build; there is " + built_kinds(", "));
  }
  return {};
}

/// "64.0 MiB (67108864 bytes)"
std::string exact(uint64_t bytes) { return format_bytes(bytes) + " (" + std::to_string(bytes) + " bytes)"; }

/// As format_bytes(), but never more than there is: what does not suffice must not look as if it did.
std::string rounded_down(uint64_t bytes) {
  uint64_t unit = 1;
  while (bytes / unit >= 1024) unit *= 1024;
  const uint64_t steps_a_unit = bytes / unit >= 100 ? 1 : bytes / unit >= 10 ? 10 : 100;
  const uint64_t steps = bytes % unit * steps_a_unit / unit;
  return format_bytes(bytes / unit * unit + (steps * unit + steps_a_unit - 1) / steps_a_unit);
}

/// It may have what is asked for, by its kind.
bool may_keep(const NodeRoom& room, const PlaceRequest& r) {
  const auto kind = static_cast<size_t>(r.kind);
  return ((r.flags & kFlagDurable) == 0 || room.lasts[kind]) &&
         ((r.flags & kFlagCoherent) == 0 || r.kind_coherent || room.coherent[kind]);
}

/// What may_keep() misses at a node, for "node a has no ..." (`no` is "no ") and for "no node has ...".
std::string not_kept(const PlaceRequest& r, const char* no) {
  const std::string kind = kind_name(r.kind);
  if ((r.flags & kFlagCoherent) != 0)
    return std::string(" has ") + no + "coherent memory of kind " + kind +
           ": that takes a newer version of oncillad";
  return std::string(" keeps ") + no + "memory of kind " + kind +
         " beyond its daemon's run: that takes a pool (ocm pool create)";
}

Status full(const PlaceRequest& r, std::span<const NodeRoom> rooms, const std::string& wanted) {
  const auto kind = static_cast<size_t>(r.kind);
  OCM_DASSERT(kind < kKindsMax);
  const bool offered = std::any_of(rooms.begin(), rooms.end(),
                                   [kind](const NodeRoom& room) { return room.bytes_total[kind] != 0; });
  if (!offered) {  // nothing that is freed would help
    return Status(Code::kUnsupported, std::string("no node offers memory of kind ") + kind_name(r.kind));
  }
  if (std::none_of(rooms.begin(), rooms.end(), [&r](const NodeRoom& room) { return may_keep(room, r); })) {
    return Status(Code::kUnsupported, "no node" + not_kept(r, ""));
  }
  return Status(Code::kPoolFull, wanted + "; free: " + describe_room(rooms, r.kind));
}

/// Named nodes, in the named order. A name may appear twice in a striped request.
Result<Candidates> named(const PlaceRequest& r, std::span<const NodeRoom> rooms, const std::string& self,
                         Candidates all, std::span<const size_t> excluded) {
  std::vector<size_t> order;
  for (const std::string& name : r.nodes) {
    const auto it =
        std::find_if(rooms.begin(), rooms.end(), [&](const NodeRoom& n) { return n.name == name; });
    if (it == rooms.end()) {
      return Status(Code::kUnknownNode, "no node named " + name.substr(0, 64)).with_node(name);
    }
    const auto index = static_cast<size_t>(it - rooms.begin());
    if (!it->usable) return Status::of_node(Code::kPeerLost, name, " is not alive");
    if (!fabric_fits(*it, self, r)) {
      return Status::of_node(Code::kUnsupported, name,
                             std::string(" is not reached over ") + fabric_name(r.fabric));
    }
    if (!may_keep(*it, r)) {
      return Status::of_node(Code::kUnsupported, name, not_kept(r, "no "));
    }
    if (std::find(excluded.begin(), excluded.end(), index) != excluded.end()) {
      return full(r, rooms, "node " + name + " has not enough " + kind_name(r.kind)).with_node(name);
    }
    order.push_back(index);
  }
  OCM_DASSERT(order.size() == r.nodes.size());
  all.nodes = std::move(order);
  return all;
}

Result<Candidates> opaque(const PlaceRequest& r, std::span<const NodeRoom> rooms, const std::string& self,
                          Candidates all, std::span<const size_t> excluded) {
  // Anywhere; and of the nodes that the flags allow, whether any is there and whether any serves the fabric.
  bool is_served = r.fabric == Fabric::kAny || r.own_node_only;
  bool is_allowed = false, is_served_there = is_served;
  for (size_t i = 0; i < rooms.size(); ++i) {
    const bool own = rooms[i].name == self;
    const bool fits = fabric_fits(rooms[i], self, r);
    is_served = is_served || (fits && rooms[i].usable);
    if (!rooms[i].usable || (own && (r.flags & kFlagRemote) != 0) || (!own && (r.flags & kFlagLocal) != 0)) {
      continue;
    }
    is_allowed = true;
    if (!fits) continue;
    is_served_there = true;
    if (!may_keep(rooms[i], r)) continue;
    if (std::find(excluded.begin(), excluded.end(), i) == excluded.end()) all.nodes.push_back(i);
  }
  if (!is_served || (is_allowed && !is_served_there)) {
    return Status(Code::kUnsupported, std::string("no node is reached over ") + fabric_name(r.fabric));
  }
  std::stable_sort(all.nodes.begin(), all.nodes.end(),
                   [&](size_t a, size_t b) { return all.left[a] > all.left[b]; });
  if (r.layout != Layout::kStriped) {  // nearest first
    const auto own =
        std::find_if(all.nodes.begin(), all.nodes.end(), [&](size_t i) { return rooms[i].name == self; });
    if (own != all.nodes.end()) std::rotate(all.nodes.begin(), own, own + 1);
  }
  return all;
}

uint64_t chunk_for(const PlaceRequest& r, uint32_t extents) {
  OCM_DASSERT(extents > 0 && r.chunk_bytes % kChunkBytesUnit == 0);
  if (r.chunk_bytes != 0) return r.chunk_bytes;
  const uint64_t share = (r.bytes_total + extents - 1) / extents;
  const uint64_t rounded = (share + kChunkBytesUnit - 1) / kChunkBytesUnit * kChunkBytesUnit;
  return std::min(kChunkBytesDefault, rounded);
}

/// Tries `extents` stripes; each goes to the candidate with the most left, or to the named one in its turn.
bool stripe(const PlaceRequest& r, Candidates candidates, uint32_t extents, bool distinct, Plan& plan) {
  OCM_DASSERT(!candidates.nodes.empty() && extents > 0 && extents <= kExtentsMax);
  const uint64_t chunk = chunk_for(r, extents);
  const uint64_t chunks = r.bytes_total / chunk + (r.bytes_total % chunk == 0 ? 0 : 1);
  if (chunks < extents) extents = static_cast<uint32_t>(chunks);
  plan = Plan{Layout::kStriped, chunk, {}};
  for (uint32_t i = 0; i < extents; ++i) {
    const uint64_t bytes = stripe_bytes(r.bytes_total, chunk, extents, i);
    OCM_DASSERT(bytes > 0 && bytes <= r.bytes_total);
    size_t node = candidates.nodes[i % candidates.nodes.size()];
    if (!distinct && r.nodes.empty()) {
      node = *std::max_element(candidates.nodes.begin(), candidates.nodes.end(),
                               [&](size_t a, size_t b) { return candidates.left[a] < candidates.left[b]; });
    }
    if (!candidates.take(node, bytes)) return false;
    plan.shares.push_back({node, bytes});
  }
  return true;
}

Result<Plan> place_striped(const PlaceRequest& r, std::span<const NodeRoom> rooms, Candidates candidates) {
  Plan plan;
  const std::string wanted = exact(r.bytes_total) + " striped";
  if (candidates.nodes.empty()) return full(r, rooms, "no node can take " + wanted);
  if (!r.nodes.empty() || r.extents != 0) {
    const auto extents = r.nodes.empty() ? r.extents : static_cast<uint32_t>(r.nodes.size());
    const bool distinct = r.nodes.empty() && extents <= candidates.nodes.size();
    if (distinct && stripe(r, candidates, extents, true, plan)) return plan;
    if (stripe(r, std::move(candidates), extents, false, plan)) return plan;
    return full(r, rooms, wanted + " over " + std::to_string(extents) + " extents does not fit");
  }
  for (auto n = static_cast<uint32_t>(std::min<size_t>(candidates.nodes.size(), kExtentsMax)); n > 0; --n) {
    if (stripe(r, candidates, n, true, plan)) return plan;
  }
  return full(r, rooms, wanted + " does not fit");
}

Result<Plan> place_replicated(const PlaceRequest& r, std::span<const NodeRoom> rooms, Candidates candidates) {
  const size_t count = replicas_of(r);
  Plan plan{Layout::kReplicated, 0, {}};
  for (const size_t node : candidates.nodes) {
    if (plan.shares.size() == count) break;
    const bool taken =
        std::any_of(plan.shares.begin(), plan.shares.end(), [&](const Share& s) { return s.node == node; });
    if (taken) return Status(Code::kInvalidArgument, "replicas are on distinct nodes");
    if (candidates.take(node, r.bytes_total)) plan.shares.push_back({node, r.bytes_total});
  }
  if (plan.shares.size() == count) return plan;
  return full(
      r, rooms,
      std::to_string(count) + " replicas need as many nodes with " + exact(r.bytes_total) + " free each");
}

Result<Plan> place_single(const PlaceRequest& r, std::span<const NodeRoom> rooms, Candidates candidates) {
  if (r.extents > 1)
    return Status(Code::kInvalidArgument, "layout is single, but extents is " + std::to_string(r.extents) +
                                              "; leave extents at 0 or 1, or use layout striped");
  for (const size_t node : candidates.nodes) {
    if (candidates.take(node, r.bytes_total)) return Plan{Layout::kSingle, 0, {{node, r.bytes_total}}};
  }
  return full(r, rooms, "no node has " + exact(r.bytes_total) + " of " + kind_name(r.kind) + " free");
}

}  // namespace

uint64_t stripe_bytes(uint64_t bytes_total, uint64_t chunk_bytes, uint32_t extents, uint32_t index) {
  OCM_DASSERT(chunk_bytes > 0 && index < extents);
  const uint64_t whole = bytes_total / chunk_bytes;
  const uint64_t rest = bytes_total % chunk_bytes;
  uint64_t bytes = (whole / extents + (index < whole % extents ? 1 : 0)) * chunk_bytes;
  if (index == whole % extents) bytes += rest;
  return bytes;
}

std::string describe_room(std::span<const NodeRoom> rooms, Kind kind) {
  constexpr size_t kShown = 16;
  std::string out;
  for (size_t i = 0; i < rooms.size() && i < kShown; ++i) {
    if (!out.empty()) out += ", ";
    const uint64_t free = rooms[i].bytes_free(kind);
    out += rooms[i].name + " " + rounded_down(free) + " of " +
           format_bytes(rooms[i].bytes_total[static_cast<size_t>(kind)]) + " (" + std::to_string(free) +
           " bytes)";
    if (!rooms[i].usable) out += " (not alive)";
  }
  if (rooms.size() > kShown) out += " and " + std::to_string(rooms.size() - kShown) + " more nodes";
  return out.empty() ? "no nodes" : out;
}

Result<Plan> place(const PlaceRequest& request, std::span<const NodeRoom> rooms, const std::string& self,
                   std::span<const size_t> excluded) {
  OCM_TRY(check(request));
  PlaceRequest r = request;
  // Several named nodes with the default layout mean equal shares.
  if (r.layout == Layout::kSingle && r.nodes.size() > 1) r.layout = Layout::kStriped;
  Candidates all;
  for (const NodeRoom& room : rooms) all.left.push_back(room.bytes_free(r.kind));
  auto found = r.nodes.empty() ? opaque(r, rooms, self, std::move(all), excluded)
                               : named(r, rooms, self, std::move(all), excluded);
  OCM_TRY_ASSIGN(Candidates candidates, std::move(found));
  OCM_DASSERT(candidates.left.size() == rooms.size());
  switch (r.layout) {
    case Layout::kSingle: return place_single(r, rooms, std::move(candidates));
    case Layout::kStriped: return place_striped(r, rooms, std::move(candidates));
    case Layout::kReplicated: return place_replicated(r, rooms, std::move(candidates));
    case Layout::kSequence: break;  // made by joining, never placed
  }
  return Status(Code::kInvalidArgument, "no layout to place");
}

}  // namespace ocm::control
