#include "node/allocator.h"

#include <algorithm>
#include <map>

#include "base/another_node.h"
#include "base/assert.h"
#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/home_requests_wire.h"
#include "control/parts.h"
#include "control/view_wire.h"
#include "fabric/registry/registry.h"
#include "os/crypto.h"

namespace ocm::node {

using control::Task;

namespace {

constexpr int kPlansMax = 6;
constexpr size_t kUnnamingMax = 65536;  // of one user: more names in doubt than it may have
constexpr size_t kUnnamedAtOnce = 4;

[[maybe_unused]] bool are_of(const auto& extents, const std::string& node) {
  const auto is_there = [&](const auto& one) { return one.node == node; };
  return std::all_of(extents.begin(), extents.end(), is_there);
}

}  // namespace

Task<void> Allocator::reserve(std::shared_ptr<Session> session, std::string node,
                              control::ReserveRequest request, Making& out) {
  if (session->ended) {  // its homes were told already
    out.status = Status(Code::kCancelled);
    co_return;
  }
  if (!homes_.is_here(node)) session->homes.insert(node);
  const AllocationId allocation = request.allocation;
  // Pages that are to be taken at once take time; never more than the program waits.
  uint64_t deadline_ns = core_.deadline_ns();
  if ((request.flags & control::kFlagPopulate) != 0) {
    deadline_ns += std::min(request.bytes_total, core_.config.failure_deadline_ns());  // 1 GB/s
  }
  wire::Envelope message;
  control::to_wire(request, *message.mutable_reserve());
  wire::Envelope refusal;
  bool sent = false;
  auto reply = co_await homes_.ask(node, std::move(message), deadline_ns, &refusal, &sent);
  out.status = reply.status();
  if (reply.is_ok()) {
    auto made = control::made_extent(reply.value().reserved(), node);
    out.status = made.status();
    if (made.is_ok()) out.extent = std::move(made).value();
    cluster_.note_pool(node, control::from_wire(reply.value().reserved().pool()));
  } else if (refusal.has_reserved()) {
    cluster_.note_pool(node, control::from_wire(refusal.reserved().pool()), true);
  } else if (out.status.code() == Code::kDeadline || out.status.code() == Code::kPeerLost) {
    // It may have been made all the same.
    if (sent && !fault::at(fault::Point::kReserveNotUndone)) {
      fault::reached(fault::State::kReserveUndone);
      release_all(session, node, {.session = {}, .allocation = allocation});
    }
    out.status = Status::of_node(Code::kPeerLost, node, " does not answer");
  }
}

void Allocator::release_all(const std::shared_ptr<Session>& session, const std::string& node,
                            control::ReleaseRequest what) {
  wire::Envelope message;
  what.session = session->id;
  control::to_wire(what, *message.mutable_release());
  release_later(session, node, homes_.run_of(node), std::move(message));
}

Task<Status> Allocator::reserve_all(std::shared_ptr<Session> session, const control::Plan& plan,
                                    std::vector<std::string> nodes, AllocationId id, uint32_t flags,
                                    Kind kind, std::vector<Making>& made) {
  OCM_DASSERT(nodes.size() == plan.shares.size());
  made.assign(plan.shares.size(), {});
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    control::ReserveRequest request{.session = session->id,
                                    .owner_node = core_.name,
                                    .owner_incarnation = core_.incarnation,
                                    .allocation = id,
                                    .bytes_total = plan.shares[i].bytes,
                                    .kind = kind,
                                    .flags = flags,
                                    .uid = session->uid,
                                    .replicated = plan.layout == Layout::kReplicated};
    tasks.push_back(reserve(session, nodes[i], std::move(request), made[i]));
  }
  if (tasks.size() == 1) {
    co_await std::move(tasks.front());
  } else {
    co_await core_.env.join(std::move(tasks));
  }
  Status worst;
  for (const Making& m : made) {
    if (m.status.is_ok()) continue;
    if (worst.is_ok() || worst.code() == Code::kPoolFull) worst = m.status;
  }
  co_return worst;
}

Task<Result<control::Allocation>> Allocator::allocate(std::shared_ptr<Session> session,
                                                      control::PlaceRequest wanted) {
  if (core_.draining) co_return Status::of_node(Code::kDraining, core_.name, " is shutting down");
  bool refreshed = false;
  std::set<std::string> failed;  // nodes that could not make an extent, other than for want of room
  Status last;
  for (int attempt = 0; attempt < kPlansMax; ++attempt) {
    std::vector<size_t> excluded;
    for (size_t i = 0; !failed.empty() && i < cluster_.rooms().size(); ++i) {
      if (failed.contains(cluster_.rooms()[i].name)) excluded.push_back(i);
    }
    auto planned = control::place(wanted, cluster_.rooms(), core_.name, excluded);
    if (!planned.is_ok()) {
      // Replicas need a node each; and another one may have what those that are known have not.
      const size_t known = cluster_.rooms().size();
      const Code why = planned.status().code();
      const bool is_anywhere = wanted.nodes.empty() && !wanted.own_node_only && wanted.kind_built &&
                               (wanted.flags & control::kFlagLocal) == 0;
      const bool is_short = why == Code::kUnknownNode ||
                            (is_anywhere && (why == Code::kPoolFull || why == Code::kUnsupported)) ||
                            (wanted.layout == Layout::kReplicated && known < control::replicas_of(wanted));
      if (is_short && cluster_.may_learn_of_nodes() && !session->ended) {
        co_await cluster_.next_news(core_.deadline_ns());
        --attempt;
        continue;
      }
      if (last.is_ok() || failed.empty()) last = planned.status();
      if (last.code() != Code::kPoolFull || refreshed) break;
      refreshed = true;  // the view may be older than somebody's free
      co_await cluster_.refresh_pools();
      continue;
    }
    const control::Plan plan = std::move(planned).value();
    std::vector<std::string> nodes;
    uint64_t bytes = 0;
    for (const control::Share& share : plan.shares) {
      OCM_DASSERT(share.node < cluster_.rooms().size());
      nodes.push_back(cluster_.rooms()[share.node].name);
      bytes += share.bytes;
    }
    const Status charged = sessions_.charge(session->uid, bytes);
    if (!charged.is_ok()) co_return charged;
    const auto id = core_.env.random_id<AllocationId>();
    std::vector<Making> made;
    session->making.insert(id);
    last = co_await reserve_all(session, plan, nodes, id, wanted.flags, wanted.kind, made);
    session->making.erase(id);
    OCM_DASSERT(made.size() == plan.shares.size());
    if (last.is_ok() && session->ended) last = Status(Code::kCancelled);
    if (last.is_ok()) {
      control::Allocation out;
      out.id = id;
      out.bytes_total = wanted.bytes_total;
      out.kind = wanted.kind;
      out.durable = (wanted.flags & control::kFlagDurable) != 0;
      out.coherent = !out.durable && (wanted.kind_coherent || (wanted.flags & control::kFlagCoherent) != 0);
      out.layout = plan.layout;
      out.chunk_bytes = plan.chunk_bytes;
      out.access = Access::kReadWrite;
      out.owner_uid = session->uid;
      out.extents.reserve(made.size());
      for (Making& m : made) out.extents.push_back(std::move(m.extent));
      session->allocations.put(id, HeldAllocation{out, true, bytes, 1, {}});
      session->bytes_held += bytes;
      co_return out;
    }
    sessions_.refund(session->uid, bytes);
    for (Making& m : made) {
      if (m.status.is_ok()) co_await release(session, Extents(1, m.extent));
    }
    if (last.code() == Code::kPoolFull) continue;
    // If the program did not name this one.
    if (!another_node_may_do(last.code()) || !wanted.nodes.empty() || session->ended) break;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].status.is_ok()) failed.insert(nodes[i]);
    }
  }
  co_return last;
}

wire::Envelope Allocator::release_request(const Session& session, const Extents& extents) const {
  OCM_DASSERT(!extents.empty());
  wire::Envelope message;
  control::ReleaseRequest release{
      .session = session.id, .extent = extents.front().id, .capability = extents.front().capability};
  for (size_t i = 1; i < extents.size(); ++i) release.more.push_back(extents[i].id);
  control::to_wire(release, *message.mutable_release());
  return message;
}

Task<void> Allocator::release(std::shared_ptr<Session> session, Extents extents) {
  wire::Envelope message = release_request(*session, extents);
  const std::string node = extents.front().node;
  OCM_DASSERT(are_of(extents, node));
  const Kind kind = extents.front().kind;
  const auto reply = co_await homes_.ask(node, std::move(message));
  if (homes_.is_here(node)) co_return cluster_.note_own_pool();
  if (reply.is_ok()) {
    for (const auto& extent : extents) cluster_.note_freed(node, kind, extent.bytes);
    co_return;
  }
  // A program that goes on for days must not leave this behind on a node that was cut off for a moment.
  if (Homes::is_unheard(reply.status())) {
    message = release_request(*session, extents);
    fault::reached(fault::State::kReleaseLater);
    const uint32_t run = extents.front().id.address.partition();
    release_later(session, node, run, std::move(message));
  }
}

void Allocator::release_later(const std::shared_ptr<Session>& session, const std::string& node, uint32_t run,
                              wire::Envelope message) {
  if (session->ended) return;
  homes_.tell_in_turn(session->id, node,
                      {run, Homes::kept(std::move(message)), [session] { return !session->ended; }});
}

Task<Status> Allocator::free(std::shared_ptr<Session> session, AllocationId id, bool may_be_named) {
  const auto it = session->allocations.find(id);
  if (it == session->allocations.end()) {
    co_return Status(Code::kNotFound, "the session holds no such allocation");
  }
  // It was told so, and the program has not heard it.
  if (it->second.named && may_be_named) it->second.may_be_named = true;
  if (--it->second.handles > 0) co_return Status();
  HeldAllocation held = session->allocations.take(it);
  if (held.publishing) session->goes_on.notify();
  OCM_DASSERT(held.is_valid());
  unname_if_in_doubt(*session, id, held);
  if (!held.owned && !held.claimed_quota_bytes) co_return Status();
  if (!held.owned) {  // P4: no home has been heard yet; each frees what it knows to be the session's
    for (auto& extent : held.allocation.extents) {
      extent.capability = {};
      session->given_back.insert(extent.id);
    }
  }
  session->bytes_held -= std::min(session->bytes_held, held.quota_bytes);
  sessions_.refund(session->uid, held.quota_bytes);
  if (session->outdated.erase(id) != 0) {  // the homes know better than the record
    fault::reached(fault::State::kOutdatedFreed);
    const control::ReleaseRequest all{.session = {}, .allocation = id, .parts = held.parts};
    release_all(session, core_.name, all);
    for (const std::string& node : session->homes) release_all(session, node, all);
  }
  if (held.allocation.extents.size() == 1) {
    Extents only;
    only.push_back(std::move(held.allocation.extents.front()));
    co_await release(session, std::move(only));
    co_return Status();
  }
  std::map<std::string, Extents> by_node;
  for (auto& extent : held.allocation.extents) {
    if (extent.lost) continue;  // a vote frees what was given up
    Extents& there = by_node[extent.node];
    there.push_back(std::move(extent));
  }
  std::vector<Task<void>> tasks;
  for (auto& [node, extents] : by_node) tasks.push_back(release(session, std::move(extents)));
  co_await core_.env.join(std::move(tasks));
  co_return Status();
}

Result<control::Allocation> Allocator::join(Session& session, std::vector<AllocationId> ids) {
  if (ids.size() > kSequenceExtentsMax) {
    return Status(Code::kTooLarge, std::to_string(ids.size()) + " parts are given; a sequence can have " +
                                       std::to_string(kSequenceExtentsMax));
  }
  std::set<AllocationId> seen;
  std::vector<const control::Allocation*> parts;
  uint64_t quota_bytes = 0;
  for (const AllocationId& id : ids) {
    if (id == AllocationId() || !seen.insert(id).second)
      return Status(Code::kInvalidArgument, "a part has no id, or is given twice");
    const auto held = session.allocations.find(id);
    if (held == session.allocations.end()) return Status(Code::kRevoked, "the session holds a part no more");
    if (!held->second.owned)
      return held->second.claimed_quota_bytes ? unsettled(session, held->second)
                                              : Status(Code::kInvalidArgument, "a part is published");
    if (held->second.may_be_named) {
      return Status(Code::kInvalidArgument,
                    "a part may be published, because that request was not answered: publish it again under "
                    "the same name to find out");
    }
    if (!held->second.is_whole()) {
      return Status(Code::kUnsupported, "the daemon restarted and does not know the layout of a part");
    }
    parts.push_back(&held->second.allocation);
    quota_bytes += held->second.quota_bytes;
  }
  OCM_DASSERT(parts.size() == ids.size() && seen.size() == ids.size());
  OCM_TRY_ASSIGN(control::Allocation joined, control::join(parts));
  const auto fresh = core_.env.random_id<AllocationId>();
  joined.id = fresh;
  for (const AllocationId& id : ids) {
    session.allocations.erase(id);
    if (session.outdated.erase(id) != 0) session.outdated.insert(fresh);
  }
  HeldAllocation held{joined, true, quota_bytes, 1, {}};
  held.parts = std::move(ids);
  OCM_DASSERT(held.is_valid() && held.is_whole());
  session.allocations.put(fresh, std::move(held));
  return joined;
}

void Allocator::unname_if_in_doubt(const Session& session, const AllocationId& id,
                                   const HeldAllocation& held) {
  // Of what it has attached a program says so in vain, unless it might remove the name.
  const bool may_remove = session.uid == 0 || session.uid == held.allocation.owner_uid;
  if (!held.may_be_named || !may_remove || fault::at(fault::Point::kUnnameNotTold)) return;
  auto& names = unnaming_[session.uid];
  if (!names) names = std::make_shared<Unnaming>();
  if (names->known.contains(id)) return;
  if (names->known.size() >= kUnnamingMax) {
    log::warn("unname_not_told", {{"uid", session.uid}, {"why", "too many of this user wait"}});
    return;
  }
  names->known.insert(id);
  names->waiting.push_back(id);
  if (names->asking >= kUnnamedAtOnce) return;
  ++names->asking;
  core_.env.spawn(unname(session.uid, names));
}

Task<void> Allocator::unname(uint32_t uid, std::shared_ptr<Unnaming> names) {
  fault::reached(fault::State::kUnnamed);
  while (!names->waiting.empty() && !core_.draining) {
    const AllocationId id = names->waiting.front();
    names->waiting.pop_front();
    wire::Envelope request;
    auto& remove = *request.mutable_name_remove();
    remove.set_allocation_id(id_field(id));
    remove.set_uid(uid);
    remove.set_again(true);
    while (!core_.draining) {
      const auto reply = co_await cluster_.ask_coordinator(request);
      if (reply.status().code() != Code::kNoCoordinator) break;
      co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    }
    names->known.erase(id);
  }
  OCM_DASSERT(names->asking > 0);
  if (--names->asking == 0) unnaming_.erase(uid);
}

Task<void> Allocator::end_at(std::shared_ptr<Session> session, std::string node) {
  if (core_.draining && !fault::at(fault::Point::kDrainEnds)) co_return;  // its program goes on
  const uint32_t run = homes_.run_of(node);
  wire::Envelope message;
  message.mutable_session_end()->set_session_id(id_field(session->id));
  message.mutable_session_end()->set_owner_incarnation(id_field(core_.incarnation));
  const auto reply = co_await homes_.ask(node, message);
  if (!Homes::is_unheard(reply.status()) || fault::at(fault::Point::kEndNotRepeated)) co_return;
  fault::reached(fault::State::kSessionEndRepeated);
  homes_.tell_end(session->uid, node, run, std::move(message));
}

Task<void> Allocator::end_session(std::shared_ptr<Session> session) {
  if (session->ended) co_return;
  session->ended = true;
  session->goes_on.notify();
  home_.end_session(session->id, core_.incarnation);
  cluster_.note_own_pool();
  for (const auto& [id, held] : session->allocations) {
    unname_if_in_doubt(*session, id, held);
  }
  const std::set<std::string> homes = session->homes;
  sessions_.end(session);
  OCM_DASSERT(session->allocations.empty());  // P2 of sessions.h
  std::vector<Task<void>> tasks;
  for (const std::string& node : homes) tasks.push_back(end_at(session, node));
  co_await core_.env.join(std::move(tasks));
}

Task<void> Allocator::end_unless_taken_up(std::shared_ptr<Session> session) {
  const size_t hellos = session->hellos;
  co_await core_.env.sleep_ns(core_.config.failure_deadline_ns() + core_.config.orphan_grace_ns());
  if (session->waiting && session->hellos == hellos) co_await end_session(session);
}

Task<void> Allocator::resume_at(std::shared_ptr<Session> session, std::string node) {
  if (session->ended) co_return;  // its homes were told already, and the orphan timer of this one runs
  wire::Envelope message;
  auto& resume = *message.mutable_session_resume();
  resume.set_session_id(id_field(session->id));
  resume.set_owner_node(core_.name);
  resume.set_owner_incarnation(id_field(core_.incarnation));
  const bool note_late = fault::at(fault::Point::kResumeNotNoted);
  if (!note_late)
    session->homes.insert(node);  // it may end meanwhile, and the home's orphan timer was stopped
  auto reply = co_await homes_.ask(node, std::move(message));
  if (note_late) session->homes.insert(node);
  const Code code = reply.status().code();
  if (code == Code::kPeerLost || code == Code::kDeadline) core_.env.spawn(resume_later(session, node));
  if (!reply.is_ok() || session->ended) co_return;
  control::SessionExtents held = control::from_wire(reply.value().session_extents());
  for (const control::HoldId& hold : held.holds) {
    if (!session->holds.contains(hold)) session->holds_reported.insert(hold);
    session->holds[hold].insert(node);
    OCM_DASSERT(session->homes.contains(node));
  }
  std::erase_if(held.extents, [&](const auto& one) { return one.extent.node != node; });
  Extents freed;  // when this home could not be told
  for (const auto& one : held.extents) {
    if (session->given_back.contains(one.extent.id)) freed.push_back(one.extent);
  }
  sessions_.report(*session, node, held);
  if (!freed.empty()) co_await release(session, std::move(freed));
  if (on_reported_) on_reported_(session);
}

Task<void> Allocator::give_back_unclaimed(std::shared_ptr<Session> session) {
  auto unclaimed = sessions_.take_unclaimed(*session);
  if (unclaimed.empty()) co_return;
  fault::reached(fault::State::kUnclaimedGivenBack);
  std::vector<Task<void>> tasks;
  for (auto& [node, list] : unclaimed) {
    Extents extents;
    for (auto& extent : list) extents.push_back(std::move(extent));
    tasks.push_back(release(session, std::move(extents)));
  }
  co_await core_.env.join(std::move(tasks));
}

Task<void> Allocator::resume_later(std::shared_ptr<Session> session, std::string node) {
  fault::reached(fault::State::kResumeRepeated);
  const uint32_t run = homes_.run_of(node);
  while (!session->ended && !core_.draining && !homes_.is_over(node, run, run)) {
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    const control::NodeInfo* known = cluster_.find(node);
    if (known == nullptr || known->state == control::NodeState::kDead) continue;
    core_.env.spawn(resume_at(std::move(session), std::move(node)));
    co_return;
  }
}

Task<void> Allocator::resume(std::shared_ptr<Session> session) {
  (void)home_.resume(session->id, core_.name, core_.incarnation);
  // A daemon that has just started does not know its cluster yet.
  const uint64_t patience_ns = core_.now_ns() + core_.config.failure_deadline_ns();
  while (!cluster_.settled() && core_.now_ns() < patience_ns) co_await cluster_.next_news(patience_ns);
  std::vector<Task<void>> tasks;
  for (const control::NodeInfo& node : cluster_.view().nodes) {
    if (!homes_.is_here(node.name)) tasks.push_back(resume_at(session, node.name));
  }
  co_await core_.env.join(std::move(tasks));
  session->resuming = false;
  session->goes_on.notify();
}

void Allocator::node_appeared(const control::NodeInfo& node) {
  for (const auto& [id, session] : sessions_.all()) {
    if (session->resumed) core_.env.spawn(resume_at(session, node.name));
  }
}

}  // namespace ocm::node
