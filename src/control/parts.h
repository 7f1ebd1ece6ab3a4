// The parts of an allocation: ranges of its bytes that live and die together. Pure functions on what daemons know
// of it (control/allocation.h).
//
//   single, striped   each extent is a part of its own
//   replicated        one part, which every extent holds
//   sequence          part i is the extents with `part` i: one, or replicas
//
// (allocation, place) is what bytes are known by, for good. The extent at a place is where they are now: an id, a
// capability and addresses of one home, since the part's `epoch` began. A part that goes on elsewhere, for a replica of
// it was lost or because it moved, gets other extents and the next epoch (PartMoved), and whoever has a record of the
// allocation follows it: its homes, its name, the session's daemon, and the program (client/binding.h).
//
// Invariants of places
//   L1 epochs of a part grow, and extents of one epoch never change places with those of another: a record takes a part
//      from one that knows a later epoch, and never goes back (relocate, take_newer).
//   L2 ids are never given again (T4 of memory/extent_table.h): a former id answers with bytes of no other place.
//
// Invariants of a sequence (check_parts)
//   J1 the extents are in the order of their parts, and each part has one: exactly one where parts are not
//      replicated, at most kReplicasMax where they are.
//   J2 part_bytes are greater than 0 and add up to bytes_total; an extent has the bytes of its part.
//   J3 there are at most kSequenceExtentsMax extents.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "control/allocation.h"

namespace ocm::control {

/// True where an extent may go and its bytes stay.
bool has_replicas(const Allocation& allocation);
/// The part that the extent at this place is of.
uint32_t part_at(const Allocation& allocation, size_t place);

/// J1 to J3 of a sequence; of other layouts that they are known. Errors: kInvalidArgument, kTooLarge.
Status check_parts(const Allocation& allocation);

/// A sequence of `parts`, without id. Addresses of the homes move into its `homes`: a thousand extents have
/// few. Errors: kInvalidArgument (no parts, some replicated and some not), kUnsupported (striped, a sequence
/// itself, not DRAM), kTooLarge.
Result<Allocation> join(std::span<const Allocation* const> parts);

/// The part of extent `id`: all its replicas as they were made, lost ones too, in ascending order. Empty if the
/// extent is none of the allocation, or only keeps a place.
std::vector<ExtentId> part_of(const Allocation& allocation, const ExtentId& id);
/// Parts with a replica that is not given up and for which away(extent): how many, the fewest living replicas of one of
/// them, and how many that one was made with.
struct Shortage {
  size_t parts = 0, left = 0, made = 0;
  void add(const Shortage& other);
};
template <class Away>
Shortage shortage_of(const Allocation& allocation, Away away) {
  std::map<uint32_t, Shortage> parts;  // `parts`: replicas that are away
  for (size_t i = 0; i < allocation.extents.size(); ++i) {
    const auto& extent = allocation.extents[i];
    if (extent.vacant) continue;
    Shortage& part = parts[part_at(allocation, i)];
    const bool is_away = !extent.lost && away(extent);
    ++part.made, part.parts += is_away, part.left += !extent.lost && !is_away;
  }
  Shortage out;
  for (const auto& [number, part] : parts) {
    if (part.parts != 0) out.add({1, part.left, part.made});
  }
  return out;
}
/// Notes that the replica was given up (control/loss.h). False if it is not there, or noted already.
bool mark_lost(Allocation& allocation, const ExtentId& id);

/// Puts the extents of a part that goes on elsewhere in the places of those before; places for which there is no replica
/// stay vacant. With capabilities as `allocation` has them. False if `moved.was` is not there.
bool relocate(Allocation& allocation, const PartMoved& moved);
/// `now` is what a home knows of a part, `replica` was one of it and given up in the epoch `epoch_before`. False if it was
/// made again without that replica, and once since, so from one that has what was written. Else the replica goes on in it
/// under another id, or nobody knows (R8, R9 of control/loss.h).
bool may_go_on(const PartMoved& now, const ExtentId& replica, uint32_t epoch_before);
/// Takes over what another record of the same allocation knows later: parts that go on elsewhere, losses.
/// True if that was something. A reader's record has no capabilities for a writer's: of its parts only losses
/// are taken.
bool take_newer(Allocation& into, const Allocation& from);
/// What `record` has as a living replica and `newest`, of the same allocation, has given up or replaced; nothing of parts
/// of which `newest` knows no living replica.
std::vector<PlacedExtent> left_out(const Allocation& record, const Allocation& newest);
/// A session was granted the allocation once more, perhaps with another access: `record` gets the higher one
/// of both, with its capabilities, and what either knows later. False if the lower one knows later parts,
/// which stay unknown.
bool take_grant(Allocation& record, Allocation granted);

/// True if a part has only extents that were given up or for which `gone(extent, replicas)`; `replicas`: the allocation
/// has them.
template <class Gone>
bool is_lost(const Allocation& allocation, Gone gone) {
  const bool replicas = has_replicas(allocation);
  const size_t count = allocation.extents.size();
  for (size_t i = 0; i < count;) {
    const uint32_t part = allocation.extents[i].part;
    bool living = false;
    size_t next = i;
    do {
      living = living || (!allocation.extents[next].lost && !gone(allocation.extents[next], replicas));
      ++next;
    } while (replicas && next < count && allocation.extents[next].part == part);
    if (!living) return true;
    i = next;
  }
  return false;
}

}  // namespace ocm::control
