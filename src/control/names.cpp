#include "control/names.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/fault.h"
#include "base/share.h"
#include "control/parts.h"
#include "os/crypto.h"

namespace ocm::control {
namespace {

// A name in conflict has ".conflict-", 8 digits, and perhaps '-' and a number of 20 digits.
static_assert(kNameBytesMax > 10 + 8 + 1 + 20);
static_assert((kModeDefault & ~0777u) == 0);

/// Sets the default, too. Errors: kInvalidArgument.
Status check_mode(wire::Allocation& allocation) {
  if (allocation.mode() == 0) allocation.set_mode(kModeDefault);
  if ((allocation.mode() & ~0777u) != 0) return Status(Code::kInvalidArgument, "mode has bits outside 0777");
  return {};
}

}  // namespace

std::string name_in_conflict(const wire::Allocation& allocation, const std::string& more) {
  const std::string& id = allocation.allocation_id();
  const std::string end =
      ".conflict-" + to_hex(reinterpret_cast<const std::byte*>(id.data()), std::min<size_t>(id.size(), 4)) +
      more;
  OCM_DASSERT(end.size() < kNameBytesMax);
  size_t bytes = std::min(allocation.name().size(), kNameBytesMax - end.size());
  while (bytes > 0 && (static_cast<unsigned char>(allocation.name()[bytes]) & 0xc0) == 0x80)
    --bytes;  // whole characters
  return allocation.name().substr(0, bytes) + end;
}

bool may_access(uint32_t mode, uint32_t owner, uint32_t uid, Access access) {
  if (uid == 0) return true;
  const uint32_t bits = uid == owner ? (mode >> 6) & 7 : mode & 7;
  const uint32_t wanted = access == Access::kRead ? 4 : 6;
  return (bits & wanted) == wanted;
}

void Names::index(const wire::Allocation& allocation, bool add) {
  ++version_;
  OCM_DASSERT(ids_.contains(allocation.allocation_id()) != add);  // N1
  if (add) {
    ids_[allocation.allocation_id()] = allocation.name();
    ++by_uid_[allocation.owner_uid()];
  } else {
    ids_.erase(allocation.allocation_id());
    const auto mine = by_uid_.find(allocation.owner_uid());
    OCM_DASSERT(mine != by_uid_.end() && mine->second > 0);
    if (--mine->second == 0) by_uid_.erase(mine);
  }
  if (!has_replicas(allocation)) return;
  for (const auto& extent : allocation.extents()) {
    if (add) {
      replicas_[id_of(extent)] = allocation.name();
    } else {
      replicas_.erase(id_of(extent));
    }
  }
}

bool Names::has_replicas_of_others(const wire::Allocation& allocation) const {
  if (!has_replicas(allocation)) return false;
  return std::any_of(allocation.extents().begin(), allocation.extents().end(), [&](const auto& extent) {
    const auto known = replicas_.find(id_of(extent));
    return known != replicas_.end() && known->second != allocation.name();
  });
}

bool Names::replace(wire::Allocation& mine, wire::Allocation newer) {
  OCM_DASSERT(newer.allocation_id() == mine.allocation_id() && newer.name() == mine.name());
  OCM_DASSERT(newer.owner_uid() == mine.owner_uid());
  if (has_replicas_of_others(newer)) return false;
  index(mine, false);
  mine = std::move(newer);
  index(mine, true);
  return true;
}

Status Names::publish(wire::Allocation allocation) {
  const auto mine = names_.find(allocation.name());
  if (mine != names_.end() && mine->second.allocation_id() == allocation.allocation_id()) {
    if (allocation.owner_uid() != 0 && allocation.owner_uid() != mine->second.owner_uid())
      return Status(Code::kExists, "the allocation is published already, by another user");
    OCM_TRY(check_mode(allocation));
    mine->second.set_mode(allocation.mode());
    return {};
  }
  if (removed_.contains(allocation.allocation_id()))
    return Status(Code::kRevoked, "the allocation was published before, and removed");
  const std::string whole = allocation.name().substr(0, allocation.name().find('~'));
  const wire::Allocation* known = whole != allocation.name() ? find(whole) : nullptr;
  if (known != nullptr) {
    const uint32_t uid = allocation.owner_uid(), owner = known->owner_uid();
    if (uid != 0 && uid != owner) {
      return Status(Code::kPermission, "uid " + std::to_string(uid) + " may not publish " + whole +
                                           "~..., for " + whole + " belongs to uid " + std::to_string(owner));
    }
    allocation.set_owner_uid(owner);
  }
  return take(std::move(allocation));
}

Status Names::take(wire::Allocation allocation, bool reported) {
  OCM_TRY(check_name(allocation.name()));
  if (allocation.allocation_id().size() != 16 || allocation.extents_size() == 0) {
    return Status(Code::kInvalidArgument, "an allocation to publish has an id and extents");
  }
  OCM_TRY(check_parts(allocation));
  OCM_TRY(check_mode(allocation));
  if (names_.contains(allocation.name()))
    return Status(Code::kExists, "the name " + allocation.name() + " is taken");
  const auto known = ids_.find(allocation.allocation_id());
  if (known != ids_.end()) {
    return Status(Code::kExists, "the allocation is published already, as " + known->second);
  }
  // What homes report was given its name when there was room, and its memory is there.
  if (names_.size() >= names_max_ && !reported) {
    return Status(Code::kLimit, "the cluster holds at most " + std::to_string(names_max_) + " names");
  }
  if (has_replicas_of_others(allocation))
    return Status(Code::kExists, "a replica of the allocation is published already, under another name");
  const uint32_t uid = allocation.owner_uid();
  const auto count_of = [this](uint32_t user) {
    const auto of = by_uid_.find(user);
    return of == by_uid_.end() ? size_t{0} : of->second;
  };
  const size_t mine = count_of(uid);
  OCM_DASSERT(mine <= names_.size());
  const size_t users = names_.size() - count_of(0) - (privileged_ == 0 ? 0 : count_of(privileged_));
  switch (used_up_share(reported || uid == 0 || uid == privileged_, mine, users, names_max_)) {
    case Share::kOk: break;
    case Share::kOfAllUsers:
      return Status(Code::kLimit,
                    "the cluster keeps its last names for root ([limits] names of the coordinator): the "
                    "users have " +
                        std::to_string(users));
    case Share::kOfOneUser:
      return Status(Code::kLimit, "uid " + std::to_string(uid) + " has " + std::to_string(mine) +
                                      " names, all that one user may have of the cluster's " +
                                      std::to_string(names_max_) +
                                      " ([limits] names of the coordinator): remove some");
  }
  index(allocation, true);
  std::string name = allocation.name();
  names_.emplace(std::move(name), std::move(allocation));
  OCM_DASSERT(names_.size() == ids_.size());  // N1
  return {};
}

Result<wire::Allocation> Names::attach(const std::string& name, Access access, uint32_t uid) const {
  const auto it = names_.find(name);
  if (it == names_.end())
    return Status(Code::kNotFound, "no published allocation is named " + name.substr(0, kNameBytesMax));
  const wire::Allocation& found = it->second;
  if (!may_access(found.mode(), found.owner_uid(), uid, access)) {
    return Status(Code::kPermission, "uid " + std::to_string(uid) + " may not open " + name + " that way");
  }
  wire::Allocation out = found;
  out.set_access(static_cast<uint32_t>(access));
  if (access == Access::kReadWrite) return out;
  for (auto& extent : *out.mutable_extents()) {
    Capability full;
    if (extent.capability().size() != full.bytes.size()) return Code::kInternal;
    std::memcpy(full.bytes.data(), extent.capability().data(), full.bytes.size());
    const Capability read = os::read_capability(full);
    extent.set_capability(read.bytes.data(), read.bytes.size());
  }
  return out;
}

wire::NameList Names::list(const std::string& prefix, const std::string& after, uint32_t uid,
                           const Gone& gone) const {
  wire::NameList out;
  const auto first = after < prefix ? names_.lower_bound(prefix) : names_.upper_bound(after);
  for (auto it = first; it != names_.end() && it->first.starts_with(prefix); ++it) {
    const wire::Allocation& found = it->second;
    if (!may_access(found.mode(), found.owner_uid(), uid, Access::kRead)) continue;
    if (static_cast<size_t>(out.allocations_size()) >= kNamesListedMax) {
      out.set_more(true);
      break;
    }
    wire::Allocation& entry = *out.add_allocations();
    entry.set_name(found.name());
    entry.set_bytes_total(found.bytes_total());
    entry.set_kind(found.kind());
    entry.set_layout(found.layout());
    entry.set_chunk_bytes(found.chunk_bytes());
    entry.set_owner_uid(found.owner_uid());
    entry.set_mode(found.mode());
    entry.set_extents_count(static_cast<uint32_t>(found.extents_size()));
    entry.set_lost(is_lost(found, gone));
    uint32_t lost = 0;
    const bool replicas = has_replicas(found);
    for (const auto& extent : found.extents()) lost += extent.lost() || gone(extent, replicas) ? 1 : 0;
    entry.set_lost_count(lost);
  }
  OCM_DASSERT(static_cast<size_t>(out.allocations_size()) <= kNamesListedMax);
  return out;
}

Result<std::string> Names::removable(const std::string& name, uint32_t uid) const {
  const auto it = names_.find(name);
  if (it == names_.end())
    return Status(Code::kNotFound, "no published allocation is named " + name.substr(0, kNameBytesMax));
  if (uid != 0 && uid != it->second.owner_uid()) {
    return Status(Code::kPermission, name + " belongs to uid " + std::to_string(it->second.owner_uid()));
  }
  return it->second.allocation_id();
}

Result<wire::Allocation> Names::remove(const std::string& name, const std::string& allocation_id,
                                       uint32_t uid) {
  OCM_TRY_ASSIGN(const std::string id, removable(name, uid));
  if (id != allocation_id && !fault::at(fault::Point::kRemoveByName))
    return Status(Code::kNotFound, "another allocation is named " + name + " by now");
  if (!fault::at(fault::Point::kRemovedForgotten)) removed_.insert(id);
  return take_out(names_.find(name));
}

wire::Allocation Names::take_out(std::map<std::string, wire::Allocation>::iterator it) {
  OCM_DASSERT(it != names_.end());
  wire::Allocation out = std::move(it->second);
  names_.erase(it);
  index(out, false);
  OCM_DASSERT(names_.size() == ids_.size());  // N1
  return out;
}

std::optional<wire::Allocation> Names::remember_removed(const std::string& allocation_id) {
  if (allocation_id.size() != 16) return std::nullopt;
  removed_.insert(allocation_id);
  const auto known = ids_.find(allocation_id);
  if (known == ids_.end()) return std::nullopt;
  return take_out(names_.find(known->second));
}

std::optional<wire::Allocation> Names::forget(const std::string& name, const std::string& allocation_id) {
  const auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  if (it->second.allocation_id() != allocation_id && !fault::at(fault::Point::kUndoByName))
    return std::nullopt;
  return take_out(it);
}

Names::Merged Names::merge(const wire::Allocation& allocation, uint64_t random,
                           std::vector<wire::ExtentDescriptor>* former) {
  if (removed_.contains(allocation.allocation_id())) return Merged::kRemoved;
  const auto known = ids_.find(allocation.allocation_id());
  if (known != ids_.end()) {
    wire::Allocation& mine = names_.at(known->second);
    wire::Allocation newer = mine;
    if (take_newer(newer, allocation)) {
      std::vector<wire::ExtentDescriptor> mine_only = left_out(mine, newer);
      if (replace(mine, std::move(newer)) && former != nullptr) *former = std::move(mine_only);
    }
    if (former == nullptr) return Merged::kKnown;
    for (auto& extent : left_out(allocation, mine)) former->push_back(std::move(extent));
    return Merged::kKnown;
  }
  if (const wire::Allocation* holder = find(allocation.name()); holder == nullptr)
    return take(allocation, true).is_ok() ? Merged::kAdded : Merged::kRefused;
  for (const std::string& more :
       {std::string(), "-" + std::to_string(random)}) {  // that name may be taken, too
    wire::Allocation renamed = allocation;
    renamed.set_name(name_in_conflict(allocation, more));
    if (!take(std::move(renamed), true).is_ok()) continue;
    OCM_DASSERT(find_id(allocation.allocation_id()) != nullptr);
    return Merged::kRenamed;
  }
  return Merged::kRefused;
}

bool Names::relocate(const wire::PartMoved& moved) {
  const auto where = replicas_.find(id_of(moved.was()));
  // What has no replicas is not indexed by its extents.
  const auto known = ids_.find(moved.allocation_id());
  if (where == replicas_.end() && known == ids_.end()) return false;
  const auto it = names_.find(where != replicas_.end() ? where->second : known->second);
  OCM_DASSERT(it != names_.end());  // N1, N6
  if (it == names_.end()) return false;
  wire::Allocation newer = it->second;
  if (!control::relocate(newer, moved) || !replace(it->second, std::move(newer))) return false;
  if (it->second.layout() == static_cast<uint32_t>(Layout::kSequence))
    fault::reached(fault::State::kSequenceRemade);
  return true;
}

bool Names::lose_extent(const ExtentId& id) {
  const auto where = replicas_.find(id);
  if (where == replicas_.end()) return false;
  const auto it = names_.find(where->second);
  if (it == names_.end() || !mark_lost(it->second, id)) return false;
  ++version_;
  return true;
}

bool Names::is_valid() const {
  std::unordered_map<uint32_t, size_t> by_uid;
  for (const auto& [name, allocation] : names_) {
    const auto id = ids_.find(allocation.allocation_id());
    if (allocation.name() != name || id == ids_.end() || id->second != name) return false;  // N1
    ++by_uid[allocation.owner_uid()];
    if (!has_replicas(allocation)) continue;
    for (const auto& extent : allocation.extents()) {
      const auto indexed = replicas_.find(id_of(extent));
      if (indexed == replicas_.end() || indexed->second != name) return false;  // N6
    }
  }
  for (const auto& [id, name] : replicas_) {
    if (!names_.contains(name)) return false;
  }
  return ids_.size() == names_.size() && by_uid == by_uid_;
}

Names::Census Names::census(const Gone& gone) const {
  Census out;
  for (const auto& [name, allocation] : names_) {
    if (is_lost(allocation, gone)) {
      out.lost.insert(name);
      continue;
    }
    const bool misses = std::any_of(allocation.extents().begin(), allocation.extents().end(),
                                    [&, replicas = has_replicas(allocation)](const auto& extent) {
                                      return extent.lost() || gone(extent, replicas);
                                    });
    if (misses) out.degraded.insert(name);
  }
  OCM_DASSERT(out.lost.size() + out.degraded.size() <= names_.size());
  return out;
}

const wire::Allocation* Names::find_id(const std::string& allocation_id) const {
  const auto known = ids_.find(allocation_id);
  return known == ids_.end() ? nullptr : find(known->second);
}

const wire::Allocation* Names::find(const std::string& name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : &it->second;
}

}  // namespace ocm::control
