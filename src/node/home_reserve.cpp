// How a home makes an extent that somebody asks for: whose share and quota it takes, and whether it gets a file of its own.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/share.h"
#include "base/units.h"
#include "control/placement.h"
#include "fabric/registry/registry.h"
#include "fabric/shm/tables.h"
#include "memory/registry/registry.h"
#include "node/home.h"
#include "os/fd_reserve.h"
#include "os/machine_memory.h"

namespace ocm::node {

/// The rest of the descriptors is for connections and sessions, and of the mappings for what else a process maps.
uint64_t Home::most_files() {
  constexpr uint64_t kMappingsByDefault = 65530;
  const uint64_t mappings = os::number_in("/proc/sys/vm/max_map_count").value_or(kMappingsByDefault);
  return std::min(os::fd_limit() / 8 * 7, mappings / 8 * 7);
}

Status Home::check_reserve(const control::ReserveRequest& r) const {
  if (core_.draining || core_.stopping)
    return Status::of_node(Code::kDraining, core_.name, " is shutting down");
  if (r.owner_node.empty())
    return Status(Code::kInvalidArgument, "a reservation names its session, allocation and daemon");
  if (over_.contains(over_key(r.session, r.owner_incarnation)) || over_.contains(id_field(r.allocation))) {
    fault::reached(fault::State::kLateReserve);
    return Status(Code::kCancelled, "the session or the allocation is over");
  }
  if (r.bytes_total == 0) return Status(Code::kInvalidArgument, "bytes is 0; it must be at least 1");
  if (r.bytes_total > GlobalAddress::kOffsetMask) {
    return Status(Code::kTooLarge, "an extent of " + format_bytes(r.bytes_total) + " is asked for; at most " +
                                       format_bytes(GlobalAddress::kOffsetMask) + " fit into one");
  }
  if (!table_->has(r.kind)) {
    return Status::of_node(Code::kUnsupported, core_.name, " offers no such kind");
  }
  if ((r.flags & control::kFlagDurable) != 0 && !table_->lasts(r.kind)) {
    return Status::of_node(
        Code::kUnsupported, core_.name,
        " keeps no memory of kind " + std::string(kind_name(r.kind)) + " beyond its daemon's run");
  }
  if ((r.flags & control::kFlagCoherent) != 0 && !may_be_coherent(r.kind)) {
    return Status::of_node(Code::kUnsupported, core_.name,
                           " has no coherent memory of kind " + std::string(kind_name(r.kind)));
  }
  return check_share(r);
}

bool Home::may_be_coherent(Kind kind) const {
  const memory::Entry* entry = memory::find_entry(kind, core_.config.kinds);
  return entry != nullptr && entry->traits.coherent;
}

uint32_t Home::most_slots(uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return static_cast<uint32_t>(wanted);
  while (wanted > 1 && fabric::shm::GenerationTable::bytes(static_cast<uint32_t>(wanted)) > limit.rlim_cur)
    wanted /= 2;
  return static_cast<uint32_t>(wanted);
}

control::File Home::file_of(const memory::Extent& extent) {
  if (extent.backing->has_file()) return control::File::kOwn;
  return memory::traits_of(extent.kind).mapped ? control::File::kShared : control::File::kNone;
}

bool Home::home_checks(Fabric fabric) {
  const fabric::Entry* entry = fabric::find_entry(fabric);
  return entry != nullptr && entry->traits.home_checks;
}

bool Home::is_unmapped(const memory::Extent& extent) {
  return memory::traits_of(extent.kind).mapped &&
         (extent.backing->staged() != nullptr || !extent.backing->has_file());
}

bool Home::network_leads_here() const {
  const auto leads_there = [](const FabricAddress& address) { return home_checks(address.fabric); };
  return std::any_of(core_.addresses.begin(), core_.addresses.end(), leads_there);
}

bool Home::may_share_file(const control::ReserveRequest& r) const {
  return r.bytes_total <= memory::kSharedFileBytesMax && memory::traits_of(r.kind).mapped &&
         network_leads_here();
}

bool Home::gets_file(uint32_t uid) const {
  const uint64_t users = of_users(&control::Ownership::User::files);
  return ownership_.all().files < files_max_ / 4 * 3 &&  // the rest is for those that may not share one
         used_up_share(is_privileged(uid), ownership_.of_user(uid).files, users, files_max_) == Share::kOk;
}

uint64_t Home::of_users(size_t control::Ownership::User::*what) const {
  uint64_t users = ownership_.all().*what - ownership_.of_user(0).*what;
  if (::geteuid() != 0) users -= ownership_.of_user(::geteuid()).*what;
  return users;
}

Status Home::check_share(const control::ReserveRequest& r) const {
  const uint32_t uid = r.uid;
  const uint64_t bytes = r.bytes_total;
  OCM_TRY(check_share_of(uid, &control::Ownership::User::extents, slots_, "extents", "[limits] extents"));
  if (bytes > memory::kSharedFileBytesMax && memory::traits_of(r.kind).mapped) {
    OCM_TRY(check_files(uid));
  }
  const uint64_t quota = core_.config.quota_bytes(uid);
  const uint64_t held = ownership_.of_user(uid).bytes;
  if (quota != 0 && (bytes > quota || held > quota - bytes)) {
    return Status(Code::kQuota, "uid " + std::to_string(uid) + " holds " + format_bytes(held) + " of its " +
                                    format_bytes(quota) + " on node " + core_.name)
        .with_node(core_.name);
  }
  return {};
}

Status Home::check_files(uint32_t uid) const {
  return check_share_of(uid, &control::Ownership::User::files, files_max_, "descriptors of extents",
                        "LimitNOFILE");
}

Status Home::check_share_of(uint32_t uid, size_t control::Ownership::User::*what, uint64_t most,
                            const char* name, const char* limit) const {
  const uint64_t mine = ownership_.of_user(uid).*what, users = of_users(what);
  switch (used_up_share(is_privileged(uid), mine, users, most)) {
    case Share::kOk: return {};
    case Share::kOfAllUsers:
      return Status::of_node(Code::kLimit, core_.name,
                             " keeps its last " + std::string(name) + " for root (" + limit +
                                 "): the users have " + std::to_string(users) + " of " +
                                 std::to_string(most));
    case Share::kOfOneUser: break;
  }
  return Status(Code::kLimit, "uid " + std::to_string(uid) + " has " + std::to_string(mine) + " " + name +
                                  ", all that one user may have of node " + core_.name + "'s " +
                                  std::to_string(most) + " (" + limit + ")")
      .with_node(core_.name);
}

control::Task<Home::Made> Home::make_extent(const Making& making, uint64_t bytes, Kind kind,
                                            memory::ExtentOptions options) {
  if (fault::at(fault::Point::kHomeNoMemory)) co_return Status(Code::kNoMemory);
  if (fault::at(fault::Point::kHomeNoFds)) co_return Status(Code::kNoFds);
  constexpr uint64_t kPopulatedAtOnceMax = uint64_t{1} << 20;
  if (!options.populate || bytes <= kPopulatedAtOnceMax) co_return table_->try_create(bytes, kind, options);
  // As long as who asks waits at most.
  const uint64_t give_up_ns = core_.now_ns() + 2 * core_.config.failure_deadline_ns();
  const control::Turns::Turn turn = co_await populating_.take(making.uid, give_up_ns);
  if (making.cancelled || !turn)
    co_return Status(Code::kCancelled, "the request was cancelled before its memory was ready");
  std::function<Made()> work = [this, bytes, kind, options] {
    return table_->try_create(bytes, kind, options);
  };
  co_return co_await side_.run(std::move(work));
}

control::Task<Result<ExtentDescriptor>> Home::reserve(control::ReserveRequest r, control::PoolInfo& view) {
  // A daemon that has just started: its first put would find no lease, and have the replica given up.
  const uint64_t lease_by_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 2;
  while (r.replicated && core_.now_ns() >= core_.lease_until_ns->load(std::memory_order_acquire)) {
    if (core_.now_ns() >= lease_by_ns)
      co_return Status::of_node(Code::kPeerLost, core_.name,
                                " has no majority behind it and serves no replicas");
    co_await core_.lease_renewed.wait_until(lease_by_ns);
  }
  const uint64_t freed_by_ns =
      core_.now_ns() + 2 * core_.config.failure_deadline_ns();  // as who asks waits at most
  Status good = check_reserve(r);
  for (; may_be_freed_soon(good.code()) && core_.now_ns() < freed_by_ns; good = check_reserve(r))
    co_await freed_.wait_until(freed_by_ns);
  if (!good.is_ok()) {
    if (is_kind(static_cast<uint64_t>(r.kind))) view = pool(r.kind);
    co_return good;
  }
  const Kind kind = r.kind;
  memory::ExtentOptions options;
  options.hugepages = (r.flags & control::kFlagHugepages) != 0;
  options.populate = (r.flags & control::kFlagPopulate) != 0;
  options.durable = (r.flags & control::kFlagDurable) != 0;
  // Where no node can cache it, it has one copy, here, which programs map: coherent without any of it.
  options.coherent = (r.flags & control::kFlagCoherent) != 0 && caches_ != nullptr && network_leads_here();
  options = table_->completed(kind, options);
  const auto making = making_.insert(making_.end(), {r.session, r.owner_incarnation, r.allocation, r.uid});
  uint64_t reclaimed = table_->reclaimed(kind);
  const bool may_share = may_share_file(r), huge = options.hugepages;
  const auto set_own_file = [&](bool own_file) {
    options.own_file = own_file;
    options.hugepages =
        own_file && huge;  // a shared file has ordinary pages, as a node that is short of huge ones
  };
  set_own_file(!may_share || gets_file(r.uid));
  auto made = co_await make_extent(*making, r.bytes_total, kind, options);
  const Code refused = made.status().code();
  if (may_share && options.own_file && refused == Code::kNoFds) {
    set_own_file(false);
    made = co_await make_extent(*making, r.bytes_total, kind, options);
  } else if (may_share && !options.own_file && (refused == Code::kNoFds || refused == Code::kNoMemory)) {
    set_own_file(true);  // no file can be shared here, or there is no room in it
    const Status has_share = check_files(r.uid);
    if (!has_share.is_ok())
      made = has_share;
    else
      made = co_await make_extent(*making, r.bytes_total, kind, options);
  }
  uint64_t give_up_ns = core_.now_ns() + memory::ExtentTable::kReclaimWaitNs;
  while (!made.is_ok()) {
    if (may_be_freed_soon(made.status().code()) && core_.now_ns() < freed_by_ns) {
      co_await freed_.wait_until(freed_by_ns);
      give_up_ns = core_.now_ns() + memory::ExtentTable::kReclaimWaitNs;
    } else if (core_.now_ns() < give_up_ns &&
               table_->may_fit_soon(made.status().code(), r.bytes_total, kind, reclaimed)) {
      co_await core_.env.sleep_ns(200'000);
    } else {
      break;
    }
    reclaimed = table_->reclaimed(kind);
    made = co_await make_extent(*making, r.bytes_total, kind, options);
  }
  const bool cancelled = making->cancelled;
  making_.erase(making);
  // Others may have taken of the quota meanwhile.
  Status kept = cancelled ? Status(Code::kCancelled) : check_share(r);
  if (made.is_ok() && !kept.is_ok()) {
    (void)table_->remove(made.value()->id);
    made = kept;
  }
  view = pool(kind);
  if (made.status().code() == Code::kNoFds || made.status().code() == Code::kNoMemory) {
    co_return Status::of_node(made.status().code(), core_.name, ": " + std::string(made.status().message()));
  }
  if (!made.is_ok()) co_return made.status();
  const std::shared_ptr<memory::Extent> extent = std::move(made).value();
  ownership_.add(extent->id, r.session, r.owner_node, r.owner_incarnation, r.allocation,
                 {.uid = r.uid, .bytes = r.bytes_total, .file = file_of(*extent)});
  if (ownership_.all().sharing != 0 && !std::exchange(told_of_sharing_, true)) {
    log::warn(
        "extents_share_a_file",
        {{"why",
          "few descriptors are left: programs of this host reach extents of up to 1 MiB over the network"},
         {"limit", os::fd_limit()},
         {"do", "raise LimitNOFILE"}});
  }
  check_owner(r.owner_node, r.owner_incarnation);
  if (r.replicated) directory_->require_lease(extent->id);
  co_return describe(*extent);
}

}  // namespace ocm::node
