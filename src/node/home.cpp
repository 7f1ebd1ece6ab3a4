#include "node/home.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>

#include "base/fault.h"
#include "base/units.h"
#include "cache/cached_kind.h"
#include "control/names.h"
#include "control/parts.h"
#include "control/placement.h"
#include "fabric/registry/registry.h"
#include "fabric/shm/tables.h"
#include "os/crypto.h"
#include "os/fd_reserve.h"

namespace ocm::node {
Result<std::unique_ptr<Home>> Home::make(Core& core) {
  std::unique_ptr<Home> home(new Home(core));
  OCM_TRY(home->init());
  return home;
}

Home::~Home() {
  if (table_) table_->keep_mapped_pages();
}

std::string Home::cluster() const {
  if (core_.config.token_file.empty()) return {};  // the token is of one boot of this host
  const os::Digest digest = os::hmac_sha256(core_.token, {os::bytes_of("oncilla cluster of a pool")});
  return to_hex(digest.data(), 16);
}

Status Home::init() {
  slots_ = most_slots(core_.config.extents_max());
  files_max_ = most_files();
  const uint64_t bytes = fabric::shm::GenerationTable::bytes(slots_);
  OCM_TRY_ASSIGN(generations_fd_, os::make_memfd("oncilla-generations", bytes, {.seal_later = true}));
  OCM_TRY_ASSIGN(generations_, os::Mapping::map(generations_fd_.get(), bytes, true));
  OCM_TRY(os::seal_writes(generations_fd_.get()));
  OCM_TRY_ASSIGN(generations_read_only_, os::reopen_read_only(generations_fd_.get()));
  if (core_.config.cache_bytes != 0 && core_.env.has_threads()) {
    caches_ = std::make_shared<cache::Caches>(
        cache::CachesOptions{.self = core_.partition,
                             .bytes = core_.config.cache_bytes,
                             .cooperates = core_.config.cache_cooperation,
                             .failure_deadline_ns = core_.config.failure_deadline_ns()});
  }
  std::vector<memory::PoolConfig> pools;
  for (const memory::Entry* entry : core_.config.kinds) {
    OCM_TRY_ASSIGN(auto backend, entry->make(core_.config.offers, {.core_dump = core_.config.core_dump_memory,
                                                                   .threads = core_.env.has_threads(),
                                                                   .cluster = cluster()}));
    if (caches_ != nullptr && core_.config.offered_bytes(entry->kind) != 0) {
      backend = cache::with_cache(std::move(backend), caches_);
    }
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

ExtentDescriptor Home::describe(const memory::Extent& extent) const {
  ExtentDescriptor out{.id = extent.id,
                       .bytes = extent.bytes,
                       .capability = extent.capability,
                       .node = core_.name,
                       .kind = extent.kind,
                       .slot = extent.slot,
                       .unmapped = is_unmapped(extent)};
  // What is on a device, or cached, is reached through its home only. So is what shares a file: a late store of a fabric
  // that writes past the home would be in the bytes of who has the range by then.
  const bool through_home = extent.backing->staged() != nullptr || !extent.backing->has_file();
  for (const FabricAddress& address : core_.addresses) {
    if (!through_home || home_checks(address.fabric)) out.addresses.push_back(address);
  }
  return out;
}

Status Home::remove(ExtentId id) {
  const Status removed = table_->remove(id);
  revoke(id);  // after remove(): an open() in between sees that the extent is revoked
  ownership_.remove(id);
  retired_.erase(id);
  forget_replica(id);
  return removed;
}

void Home::revoke(ExtentId id) {
  directory_->revoke(id);
  if (on_over_) on_over_(id);
}

Status Home::leave_out(ExtentId id) {
  if (ownership_.end_name(id)) return remove(id);
  OCM_TRY_ASSIGN(retired_[id], table_->retire(id));
  revoke(id);
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
  const AllocationId allocation = named->second;
  published_extents_.erase(named);
  const bool was_kept = forget(id);
  // Once nothing of it is here, its other homes hold the name.
  if (--published_living_.at(allocation) == 0)
    erase_published(allocation);
  else if (was_kept)
    (void)keep(allocation);  // it may have had the record
}

void Home::add_published(const control::Allocation& allocation) {
  const AllocationId& name_id = allocation.id;
  erase_record(name_id);
  if (allocation.extents.empty()) return;
  published_[name_id] = allocation;
  size_t& living = published_living_[name_id];
  for (const auto& extent : allocation.extents) {
    if (extent.node != core_.name || extent.lost) continue;
    const ExtentId id = extent.id;
    living += is_here(id) && published_extents_.emplace(id, name_id).second ? 1 : 0;
  }
}

bool Home::has_all_published(const control::Allocation& allocation) const {
  const auto known = published_.find(allocation.id);
  if (known == published_.end()) return true;
  std::set<ExtentId> all;
  for (const auto& extent : allocation.extents) all.insert(extent.id);
  return std::all_of(known->second.extents.begin(), known->second.extents.end(), [&](const auto& extent) {
    const auto here = published_extents_.find(extent.id);
    return here == published_extents_.end() || here->second != known->first || all.contains(here->first);
  });
}

void Home::erase_published(const AllocationId& allocation) {
  const auto known = published_.find(allocation);
  if (known == published_.end()) return;
  std::vector<ExtentId> kept;
  for (const auto& extent : known->second.extents) {
    const auto named = published_extents_.find(extent.id);
    const bool its = named != published_extents_.end() && named->second == allocation;
    if (its && kept_.contains(extent.id)) kept.push_back(extent.id);
  }
  erase_record(allocation);
  for (const ExtentId& id : kept) (void)forget(id);
}

void Home::erase_record(const AllocationId& allocation) {
  const auto known = published_.find(allocation);
  if (known == published_.end()) return;
  for (const auto& extent : known->second.extents) {
    const auto named = published_extents_.find(extent.id);
    if (named != published_extents_.end() && named->second == allocation) published_extents_.erase(named);
  }
  published_living_.erase(allocation);
  published_.erase(known);
}

Status Home::release(const control::ReleaseRequest& request) {
  const SessionId& session = request.session;
  const bool named = session != SessionId();
  if (request.extent.address.bits() == 0) {
    std::unordered_set<AllocationId> all{request.allocation};
    all.insert(request.parts.begin(), request.parts.end());
    for (const ExtentId& id : ownership_.of_session(session)) {
      const control::Title* title = ownership_.find(id);
      if (title == nullptr || !all.contains(title->allocation)) continue;
      tell_part_freed(made_as(id), id);  // some of it may be given only now
      (void)remove(id);
    }
    for (Making& making : making_) {
      if (making.session == session && making.allocation == request.allocation) making.cancelled = true;
    }
    over_.insert(id_field(request.allocation));
    return {};
  }
  const auto owned = [&](ExtentId id) {
    const control::Title* title = ownership_.find(id);
    return named && title != nullptr && title->session == session;
  };
  const auto free_part_of = [&](ExtentId was) {
    const ExtentId id = first_of(present(was));
    const bool moved = remade(was) != nullptr && id == was;
    if (!moved && !owned(id)) return false;
    tell_part_freed(remade(was), id);
    return moved || remove(id).is_ok();
  };
  for (const ExtentId& id : request.more) (void)free_part_of(id);
  const ExtentId id = request.extent;
  if (remade(id) != nullptr) return free_part_of(id) ? Status() : Status(Code::kPermission);
  const ExtentId first = first_of(id);  // while the part is made again its bytes have the owner of that one
  if (first != id && owned(first)) {
    tell_part_freed(nullptr, first);
    return remove(first);
  }
  OCM_TRY_ASSIGN(const std::shared_ptr<memory::Extent> extent, find_frozen_too(id));
  if (!owned(id) && !os::opens(extent->capability, request.capability, Access::kReadWrite))
    return Code::kPermission;
  // A program frees what has a name, of which it did not hear: that ends the name, and who holds it keeps it.
  const bool of_program = named && request.allocation == AllocationId();
  const control::Title* title = ownership_.find(first);
  const bool is_late = !request.instead_of.empty() && title != nullptr && !title->is_of(request.instead_of);
  if (is_late) return {};
  if (!of_program && !request.holders_keep) return leave_out(id);
  if (of_program) tell_part_freed(nullptr, first);
  return ownership_.end_name(first) ? remove(first) : Status();
}

void Home::tell_part_freed(const control::PartMoved* part, ExtentId id,
                           const std::set<std::string>& owners) const {
  if (!on_part_freed_) return;
  if (part != nullptr) on_part_freed_(*part, owners);
  const control::PlannedPart* plan = plan_of(id);
  if (plan != nullptr && !fault::at(fault::Point::kPlannedNotFreed)) on_part_freed_(plan->give.part, owners);
}

void Home::end_session(const SessionId& session, const control::Incarnation& incarnation) {
  over_.insert(over_key(session, incarnation));
  for (Making& making : making_) {
    if (making.session == session && making.incarnation == incarnation) making.cancelled = true;
  }
  if (!ownership_.is_ended_by(session, incarnation)) return;
  std::vector<ExtentId> planned;
  for (const auto& [id, plan] : planned_) {
    const control::Title* title = ownership_.find(id);
    if (title != nullptr && title->session == session) planned.push_back(id);
  }
  // The home that leads may have given them to a name since.
  for (const ExtentId& id : planned) tell_part_freed(nullptr, id, {id_field(session)});
  free_session(session);
}

void Home::check_owner(const std::string& node, const control::Incarnation& incarnation) {
  const auto known = nodes_.find(node);
  has_strangers_ = has_strangers_ || known == nodes_.end();
  if (known == nodes_.end() || known->second == incarnation) return;
  ownership_.owner_node(node, known->second, core_.now_ns(), patience());
}

void Home::members(const std::function<bool(const std::string&)>& is_member) {
  if (!has_strangers_) return;
  has_strangers_ = false;
  for (const std::string& node : ownership_.nodes()) {
    if (!nodes_.contains(node) && !is_member(node))
      ownership_.owner_node(node, std::nullopt, core_.now_ns(), patience());
  }
}

void Home::free_session(const SessionId& session) {
  for (const control::HoldId& hold : ownership_.holds_of(session))
    free_all(ownership_.end_hold(session, hold));
  free_all(ownership_.end_session(session));
}

void Home::free_all(const std::vector<ExtentId>& ids) {
  const bool is_freeing = !to_free_.empty();
  for (const ExtentId& id : ids) {
    // What is being made again has others that wait for its end; it is little, as what is retired.
    const bool is_made_again = frozen_.contains(id) || shared_.contains(id) || planned_.contains(id);
    auto extent = table_->find(id);
    if (is_made_again || !extent.is_ok()) {
      (void)remove(id);
      continue;
    }
    if (!fault::at(fault::Point::kNobodysServed)) {
      (void)table_->suspend(id);
      revoke(id);
    }
    forget_replica(id);
    to_free_bytes_[static_cast<size_t>(extent.value()->kind)] += extent.value()->span_bytes;
    to_free_.push_back(std::move(extent).value());
  }
  if (is_freeing || to_free_.empty() || fault::at(fault::Point::kNobodysStay)) return;
  free_some();
  if (!to_free_.empty()) core_.env.spawn(free_in_turns());
}

void Home::free_some() {
  const size_t at_once = core_.env.has_threads() ? 64 : 1;  // a simulation has few
  for (size_t i = 0; i < at_once && !to_free_.empty(); ++i) {
    const std::shared_ptr<memory::Extent> extent = std::move(to_free_.front());
    to_free_.pop_front();
    to_free_bytes_[static_cast<size_t>(extent->kind)] -= extent->span_bytes;
    (void)remove(extent->id);
  }
  freed_.notify();
}

control::Task<void> Home::free_in_turns() {
  fault::reached(fault::State::kFreedInTurns);
  while (!to_free_.empty()) {
    if (core_.env.has_threads())
      co_await core_.env.next_pass();
    else
      co_await core_.env.sleep_ns(
          1'000'000);  // a simulation's passes take no time, and others are to come between
    free_some();
  }
  OCM_DASSERT(ownership_.nobodys() == 0);  // L7
}

bool Home::may_be_freed_soon(Code refused) const {
  return ownership_.nobodys() != 0 && (refused == Code::kPoolFull || refused == Code::kLimit ||
                                       refused == Code::kQuota || refused == Code::kNoFds);
}

bool Home::is_valid() const {
  const auto is_reached = [this](const auto& extent) { return table_->is_live(extent->id); };
  const auto is_named = [this](const auto& one) { return published_extents_.contains(one.first); };
  return table_->is_valid() && ownership_.is_valid() && ownership_.timers_fit(nodes_) &&
         ownership_.nobodys() <= to_free_.size() &&
         std::none_of(to_free_.begin(), to_free_.end(), is_reached) &&  // L7
         std::all_of(kept_.begin(), kept_.end(), is_named);             // K1
}

control::SessionExtents Home::resume(const SessionId& session, const std::string& node,
                                     const control::Incarnation& incarnation) {
  control::SessionExtents out;
  if (over_.contains(over_key(session, incarnation)) && !fault::at(fault::Point::kLateResumeTaken)) {
    fault::reached(fault::State::kLateResume);
    return out;
  }
  if (!ownership_.resume(session, node, incarnation)) return out;
  fault::reached(fault::State::kSessionResumed);
  check_owner(node, incarnation);
  out.holds = ownership_.holds_of(session);
  for (const ExtentId& id : ownership_.of_session(session)) {
    const auto extent = table_->find(id);
    const control::Title* title = ownership_.find(id);
    if (!extent.is_ok() || title == nullptr) continue;
    out.extents.push_back({title->allocation, describe(*extent.value())});
    out.extents.back().extent.addresses.clear();
  }
  return out;
}

Status Home::publish(const control::NameChange& request) {
  const control::Allocation& allocation = request.allocation;
  const bool has_owner = !request.owner_node.empty();
  if ((request.undo && !has_owner) || !allocation.has_id()) return Code::kInvalidArgument;
  if (request.former) {
    for (const auto& extent : allocation.extents) drop_former(extent);
    return {};
  }
  const std::string attempt = over_key(request.attempt);
  const bool ended = has_owner && over_.contains(over_key(request.session, request.owner_incarnation));
  if (request.undo) {
    over_.insert(attempt);
    if (ended) fault::reached(fault::State::kUndoOfEnded);
  } else if (!request.remove && over_.contains(attempt)) {
    fault::reached(fault::State::kLatePublish);
    return Code::kCancelled;
  }
  if (!request.remove && !request.undo) {
    OCM_TRY(check_name(allocation.name));
    OCM_TRY(control::check_parts(allocation));
    for (const auto& extent : allocation.extents) {
      if (extent.node != core_.name || extent.lost) continue;
      OCM_TRY(find(extent, Access::kReadWrite).status());
    }
    if (!has_all_published(allocation))
      return Status(Code::kExists, "the allocation is published here with other extents");
    add_published(allocation);
  }
  std::vector<ExtentDescriptor> here_of;
  for (const auto& extent : allocation.extents) {
    if (extent.node == core_.name) here_of.push_back(extent);
  }
  if (request.remove || request.undo) {
    // Parts of it may have been made again here, of which the coordinator had not heard.
    if (const auto known = published_.find(allocation.id); known != published_.end()) {
      for (const auto& extent : known->second.extents) {
        if (extent.node == core_.name && published_extents_.contains(extent.id)) here_of.push_back(extent);
      }
    }
    // Told late, an undo ends its own attempt and not one that came after it.
    if (request.undo)
      std::erase_if(here_of, [&](const auto& extent) {
        const control::Title* title = ownership_.find(present(extent.id));
        return title == nullptr || (!title->session && title->attempt != request.attempt);
      });
    const bool is_current = std::any_of(here_of.begin(), here_of.end(), [&](const auto& extent) {
      const control::Title* title = ownership_.find(present(extent.id));
      return title != nullptr && !title->session;
    });
    if (request.remove || is_current) erase_published(allocation.id);
  }
  for (const ExtentDescriptor& extent : here_of) {
    const ExtentId was = extent.id;
    const ExtentId id = present(was);
    // Of a former replica the capability is not known any more; who could name it knew it.
    const auto here = find_frozen_too(id);
    if (!here.is_ok() && id == was && request.remove) tell_part_freed(remade(was), id);  // it has moved
    if (!here.is_ok() ||
        (id == was && !os::opens(here.value()->capability, extent.capability, Access::kReadWrite)))
      continue;
    const control::PartMoved* part = remade(was);
    if (request.remove || (request.undo && ended)) {
      std::set<std::string> owners;  // a later attempt may have it by now
      if (request.undo) owners = {control::Title::owner_by(request.attempt), id_field(request.session)};
      tell_part_freed(part, id, owners);
      if (ownership_.end_name(id)) (void)remove(id);
    } else if (request.undo) {
      if (!ownership_.to_session(id, request.session, request.owner_node, request.owner_incarnation))
        continue;
      check_owner(request.owner_node, request.owner_incarnation);
      if (part != nullptr && on_part_given_) on_part_given_(*part, id, request.attempt);
    } else {
      ownership_.to_name(id, request.attempt);
    }
  }
  if (request.remove || request.undo) return {};
  const Status kept = keep(allocation.id);
  return kept;
}

Result<std::vector<ExtentId>> Home::hold(const control::HoldRequest& request) {
  const auto& [session, node, incarnation, hold] = request.by;
  if (over_.contains(over_key(session, incarnation)) || over_.contains(id_field(hold)))
    return Status(Code::kCancelled, "the session or the hold is over");
  std::vector<ExtentId> extents;
  for (const ExtentId& id : request.extents) extents.push_back(present(id));
  constexpr int kToldAtOnceMax = 64;
  const bool known = ownership_.has_hold(session, hold);
  OCM_TRY_ASSIGN(const std::vector<ExtentId> missing,
                 ownership_.hold(session, node, incarnation, hold, extents));
  check_owner(node, incarnation);
  std::vector<ExtentId> out;  // `missing`, which is in the order of `extents`, as it was asked for
  for (size_t i = 0; i < extents.size() && out.size() < missing.size(); ++i) {
    if (extents[i] == missing[out.size()]) out.push_back(request.extents[i]);
  }
  OCM_DASSERT(out.size() == missing.size());
  int late = known ? kToldAtOnceMax : 0;
  for (const ExtentId& was : request.extents) {  // who asked does not know the other homes of today
    const control::PartMoved* part = late == kToldAtOnceMax ? nullptr : remade(was);
    const ExtentId now = present(was);
    if (part == nullptr || !on_held_late_ || ownership_.find(now) == nullptr) continue;
    on_held_late_(*part, now, request.by);
    ++late;
  }
  return out;
}

void Home::end_hold(const SessionId& session, const control::HoldId& hold) {
  over_.insert(id_field(hold));
  free_all(ownership_.end_hold(session, hold));
}

std::vector<control::Ownership::HeldBy> Home::take_holds(const control::GivenReplica& request) {
  std::vector<control::Ownership::HeldBy> out;
  if (!request.published || fault::at(fault::Point::kHoldsStay)) return out;
  for (const control::Ownership::HeldBy& by : request.holds) {
    if (over_.contains(over_key(by.session, by.incarnation)) || over_.contains(id_field(by.hold))) continue;
    const bool known = ownership_.has_hold(by.session, by.hold);
    if (!ownership_.add_to_hold(by, request.replica)) continue;
    fault::reached(fault::State::kHoldFollowed);
    check_owner(by.node, by.incarnation);
    if (!known) out.push_back(by);
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
    const control::Title* title = ownership_.find(id);
    if (title != nullptr && !title->name_ended && which(id, known))
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

Result<ExtentDescriptor> Home::share(ExtentId id) {
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
  revoke(gone);
}

Result<ExtentDescriptor> Home::share_closed(ExtentId id) {
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

void Home::switch_over(ExtentId was, control::PartMoved part) {
  const auto own = std::find_if(part.now.begin(), part.now.end(), [this](const auto& one) {
    return one.id.address.partition() == core_.partition;
  });
  const ExtentId now = own == part.now.end() ? ExtentId() : own->id;
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
    const AllocationId allocation = named->second;
    published_extents_.erase(named);
    published_extents_[now] = allocation;
    control::Allocation& record = published_.at(allocation);
    if (!control::relocate(record, part)) {  // of a part that it does not know
      for (auto& extent : record.extents) {
        if (extent.id != was) continue;
        const uint32_t index = extent.part;
        extent = *own;
        extent.part = index;
      }
    }
  }
  ownership_.rename(was, now);
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
  revoke(was);
}

void Home::remember(const control::PartMoved& part, ExtentId here) {
  constexpr size_t kFormerMax = 16;  // who slept through more of them asks for the last one, in vain
  const ExtentId was = part.was;
  std::vector<ExtentId> former = part.former;
  former.insert(former.end(), part.peers.begin(), part.peers.end());
  former.push_back(was);
  while (former.size() > kFormerMax) {
    remade_.erase(former.front());
    former.erase(former.begin());
  }
  lead_on(former, part);
  formerly_[here] = std::move(former);
  const size_t wanted = std::min<size_t>(part.replicas_wanted, kReplicasMax);
  const size_t now = part.now.size();
  if (wanted <= now || fault::at(fault::Point::kVacanciesStay)) return;
  Degraded& less = degraded_[here] = {{}, {}, wanted};  // there was no room
  for (const auto& extent : part.now) less.part.push_back(extent.id);
  std::sort(less.part.begin(), less.part.end());
}

Status Home::give(const control::GivenReplica& request, bool told) {
  const ExtentId id = request.replica;
  const AllocationId& allocation = request.part.allocation;
  OCM_TRY(table_->find(id).status());
  // Told late, or again: the name has ended since, and would be back.
  if (const control::Title* title = ownership_.find(id); title != nullptr && title->name_ended) return {};
  if (allocation == AllocationId() || request.part.now.empty() ||
      (!request.published && request.owner_node.empty()))
    return Status(Code::kInvalidArgument, "a replica is given to a session or a name");
  if (request.published) {
    control::Allocation record = *request.published;
    OCM_TRY(check_name(record.name));
    OCM_TRY(control::check_parts(record));
    const auto own = std::find_if(record.extents.begin(), record.extents.end(),
                                  [id](const auto& extent) { return extent.id == id; });
    if (own == record.extents.end())
      return Status(Code::kInvalidArgument, "the name does not have the replica");
    OCM_TRY(find(*own, Access::kReadWrite).status());
    const auto known = published_.find(record.id);
    if (known != published_.end()) (void)control::take_newer(record, known->second);
    if (!has_all_published(record))
      return Status(Code::kExists, "the allocation is published here with other extents");
    uint64_t attempt = request.attempt;
    const control::Title* own_title = ownership_.find(id);
    const bool keeps = own_title != nullptr && !own_title->session && !own_title->is_of(request.instead_of);
    if (keeps) attempt = own_title->attempt;  // of an attempt that came since
    if (known != published_.end()) {          // one for all of it here
      for (const auto& extent : known->second.extents) {
        const ExtentId other = extent.id;
        const control::Title* title = published_extents_.contains(other) ? ownership_.find(other) : nullptr;
        if (title != nullptr && other != id) attempt = title->attempt;
      }
    }
    ownership_.give_to_name(id, allocation, attempt);
    if (!told) return {};
    add_published(record);
  } else {
    if (over_.contains(over_key(request.session, request.owner_incarnation)))
      return Status(Code::kCancelled, "the session is over");
    if (over_.contains(id_field(allocation))) return Status(Code::kCancelled, "it was freed");
    unpublish(id);
    ownership_.give(id, allocation, request.session, request.owner_node, request.owner_incarnation);
    check_owner(request.owner_node, request.owner_incarnation);
  }
  if (told) remember(request.part, id);
  return {};
}

Result<std::shared_ptr<memory::Extent>> Home::find(const ExtentDescriptor& extent, Access access) const {
  OCM_TRY_ASSIGN(std::shared_ptr<memory::Extent> found, table_->find(extent.id));
  if (!os::opens(found->capability, extent.capability, access))
    return Status(Code::kPermission, "wrong capability");
  return found;
}

Result<os::Fd> Home::open(const ExtentDescriptor& extent, Access access) const {
  OCM_TRY_ASSIGN(const std::shared_ptr<memory::Extent> found, find(extent, access));
  return found->backing->share(access);
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
  const uint64_t freed_bytes = std::min(use.used_bytes, to_free_bytes_[static_cast<size_t>(kind)]);
  return {.kind = kind,
          .bytes_total = use.budget_bytes,
          .bytes_used = use.used_bytes + use.reclaiming_bytes,
          .bytes_reclaiming = use.reclaiming_bytes + freed_bytes,
          .bytes_ready = use.ready_bytes,
          .lasts = table_->lasts(kind),
          .coherent = may_be_coherent(kind)};
}

}  // namespace ocm::node
