// Who answers what: the requests of this host's programs, and those that other daemons have for a home.
#include <utility>

#include "control/allocation_wire.h"
#include "control/home_requests_wire.h"
#include "control/replica_query_wire.h"
#include "control/stats_wire.h"
#include "control/view_wire.h"
#include "fabric/registry/registry.h"
#include "node/service.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

Result<control::PlaceRequest> read_request(const wire::AllocateRequest& r, memory::Entries kinds) {
  if (!is_kind(r.kind()))
    return Status(Code::kInvalidArgument, "kind " + std::to_string(r.kind()) + " is unknown");
  if (r.layout() > 2)
    return Status(Code::kInvalidArgument, "layout " + std::to_string(r.layout()) + " is unknown");
  if (!is_fabric(r.fabric()))
    return Status(Code::kInvalidArgument, "fabric " + std::to_string(r.fabric()) + " is unknown");
  control::PlaceRequest out;
  out.bytes_total = r.bytes_total();
  out.kind = static_cast<Kind>(r.kind());
  const memory::Entry* kind = memory::find_entry(out.kind, kinds);
  out.kind_built = kind != nullptr;
  if (kind != nullptr && !kind->traits.replicas && r.layout() == static_cast<uint32_t>(Layout::kReplicated)) {
    return Status(Code::kUnsupported,
                  std::string("memory of kind ") + kind_name(out.kind) + " has no replicas");
  }
  const bool coherent = (r.flags() & control::kFlagCoherent) != 0;
  if (kind != nullptr && coherent && !kind->traits.coherent) {
    return Status(Code::kUnsupported, std::string("memory of kind ") + kind_name(out.kind) +
                                          " cannot be coherent: leave COHERENT out, or use kind " +
                                          kind_name(kDefaultKind));
  }
  out.kind_coherent = kind != nullptr && kind->traits.coherent && !kind->traits.mapped;
  out.layout = static_cast<Layout>(r.layout());
  out.extents = r.extents();
  out.chunk_bytes = r.chunk_bytes();
  out.nodes.assign(r.nodes().begin(), r.nodes().end());
  out.fabric = static_cast<Fabric>(r.fabric());
  const fabric::Entry* entry = fabric::find_entry(out.fabric);
  out.own_node_only = entry != nullptr && entry->traits.own_node;
  out.flags = r.flags();
  return out;
}

}  // namespace

void Service::enter_programs() {
  using Asker = std::shared_ptr<Session>;
  using Body = ProgramHandlers::Body;
  ProgramHandlers& on = programs_;

  on.on(Body::kAllocate, [this](Asker session, wire::Envelope request) {
    return allocate(std::move(session), std::move(*request.mutable_allocate()));
  });
  on.on(Body::kFree, [this](Asker session, wire::Envelope request) {
    return free(std::move(session), std::move(*request.mutable_free()));
  });
  on.on_now(Body::kJoin, [this](const Asker& session, const wire::Envelope& request) {
    return join(*session, request.join());
  });
  on.on_now(Body::kOpenExtent, [this](const Asker&, const wire::Envelope& request) -> Reply {
    ExtentDescriptor extent;
    Access access = Access::kRead;
    OCM_TRY(wire::open_from(request.open_extent(), extent, access));
    auto fd = home_.open(extent, access);
    if (!fd.is_ok()) return fd.status();
    Reply reply;
    reply.fds.push_back(std::move(fd).value());
    return reply;
  });
  on.on_now(Body::kMapPages, [this](const Asker& session, const wire::Envelope& request) -> Reply {
    ExtentDescriptor extent;
    Access access = Access::kRead;
    OCM_TRY(wire::open_from(request.map_pages(), extent, access));
    return pagers_.open(session->uid, extent, access);
  });
  on.on_now(Body::kCluster, [this](const Asker&, const wire::Envelope&) -> Reply {
    wire::Envelope out;
    to_wire(cluster_.fresh_view(), *out.mutable_cluster_view());
    return out;
  });
  on.on(Body::kPublish, [this](Asker session, wire::Envelope request) {
    return publish(std::move(session), std::move(*request.mutable_publish()));
  });
  on.on(Body::kAttach, [this](Asker session, wire::Envelope request) {
    return attach(std::move(session), std::move(*request.mutable_attach()));
  });
  on.on(Body::kNameRemove, [this](Asker session, wire::Envelope request) {
    return remove_name(std::move(session), std::move(request));
  });
  on.on(Body::kNameList, [this](Asker session, wire::Envelope request) {
    return list_names(std::move(session), std::move(request));
  });
  on.on(Body::kCopy, [this](Asker session, wire::Envelope request) {
    return copier_.ask(std::move(session), std::move(*request.mutable_copy()));
  });
  on.on(Body::kLostReplica, [this](Asker session, wire::Envelope request) {
    return lost_replica(std::move(session), std::move(*request.mutable_lost_replica()));
  });
  on.on(Body::kResolve, [this](Asker session, wire::Envelope request) {
    return resolve(std::move(session), std::move(*request.mutable_resolve()));
  });
  on.on_now(Body::kSessionRestore, [this](const Asker& session, const wire::Envelope& request) {
    return restore(session, request.session_restore());
  });
  on.on(Body::kEvents, [this](Asker session, wire::Envelope request) {
    return events_.answer(std::move(session), request.events());
  });
  on.on(Body::kStats, [this](Asker session, wire::Envelope request) {
    return stats(std::move(session), std::move(*request.mutable_stats()->mutable_node()));
  });
}

void Service::enter_peers() {
  using Body = PeerHandlers::Body;
  PeerHandlers& on = peers_;
  cluster_.enter(on);
  remaker_.enter(on);
  watches_.enter(on);
  cached_.enter(on);

  on.on(Body::kReserve, [this](const std::string&, wire::Envelope request) {
    return reserve(std::move(*request.mutable_reserve()));
  });
  on.on_now(Body::kRelease, [this](const std::string&, const wire::Envelope& request) -> Reply {
    const auto asked = control::from_wire(request.release());
    return asked.is_ok() ? home_.release(asked.value()) : asked.status();
  });
  on.on_now(Body::kSessionEnd, [this](const std::string&, const wire::Envelope& request) -> Reply {
    SessionId id;
    control::Incarnation told_by;
    if (!read_id(request.session_end().session_id(), id) ||
        !read_id(request.session_end().owner_incarnation(), told_by)) {
      return Status(Code::kInvalidArgument);
    }
    home_.end_session(id, told_by);
    return Status();
  });
  on.on_now(Body::kHold, [this](const std::string&, const wire::Envelope& request) -> Reply {
    const auto asked = control::from_wire(request.hold());
    if (!asked.is_ok()) return asked.status();
    wire::Envelope out;
    out.mutable_held();
    if (request.hold().end()) {
      home_.end_hold(asked.value().by.session, asked.value().by.hold);
      return out;
    }
    const auto missing = home_.hold(asked.value());
    if (!missing.is_ok()) return missing.status();
    wire::add_refs(missing.value(), *out.mutable_held()->mutable_missing());
    return out;
  });
  on.on_now(Body::kSessionResume, [this](const std::string&, const wire::Envelope& request) -> Reply {
    const wire::SessionResume& resume = request.session_resume();
    SessionId id;
    control::Incarnation incarnation;
    if (!read_id(resume.session_id(), id) || !read_id(resume.owner_incarnation(), incarnation))
      return Status(Code::kInvalidArgument);
    wire::Envelope out;
    control::to_wire(home_.resume(id, resume.owner_node(), incarnation), *out.mutable_session_extents());
    return out;
  });
  on.on_now(Body::kStats, [this](const std::string&, const wire::Envelope& request) -> Reply {
    control::Stats stats;
    if (request.stats().pools_only())
      stats.pools = home_.pools();
    else
      stats = pages_.stats(request.stats().uid());
    wire::Envelope out;
    to_wire(stats, *out.mutable_stats_reply());
    return out;
  });
  on.on(Body::kStopCheck, [this](std::string, wire::Envelope request) -> Task<Reply> {
    const control::StopCheck found = co_await stopper_.check(request.stop_check().uid());
    wire::Envelope out;
    to_wire(found, *out.mutable_stop_check_reply());
    co_return out;
  });
  on.on_now(Body::kReplicaQuery, [this](const std::string&, const wire::Envelope& request) -> Reply {
    wire::Envelope out;
    to_wire(stopper_.answer(control::from_wire(request.replica_query())), *out.mutable_replica_answer());
    return out;
  });
  on.on(Body::kCopy, [this](const std::string&, wire::Envelope request) {
    return copier_.copy(std::move(*request.mutable_copy()));
  });
}

Reply Service::allocation_reply(const Session& session, const Result<control::Allocation>& made,
                                bool is_record) const {
  if (!made.is_ok()) return made.status();
  wire::Envelope out;
  wire::Allocation& told = *out.mutable_allocation();
  control::to_wire(made.value(), told);
  const auto held = session.allocations.find(made.value().id);
  if (held == session.allocations.end() || !held->second.is_whole()) return out;
  std::string receipt = is_record ? sessions_.receipt(session.id, held->second, told)
                                  : sessions_.receipt(session.id, held->second);
  told.set_receipt(std::move(receipt));
  cached_.tell(session, told);
  return out;
}

Task<Reply> Service::allocate(std::shared_ptr<Session> session, wire::AllocateRequest request) {
  control::Turns::Turn turn;
  if (std::max<size_t>(request.extents(), static_cast<size_t>(request.nodes_size())) > kManyExtents) {
    turn = co_await many_extents_.take(session->uid, core_.deadline_ns());
    if (!turn || session->ended)
      co_return Status(Code::kQueueFull, "too many allocations of many extents of this user are under way");
  }
  auto wanted = read_request(request, core_.config.kinds);
  if (!wanted.is_ok()) co_return wanted.status();
  const auto made = co_await allocator_.allocate(session, std::move(wanted).value());
  if (made.is_ok()) co_await cached_.open(session, made.value());
  co_return allocation_reply(*session, made, true);
}

Task<Reply> Service::free(std::shared_ptr<Session> session, wire::FreeRequest request) {
  AllocationId id;
  if (!read_id(request.allocation_id(), id)) co_return Status(Code::kInvalidArgument);
  control::HoldId hold;
  events_.ends(*session, id);
  if (read_id(request.hold_id(), hold)) co_await holds_.end(session, hold);
  std::vector<ExtentId> extents;
  if (const auto held = session->allocations.find(id);
      held != session->allocations.end() && !session->cached.empty())
    extents = control::ids_in(held->second.allocation.extents);
  Reply freed = co_await allocator_.free(session, id, request.may_be_named());
  CachedExtents::ended(*session, extents);
  events_.ended(*session, id);
  co_return freed;
}

Reply Service::join(Session& session, const wire::JoinRequest& request) {
  std::vector<AllocationId> ids;
  for (const std::string& field : request.allocation_ids()) ids.push_back(wire::id_from<AllocationId>(field));
  auto joined = allocator_.join(session, std::move(ids));
  if (joined.is_ok()) {  // the program has them
    joined.value().extents.clear();
    joined.value().homes.clear();
  }
  return allocation_reply(session, joined, false);
}

Task<Reply> Service::stats(std::shared_ptr<Session> session, std::string node) {
  const auto turn = co_await stats_.take(session->uid, core_.deadline_ns());
  if (!turn || session->ended)
    co_return Status(Code::kQueueFull,
                     "too many requests for the figures of nodes by this user are under way");
  co_return co_await pages_.stats_of(std::move(node), Pages::viewer(session->uid));
}

Task<Reply> Service::list_names(std::shared_ptr<Session> session, wire::Envelope request) {
  request.mutable_name_list()->set_uid(session->uid);
  co_return control::reply_of(co_await ask_of_names(session, std::move(request)));
}

Task<Reply> Service::resolve(std::shared_ptr<Session> session, wire::ResolveRequest request) {
  AllocationId id;
  if (!read_id(request.allocation_id(), id)) co_return Status(Code::kInvalidArgument);
  const auto known = co_await remaker_.resolve(session, id, id_of(request.extent()), request.silent());
  co_return allocation_reply(*session, known, true);
}

Reply Service::restore(const std::shared_ptr<Session>& session, const wire::SessionRestore& shown) {
  const Status restored = sessions_.restore(*session, shown);
  remaker_.look_again();
  if (!session->freed.empty() || session->complete) core_.env.spawn(give_back(session));
  return restored;
}

Task<Reply> Service::reserve(wire::ReserveRequest request) {
  wire::Envelope out;
  control::PoolInfo pool;
  auto made = co_await home_.reserve(control::from_wire(request), pool);
  to_wire(pool, *out.mutable_reserved()->mutable_pool());
  if (made.is_ok()) {
    wire::descriptor_to(made.value(), *out.mutable_reserved()->mutable_extent());
  } else {
    wire::put_status(made.status(), out);
  }
  co_return out;
}

}  // namespace ocm::node
