#include "control/parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>

#include "base/assert.h"
#include "control/placement.h"
#include "os/crypto.h"

namespace ocm::control {
namespace {

static_assert(kSequenceExtentsMax >= kReplicasMax, "a part fits into a sequence");

Status bad(const char* what) { return Status(Code::kInvalidArgument, std::string("a sequence ") + what); }

Status check_lengths(const Allocation& sequence) {
  uint64_t sum = 0;
  for (const uint64_t bytes : sequence.part_bytes) {
    if (bytes == 0 || __builtin_add_overflow(sum, bytes, &sum)) return bad("with an impossible length");
  }
  return sum == sequence.bytes_total ? Status() : bad("whose lengths do not add up");
}

Status check_joinable(const Allocation& part, bool replicas) {
  if (part.layout != Layout::kSingle && part.layout != Layout::kReplicated) {
    return Status(Code::kUnsupported, std::string("a part has layout ") + layout_name(part.layout) +
                                          ": join allocations of layout single or replicated");
  }
  if (has_replicas(part) != replicas) {
    return Status(Code::kInvalidArgument,
                  "some parts are replicated and others are not: replicate all or none");
  }
  return {};
}

void add_home(const PlacedExtent& extent, Allocation& sequence) {
  for (const auto& home : sequence.homes) {
    if (home.node == extent.node) return;
  }
  sequence.homes.push_back({extent.node, extent.addresses});
}

bool is_readers(const Allocation& allocation) { return allocation.access == Access::kRead; }

/// `from` at the place of `into`. `full_capability`: it has the read-write capability, which a reader's record never gets.
void take_place(Allocation& allocation, PlacedExtent& into, const PlacedExtent& from, bool full_capability) {
  const uint32_t part = into.part;
  if (!from.node.empty() && allocation.layout == Layout::kSequence) add_home(from, allocation);
  into = from;
  into.part = part;
  if (allocation.layout == Layout::kSequence) into.addresses.clear();
  if (full_capability && is_readers(allocation)) into.capability = os::read_capability(from.capability);
}

}  // namespace

bool has_replicas(const Allocation& allocation) {
  return allocation.layout == Layout::kReplicated ||
         (allocation.layout == Layout::kSequence && allocation.replicated_parts);
}

uint32_t part_at(const Allocation& allocation, size_t place) {
  return allocation.layout == Layout::kStriped ? static_cast<uint32_t>(place)
                                               : allocation.extents[place].part;
}

Status check_parts(const Allocation& allocation) {
  if (allocation.layout != Layout::kSequence) return {};
  if (allocation.extents.size() > kSequenceExtentsMax || allocation.homes.size() > kSequenceExtentsMax) {
    return Status(Code::kTooLarge,
                  "the sequence has more extents or nodes than " + std::to_string(kSequenceExtentsMax));
  }
  OCM_TRY(check_lengths(allocation));
  const uint32_t most = allocation.replicated_parts ? kReplicasMax : 1;
  uint32_t parts = 0, held = 0;  // parts begun, and extents of the last one
  for (const auto& extent : allocation.extents) {
    if (parts == 0 || extent.part != parts - 1) {
      ++parts;
      held = 0;
    }
    if (extent.part != parts - 1 || ++held > most) return bad("whose extents are out of order");
    if (parts > allocation.part_bytes.size()) return bad("with more extents than parts");
    if (extent.bytes < allocation.part_bytes[parts - 1]) return bad("with a short extent");
  }
  return parts == allocation.part_bytes.size() ? Status() : bad("with an empty part");
}

Result<Allocation> join(std::span<const Allocation* const> parts) {
  if (parts.empty())
    return Status(Code::kInvalidArgument, "no parts are given: join at least one allocation");
  const Allocation& first = *parts.front();
  Allocation out;
  out.kind = first.kind;
  out.durable = out.coherent = true;
  out.layout = Layout::kSequence;
  out.access = first.access;
  out.owner_uid = first.owner_uid;
  out.replicated_parts = has_replicas(first);
  uint64_t bytes = 0;
  std::unordered_set<std::string> homes;
  for (size_t i = 0; i < parts.size(); ++i) {
    OCM_DASSERT(parts[i] != nullptr);
    const Allocation& part = *parts[i];
    OCM_TRY(check_joinable(part, out.replicated_parts));
    if (part.kind != first.kind) {
      return Status(Code::kUnsupported, "part " + std::to_string(i) + " is of kind " + kind_name(part.kind) +
                                            ", and part 0 of kind " + kind_name(first.kind) +
                                            ": join parts of one kind");
    }
    out.durable = out.durable && part.durable;
    out.coherent = out.coherent && part.coherent;
    if (__builtin_add_overflow(bytes, part.bytes_total, &bytes) || bytes > kAllocationBytesMax) {
      return Status(Code::kTooLarge, "the parts are longer together than an allocation can be");
    }
    out.part_bytes.push_back(part.bytes_total);
    for (const auto& from : part.extents) {
      if (homes.insert(from.node).second) out.homes.push_back({from.node, from.addresses});
      PlacedExtent& extent = out.extents.emplace_back(from);
      extent.addresses.clear();
      extent.part = static_cast<uint32_t>(i);
    }
    if (out.extents.size() > kSequenceExtentsMax) break;  // check_parts() says so
  }
  out.bytes_total = bytes;
  OCM_TRY(check_parts(out));
  OCM_DASSERT(out.part_bytes.size() == parts.size());        // J1
  OCM_DASSERT(out.extents.size() >= out.part_bytes.size());  // J1
  OCM_DASSERT(bytes > 0 && bytes <= kAllocationBytesMax);    // J2
  OCM_DASSERT(out.homes.size() == homes.size());
  return out;
}

bool relocate(Allocation& allocation, const PartMoved& moved) {
  if (moved.now.empty()) return false;
  auto& extents = allocation.extents;
  const auto at = std::find_if(extents.begin(), extents.end(),
                               [&](const PlacedExtent& one) { return one.id == moved.was; });
  if (at == extents.end()) return false;
  const auto first = static_cast<size_t>(at - extents.begin());
  const uint32_t part = part_at(allocation, first);
  size_t next = 1;  // of the new ones
  for (size_t i = 0; i < extents.size(); ++i) {
    if (part_at(allocation, i) != part) continue;
    if (i == first) {
      take_place(allocation, extents[i], moved.now[0], true);
    } else if (next < moved.now.size()) {
      take_place(allocation, extents[i], moved.now[next++], true);
    } else {
      extents[i].lost = true;
      extents[i].vacant = true;
    }
    extents[i].epoch = moved.epoch;
  }
  OCM_DASSERT(next <= moved.now.size() && extents[first].id == moved.now[0].id);
  return true;
}

bool may_go_on(const PartMoved& now, const ExtentId& replica, uint32_t epoch_before) {
  OCM_DASSERT(!now.now.empty());
  const bool led = now.now[0].id.address.partition() == replica.address.partition();
  const bool followed = std::find(now.peers.begin(), now.peers.end(), replica) != now.peers.end();
  return led || followed || now.epoch != epoch_before + 1;
}

namespace {

/// Marks the replica lost, which is of the part at `at`, unless it is the last of it: then one of the records is of
/// voters that forgot.
bool mark_one_lost(Allocation& allocation, size_t at, const ExtentId& id) {
  auto& extents = allocation.extents;
  OCM_DASSERT(at < extents.size());
  const uint32_t part = extents[at].part;
  size_t i = at;
  while (i > 0 && extents[i - 1].part == part) --i;
  PlacedExtent* found = nullptr;
  bool other = false;
  for (; i < extents.size() && extents[i].part == part; ++i) {
    if (extents[i].id == id)
      found = &extents[i];
    else
      other = other || (!extents[i].lost && !extents[i].vacant);
  }
  if (found == nullptr || found->lost || !other) return false;
  found->lost = true;
  return true;
}

}  // namespace

bool take_newer(Allocation& into, const Allocation& from) {
  if (into.id != from.id || into.extents.size() != from.extents.size()) return false;
  bool changed = false;
  const bool lower = is_readers(from) && !is_readers(into);
  for (size_t i = 0; i < into.extents.size(); ++i) {
    auto& mine = into.extents[i];
    const auto& theirs = from.extents[i];
    if (theirs.part != mine.part) return changed;
    if (theirs.epoch > mine.epoch) {
      if (lower) continue;
      PlacedExtent newer = theirs;
      for (const auto& home : from.homes) {
        if (home.node == theirs.node) newer.addresses = home.addresses;
      }
      take_place(into, mine, newer, !is_readers(from));
      changed = true;
    } else if (theirs.epoch == mine.epoch && theirs.lost && !theirs.vacant) {
      // By id: of a part that was made again records may have different orders.
      changed = mark_one_lost(into, i, theirs.id) || changed;
    }
  }
  return changed;
}

std::vector<PlacedExtent> left_out(const Allocation& record, const Allocation& newest) {
  std::vector<PlacedExtent> out;
  if (!has_replicas(newest) || record.extents.size() != newest.extents.size()) return out;
  const auto same = [](const auto& a, const auto& b) {
    return a.id == b.id && a.lost == b.lost && a.vacant == b.vacant;
  };
  // As most reports are.
  if (std::equal(record.extents.begin(), record.extents.end(), newest.extents.begin(), same)) return out;
  std::set<ExtentId> living, lost;
  std::set<uint32_t> parts;  // that have a living replica
  for (const auto& extent : newest.extents) {
    if (extent.vacant) continue;
    (extent.lost ? lost : living).insert(extent.id);
    if (!extent.lost) parts.insert(extent.part);
  }
  for (size_t i = 0; i < record.extents.size(); ++i) {
    const auto& extent = record.extents[i];
    const bool kept = living.contains(extent.id) || !parts.contains(extent.part);
    if (extent.lost || extent.vacant || kept) continue;
    // Of two records that know a part as often made again neither knows more.
    const bool replaced = newest.extents[i].part == extent.part && newest.extents[i].epoch > extent.epoch;
    if (replaced || lost.contains(extent.id)) out.push_back(extent);
  }
  return out;
}

bool take_grant(Allocation& record, Allocation granted) {
  if (is_readers(record) && !is_readers(granted)) std::swap(record, granted);
  OCM_DASSERT(!is_readers(record) || is_readers(granted));
  (void)take_newer(record, granted);
  return std::equal(record.extents.begin(), record.extents.end(), granted.extents.begin(),
                    granted.extents.end(),
                    [](const auto& mine, const auto& theirs) { return mine.epoch >= theirs.epoch; });
}

std::vector<ExtentId> part_of(const Allocation& allocation, const ExtentId& id) {
  std::vector<ExtentId> out;
  for (size_t i = 0; i < allocation.extents.size(); ++i) {
    if (allocation.extents[i].id != id || allocation.extents[i].vacant) continue;
    for (size_t j = 0; j < allocation.extents.size(); ++j) {
      const auto& other = allocation.extents[j];
      if (part_at(allocation, j) == part_at(allocation, i) && !other.vacant) out.push_back(other.id);
    }
    break;
  }
  std::sort(out.begin(), out.end());
  OCM_DASSERT(out.empty() || std::binary_search(out.begin(), out.end(), id));
  return out;
}

void Shortage::add(const Shortage& other) {
  OCM_DASSERT(other.left <= other.made && left <= made);
  if (other.parts != 0 && (parts == 0 || other.left < left)) left = other.left, made = other.made;
  parts += other.parts;
}

bool mark_lost(Allocation& allocation, const ExtentId& id) {
  if (!has_replicas(allocation)) return false;
  for (auto& extent : allocation.extents) {
    if (extent.id != id) continue;
    const bool fresh = !extent.lost;
    extent.lost = true;
    return fresh;
  }
  return false;
}

}  // namespace ocm::control
