#include "control/names.h"

#include <algorithm>

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
Status check_mode(Allocation& allocation) {
  if (allocation.mode == 0) allocation.mode = kModeDefault;
  if ((allocation.mode & ~0777u) != 0) return Status(Code::kInvalidArgument, "mode has bits outside 0777");
  return {};
}

}  // namespace

std::string name_in_conflict(const Allocation& allocation, const std::string& more) {
  const std::string end = ".conflict-" + to_hex(allocation.id.bytes.data(), 4) + more;
  OCM_DASSERT(end.size() < kNameBytesMax);
  size_t bytes = std::min(allocation.name.size(), kNameBytesMax - end.size());
  while (bytes > 0 && (static_cast<unsigned char>(allocation.name[bytes]) & 0xc0) == 0x80)
    --bytes;  // whole characters
  return allocation.name.substr(0, bytes) + end;
}

bool may_access(uint32_t mode, uint32_t owner, uint32_t uid, Access access) {
  if (uid == 0) return true;
  const uint32_t bits = uid == owner ? (mode >> 6) & 7 : mode & 7;
  const uint32_t wanted = access == Access::kRead ? 4 : 6;
  return (bits & wanted) == wanted;
}

void Names::index(const Allocation& allocation, bool add) {
  ++version_;
  OCM_DASSERT(ids_.contains(allocation.id) != add);  // N1
  if (add) {
    ids_[allocation.id] = allocation.name;
    ++by_uid_[allocation.owner_uid];
  } else {
    ids_.erase(allocation.id);
    const auto mine = by_uid_.find(allocation.owner_uid);
    OCM_DASSERT(mine != by_uid_.end() && mine->second > 0);
    if (--mine->second == 0) by_uid_.erase(mine);
  }
  if (!has_replicas(allocation)) return;
  for (const auto& extent : allocation.extents) {
    if (add) {
      replicas_[extent.id] = allocation.name;
    } else {
      replicas_.erase(extent.id);
    }
  }
}

bool Names::has_replicas_of_others(const Allocation& allocation) const {
  if (!has_replicas(allocation)) return false;
  return std::any_of(allocation.extents.begin(), allocation.extents.end(), [&](const auto& extent) {
    const auto known = replicas_.find(extent.id);
    return known != replicas_.end() && known->second != allocation.name;
  });
}

bool Names::replace(Allocation& mine, Allocation newer) {
  OCM_DASSERT(newer.id == mine.id && newer.name == mine.name);
  OCM_DASSERT(newer.owner_uid == mine.owner_uid);
  if (has_replicas_of_others(newer)) return false;
  index(mine, false);
  mine = std::move(newer);
  index(mine, true);
  return true;
}

Status Names::publish(Allocation allocation) {
  const auto mine = names_.find(allocation.name);
  if (mine != names_.end() && mine->second.id == allocation.id) {
    if (allocation.owner_uid != 0 && allocation.owner_uid != mine->second.owner_uid)
      return Status(Code::kExists, "the allocation is published already, by another user");
    OCM_TRY(check_mode(allocation));
    mine->second.mode = allocation.mode;
    return {};
  }
  if (removed_.contains(allocation.id))
    return Status(Code::kRevoked, "the allocation was published before, and removed")
        .with_subject(Subject::kAllocation, allocation.name);
  if (const auto noted = expected_ids_.find(allocation.id);
      noted != expected_ids_.end() && noted->second != allocation.name)
    return Status(Code::kExists, "the allocation may be published already, as " + noted->second);  // N1
  const std::string whole = allocation.name.substr(0, allocation.name.find('~'));
  const Allocation* known = whole != allocation.name ? find(whole) : nullptr;
  const NameNote* noted = whole != allocation.name ? expected(whole) : nullptr;
  if (known != nullptr || noted != nullptr) {
    const uint32_t uid = allocation.owner_uid, owner = known != nullptr ? known->owner_uid : noted->owner_uid;
    if (uid != 0 && uid != owner) {
      return Status(Code::kPermission, "uid " + std::to_string(uid) + " may not publish " + whole +
                                           "~..., for " + whole + " belongs to uid " + std::to_string(owner));
    }
    allocation.owner_uid = owner;
  }
  return take(std::move(allocation));
}

Status Names::take(Allocation allocation, bool reported) {
  OCM_TRY(check_name(allocation.name));
  if (!allocation.has_id() || allocation.extents.empty()) {
    return Status(Code::kInvalidArgument, "the allocation to publish has no id or no extents");
  }
  OCM_TRY(check_parts(allocation));
  OCM_TRY(check_mode(allocation));
  if (names_.contains(allocation.name))
    return Status(Code::kExists, "the name " + allocation.name + " is taken");
  if (const NameNote* other = expected(allocation.name); other != nullptr && other->id != allocation.id) {
    return Status(Code::kExists, "the name " + allocation.name + " is taken: its home " +
                                     (other->homes.empty() ? "" : other->homes.front() + " ") +
                                     "was not heard since this coordinator is one");
  }
  const auto known = ids_.find(allocation.id);
  if (known != ids_.end()) {
    return Status(Code::kExists, "the allocation is published already, as " + known->second);
  }
  // What homes report was given its name when there was room, and its memory is there.
  if (names_.size() + expected_.size() >= names_max_ && !reported && !expected_ids_.contains(allocation.id)) {
    return Status(Code::kLimit, "the cluster holds at most " + std::to_string(names_max_) + " names");
  }
  if (has_replicas_of_others(allocation))
    return Status(Code::kExists, "a replica of the allocation is published already, under another name");
  const uint32_t uid = allocation.owner_uid;
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
  drop_expected(allocation.id);
  index(allocation, true);
  std::string name = allocation.name;
  names_.emplace(std::move(name), std::move(allocation));
  OCM_DASSERT(names_.size() == ids_.size());  // N1
  return {};
}

Result<Allocation> Names::attach(const std::string& name, Access access, uint32_t uid) const {
  const auto it = names_.find(name);
  if (it == names_.end())
    return Status(Code::kNotFound, "no published allocation is named " + name.substr(0, kNameBytesMax));
  const Allocation& found = it->second;
  if (!may_access(found.mode, found.owner_uid, uid, access)) {
    return Status(Code::kPermission, "uid " + std::to_string(uid) + " may not open " + name + " that way");
  }
  Allocation out = found;
  out.access = access;
  if (access == Access::kReadWrite) return out;
  for (PlacedExtent& extent : out.extents) extent.capability = os::read_capability(extent.capability);
  return out;
}

NameList::Entry Names::entry_of(const Allocation& found, const Gone& gone) {
  const bool replicas = has_replicas(found);
  const auto is_missing = [&](const PlacedExtent& extent) { return extent.lost || gone(extent, replicas); };
  const auto missing = std::count_if(found.extents.begin(), found.extents.end(), is_missing);
  return {.name = found.name,
          .bytes_total = found.bytes_total,
          .kind = found.kind,
          .durable = found.durable,
          .coherent = found.coherent,
          .layout = found.layout,
          .chunk_bytes = found.chunk_bytes,
          .owner_uid = found.owner_uid,
          .mode = found.mode,
          .extents = static_cast<uint32_t>(found.extents.size()),
          .lost_extents = static_cast<uint32_t>(missing),
          .lost = is_lost(found, gone)};
}

NameList Names::list(const std::string& prefix, const std::string& after, uint32_t uid,
                     const Gone& gone) const {
  NameList out;
  const auto first = [&](const auto& all) {
    return after < prefix ? all.lower_bound(prefix) : all.upper_bound(after);
  };
  auto known = first(names_);
  auto noted = first(expected_);
  for (;;) {
    const bool is_known = known != names_.end() && known->first.starts_with(prefix);
    const bool is_noted = noted != expected_.end() && noted->first.starts_with(prefix);
    if (!is_known && !is_noted) break;
    const bool takes_known = is_known && (!is_noted || known->first < noted->first);
    const uint32_t mode = takes_known ? known->second.mode : noted->second.mode;
    const uint32_t owner = takes_known ? known->second.owner_uid : noted->second.owner_uid;
    const bool may = may_access(mode, owner, uid, Access::kRead);
    if (may && out.entries.size() >= kNamesListedMax) {
      out.more = true;
      break;
    }
    if (may && takes_known)
      out.entries.push_back(entry_of(known->second, gone));
    else if (may)
      out.entries.push_back({.name = noted->first, .owner_uid = owner, .mode = mode, .lost = true});
    takes_known ? static_cast<void>(++known) : static_cast<void>(++noted);
  }
  OCM_DASSERT(out.entries.size() <= kNamesListedMax);
  return out;
}

Result<AllocationId> Names::removable(const std::string& name, uint32_t uid) const {
  const auto it = names_.find(name);
  const NameNote* noted = expected(name);
  if (it == names_.end() && noted == nullptr)
    return Status(Code::kNotFound, "no published allocation is named " + name.substr(0, kNameBytesMax));
  const uint32_t owner = it == names_.end() ? noted->owner_uid : it->second.owner_uid;
  if (uid != 0 && uid != owner)
    return Status(Code::kPermission, name + " belongs to uid " + std::to_string(owner));
  return it == names_.end() ? noted->id : it->second.id;
}

Result<Allocation> Names::remove(const std::string& name, const AllocationId& allocation, uint32_t uid) {
  OCM_TRY_ASSIGN(const AllocationId id, removable(name, uid));
  if (id != allocation && !fault::at(fault::Point::kRemoveByName))
    return Status(Code::kNotFound, "another allocation is named " + name + " by now");
  if (!fault::at(fault::Point::kRemovedForgotten)) removed_.insert(id);
  const auto known = names_.find(name);
  if (known != names_.end()) return take_out(known);
  Allocation out;  // N10: of its extents its homes know
  out.id = id;
  out.name = name;
  out.owner_uid = expected(name)->owner_uid;
  drop_expected(id);
  return out;
}

void Names::drop_expected(const AllocationId& allocation) {
  const auto known = expected_ids_.find(allocation);
  if (known == expected_ids_.end()) return;
  expected_.erase(known->second);
  expected_ids_.erase(known);
  ++version_;
  OCM_DASSERT(expected_.size() == expected_ids_.size());  // N10
}

std::optional<NameNote> Names::noted(const AllocationId& allocation) const {
  const auto known = expected_ids_.find(allocation);
  return known == expected_ids_.end() ? std::nullopt : std::optional(expected_.at(known->second));
}

const NameNote* Names::expected(const std::string& name) const {
  const auto it = expected_.find(name);
  return it == expected_.end() ? nullptr : &it->second;
}

std::optional<Allocation> Names::expect(const NameNote& note) {
  if (note.is_removal()) return remember_removed(note.id);
  if (removed_.contains(note.id) || ids_.contains(note.id) || names_.contains(note.name)) return std::nullopt;
  if (const NameNote* other = expected(note.name); other != nullptr && other->id != note.id) {
    if (other->sequence >= note.sequence) return std::nullopt;
    drop_expected(AllocationId(other->id));
  }
  drop_expected(note.id);
  expected_[note.name] = note;
  expected_ids_[note.id] = note.name;
  ++version_;
  return std::nullopt;
}

Allocation Names::take_out(std::map<std::string, Allocation>::iterator it) {
  OCM_DASSERT(it != names_.end());
  Allocation out = std::move(it->second);
  names_.erase(it);
  index(out, false);
  OCM_DASSERT(names_.size() == ids_.size());  // N1
  return out;
}

std::optional<Allocation> Names::remember_removed(const AllocationId& allocation) {
  if (allocation == AllocationId()) return std::nullopt;
  removed_.insert(allocation);
  drop_expected(allocation);
  const auto known = ids_.find(allocation);
  if (known == ids_.end()) return std::nullopt;
  return take_out(names_.find(known->second));
}

std::optional<Allocation> Names::forget(const std::string& name, const AllocationId& allocation,
                                        const std::optional<NameNote>& noted) {
  const auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  if (it->second.id != allocation && !fault::at(fault::Point::kUndoByName)) return std::nullopt;
  Allocation out = take_out(it);
  if (noted && !fault::at(fault::Point::kUndoneNoteForgotten)) (void)expect(*noted);
  return out;
}

Names::Merged Names::merge(const Allocation& allocation, uint64_t random, std::vector<PlacedExtent>* former) {
  if (removed_.contains(allocation.id)) return Merged::kRemoved;
  const auto known = ids_.find(allocation.id);
  if (known != ids_.end()) {
    Allocation& mine = names_.at(known->second);
    Allocation newer = mine;
    if (take_newer(newer, allocation)) {
      std::vector<PlacedExtent> mine_only = left_out(mine, newer);
      if (replace(mine, std::move(newer)) && former != nullptr) *former = std::move(mine_only);
    }
    if (former == nullptr) return Merged::kKnown;
    for (auto& extent : left_out(allocation, mine)) former->push_back(std::move(extent));
    return Merged::kKnown;
  }
  if (const auto noted = expected_ids_.find(allocation.id);
      noted != expected_ids_.end() &&
      noted->second != allocation.name) {  // N10: it was renamed, and did not hear so
    Allocation renamed = allocation;
    renamed.name = noted->second;
    return take(std::move(renamed), true).is_ok() ? Merged::kRenamed : Merged::kRefused;
  }
  const NameNote* other = expected(allocation.name);
  if (find(allocation.name) == nullptr && (other == nullptr || other->id == allocation.id))
    return take(allocation, true).is_ok() ? Merged::kAdded : Merged::kRefused;
  for (const std::string& more :
       {std::string(), "-" + std::to_string(random)}) {  // that name may be taken, too
    Allocation renamed = allocation;
    renamed.name = name_in_conflict(allocation, more);
    if (!take(std::move(renamed), true).is_ok()) continue;
    OCM_DASSERT(find_id(allocation.id) != nullptr);
    return Merged::kRenamed;
  }
  return Merged::kRefused;
}

bool Names::relocate(const PartMoved& moved) {
  const auto where = replicas_.find(moved.was);
  // What has no replicas is not indexed by its extents.
  const auto known = ids_.find(moved.allocation);
  if (where == replicas_.end() && known == ids_.end()) return false;
  const auto it = names_.find(where != replicas_.end() ? where->second : known->second);
  OCM_DASSERT(it != names_.end());  // N1, N6
  if (it == names_.end()) return false;
  Allocation newer = it->second;
  if (!control::relocate(newer, moved) || !replace(it->second, std::move(newer))) return false;
  if (it->second.layout == Layout::kSequence) fault::reached(fault::State::kSequenceRemade);
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
    const auto id = ids_.find(allocation.id);
    if (allocation.name != name || id == ids_.end() || id->second != name) return false;  // N1
    ++by_uid[allocation.owner_uid];
    if (!has_replicas(allocation)) continue;
    for (const auto& extent : allocation.extents) {
      const auto indexed = replicas_.find(extent.id);
      if (indexed == replicas_.end() || indexed->second != name) return false;  // N6
    }
  }
  for (const auto& [id, name] : replicas_) {
    if (!names_.contains(name)) return false;
  }
  for (const auto& [name, note] : expected_) {  // N10
    const auto id = expected_ids_.find(note.id);
    if (note.name != name || id == expected_ids_.end() || id->second != name) return false;
    if (names_.contains(name) || ids_.contains(note.id) || removed_.contains(note.id)) return false;
  }
  if (expected_.size() != expected_ids_.size()) return false;
  return ids_.size() == names_.size() && by_uid == by_uid_;
}

Names::Census Names::census(const Gone& gone) const {
  Census out;
  for (const auto& [name, allocation] : names_) {
    if (is_lost(allocation, gone)) {
      out.lost.insert(name);
      continue;
    }
    const bool misses = std::any_of(allocation.extents.begin(), allocation.extents.end(),
                                    [&, replicas = has_replicas(allocation)](const auto& extent) {
                                      return extent.lost || gone(extent, replicas);
                                    });
    if (misses) out.degraded.insert(name);
  }
  for (const auto& [name, note] : expected_) out.lost.insert(name);
  OCM_DASSERT(out.lost.size() + out.degraded.size() <= names_.size() + expected_.size());
  return out;
}

const Allocation* Names::find_id(const AllocationId& allocation) const {
  const auto known = ids_.find(allocation);
  return known == ids_.end() ? nullptr : find(known->second);
}

const Allocation* Names::find(const std::string& name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : &it->second;
}

}  // namespace ocm::control
