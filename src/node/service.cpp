#include "node/service.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "control/allocation_wire.h"
#include "control/parts.h"
#include "node/standing.h"
#include "os/crypto.h"
#include "os/fd_reserve.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

/// The program may run in another directory.
std::string absolute(const std::string& path) {
  std::error_code failed;
  const auto full = path.empty() ? std::filesystem::path() : std::filesystem::absolute(path, failed);
  return failed ? path : full.string();
}

}  // namespace

Service::Service(Core& core, Home& home, Cluster& cluster, Sessions& sessions, Allocator& allocator,
                 Holds& holds, Copier& copier, Remaker& remaker, Stopper& stopper, Pages& pages)
    : core_(core),
      home_(home),
      cluster_(cluster),
      sessions_(sessions),
      allocator_(allocator),
      holds_(holds),
      copier_(copier),
      remaker_(remaker),
      stopper_(stopper),
      pages_(pages) {
  enter_programs();
  enter_peers();
  cluster_.homes().serve(
      [this](wire::Envelope request) { return peers_.answer(core_.name, std::move(request)); });
  allocator_.on_reported([this](const std::shared_ptr<Session>& session) {
    remaker_.look_again();
    if (session->complete) core_.env.spawn(give_back(session));
  });
  cluster_.on_leaving([this](std::vector<fabric::shm::NodeWord> nodes) {
    sessions_.tell(std::move(nodes));
    events_.look();
  });
  cluster_.homes().on_lost([this](const std::string& address) { watches_.connection_lost(address); });
  stopper_.on_unknown(
      [this](const std::shared_ptr<Session>& session, const AllocationId& id, std::vector<ExtentId> extents) {
        core_.env.spawn(remaker_.follow_unknown(session, id, std::move(extents)));
      });
}

Task<Reply> Service::program_request(std::shared_ptr<Program> program, wire::Envelope request) {
  const uint64_t start_ns = core_.now_ns();
  const std::string_view name = wire::body_name(request);
  Reply reply;
  if (request.has_session_hello()) {
    reply = co_await hello(program, std::move(*request.mutable_session_hello()));
  } else if (!program->session) {
    reply = Reply(Status(Code::kProtocol, "open a session first"));
  } else if (program->session->ended) {
    reply = Reply(Status(Code::kCancelled));
  } else {
    // A program may give up a resumption before all of it is shown, and come again.
    if (!request.has_session_restore() || request.session_restore().complete() ||
        fault::at(fault::Point::kHelloEnds))
      program->session->heard = true;
    // What the homes report comes first, and a silent one is waited for no longer than for any answer.
    while (!request.has_session_restore() && program->session->resuming && !program->session->ended)
      co_await program->session->goes_on.wait_until(core_.deadline_ns());
    reply = co_await programs_.answer(program->session, std::move(request));
  }
  core_.metrics.request(name, core_.now_ns() - start_ns, reply.message.code());
  co_return reply;
}

void Service::node_appeared(const control::NodeInfo& node) {
  allocator_.node_appeared(node);
  watches_.node_appeared(node);
}

void Service::program_ended(const std::shared_ptr<Program>& program) {
  const std::shared_ptr<Session>& session = program->session;
  if (!session) return;
  session->waiting = session->resumed && !session->heard && !fault::at(fault::Point::kHelloEnds);
  core_.env.spawn(session->waiting ? allocator_.end_unless_taken_up(session)
                                   : allocator_.end_session(session));
  events_.program_ended(*session);
  session->cached.clear();
  pagers_.collect();
}

Task<void> Service::drain(std::function<void()> close_doors) {
  core_.draining = true;
  if (sessions_.count() != 0) fault::reached(fault::State::kShutDown);
  home_.keep_mapped_pages();  // also of what the sessions' ends free now
  co_await cluster_.leave();
  close_doors();
  const uint64_t give_up_ns = core_.now_ns() + 500'000'000;
  while (sessions_.count() > 0 && core_.now_ns() < give_up_ns) co_await sessions_.next_end(give_up_ns);
  for (const auto& [id, session] : sessions_.all()) session->cached.clear();
  co_await cached_.leave();
  pagers_.stop();
}

Task<Reply> Service::hello(std::shared_ptr<Program> program, wire::SessionHello request) {
  if (program->session) co_return Status(Code::kProtocol, "the session is open");
  auto generations = home_.share_generations();
  if (!generations.is_ok()) co_return generations.status();
  auto opened = sessions_.open(request, program->uid, program->pid);
  if (!opened.is_ok()) co_return opened.status();
  const std::shared_ptr<Session> session = opened.value().session;
  OCM_DASSERT(session->uid == program->uid);  // P8 of sessions.h
  OCM_DASSERT(uid_of(session->id) == session->uid);
  OCM_DASSERT(session->hellos > 0 && !session->waiting);
  program->session = session;
  if (program->proved) program->proved();
  // Not waited for: a program that gave up its hello would end the session, and with it all that it holds.
  if (session->resumed && session->hellos == 1) {
    session->resuming = true;
    core_.env.spawn(allocator_.resume(session));
  }
  Reply reply;
  auto& welcome = *reply.message.mutable_session_welcome();
  const auto key = home_.directory().session_key(session->id);
  welcome.set_session_id(id_field(session->id));
  welcome.set_session_key(key.data(), key.size());
  welcome.set_node(core_.name);
  welcome.set_partition(core_.partition);
  welcome.set_failure_deadline_ns(core_.config.failure_deadline_ns());
  welcome.set_slab_bytes(core_.config.slab_bytes);
  // Never the node's own key: it makes a daemon.
  welcome.set_tls_ca_file(absolute(core_.config.tls_ca));
  welcome.set_tls_cert_file(absolute(core_.config.tls_client_cert));
  welcome.set_tls_key_file(absolute(core_.config.tls_client_key));
  welcome.set_slots(home_.slots());
  welcome.set_version(kVersion);
  wire::versions_to(core_.versions, *welcome.mutable_versions());
  fabric::each_setting([&](const fabric::Entry& entry, const Setting& setting) {
    if (!setting.for_programs) return;
    auto& told = *welcome.add_fabric_settings();
    told.set_fabric(static_cast<uint32_t>(entry.fabric));
    told.set_key(setting.key);
    told.set_value(core_.config.fabrics.get(entry.fabric, setting));
  });
  welcome.set_resume_key(sessions_.resume_key(session->id));
  welcome.set_uid(session->uid);
  reply.fds.push_back(std::move(generations).value());
  reply.fds.push_back(std::move(opened.value().page));
  co_return reply;
}

Task<void> Service::give_back(std::shared_ptr<Session> session) {
  session->give_back_due = true;
  if (session->giving_back) co_return;
  // The end of this one, also where there is no memory to go on.
  const Standing giving_back(session->giving_back);
  while (std::exchange(session->give_back_due, false)) co_await give_back_once(session);
}

Task<void> Service::give_back_once(std::shared_ptr<Session> session) {
  constexpr size_t kAtOnce = 1024;
  while (session->resuming && !session->ended) co_await session->goes_on.wait_until(core_.deadline_ns());
  for (size_t done = 1; !session->freed.empty() && !session->ended; ++done) {
    const auto next = session->freed.begin();
    const AllocationId id = next->first;
    const std::string hold_id = std::move(next->second.back());
    next->second.pop_back();  // first: the same may be shown again meanwhile
    if (next->second.empty()) session->freed.erase(next);
    control::HoldId hold;
    (void)co_await allocator_.free(session, id, false);
    if (read_id(hold_id, hold)) co_await holds_.end(session, hold);
    if (done % kAtOnce == 0) co_await core_.env.sleep_ns(1);  // others are answered meanwhile
  }
  if (!session->complete || session->ended || fault::at(fault::Point::kUnclaimedStay)) co_return;
  const auto reported = std::exchange(session->holds_reported, {});
  for (const control::HoldId& hold : reported) {
    if (!session->holds_shown.contains(hold)) co_await holds_.end(session, hold);
  }
  co_await holds_.resume(session);
  co_await allocator_.give_back_unclaimed(session);
  core_.env.spawn(remaker_.follow_outdated(session));  // which may wait for as long as a home is silent
}

Task<Reply> Service::publish(std::shared_ptr<Session> session, wire::PublishRequest request) {
  AllocationId id;
  if (!read_id(request.allocation_id(), id)) co_return Status(Code::kInvalidArgument);
  auto it = session->allocations.find(id);
  // Asked before, by a program that gave it up.
  for (const uint64_t give_up_ns = core_.deadline_ns();
       it != session->allocations.end() && it->second.publishing && core_.now_ns() < give_up_ns;
       it = session->allocations.find(id)) {
    co_await session->goes_on.wait_until(give_up_ns);
  }
  if (it == session->allocations.end())
    co_return Status(Code::kNotFound, "the session holds no such allocation");
  HeldAllocation& asked = it->second;
  // The program may not have heard that it was done; and after this daemon restarted no home may have said whose it is.
  const bool same_again = asked.named && asked.allocation.name == request.name();
  if (!asked.owned && !same_again && !(asked.claimed_quota_bytes && asked.may_be_named))
    co_return asked.claimed_quota_bytes ? unsettled(*session, asked)
                                        : Status(Code::kExists, "the allocation is published");
  if (asked.publishing)
    co_return Status(Code::kDeadline, "a former request to publish it is still under way");
  if (!asked.is_whole()) {
    co_return Status(Code::kUnsupported, "the daemon restarted and does not know this allocation's layout");
  }
  wire::Envelope message;
  auto& out = *message.mutable_publish();
  control::to_wire(asked.allocation, *out.mutable_allocation());
  auto charged = sessions_.charge_record(session->uid, out.allocation().ByteSizeLong());
  if (!charged.is_ok()) co_return charged.status();
  out.set_name(request.name());
  out.set_mode(request.mode());
  out.set_session_id(id_field(session->id));
  out.set_owner_node(core_.name);
  out.set_owner_incarnation(id_field(core_.incarnation));
  out.set_order(++published_);
  const bool in_doubt = std::exchange(asked.may_be_named, true);
  asked.publishing = true;
  const uint64_t deadline_ns = core_.config.failure_deadline_ns(), begun_ns = core_.now_ns();
  // Who asks waits for two deadlines. The coordinator may be silent for most of one, and grants then what a home that has
  // ended meanwhile asked of it as a voter: a whole lease is over only after that. A home that died is known to be dead
  // within one.
  const uint64_t lose_until_ns = begun_ns + deadline_ns / 8 * 15;
  (void)co_await give_up_gone(session, id, Asked::kNobody, lose_until_ns);
  Result<wire::Envelope> reply = Code::kNotFound;
  // A silent home that heard of it, and of its undoing never, may bring the name back; so may one that heard, where another
  // one's refusal was answered.
  bool unanswered = false, refused = false;
  for (bool first = true;; first = false) {
    const auto held = session->allocations.find(id);
    if (held == session->allocations.end()) co_return reply.status();
    out.mutable_allocation()->Clear();
    control::to_wire(held->second.allocation, *out.mutable_allocation());
    out.mutable_allocation()->set_owner_uid(session->uid);
    const bool replicas = control::has_replicas(held->second.allocation);
    const uint64_t asked_ns = core_.now_ns();
    reply = co_await ask_until_answered(session, message, &unanswered);
    const uint64_t took_ns = core_.now_ns() - asked_ns;
    const Code code = reply.status().code();
    unanswered = unanswered || code == Code::kPeerLost || code == Code::kNoCoordinator;
    // A home that restarted does not even know the number of its former run.
    const bool moved = code == Code::kRevoked || code == Code::kNotFound;
    refused = refused || moved;
    const bool is_removed = code == Code::kRevoked && reply.status().subject_kind() == Subject::kAllocation;
    if ((!moved && code != Code::kPeerLost) || is_removed) break;
    bool changed = false;
    // Parts are made again one after another, and each is frozen for a while.
    const bool may_be_frozen = replicas && code == Code::kRevoked && core_.now_ns() < lose_until_ns;
    if ((moved && first) || may_be_frozen) changed = co_await remaker_.follow(session, id);
    // What is answered may be what it was: then a home may have freed its replica, and nobody has heard of it.
    const bool is_freed = code == Code::kRevoked && !(changed && first);
    const Asked asked_homes = is_freed ? Asked::kAll : Asked::kOtherRuns;
    const bool given_up = co_await give_up_gone(session, id, asked_homes, lose_until_ns);
    if (changed && !first) co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    if (changed || given_up) continue;
    const bool no_time = core_.now_ns() + core_.config.heartbeat_ns() + took_ns >= begun_ns + 2 * deadline_ns;
    if (!replicas || code == Code::kRevoked || core_.now_ns() >= lose_until_ns || no_time) break;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  const auto again = session->allocations.find(id);
  if (again == session->allocations.end()) co_return reply.status();
  again->second.publishing = false;
  session->goes_on.notify();
  again->second.may_be_named = !reply.is_ok() && (in_doubt || unanswered || refused);
  const bool is_told =
      reply.status().code() == Code::kPeerLost || reply.status().code() == Code::kNoCoordinator;
  if (!reply.is_ok()) {
    const bool has_restarted = reply.status().code() == Code::kNotFound;
    const char* const why = unanswered && !is_told ? "a home did not answer before: "
                            : has_restarted        ? "a home restarted: "
                                                   : nullptr;
    if (why == nullptr) co_return reply.status();
    co_return reply.status()
        .with_code(Code::kPeerLost)
        .with_message(why + std::string(reply.status().message()));
  }
  again->second.owned = false;
  again->second.named = true;
  again->second.record = std::move(charged).value();  // it is in nobody's pool once the name is removed
  again->second.claimed_quota_bytes.reset();
  again->second.allocation.name = request.name();
  again->second.allocation.mode = request.mode();
  session->bytes_held -= std::min(session->bytes_held, again->second.quota_bytes);
  sessions_.refund(session->uid, again->second.quota_bytes);  // charged at the homes from now on
  again->second.quota_bytes = 0;
  wire::Envelope told;  // and nothing else that a coordinator may have put there
  if (reply.value().has_published()) *told.mutable_published() = reply.value().published();
  co_return told;
}

Task<bool> Service::give_up_gone(std::shared_ptr<Session> session, AllocationId id, Asked asked,
                                 uint64_t until_ns) {
  const auto held = session->allocations.find(id);
  if (held == session->allocations.end() || !control::has_replicas(held->second.allocation)) co_return false;
  const auto node_of = [this](const ExtentDescriptor& extent) {
    const control::NodeInfo* node = cluster_.find(extent.node);
    return node;
  };
  const auto is_other_run = [](const control::NodeInfo& node, const ExtentDescriptor& extent) {
    return node.partition != extent.id.address.partition();
  };
  std::map<uint32_t, size_t> living;  // by part
  for (const auto& extent : held->second.allocation.extents) {
    const control::NodeInfo* node = node_of(extent);
    if (!extent.lost && node != nullptr && !is_other_run(*node, extent) &&
        node->state != control::NodeState::kDead)
      ++living[extent.part];
  }
  struct MayBeGone {
    wire::LostReplicaRequest request;
    uint32_t part = 0;
    std::string asked;  // a node
    bool lives = false, is_there = false;
  };
  std::vector<MayBeGone> gone;
  for (const auto& extent : held->second.allocation.extents) {
    const control::NodeInfo* node = node_of(extent);
    if (extent.lost || node == nullptr || !living.contains(extent.part)) continue;
    const bool other_run = is_other_run(*node, extent);
    const bool dead = !other_run && node->state == control::NodeState::kDead;
    const bool is_asked = asked == Asked::kAll || (asked == Asked::kOtherRuns && other_run);
    if (!dead && !is_asked) continue;
    MayBeGone& one = gone.emplace_back();
    one.request.set_allocation_id(id_field(id));
    one.request.set_address(extent.id.address.bits());
    one.request.set_generation(extent.id.generation);
    one.part = extent.part;
    if (!dead) one.asked = extent.node;
    one.lives = !dead && !other_run;
  }
  for (MayBeGone& one : gone) {
    if (one.asked.empty()) continue;
    if (session->ended || core_.now_ns() >= until_ns) co_return false;
    // The view may be older than the extent.
    const Status there = co_await remaker_.is_there(one.asked, id_of(one.request));
    one.is_there = there.code() != Code::kRevoked;
    if (one.lives && !one.is_there) --living[one.part];
  }
  // Of a part that is gone as a whole no replica can be given up.
  std::erase_if(gone, [&](const MayBeGone& one) { return one.is_there || living[one.part] == 0; });
  bool any = false;
  for (MayBeGone& one : gone) {
    if (session->ended || core_.now_ns() >= until_ns) break;
    Reply reply = co_await lost_replica(session, std::move(one.request), until_ns);
    if (!control::reply_status(reply.message).is_ok()) break;
    any = true;
  }
  if (any) fault::reached(fault::State::kPublishedWithout);
  co_return any;
}

Task<Reply> Service::attach(std::shared_ptr<Session> session, wire::AttachRequest request) {
  const bool hold = request.hold();
  request.set_uid(session->uid);
  wire::Envelope message;
  *message.mutable_attach() = std::move(request);
  auto reply = co_await ask_of_names(session, std::move(message));
  if (!reply.is_ok()) co_return reply.status();
  auto read = control::from_wire(reply.value().allocation());
  if (!read.is_ok() || !read.value().has_id()) co_return Status(Code::kProtocol, "malformed allocation");
  const control::Allocation found = std::move(read).value();
  const AllocationId id = found.id;
  // Also of what is there already: it may be freed while homes are asked for a hold.
  auto charged = sessions_.charge_record(session->uid, reply.value().allocation().ByteSizeLong());
  if (!charged.is_ok()) co_return charged.status();
  const auto held = hold ? core_.env.random_id<control::HoldId>() : control::HoldId();
  if (hold) {
    const Status status = co_await holds_.begin(session, held, found);
    if (!status.is_ok()) co_return status;
  }
  // One record serves all handles: each has its own access, the record the highest of them.
  const auto known = session->allocations.find(id);
  const bool is_new = known == session->allocations.end();
  if (is_new) {
    HeldAllocation fresh{found, false, 0, 1, {}};
    fresh.record = std::move(charged).value();
    session->allocations.put(id, std::move(fresh));
  } else {
    ++known->second.handles;
    const bool whole = session->allocations.take_grant(known, found);
    if (!whole) (void)co_await remaker_.follow(session, id);
  }
  co_await cached_.open(session, found);
  Reply out = allocation_reply(*session, found, is_new);
  if (hold) out.message.mutable_allocation()->set_hold_id(id_field(held));
  co_return out;
}

Task<Reply> Service::remove_name(std::shared_ptr<Session> session, wire::Envelope request) {
  wire::NameRemoveRequest& remove = *request.mutable_name_remove();
  remove.set_uid(session->uid);
  remove.clear_allocation_id();
  remove.clear_again();
  const auto found = co_await ask_of_names(session, request);
  if (!found.is_ok()) co_return found.status();
  remove.set_allocation_id(found.value().allocation().allocation_id());
  co_return control::reply_of(co_await ask_until_answered(std::move(session), std::move(request)));
}

Task<Result<wire::Envelope>> Service::ask_of_names(std::shared_ptr<Session> session, wire::Envelope request) {
  const bool reads = request.has_attach() || request.has_name_list();
  control::Turns& turns = reads ? name_reads_ : name_changes_;
  const auto turn = co_await turns.take(session->uid, core_.deadline_ns());
  if (!turn || session->ended)
    co_return Status(Code::kQueueFull, "too many requests about names of this user wait for the coordinator");
  auto reply = co_await cluster_.ask_coordinator(std::move(request));
  if (reads && reply.is_ok()) rest_after(reply.value(), turn);
  co_return std::move(reply);
}

void Service::rest_after(const wire::Envelope& reply, control::Turns::Turn turn) {
  const int parts = reply.allocation().extents_size() + reply.names().allocations_size();
  OCM_DASSERT(turn != nullptr);
  if (parts <= static_cast<int>(kManyExtents)) return;
  const auto hold = [](control::Env& env, uint64_t ns,
                       [[maybe_unused]] control::Turns::Turn held) -> Task<void> {
    co_await env.sleep_ns(ns);
  };
  core_.env.spawn(hold(core_.env, reply.ByteSizeLong() * kRestNsPerByte, std::move(turn)));
}

Task<Result<wire::Envelope>> Service::ask_until_answered(std::shared_ptr<Session> session,
                                                         wire::Envelope request, bool* unanswered) {
  const uint64_t give_up_ns = core_.deadline_ns();
  auto reply = co_await ask_of_names(session, request);
  if (request.has_name_remove()) request.mutable_name_remove()->set_again(true);
  for (bool last = false; !last && reply.status().code() == Code::kNoCoordinator && !session->ended;) {
    if (unanswered != nullptr) *unanswered = true;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    last = core_.now_ns() >= give_up_ns;
    reply = co_await ask_of_names(session, request);
  }
  co_return std::move(reply);
}

Task<Reply> Service::lost_replica(std::shared_ptr<Session> session, wire::LostReplicaRequest request,
                                  uint64_t until_ns) {
  AllocationId id;
  if (!read_id(request.allocation_id(), id)) co_return Status(Code::kInvalidArgument);
  const auto held = session->allocations.find(id);
  if (held == session->allocations.end())
    co_return Status(Code::kNotFound, "the session holds no such allocation");
  // Until the first wait: it may be freed meanwhile.
  const control::Allocation& allocation = held->second.allocation;
  if (allocation.access != Access::kReadWrite) {
    co_return Status(Code::kPermission, "a read-only holder drops no replica");
  }
  if (!held->second.is_whole())
    co_return Status(Code::kUnsupported, "the daemon restarted and does not know the allocation's replicas");
  if (!control::has_replicas(allocation))
    co_return Status(Code::kInvalidArgument, "the allocation has no replicas");
  const ExtentId replica = id_of(request);
  const std::vector<ExtentId> part = control::part_of(allocation, replica);
  if (part.empty()) co_return Status(Code::kNotFound, "not an extent of this allocation");
  OCM_DASSERT(is_in(part, replica));
  if (part.size() == 1) co_return Status(Code::kLost, "it is the last replica");
  std::string node;
  std::vector<control::PlacedExtent> others;
  uint32_t epoch_before = 0;
  for (const auto& extent : allocation.extents) {
    const bool is_it = extent.id.address == replica.address;
    if (is_in(part, extent.id) && !extent.lost && !is_it) others.push_back(extent);
    if (!is_it) continue;
    node = extent.node;
    epoch_before = extent.epoch;
  }
  if (request.revoked()) {
    const Status revoked = co_await remaker_.check_revoked(allocation, replica, node);
    if (!revoked.is_ok()) co_return revoked;
  }
  const Status allowed = co_await allow_loss(session->uid, node);
  if (!allowed.is_ok()) co_return allowed;
  const uint64_t give_up_ns =
      until_ns != 0 ? until_ns : core_.deadline_ns() + core_.config.failure_deadline_ns();
  const auto turn = co_await losses_under_way_.take(session->uid, give_up_ns);
  if (!turn || session->ended)
    co_return Status(Code::kQueueFull, "too many replicas of this user are being given up");
  control::LossKnown known;
  if (request.revoked()) known.is_unread = co_await cluster_.is_unread(replica);
  const Status lost =
      co_await cluster_.lose_replica(part, replica, node, session->uid, std::move(known), until_ns);
  if (!lost.is_ok()) co_return lost;
  if (!fault::at(fault::Point::kFormerNotAsked)) {
    const Status given_up = co_await remaker_.check_given_up(part, std::move(others), replica, epoch_before);
    if (!given_up.is_ok()) co_return given_up;
  }
  const auto again = session->allocations.find(id);
  if (again != session->allocations.end()) (void)control::mark_lost(again->second.allocation, replica);
  co_return Status();
}

Task<Status> Service::allow_loss(uint32_t uid, std::string node) {
  if (is_privileged(uid)) co_return Status();
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  const uint64_t give_up_ns =
      core_.now_ns() + deadline_ns + deadline_ns / 2;  // a dead node is known to be dead then
  while (cluster_.is_alive(node) && !losses_.take(uid, core_.now_ns())) {
    if (core_.now_ns() >= give_up_ns) {
      co_return Status(Code::kLimit, "uid " + std::to_string(uid) + " had " +
                                         std::to_string(control::UserRate::kBurst) +
                                         " replicas on living nodes given up and may have " +
                                         std::to_string(kLossesEachDeadline) +
                                         " more in each failure deadline: node " + node + " is alive")
          .with_node(node);
    }
    co_await core_.env.sleep_ns(deadline_ns / 20);
  }
  co_return Status();
}

Task<Reply> Service::peer_request(std::string node, wire::Envelope request) {
  const uint64_t start_ns = core_.now_ns();
  const std::string_view name = wire::body_name(request);
  Reply reply = co_await peers_.answer(std::move(node), std::move(request));
  core_.metrics.request(name, core_.now_ns() - start_ns, reply.message.code());
  co_return reply;
}

}  // namespace ocm::node
