// What a session brings along when its daemon has restarted: the homes report extent by extent what they have
// for it, and its program shows receipts, which say what those extents are the allocation of.
//
// A receipt is HMAC-SHA256 by the token, which outlives the daemon, over the session and the record that the
// daemon kept. It may be old: parts that were made again meanwhile are followed when somebody asks
// (node/remaker.h), and who owns the memory is the homes' to say (P4).
#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/assert.h"
#include "control/allocation_wire.h"
#include "control/parts.h"
#include "node/sessions.h"
#include "os/crypto.h"

namespace ocm::node {

Status unsettled(const Session& session, const HeldAllocation& held) {
  const auto& extents = held.allocation.extents;
  const bool is_gone = std::all_of(extents.begin(), extents.end(), [&](const control::PlacedExtent& extent) {
    return extent.vacant || extent.lost || session.missing.contains(extent.id);
  });
  if (is_gone) return Status(Code::kRevoked, "it is gone: its nodes freed it while the daemon was away");
  return Status(Code::kPeerLost,
                "the daemon restarted, and a node with a part of it has not answered since: try again");
}

os::Digest Sessions::mac_of(const SessionId& session, std::string_view record) const {
  return receipt_mac_({session.bytes, os::bytes_of(record)});
}

std::string Sessions::receipt(const SessionId& session, const HeldAllocation& held) const {
  wire::Allocation allocation;
  control::to_wire(held.allocation, allocation);
  return receipt(session, held, allocation);
}

std::string Sessions::receipt(const SessionId& session, const HeldAllocation& held,
                              const wire::Allocation& allocation) const {
  if (core_.config.embedded) return {};
  OCM_DASSERT(held.is_valid());
  wire::HeldRecord record;
  record.set_owned(held.owned || held.claimed_quota_bytes.has_value());
  record.set_quota_bytes(held.claimed_quota_bytes.value_or(held.quota_bytes));
  for (const AllocationId& part : held.parts) record.add_part_ids(id_field(part));
  // Lent and not changed: a copy takes longer than the rest.
  record.unsafe_arena_set_allocated_allocation(const_cast<wire::Allocation*>(&allocation));
  const std::string bytes = record.SerializeAsString();
  (void)record.unsafe_arena_release_allocation();
  const os::Digest mac = mac_of(session, bytes);
  return std::string(reinterpret_cast<const char*>(mac.data()), mac.size()) + bytes;
}

Status Sessions::restore(Session& session, const wire::SessionRestore& request) {
  if (!session.resumed) return Status(Code::kInvalidArgument, "the daemon did not restart");
  Status worst;
  for (const auto& shown : request.shown()) {
    const Status restored = restore_one(session, shown);
    if (!restored.is_ok()) worst = restored;
  }
  session.refused = session.refused || !worst.is_ok();
  session.complete = session.complete || (request.complete() && !session.refused);
  look_for_missing(session);
  return worst;
}

Status Sessions::restore_one(Session& session, const wire::SessionRestore::Shown& shown) {
  OCM_DASSERT(session.resumed && session.restored_bytes <= kRestoredBytesMax);
  const std::string_view bytes = shown.receipt();
  const Status refused(Code::kAuth, "not a receipt of this session");
  if (bytes.size() < sizeof(os::Digest)) return refused;
  const std::string_view record_bytes = bytes.substr(sizeof(os::Digest));
  if (!os::equal_secrets(os::bytes_of(bytes.substr(0, sizeof(os::Digest))),
                         mac_of(session.id, record_bytes))) {
    return refused;
  }
  wire::HeldRecord record;
  if (!record.ParseFromArray(record_bytes.data(), static_cast<int>(record_bytes.size()))) return refused;
  auto read = control::from_wire(record.allocation());
  if (!read.is_ok() || !read.value().has_id() || read.value().bytes_total == 0) return refused;
  control::Allocation allocation = std::move(read).value();
  const AllocationId id = allocation.id;
  if (static_cast<size_t>(shown.holds_size()) + static_cast<size_t>(shown.freed_size()) > shown.handles())
    return Status(Code::kInvalidArgument, "the session shows more holds than it has handles");
  const auto is_hold = [](const std::string& field) {
    return field.empty() || field.size() == sizeof(AllocationId);
  };
  if (!std::all_of(shown.freed().begin(), shown.freed().end(), is_hold))
    return Status(Code::kInvalidArgument, "the id of a hold that was freed is malformed");
  // A resumption that was given up showed them before.
  const auto freed_before = session.freed.find(id);
  const size_t shown_before = freed_before == session.freed.end() ? 0 : freed_before->second.size();
  const size_t more =
      static_cast<size_t>(shown.freed_size()) - std::min<size_t>(shown_before, shown.freed_size());
  size_t hold_bytes = 0;  // of one
  if (shown.holds_size() > 0) {
    std::set<std::string_view> homes;
    for (const auto& extent : allocation.extents) homes.insert(extent.node);
    hold_bytes = kShownHoldBytes * std::max<size_t>(homes.size(), 1) +
                 kShownHoldExtentBytes * allocation.extents.size();
  }
  size_t bytes_more = more * kShownHoldBytes;
  for (const std::string& field : shown.holds()) {
    if (control::HoldId hold; read_id(field, hold) && !session.holds_shown.contains(hold))
      bytes_more += hold_bytes;
  }
  OCM_TRY(charge_restored(session, bytes_more));
  if (freed_before != session.freed.end()) session.freed.erase(freed_before);
  if (shown.freed_size() > 0) session.freed[id].assign(shown.freed().begin(), shown.freed().end());
  for (const std::string& field : shown.holds()) {
    if (control::HoldId hold; read_id(field, hold)) session.holds_shown[hold] = id;
  }
  if (const auto known = session.allocations.find(id);
      known != session.allocations.end() && known->second.is_whole()) {
    (void)session.allocations.take_grant(known, allocation);
    const auto before = static_cast<uint32_t>(std::min<size_t>(shown_before, known->second.handles));
    known->second.handles = std::max({known->second.handles - before, shown.handles(), 1u});
    known->second.may_be_named = known->second.may_be_named || shown.may_be_named();
    return {};
  }
  HeldAllocation held;
  if (!record.owned()) {
    OCM_TRY_ASSIGN(held.record, charge_record(session.uid, record.allocation().ByteSizeLong()));
  }
  OCM_TRY(charge_restored(session, kShownRecordBytes + control::kKeptBytesPerWireByte * bytes.size()));
  held.allocation = std::move(allocation);
  held.owned = false;
  held.handles = std::max(shown.handles(), 1u);
  held.may_be_named = shown.may_be_named();
  for (const std::string& field : record.part_ids()) {
    if (AllocationId part; read_id(field, part)) held.parts.push_back(part);
  }
  if (record.owned()) {
    held.claimed_quota_bytes = record.quota_bytes();
    if (absorb(session, held)) own(session, held);
  }
  OCM_DASSERT(held.is_valid() && held.is_whole() && held.handles > 0);
  session.allocations.put(id, std::move(held));
  return {};
}

Status Sessions::charge_restored(Session& session, size_t bytes) {
  OCM_DASSERT(session.restored_bytes <= kRestoredBytesMax);
  if (session.restored_bytes == 0 && !is_privileged(session.uid))
    session.restored = control::Charge(restored_.of(session.uid));
  if (bytes > kRestoredBytesMax - session.restored_bytes)
    return Status(Code::kLimit, "the session shows more than it may hold after a restart");
  if (!session.restored.resize(session.restored_bytes + bytes)) {
    return Status(Code::kLimit, "the sessions of uid " + std::to_string(session.uid) +
                                    " show more than a user may hold after a restart of node " + core_.name)
        .with_node(core_.name);
  }
  session.restored_bytes += bytes;
  return {};
}

bool Sessions::is_missing(const Session& session, const control::PlacedExtent& extent) const {
  const ExtentId id = extent.id;
  if (extent.vacant || extent.lost) return false;
  if (extent.node == core_.name) return id.address.partition() != core_.partition;  // with the daemon
  const auto told = session.told.find(extent.node);
  return told != session.told.end() && !told->second.contains(id);
}

bool Sessions::look_for_missing(Session& session, const Extents& extents) const {
  if (!session.complete) return false;
  bool any = false;
  for (const auto& extent : extents) {
    if (is_missing(session, extent)) any = session.missing.insert(extent.id).second || any;
  }
  return any;
}

void Sessions::look_for_missing(Session& session) const {
  if (!session.complete) return;
  for (const auto& [id, held] : session.allocations) {
    if (held.is_whole() && (held.owned || held.claimed_quota_bytes))
      (void)look_for_missing(session, held.allocation.extents);
  }
}

void Sessions::report(Session& session, const std::string& node, const control::SessionExtents& extents) {
  auto& told = session.told[node];
  told.clear();
  for (const auto& one : extents.extents) told.insert(one.extent.id);
  look_for_missing(session);
  if (extents.extents.empty()) return;  // what was reported before is settled
  std::unordered_set<uint64_t> known, in_records;
  for (const auto& [id, held] : session.allocations) {
    if (!held.is_whole()) continue;
    for (const auto& extent : held.allocation.extents)
      (held.owned ? known : in_records).insert(extent.id.address.bits());
  }
  std::unordered_map<AllocationId, HeldAllocation*> joined;  // by its parts
  for (auto& [id, held] : session.allocations) {
    for (const AllocationId& part : held.parts) joined[part] = &held;
  }
  for (const auto& one : extents.extents) {
    const AllocationId& id = one.allocation;
    const uint64_t address = one.extent.id.address.bits();
    if (known.contains(address) || session.given_back.contains(one.extent.id)) continue;
    if (session.making.contains(id)) continue;
    const bool is_older = !in_records.contains(address);  // made again after the receipt was given
    if (const auto of = joined.find(id); of != joined.end()) {
      if (is_older) note_outdated(session, *of->second);
      own(session, *of->second);
      continue;
    }
    const auto whole = session.allocations.find(id);
    if (whole != session.allocations.end() && whole->second.is_whole()) {
      if (is_older) note_outdated(session, whole->second);
      own(session, whole->second);
      continue;
    }
    if (!session.reported.emplace(address, id).second) continue;
    HeldAllocation& entry = session.allocations.reported(id);
    OCM_DASSERT(!entry.is_whole());
    entry.allocation.id = id;
    entry.allocation.owner_uid = session.uid;
    entry.allocation.access = Access::kReadWrite;
    entry.allocation.extents.push_back(one.extent);
    session.bytes_held += one.extent.bytes;
  }
  settle(session);
}

std::map<std::string, std::vector<ExtentDescriptor>> Sessions::take_unclaimed(Session& session) {
  std::map<std::string, std::vector<ExtentDescriptor>> out;
  if (!session.complete || session.ended) return out;
  std::unordered_set<AllocationId> parts;  // made again, they have other addresses
  for (const auto& [id, held] : session.allocations) parts.insert(held.parts.begin(), held.parts.end());
  for (auto it = session.allocations.begin(); it != session.allocations.end();) {
    if (it->second.is_whole() || parts.contains(it->first)) {
      ++it;
      continue;
    }
    for (auto& extent : it->second.allocation.extents) {
      session.reported.erase(extent.id.address.bits());
      session.given_back.insert(extent.id);
      session.bytes_held -= std::min(session.bytes_held, extent.bytes);
      out[extent.node].push_back(std::move(extent));
    }
    it = session.allocations.erase(it);
  }
  return out;
}

void Sessions::settle(Session& session) {
  for (auto& [id, held] : session.allocations) settle(session, held);
}

void Sessions::settle(Session& session, HeldAllocation& held) {
  if (held.claimed_quota_bytes && absorb(session, held)) own(session, held);
}

/// Removes what is there because of reports only, and is `held`'s. False if there was nothing.
bool Sessions::absorb(Session& session, const HeldAllocation& held) {
  std::vector<AllocationId> ids{
      held.allocation.id};  // a part of what was joined is known by an id of its own
  for (const auto& extent : held.allocation.extents) {
    if (const auto said = session.reported.find(extent.id.address.bits()); said != session.reported.end())
      ids.push_back(said->second);
  }
  ids.insert(ids.end(), held.parts.begin(), held.parts.end());  // made again, it has other addresses
  std::unordered_set<uint64_t> known;
  for (const auto& extent : held.allocation.extents) known.insert(extent.id.address.bits());
  bool found = false;
  for (const AllocationId& id : ids) {
    const auto entry = session.allocations.find(id);
    if (entry == session.allocations.end() || entry->second.is_whole()) continue;
    for (const auto& extent : entry->second.allocation.extents) {
      if (!known.contains(extent.id.address.bits())) note_outdated(session, held);
      session.reported.erase(extent.id.address.bits());
      session.bytes_held -= std::min(session.bytes_held, extent.bytes);
    }
    session.allocations.erase(entry);
    found = true;
  }
  return found;
}

void Sessions::note_outdated(Session& session, const HeldAllocation& held) {
  session.outdated.insert(held.allocation.id);
}

void Sessions::own(Session& session, HeldAllocation& held) {
  if (!held.claimed_quota_bytes) return;
  OCM_DASSERT(!held.owned);  // P4
  held.owned = true;
  held.quota_bytes = *held.claimed_quota_bytes;
  held.claimed_quota_bytes.reset();
  session.bytes_held += held.quota_bytes;
  uid_bytes_[session.uid] += held.quota_bytes;  // it is there: nothing is refused
}

}  // namespace ocm::node
