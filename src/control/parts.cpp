#include "control/parts.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <unordered_set>

#include "base/assert.h"
#include "control/placement.h"
#include "os/crypto.h"

namespace ocm::control {
namespace {

static_assert(kSequenceExtentsMax >= static_cast<int>(kReplicasMax), "a part fits into a sequence");

bool is(const wire::Allocation& allocation, Layout layout) {
  return allocation.layout() == static_cast<uint32_t>(layout);
}

bool is_extent(const wire::ExtentDescriptor& extent, const ExtentId& id) {
  return extent.address() == id.address.bits() && extent.generation() == id.generation;
}

Status bad(const char* what) { return Status(Code::kInvalidArgument, std::string("a sequence ") + what); }

Status check_lengths(const wire::Allocation& sequence) {
  uint64_t sum = 0;
  for (const uint64_t bytes : sequence.part_bytes()) {
    if (bytes == 0 || __builtin_add_overflow(sum, bytes, &sum)) return bad("with an impossible length");
  }
  return sum == sequence.bytes_total() ? Status() : bad("whose lengths do not add up");
}

Status check_joinable(const wire::Allocation& part, bool replicas) {
  if (!is(part, Layout::kSingle) && !is(part, Layout::kReplicated)) {
    return Status(Code::kUnsupported, "parts are single or replicated allocations");
  }
  if (has_replicas(part) != replicas) {
    return Status(Code::kInvalidArgument, "either all parts are replicated or none is");
  }
  return {};
}

void add_home(const wire::ExtentDescriptor& extent, wire::Allocation& sequence) {
  for (const auto& home : sequence.homes()) {
    if (home.node() == extent.node()) return;
  }
  auto& home = *sequence.add_homes();
  home.set_node(extent.node());
  *home.mutable_addresses() = extent.addresses();
}

bool is_readers(const wire::Allocation& allocation) {
  return allocation.access() == static_cast<uint32_t>(Access::kRead);
}

/// `from` at the place of `into`. `full_capability`: it has the read-write capability, which a reader's record never gets.
void take_place(wire::Allocation& allocation, wire::ExtentDescriptor& into,
                const wire::ExtentDescriptor& from, bool full_capability) {
  const uint32_t part = into.part();
  if (!from.node().empty() && is(allocation, Layout::kSequence)) add_home(from, allocation);
  into = from;
  into.set_part(part);
  if (is(allocation, Layout::kSequence)) into.clear_addresses();
  Capability full;
  if (!full_capability || !is_readers(allocation) || from.capability().size() != full.bytes.size()) return;
  std::memcpy(full.bytes.data(), from.capability().data(), full.bytes.size());
  const Capability read = os::read_capability(full);
  into.set_capability(read.bytes.data(), read.bytes.size());
}

}  // namespace

bool has_replicas(const wire::Allocation& allocation) {
  return is(allocation, Layout::kReplicated) ||
         (is(allocation, Layout::kSequence) && allocation.replicated_parts());
}

uint32_t part_at(const wire::Allocation& allocation, int place) {
  return is(allocation, Layout::kStriped) ? static_cast<uint32_t>(place) : allocation.extents(place).part();
}

Status check_parts(const wire::Allocation& allocation) {
  if (allocation.layout() > static_cast<uint32_t>(Layout::kSequence)) {
    return Status(Code::kInvalidArgument, "unknown layout");
  }
  if (!is(allocation, Layout::kSequence)) return {};
  if (allocation.extents_size() > kSequenceExtentsMax || allocation.homes_size() > kSequenceExtentsMax) {
    return Status(Code::kTooLarge,
                  "a sequence has at most " + std::to_string(kSequenceExtentsMax) + " extents");
  }
  OCM_TRY(check_lengths(allocation));
  const uint32_t most = allocation.replicated_parts() ? kReplicasMax : 1;
  uint32_t parts = 0, held = 0;  // parts begun, and extents of the last one
  for (const auto& extent : allocation.extents()) {
    if (parts == 0 || extent.part() != parts - 1) {
      ++parts;
      held = 0;
    }
    if (extent.part() != parts - 1 || ++held > most) return bad("whose extents are out of order");
    if (parts > static_cast<uint32_t>(allocation.part_bytes_size()))
      return bad("with more extents than parts");
    if (extent.bytes() < allocation.part_bytes(static_cast<int>(parts) - 1))
      return bad("with a short extent");
  }
  return parts == static_cast<uint32_t>(allocation.part_bytes_size()) ? Status() : bad("with an empty part");
}

Result<wire::Allocation> join(std::span<const wire::Allocation* const> parts) {
  if (parts.empty()) return Status(Code::kInvalidArgument, "there is nothing to join");
  const wire::Allocation& first = *parts.front();
  wire::Allocation out;
  out.set_kind(first.kind());
  out.set_layout(static_cast<uint32_t>(Layout::kSequence));
  out.set_access(first.access());
  out.set_owner_uid(first.owner_uid());
  out.set_replicated_parts(has_replicas(first));
  uint64_t bytes = 0;
  std::unordered_set<std::string> homes;
  for (size_t i = 0; i < parts.size(); ++i) {
    OCM_DASSERT(parts[i] != nullptr);
    const wire::Allocation& part = *parts[i];
    OCM_TRY(check_joinable(part, out.replicated_parts()));
    if (part.kind() != first.kind()) return Status(Code::kUnsupported, "parts are of one kind of memory");
    if (__builtin_add_overflow(bytes, part.bytes_total(), &bytes) || bytes > kAllocationBytesMax) {
      return Status(Code::kTooLarge, "the parts are longer together than an allocation can be");
    }
    out.add_part_bytes(part.bytes_total());
    for (const auto& from : part.extents()) {
      if (homes.insert(from.node()).second) {
        auto& home = *out.add_homes();
        home.set_node(from.node());
        *home.mutable_addresses() = from.addresses();
      }
      auto& extent = *out.add_extents();
      extent = from;
      extent.clear_addresses();
      extent.set_part(static_cast<uint32_t>(i));
    }
    if (out.extents_size() > kSequenceExtentsMax) break;  // check_parts() says so
  }
  out.set_bytes_total(bytes);
  OCM_TRY(check_parts(out));
  OCM_DASSERT(out.part_bytes_size() == static_cast<int>(parts.size()));  // J1
  OCM_DASSERT(out.extents_size() >= out.part_bytes_size());              // J1
  OCM_DASSERT(bytes > 0 && bytes <= kAllocationBytesMax);                // J2
  OCM_DASSERT(out.homes_size() == static_cast<int>(homes.size()));
  return out;
}

bool relocate(wire::Allocation& allocation, const wire::PartMoved& moved) {
  if (moved.now_size() == 0) return false;
  const ExtentId was = id_of(moved.was());
  auto& extents = *allocation.mutable_extents();
  int first = -1;
  for (int i = 0; i < extents.size() && first < 0; ++i) {
    if (is_extent(extents[i], was)) first = i;
  }
  if (first < 0) return false;
  const uint32_t part = part_at(allocation, first);
  int next = 1;  // of the new ones
  for (int i = 0; i < extents.size(); ++i) {
    if (part_at(allocation, i) != part) continue;
    if (i == first) {
      take_place(allocation, extents[i], moved.now(0), true);
    } else if (next < moved.now_size()) {
      take_place(allocation, extents[i], moved.now(next++), true);
    } else {
      extents[i].set_lost(true);
      extents[i].set_vacant(true);
    }
    extents[i].set_epoch(moved.epoch());
  }
  OCM_DASSERT(next <= moved.now_size() && is_extent(extents[first], id_of(moved.now(0))));
  return true;
}

bool may_go_on(const wire::PartMoved& now, const ExtentId& replica, uint32_t epoch_before) {
  OCM_DASSERT(now.now_size() > 0);
  const bool led = id_of(now.now(0)).address.partition() == replica.address.partition();
  const bool followed = std::any_of(now.peers().begin(), now.peers().end(),
                                    [&](const auto& peer) { return id_of(peer) == replica; });
  return led || followed || now.epoch() != epoch_before + 1;
}

namespace {

/// Marks the replica lost, which is of the part at `at`, unless it is the last of it: then one of the records is of
/// voters that forgot.
bool mark_one_lost(wire::Allocation& allocation, int at, const ExtentId& id) {
  auto& extents = *allocation.mutable_extents();
  OCM_DASSERT(at >= 0 && at < extents.size());
  const uint32_t part = extents[at].part();
  int i = at;
  while (i > 0 && extents[i - 1].part() == part) --i;
  wire::ExtentDescriptor* found = nullptr;
  bool other = false;
  for (; i < extents.size() && extents[i].part() == part; ++i) {
    if (is_extent(extents[i], id))
      found = &extents[i];
    else
      other = other || (!extents[i].lost() && !extents[i].vacant());
  }
  if (found == nullptr || found->lost() || !other) return false;
  found->set_lost(true);
  return true;
}

}  // namespace

bool take_newer(wire::Allocation& into, const wire::Allocation& from) {
  if (into.allocation_id() != from.allocation_id() || into.extents_size() != from.extents_size())
    return false;
  bool changed = false;
  const bool lower = is_readers(from) && !is_readers(into);
  for (int i = 0; i < into.extents_size(); ++i) {
    auto& mine = *into.mutable_extents(i);
    const auto& theirs = from.extents(i);
    if (theirs.part() != mine.part()) return changed;
    if (theirs.epoch() > mine.epoch()) {
      if (lower) continue;
      wire::ExtentDescriptor newer = theirs;
      for (const auto& home : from.homes()) {
        if (home.node() == theirs.node()) *newer.mutable_addresses() = home.addresses();
      }
      take_place(into, mine, newer, !is_readers(from));
      changed = true;
    } else if (theirs.epoch() == mine.epoch() && theirs.lost() && !theirs.vacant()) {
      // By id: of a part that was made again records may have different orders.
      changed = mark_one_lost(into, i, id_of(theirs)) || changed;
    }
  }
  return changed;
}

std::vector<wire::ExtentDescriptor> left_out(const wire::Allocation& record, const wire::Allocation& newest) {
  std::vector<wire::ExtentDescriptor> out;
  if (!has_replicas(newest) || record.extents_size() != newest.extents_size()) return out;
  const auto same = [](const auto& a, const auto& b) {
    return id_of(a) == id_of(b) && a.lost() == b.lost() && a.vacant() == b.vacant();
  };
  // As most reports are.
  if (std::equal(record.extents().begin(), record.extents().end(), newest.extents().begin(), same))
    return out;
  std::set<ExtentId> living, lost;
  std::set<uint32_t> parts;  // that have a living replica
  for (const auto& extent : newest.extents()) {
    if (extent.vacant()) continue;
    (extent.lost() ? lost : living).insert(id_of(extent));
    if (!extent.lost()) parts.insert(extent.part());
  }
  for (int i = 0; i < record.extents_size(); ++i) {
    const auto& extent = record.extents(i);
    const bool kept = living.contains(id_of(extent)) || !parts.contains(extent.part());
    if (extent.lost() || extent.vacant() || kept) continue;
    // Of two records that know a part as often made again neither knows more.
    const bool replaced =
        newest.extents(i).part() == extent.part() && newest.extents(i).epoch() > extent.epoch();
    if (replaced || lost.contains(id_of(extent))) out.push_back(extent);
  }
  return out;
}

bool take_grant(wire::Allocation& record, wire::Allocation granted) {
  if (is_readers(record) && !is_readers(granted)) record.Swap(&granted);
  OCM_DASSERT(!is_readers(record) || is_readers(granted));
  (void)take_newer(record, granted);
  return std::equal(record.extents().begin(), record.extents().end(), granted.extents().begin(),
                    granted.extents().end(),
                    [](const auto& mine, const auto& theirs) { return mine.epoch() >= theirs.epoch(); });
}

std::vector<ExtentId> part_of(const wire::Allocation& allocation, const ExtentId& id) {
  std::vector<ExtentId> out;
  for (int i = 0; i < allocation.extents_size(); ++i) {
    if (!is_extent(allocation.extents(i), id) || allocation.extents(i).vacant()) continue;
    for (int j = 0; j < allocation.extents_size(); ++j) {
      const auto& other = allocation.extents(j);
      if (part_at(allocation, j) == part_at(allocation, i) && !other.vacant()) out.push_back(id_of(other));
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

bool mark_lost(wire::Allocation& allocation, const ExtentId& id) {
  if (!has_replicas(allocation)) return false;
  for (auto& extent : *allocation.mutable_extents()) {
    if (!is_extent(extent, id)) continue;
    const bool fresh = !extent.lost();
    extent.set_lost(true);
    return fresh;
  }
  return false;
}

}  // namespace ocm::control
