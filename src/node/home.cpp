#include "node/home.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>

#include "base/fault.h"
#include "base/units.h"
#include "control/names.h"
#include "control/parts.h"
#include "control/placement.h"
#include "fabric/registry/registry.h"
#include "fabric/shm/tables.h"
#include "os/crypto.h"
#include "os/fd_reserve.h"

namespace ocm::node {
namespace {

bool opens(const memory::Extent& extent, const std::string& capability, Access access) {
  Capability given;
  if (!read_id(capability, given)) return false;
  if (os::equal_secrets(given.bytes, extent.capability.bytes)) return true;
  return access == Access::kRead &&
         os::equal_secrets(given.bytes, os::read_capability(extent.capability).bytes);
}

}  // namespace

Result<std::unique_ptr<Home>> Home::make(Core& core) {
  std::unique_ptr<Home> home(new Home(core));
  OCM_TRY(home->init());
  return home;
}

Home::~Home() {
  if (table_) table_->keep_mapped_pages();
}

Status Home::init() {
  slots_ = most_slots(core_.config.extents_max());
  files_max_ = most_files();
  const uint64_t bytes = fabric::shm::GenerationTable::bytes(slots_);
  OCM_TRY_ASSIGN(generations_fd_, os::make_memfd("oncilla-generations", bytes, {.seal_later = true}));
  OCM_TRY_ASSIGN(generations_, os::Mapping::map(generations_fd_.get(), bytes, true));
  OCM_TRY(os::seal_writes(generations_fd_.get()));
  OCM_TRY_ASSIGN(generations_read_only_, os::reopen_read_only(generations_fd_.get()));
  std::vector<memory::PoolConfig> pools;
  for (const memory::Entry* entry : core_.config.kinds) {
    OCM_TRY_ASSIGN(auto backend, entry->make(core_.config.offers, {.core_dump = core_.config.core_dump_memory,
                                                                   .threads = core_.env.has_threads()}));
    pools.push_back({std::move(backend), entry->bytes(core_.config.offers)});
  }
  auto* shared = reinterpret_cast<fabric::shm::GenerationTable*>(generations_.data());
  core_.lease_until_ns = &shared->lease_until_ns;
  table_ = std::make_unique<memory::ExtentTable>(
      core_.partition, std::move(pools), std::span(&shared->generation[0], slots_), core_.env.has_threads());
  directory_ = std::make_unique<Directory>(*table_, core_.token, *core_.lease_until_ns);
  nodes_[core_.name] = core_.incarnation;  // sessions of its former runs come with parts that are given here
  return {};
}

wire::ExtentDescriptor Home::describe(const memory::Extent& extent) const {
  wire::ExtentDescriptor out;
  out.set_address(extent.id.address.bits());
  out.set_generation(extent.id.generation);
  out.set_bytes(extent.bytes);
  out.set_capability(id_field(extent.capability));
  out.set_node(core_.name);
  out.set_kind(static_cast<uint32_t>(extent.kind));
  out.set_slot(extent.slot);
  out.set_unmapped(file_of(extent) == control::File::kShared);
  // What is on a device is reached through its home only. So is what shares a file: a late store of a fabric that writes
  // past the home would be in the bytes of who has the range by then.
  const auto may_lead_to_it = [through_home = !extent.backing->has_file()](Fabric fabric) {
    if (!through_home) return true;
    const fabric::Entry* entry = fabric::find_entry(fabric);
    return entry != nullptr && entry->traits.home_checks;
  };
  std::vector<FabricAddress> addresses;
  for (const FabricAddress& address : core_.addresses) {
    if (may_lead_to_it(address.fabric)) addresses.push_back(address);
  }
  wire::addresses_to(addresses, *out.mutable_addresses());
  return out;
}

Status Home::remove(ExtentId id) {
  const Status removed = table_->remove(id);
  directory_->revoke(id);  // after remove(): an open() in between sees that the extent is revoked
  leases_.remove(id);
  retired_.erase(id);
  forget_replica(id);
  return removed;
}

Status Home::leave_out(ExtentId id) {
  if (leases_.end_name(id)) return remove(id);
  OCM_TRY_ASSIGN(retired_[id], table_->retire(id));
  directory_->revoke(id);
  forget_replica(id);
  return {};
}

void Home::forget_replica(ExtentId id) {
  degraded_.erase(id);
  unpublish(id);
  if (const auto known = formerly_.find(id); known != formerly_.end()) {
    for (const ExtentId& was : known->second) remade_.erase(was);
    formerly_.erase(known);
  }
  const bool frozen = frozen_.erase(id) != 0;
  if ((shared_.contains(id) || frozen) && on_removed_) on_removed_(id);
}

void Home::unpublish(ExtentId id) {
  const auto named = published_extents_.find(id);
  if (named == published_extents_.end()) return;
  const std::string allocation = named->second;
  published_extents_.erase(named);
  // Once nothing of it is here, its other homes hold the name.
  if (--published_living_.at(allocation) == 0) erase_published(allocation);
}

void Home::add_published(const wire::Allocation& allocation) {
  const std::string& name_id = allocation.allocation_id();
  erase_published(name_id);
  if (allocation.extents_size() == 0) return;
  published_[name_id] = allocation;
  size_t& living = published_living_[name_id];
  for (const auto& extent : allocation.extents()) {
    if (extent.node() != core_.name || extent.lost()) continue;
    const ExtentId id = id_of(extent);
    living += is_here(id) && published_extents_.emplace(id, name_id).second ? 1 : 0;
  }
}

bool Home::has_all_published(const wire::Allocation& allocation) const {
  const auto known = published_.find(allocation.allocation_id());
  if (known == published_.end()) return true;
  std::set<ExtentId> all;
  for (const auto& extent : allocation.extents()) all.insert(id_of(extent));
  return std::all_of(known->second.extents().begin(), known->second.extents().end(), [&](const auto& extent) {
    const auto here = published_extents_.find(id_of(extent));
    return here == published_extents_.end() || here->second != known->first || all.contains(here->first);
  });
}

void Home::erase_published(const std::string& allocation_id) {
  const auto known = published_.find(allocation_id);
  if (known == published_.end()) return;
  for (const auto& extent : known->second.extents()) {
    const auto named = published_extents_.find(id_of(extent));
    if (named != published_extents_.end() && named->second == allocation_id) published_extents_.erase(named);
  }
  published_living_.erase(allocation_id);
  published_.erase(known);
}

Status Home::release(const wire::ReleaseRequest& request) {
  SessionId session;
  const bool named = read_id(request.session_id(), session);
  if (request.address() == 0) {
    AllocationId allocation;
    if (!named || !read_id(request.allocation_id(), allocation)) return Code::kInvalidArgument;
    std::unordered_set<AllocationId> all{allocation};
    for (const std::string& field : request.parts()) {
      if (AllocationId part; read_id(field, part)) all.insert(part);
    }
    for (const ExtentId& id : leases_.of_session(session)) {
      const control::Lease* lease = leases_.find(id);
      if (lease == nullptr || !all.contains(lease->allocation)) continue;
      tell_part_freed(made_as(id), id);  // some of it may be given only now
      (void)remove(id);
    }
    for (Making& making : making_) {
      if (making.session == session && making.allocation == allocation) making.cancelled = true;
    }
    over_.insert(request.allocation_id());
    return {};
  }
  const auto owned = [&](ExtentId id) {
    const control::Lease* lease = leases_.find(id);
    return named && lease != nullptr && lease->session == session;
  };
  const auto free_part_of = [&](ExtentId was) {
    const ExtentId id = first_of(present(was));
    const bool moved = remade(was) != nullptr && id == was;
    if (!moved && !owned(id)) return false;
    tell_part_freed(remade(was), id);
    return moved || remove(id).is_ok();
  };
  for (const auto& ref : request.more()) (void)free_part_of(id_of(ref));
  const ExtentId id = id_of(request);
  if (remade(id) != nullptr) return free_part_of(id) ? Status() : Status(Code::kPermission);
  const ExtentId first = first_of(id);  // while the part is made again its bytes have the owner of that one
  if (first != id && owned(first)) {
    tell_part_freed(nullptr, first);
    return remove(first);
  }
  OCM_TRY_ASSIGN(const std::shared_ptr<memory::Extent> extent, find_frozen_too(id));
  if (!owned(id) && !opens(*extent, request.capability(), Access::kReadWrite)) return Code::kPermission;
  // A program frees what has a name, of which it did not hear: that ends the name, and who holds it keeps it.
  const bool of_program = named && request.allocation_id().empty();
  const control::Lease* lease = leases_.find(first);
  const bool is_late =
      !request.instead_of().empty() && lease != nullptr && !lease->is_of(request.instead_of());
  if (is_late) return {};
  if (!of_program && !request.holders_keep()) return leave_out(id);
  if (of_program) tell_part_freed(nullptr, first);
  return leases_.end_name(first) ? remove(first) : Status();
}

void Home::tell_part_freed(const wire::PartMoved* part, ExtentId id,
                           const std::set<std::string>& owners) const {
  if (!on_part_freed_) return;
  if (part != nullptr) on_part_freed_(*part, owners);
  const wire::PlanPart* plan = plan_of(id);
  if (plan != nullptr && !fault::at(fault::Point::kPlannedNotFreed))
    on_part_freed_(plan->give().part(), owners);
}

void Home::end_session(const SessionId& session, const control::Incarnation& incarnation) {
  over_.insert(over_key(session, id_field(incarnation)));
  for (Making& making : making_) {
    if (making.session == session && making.incarnation == incarnation) making.cancelled = true;
  }
  if (!leases_.is_ended_by(session, incarnation)) return;
  // The home that leads may have given them to a name since.
  for (const ExtentId& id : leases_.of_session(session)) tell_part_freed(nullptr, id, {id_field(session)});
  free_session(session);
}

void Home::check_owner(const std::string& node, const control::Incarnation& incarnation) {
  const auto known = nodes_.find(node);
  has_strangers_ = has_strangers_ || known == nodes_.end();
  if (known == nodes_.end() || known->second == incarnation) return;
  leases_.owner_node(node, known->second, core_.now_ns(), patience());
}

void Home::members(const std::function<bool(const std::string&)>& is_member) {
  if (!has_strangers_) return;
  has_strangers_ = false;
  for (const std::string& node : leases_.nodes()) {
    if (!nodes_.contains(node) && !is_member(node))
      leases_.owner_node(node, std::nullopt, core_.now_ns(), patience());
  }
}

void Home::free_session(const SessionId& session) {
  for (const control::HoldId& hold : leases_.holds_of(session)) {
    for (const ExtentId& id : leases_.end_hold(session, hold)) (void)remove(id);
  }
  for (const ExtentId& id : leases_.of_session(session)) (void)remove(id);
}

wire::SessionExtents Home::resume(const SessionId& session, const std::string& node,
                                  const control::Incarnation& incarnation) {
  wire::SessionExtents out;
  if (over_.contains(over_key(session, id_field(incarnation))) &&
      !fault::at(fault::Point::kLateResumeTaken)) {
    fault::reached(fault::State::kLateResume);
    return out;
  }
  if (!leases_.resume(session, node, incarnation)) return out;
  fault::reached(fault::State::kSessionResumed);
  check_owner(node, incarnation);
  for (const control::HoldId& hold : leases_.holds_of(session)) out.add_hold_ids(id_field(hold));
  for (const ExtentId& id : leases_.of_session(session)) {
    const auto extent = table_->find(id);
    const control::Lease* lease = leases_.find(id);
    if (!extent.is_ok() || lease == nullptr) continue;
    auto& held = *out.add_extents();
    held.set_allocation_id(id_field(lease->allocation));
    *held.mutable_extent() = describe(*extent.value());
    held.mutable_extent()->clear_addresses();  // thousands fit into a message; the program knows them
  }
  return out;
}

Status Home::publish(const wire::PublishExtents& request) {
  const wire::Allocation& allocation = request.allocation();
  SessionId session;
  control::Incarnation incarnation;
  const bool has_owner =
      read_id(request.session_id(), session) && read_id(request.owner_incarnation(), incarnation);
  if (request.undo() && !has_owner) return Code::kInvalidArgument;
  if (allocation.allocation_id().size() != 16) return Code::kInvalidArgument;
  if (request.former()) {
    for (const auto& extent : allocation.extents()) drop_former(extent);
    return {};
  }
  const std::string attempt = over_key(request.attempt());
  const bool ended = has_owner && over_.contains(over_key(session, request.owner_incarnation()));
  if (request.undo()) {
    over_.insert(attempt);
    if (ended) fault::reached(fault::State::kUndoOfEnded);
  } else if (!request.remove() && over_.contains(attempt)) {
    fault::reached(fault::State::kLatePublish);
    return Code::kCancelled;
  }
  if (!request.remove() && !request.undo()) {
    OCM_TRY(check_name(allocation.name()));
    OCM_TRY(control::check_parts(allocation));
    for (const auto& extent : allocation.extents()) {
      if (extent.node() != core_.name || extent.lost()) continue;
      OCM_TRY(find(extent, Access::kReadWrite).status());
    }
    if (!has_all_published(allocation))
      return Status(Code::kExists, "the allocation is published here with other extents");
    add_published(allocation);
  }
  std::vector<wire::ExtentDescriptor> here_of;
  for (const auto& extent : allocation.extents()) {
    if (extent.node() == core_.name) here_of.push_back(extent);
  }
  if (request.remove() || request.undo()) {
    // Parts of it may have been made again here, of which the coordinator had not heard.
    if (const auto known = published_.find(allocation.allocation_id()); known != published_.end()) {
      for (const auto& extent : known->second.extents()) {
        if (extent.node() == core_.name && published_extents_.contains(id_of(extent)))
          here_of.push_back(extent);
      }
    }
    // Told late, an undo ends its own attempt and not one that came after it.
    if (request.undo())
      std::erase_if(here_of, [&](const auto& extent) {
        const control::Lease* lease = leases_.find(present(id_of(extent)));
        return lease == nullptr || (!lease->session && lease->attempt != request.attempt());
      });
    const bool is_current = std::any_of(here_of.begin(), here_of.end(), [&](const auto& extent) {
      const control::Lease* lease = leases_.find(present(id_of(extent)));
      return lease != nullptr && !lease->session;
    });
    if (request.remove() || is_current) erase_published(allocation.allocation_id());
  }
  for (const wire::ExtentDescriptor& extent : here_of) {
    const ExtentId was = id_of(extent);
    const ExtentId id = present(was);
    // Of a former replica the capability is not known any more; who could name it knew it.
    const auto here = find_frozen_too(id);
    if (!here.is_ok() && id == was && request.remove()) tell_part_freed(remade(was), id);  // it has moved
    if (!here.is_ok() || (id == was && !opens(*here.value(), extent.capability(), Access::kReadWrite)))
      continue;
    const wire::PartMoved* part = remade(was);
    if (request.remove() || (request.undo() && ended)) {
      std::set<std::string> owners;  // a later attempt may have it by now
      if (request.undo()) owners = {control::Lease::owner_by(request.attempt()), request.session_id()};
      tell_part_freed(part, id, owners);
      if (leases_.end_name(id)) (void)remove(id);
    } else if (request.undo()) {
      if (!leases_.to_session(id, session, request.owner_node(), incarnation)) continue;
      check_owner(request.owner_node(), incarnation);
      if (part != nullptr && on_part_given_) on_part_given_(*part, id, request.attempt());
    } else {
      leases_.to_name(id, request.attempt());
    }
  }
  return {};
}

Result<wire::Held> Home::hold(const wire::HoldRequest& request) {
  SessionId session;
  control::HoldId hold;
  control::Incarnation incarnation;
  if (!read_id(request.session_id(), session) || !read_id(request.hold_id(), hold))
    return Status(Code::kInvalidArgument, "a hold has an id and a session");
  wire::Held out;
  if (request.end()) {
    over_.insert(request.hold_id());
    for (const ExtentId& id : leases_.end_hold(session, hold)) (void)remove(id);
    return out;
  }
  if (over_.contains(over_key(session, request.owner_incarnation())) || over_.contains(request.hold_id()))
    return Status(Code::kCancelled, "the session or the hold is over");
  if (!read_id(request.owner_incarnation(), incarnation) ||
      !control::check_node_name(request.owner_node()).is_ok())
    return Status(Code::kInvalidArgument, "a hold names its session's daemon");
  if (request.extents_size() > kSequenceExtentsMax)
    return Status(Code::kTooLarge, "more extents than an allocation has");
  std::vector<ExtentId> extents;
  for (const auto& ref : request.extents()) extents.push_back(present(id_of(ref)));
  constexpr int kToldAtOnceMax = 64;
  const bool known = leases_.has_hold(session, hold);
  OCM_TRY_ASSIGN(const std::vector<ExtentId> missing,
                 leases_.hold(session, request.owner_node(), incarnation, hold, extents));
  check_owner(request.owner_node(), incarnation);
  size_t found = 0;  // of `missing`, in the order of `extents`
  for (size_t i = 0; i < extents.size() && found < missing.size(); ++i) {
    if (extents[i] != missing[found]) continue;
    *out.add_missing() = request.extents(static_cast<int>(i));
    ++found;
  }
  OCM_DASSERT(found == missing.size());
  int late = known ? kToldAtOnceMax : 0;
  for (const auto& ref : request.extents()) {  // who asked does not know the other homes of today
    const wire::PartMoved* part = late == kToldAtOnceMax ? nullptr : remade(id_of(ref));
    const ExtentId now = present(id_of(ref));
    if (part == nullptr || !on_held_late_ || leases_.find(now) == nullptr) continue;
    on_held_late_(*part, now, {session, request.owner_node(), incarnation, hold});
    ++late;
  }
  return out;
}

std::vector<control::Leases::HeldBy> Home::take_holds(const wire::GiveReplica& request) {
  std::vector<control::Leases::HeldBy> out;
  if (!request.has_published() || fault::at(fault::Point::kHoldsStay)) return out;
  for (const auto& hold : request.holds()) {
    control::Leases::HeldBy by{{}, hold.owner_node(), {}, {}};
    if (!read_id(hold.session_id(), by.session) || !read_id(hold.hold_id(), by.hold) ||
        !read_id(hold.owner_incarnation(), by.incarnation) || !control::check_node_name(by.node).is_ok())
      continue;
    if (over_.contains(over_key(by.session, hold.owner_incarnation())) || over_.contains(hold.hold_id()))
      continue;
    const bool known = leases_.has_hold(by.session, by.hold);
    if (!leases_.add_to_hold(by, id_of(request.replica()))) continue;
    fault::reached(fault::State::kHoldFollowed);
    check_owner(by.node, by.incarnation);
    if (!known) out.push_back(std::move(by));
  }
  return out;
}

void Home::drop(ExtentId id) {
  // The part of a second id is in force, so the one before is over, also where no vote told so yet.
  if (const auto was = planned_as(id); was) (void)leave_out(*was);
  if (!leave_out(id).is_ok()) return;  // told again
  fault::reached(fault::State::kReplicaDropped);
  log::info("replica_dropped", {{"extent", id.address.to_string()}});
  if (on_dropped_) on_dropped_(id);
}

Result<std::shared_ptr<memory::Extent>> Home::find_frozen_too(ExtentId id) const {
  const auto frozen = frozen_.find(id);
  if (frozen != frozen_.end()) return frozen->second;
  return table_->find(id);
}

std::vector<Home::ShortPart> Home::short_parts(
    const std::function<bool(ExtentId, const Degraded&)>& which) const {
  std::vector<ShortPart> out;
  for (const auto& [id, known] : degraded_) {
    const control::Lease* lease = leases_.find(id);
    if (lease != nullptr && !lease->name_ended && which(id, known))
      out.push_back({id, known.part, known.lost, known.wanted});
  }
  return out;
}

std::vector<Home::ShortPart> Home::led_parts() const {
  return short_parts(
      [](ExtentId id, const Degraded& known) { return first_living(known.part, known.lost) == id; });
}

std::vector<Home::ShortPart> Home::followed_parts() const {
  return short_parts(
      [](ExtentId id, const Degraded& known) { return first_living(known.part, known.lost) != id; });
}

std::vector<Home::ShortPart> Home::last_replicas() const {
  return short_parts(
      [](ExtentId, const Degraded& known) { return known.lost.size() + 1 == known.part.size(); });
}

Result<wire::ExtentDescriptor> Home::share(ExtentId id) {
  OCM_TRY_ASSIGN(const std::shared_ptr<memory::Extent> second, table_->share(id));
  directory_->require_lease(second->id);
  shared_[id] = second->id;
  return describe(*second);
}

void Home::unshare(ExtentId id) {
  planned_.erase(id);
  const auto second = shared_.find(id);
  if (second == shared_.end()) return;
  const ExtentId gone = second->second;
  shared_.erase(second);
  (void)table_->remove(gone);
  directory_->revoke(gone);
}

Result<wire::ExtentDescriptor> Home::share_closed(ExtentId id) {
  OCM_TRY(table_->find(id).status());
  if (planned_.contains(id)) return Status(Code::kExists, "a part that is planned may follow it");
  unshare(id);  // of an attempt that ended without a word
  auto second = share(id);
  if (!second.is_ok()) return second;
  OCM_TRY(table_->suspend(shared_.at(id)));
  return second;
}

void Home::unshare(ExtentId id, ExtentId second) {
  const auto known = shared_.find(id);
  if (known != shared_.end() && known->second == second) unshare(id);
}

Result<std::weak_ptr<fabric::ServedExtent>> Home::freeze(ExtentId id) {
  OCM_TRY_ASSIGN(std::shared_ptr<memory::Extent> extent, table_->find(id));
  OCM_TRY(table_->suspend(id));
  frozen_[id] = std::move(extent);
  return directory_->suspend(id);  // after the table's: see Directory::open()
}

void Home::thaw(ExtentId id) {
  if (frozen_.erase(id) == 0) return;
  (void)table_->resume(id);
}

void Home::switch_over(ExtentId was, wire::PartMoved part) {
  auto& all = *part.mutable_now();
  const auto own = std::find_if(all.begin(), all.end(), [this](const auto& one) {
    return id_of(one).address.partition() == core_.partition;
  });
  const ExtentId now = own == all.end() ? ExtentId() : id_of(*own);
  if (planned_.erase(was) != 0) (void)table_->resume(now);
  const auto here = table_->find(now);
  if (!here.is_ok()) {  // the part that follows went on without it
    (void)remove(was);
    return;
  }
  *own = describe(*here.value());  // whoever leads need not know
  directory_->require_lease(now);
  remember(part, now);
  if (const auto named = published_extents_.find(was); named != published_extents_.end()) {
    const std::string allocation = named->second;
    published_extents_.erase(named);
    published_extents_[now] = allocation;
    wire::Allocation& record = published_.at(allocation);
    if (!control::relocate(record, part)) {  // of a part that it does not know
      for (auto& extent : *record.mutable_extents()) {
        if (id_of(extent) != was) continue;
        const uint32_t index = extent.part();
        extent = *own;
        extent.set_part(index);
      }
    }
  }
  leases_.rename(was, now);
  degraded_.erase(was);
  formerly_.erase(was);  // they lead to the new one: see remember()
  frozen_.erase(was);
  shared_.erase(was);
  if (fault::at(fault::Point::kOldPartServed)) {
    directory_->revoke(was);
    (void)table_->resume(was);
    return;
  }
  (void)table_->remove(was);
  directory_->revoke(was);
}

void Home::remember(const wire::PartMoved& part, ExtentId here) {
  constexpr size_t kFormerMax = 16;  // who slept through more of them asks for the last one, in vain
  const ExtentId was = id_of(part.was());
  std::vector<ExtentId> former;
  for (const auto& ref : part.former()) former.push_back(id_of(ref));
  for (const auto& ref : part.peers()) former.push_back(id_of(ref));
  former.push_back(was);
  while (former.size() > kFormerMax) {
    remade_.erase(former.front());
    former.erase(former.begin());
  }
  lead_on(former, part);
  formerly_[here] = std::move(former);
  const size_t wanted = std::min<size_t>(part.replicas_wanted(), kReplicasMax);
  const auto now = static_cast<size_t>(part.now_size());
  if (wanted <= now || fault::at(fault::Point::kVacanciesStay)) return;
  Degraded& less = degraded_[here] = {{}, {}, wanted};  // there was no room
  for (const auto& extent : part.now()) less.part.push_back(id_of(extent));
  std::sort(less.part.begin(), less.part.end());
}

Status Home::give(const wire::GiveReplica& request, bool told) {
  const ExtentId id = id_of(request.replica());
  AllocationId allocation;
  OCM_TRY(table_->find(id).status());
  // Told late, or again: the name has ended since, and would be back.
  if (const control::Lease* lease = leases_.find(id); lease != nullptr && lease->name_ended) return {};
  const bool named = request.has_published();
  SessionId session;
  control::Incarnation incarnation;
  if (!read_id(request.part().allocation_id(), allocation) || request.part().now_size() == 0 ||
      (!named &&
       (!read_id(request.session_id(), session) || !read_id(request.owner_incarnation(), incarnation) ||
        !control::check_node_name(request.owner_node()).is_ok()))) {
    return Status(Code::kInvalidArgument, "a replica is given to a session or a name");
  }
  if (named) {
    wire::Allocation record = request.published();
    OCM_TRY(check_name(record.name()));
    OCM_TRY(control::check_parts(record));
    const auto own = std::find_if(record.extents().begin(), record.extents().end(),
                                  [id](const auto& extent) { return id_of(extent) == id; });
    if (own == record.extents().end())
      return Status(Code::kInvalidArgument, "the name does not have the replica");
    OCM_TRY(find(*own, Access::kReadWrite).status());
    const auto known = published_.find(record.allocation_id());
    if (known != published_.end()) (void)control::take_newer(record, known->second);
    if (!has_all_published(record))
      return Status(Code::kExists, "the allocation is published here with other extents");
    uint64_t attempt = request.attempt();
    const control::Lease* own_lease = leases_.find(id);
    const bool keeps = own_lease != nullptr && !own_lease->session && !own_lease->is_of(request.instead_of());
    if (keeps) attempt = own_lease->attempt;  // of an attempt that came since
    if (known != published_.end()) {          // one for all of it here
      for (const auto& extent : known->second.extents()) {
        const ExtentId other = id_of(extent);
        const control::Lease* lease = published_extents_.contains(other) ? leases_.find(other) : nullptr;
        if (lease != nullptr && other != id) attempt = lease->attempt;
      }
    }
    leases_.give_to_name(id, allocation, attempt);
    if (!told) return {};
    add_published(record);
  } else {
    if (over_.contains(over_key(session, request.owner_incarnation())))
      return Status(Code::kCancelled, "the session is over");
    if (over_.contains(request.part().allocation_id())) return Status(Code::kCancelled, "it was freed");
    unpublish(id);
    leases_.give(id, allocation, session, request.owner_node(), incarnation);
    check_owner(request.owner_node(), incarnation);
  }
  if (told) remember(request.part(), id);
  return {};
}

Result<std::shared_ptr<memory::Extent>> Home::find(const wire::ExtentDescriptor& extent,
                                                   Access access) const {
  OCM_TRY_ASSIGN(std::shared_ptr<memory::Extent> found, table_->find(id_of(extent)));
  if (!opens(*found, extent.capability(), access)) return Status(Code::kPermission, "wrong capability");
  return found;
}

Result<os::Fd> Home::open(const wire::OpenExtentRequest& request) const {
  if (request.access() != 1 && request.access() != 3) return Status(Code::kInvalidArgument, "unknown access");
  const auto access = static_cast<Access>(request.access());
  OCM_TRY_ASSIGN(const std::shared_ptr<memory::Extent> extent, table_->find(id_of(request)));
  if (!opens(*extent, request.capability(), access)) return Status(Code::kPermission, "wrong capability");
  return extent->backing->share(access);
}

Result<os::Fd> Home::share_generations() const {
  if (fault::at(fault::Point::kSessionNoFds)) return Status(Code::kNoFds);
  os::Fd copy(::fcntl(generations_read_only_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return Status::from_errno(errno, "sharing the generation table");
  return copy;
}

std::optional<Kind> Home::kind_of(ExtentId id) const {
  const auto extent = table_->find(id);
  return extent.is_ok() ? std::optional(extent.value()->kind) : std::nullopt;
}

std::vector<control::PoolInfo> Home::pools() const {
  std::vector<control::PoolInfo> out;
  for (const Kind kind : table_->kinds()) out.push_back(pool(kind));
  return out;
}

control::PoolInfo Home::pool(Kind kind) const {
  const memory::PoolUse use = table_->use(kind);
  return {.kind = kind,
          .bytes_total = use.budget_bytes,
          .bytes_used = use.used_bytes + use.reclaiming_bytes,
          .bytes_reclaiming = use.reclaiming_bytes,
          .bytes_ready = use.ready_bytes};
}

}  // namespace ocm::node
