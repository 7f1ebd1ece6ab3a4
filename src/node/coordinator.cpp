#include "node/coordinator.h"

#include <unistd.h>

#include <memory>

#include "base/assert.h"
#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/council_wire.h"
#include "control/home_requests_wire.h"
#include "control/parts.h"
#include "control/view_wire.h"
#include "node/cluster.h"
#include "node/standing.h"

namespace ocm::node {

using control::NodeState;
using control::Reply;
using control::Task;

namespace {

bool is_about_names(const wire::Envelope& request) {
  return request.has_publish() || request.has_attach() || request.has_name_remove() ||
         request.has_name_list();
}

control::Membership::Options options_of(const Core& core) {
  control::Membership::Options out;
  out.passes_on = core.passes_on();
  out.failure_deadline_ns = core.config.failure_deadline_ns();
  return out;
}

}  // namespace

Coordinator::Coordinator(Core& core, Quorum& quorum, Cluster& member, uint64_t run)
    : core_(core),
      quorum_(quorum),
      member_(member),
      membership_(options_of(core), run),
      names_(core.config.names, ::geteuid()) {
  OCM_DASSERT(run != 0 && is_valid());
}

bool Coordinator::is_valid() const {
  for (const std::string& node : reported_) {
    if (awaited_.contains(node)) return false;  // C3
  }
  return !awaited_.contains(core_.name);
}

control::View Coordinator::view() const {
  control::View out = membership_.view(core_.now_ns());
  out.coordinator = core_.name;
  return out;
}

void Coordinator::tell_view(wire::ClusterView& out) const {
  out.set_epoch(membership_.epoch());
  out.set_cluster_id(membership_.run());
  out.set_coordinator(core_.name);
  out.set_features_all(membership_.features_all());
  membership_.each(core_.now_ns(), [&out](const control::NodeInfo& node, uint64_t age_ns) {
    wire::NodeView& told = *out.add_nodes();
    to_wire(node, told);
    told.set_heartbeat_age_ns(age_ns);
  });
}

control::NameList Coordinator::list_names(uint32_t uid) const { return names_now({}, {}, uid); }

Task<Reply> Coordinator::attach(wire::AttachRequest request) {
  if (request.access() != 1 && request.access() != 3)
    co_return Status(Code::kInvalidArgument, "access " + std::to_string(request.access()) +
                                                 " is unknown; it is 1 (read) or 3 (read and write)");
  co_await wait_until_published(request.name());
  const auto access = static_cast<Access>(request.access());
  auto found = names_.attach(request.name(), access, request.uid());
  if (const control::NameNote* noted = names_.expected(request.name()); noted != nullptr) {  // C6
    if (!control::may_access(noted->mode, noted->owner_uid, request.uid(), access))
      co_return Status(Code::kPermission, "uid " + std::to_string(request.uid()) + " may not open " +
                                              request.name() + " that way");
    co_return Status(Code::kLost,
                     "the homes of " + request.name() +
                         " are gone or were not heard by this coordinator: wait until they are back, "
                         "or remove the name")
        .with_subject(Subject::kAllocation, request.name());
  }
  if (!found.is_ok()) co_return found.status();
  wire::Envelope out;
  control::Allocation allocation = std::move(found).value();
  allocation.lost = control::is_lost(
      allocation, [this](const auto& extent, bool replica) { return gone(extent, replica); });
  control::to_wire(allocation, *out.mutable_allocation());
  co_return out;
}

void Coordinator::look() {
  const uint64_t now = core_.now_ns();
  const auto heard = membership_.heard(now, member_.self_view());
  if (!heard.is_ok()) {  // somebody claims what is this node's
    if (const auto left_out = core_.limiter.admit("not_heard", core_.name, now, heard.status().message()))
      log::warn("not_heard", {{"why", heard.status().message()}, {"left_out", *left_out}});
  }
  for (const std::string& name : membership_.tick(now)) {
    log::warn("node_dead", {{"node", name}});
    told_.notify();
  }
  control::View all = view();
  std::vector<control::VoterInfo> living;
  std::set<std::string> leaving;
  for (const control::NodeInfo& node : all.nodes) {
    if (node.state == NodeState::kDraining) leaving.insert(node.name);
    if (node.state != NodeState::kAlive && node.state != NodeState::kSuspect) continue;
    OCM_DASSERT(node.incarnation.has_value());
    living.push_back({node.name, *node.incarnation, node.control_address});
  }
  member_.apply(std::move(all));
  tell_news();
  take_notes();
  if (!unnoted_.empty() && notes_names() && !std::exchange(noting_rest_, true)) spawn(note_rest());
  take_census();
  core_.env.spawn(quorum_.convene(std::move(living), std::move(leaving)));
}

void Coordinator::tell_news() {
  if (told_epoch_ == 0) told_epoch_ = membership_.epoch();  // who joins gets the view
  if (!*telling_news_ && told_epoch_ != membership_.epoch()) spawn(tell_news_in_turn());
}

Task<void> Coordinator::tell_news_in_turn() {
  const std::shared_ptr<bool> flag = telling_news_;
  if (*flag) co_return;
  const Standing telling(*flag);
  while (!retired_ && quorum_.acts() && told_epoch_ != membership_.epoch()) {
    told_epoch_ = membership_.epoch();
    wire::Envelope message;
    message.mutable_view_news()->set_run(run());
    message.mutable_view_news()->set_epoch(told_epoch_);
    const uint64_t give_up_ns = core_.now_ns() + core_.config.heartbeat_ns();
    const auto tell = [](Homes& homes, std::string node, wire::Envelope what,
                         uint64_t until_ns) -> Task<void> {
      (void)co_await homes.ask(std::move(node), std::move(what), until_ns);
    };
    for (const control::NodeInfo& node : view().nodes) {
      if (node.name == core_.name || node.state == NodeState::kDead) continue;
      core_.env.spawn(tell(member_.homes(), node.name, message, give_up_ns));
    }
    // As many heartbeats come at once: of many nodes no more than come anyway.
    co_await core_.env.sleep_ns(std::max(core_.config.heartbeat_ns() / 8, nodes() * uint64_t{1'000'000}));
  }
}

void Coordinator::take_census() {
  constexpr uint64_t kPauseNs = 1'000'000'000;  // it looks at every extent of every name
  constexpr size_t kLoggedMax = 32;
  const std::pair of(membership_.epoch(), names_.version());
  const uint64_t now = core_.now_ns();
  if ((of == census_of_ && !lost_untold_) || now < census_next_ns_) return;
  census_of_ = of;
  census_next_ns_ = now + kPauseNs;
  auto census = names_.census([this](const auto& extent, bool replica) { return gone(extent, replica); });
  // For as long as a home may take to say that a part was made again, only its former nodes are known.
  std::erase_if(lost_, [&](const auto& one) { return !census.lost.contains(one.first); });
  size_t logged = 0;
  lost_untold_ = false;
  for (const std::string& name : census.lost) {
    Lost& lost = lost_.try_emplace(name, Lost{now}).first->second;
    if (lost.told) continue;
    lost.told = now >= lost.since_ns + core_.config.failure_deadline_ns();
    lost_untold_ = lost_untold_ || !lost.told;
    if (lost.told && logged++ < kLoggedMax) log::warn("data_lost", {{"name", name}});
  }
  if (logged > kLoggedMax) log::warn("data_lost", {{"more_names", logged - kLoggedMax}});
  logged = 0;
  for (const std::string& name : census.degraded) {
    if (!census_.degraded.contains(name) && logged++ < kLoggedMax)
      log::warn("replica_missing", {{"name", name}});
  }
  if (logged > kLoggedMax) log::warn("replica_missing", {{"more_names", logged - kLoggedMax}});
  core_.metrics.names_degraded = census.degraded.size();
  core_.metrics.names_lost = census.lost.size();
  OCM_DASSERT(lost_.size() == census.lost.size());
  census_ = std::move(census);
}

control::NameList Coordinator::names_now(const std::string& prefix, const std::string& after,
                                         uint32_t uid) const {
  return names_.list(prefix, after, uid,
                     [this](const auto& extent, bool replica) { return gone(extent, replica); });
}

void Coordinator::spawn(Task<void> task) {
  const auto run = [](std::shared_ptr<Running>, Task<void> inner) -> Task<void> {
    co_await std::move(inner);
  };
  core_.env.spawn(run(std::make_shared<Running>(*this), std::move(task)));
}

Task<Reply> Coordinator::answer(wire::Envelope request, std::string asker) {
  const Running running(*this);
  co_return co_await answer_now(std::move(request), std::move(asker));
}

Task<Status> Coordinator::tell_home(std::string node, wire::Envelope message, uint64_t deadline_ns) {
  if (retired_ || !quorum_.acts())
    co_return Status(Code::kNoCoordinator, "another node is the coordinator by now");
  message.mutable_publish_extents()->set_coordinator_run(run());
  const auto told = co_await member_.homes().ask(std::move(node), std::move(message), deadline_ns);
  co_return told.status();
}

void Coordinator::take_over(const control::View& before, const std::string& former) {
  membership_.start_from(core_.now_ns(), before, former);
  take_notes();
  if (fault::at(fault::Point::kNamesNotAwaited)) return;
  for (const control::NodeInfo& node : before.nodes) {
    if (node.name != core_.name && node.name != former && node.state != NodeState::kDead)
      awaited_.insert(node.name);
  }
  OCM_DASSERT(is_valid());
}

Task<Reply> Coordinator::answer_now(wire::Envelope request, std::string asker) {
  if (is_about_names(request)) {
    std::string name = request.has_attach() ? request.attach().name()
                       : request.has_name_remove() && !request.name_remove().again()
                           ? request.name_remove().name()
                           : std::string();
    if (is_noted(name))
      co_await wait_for_homes(std::move(name));
    else
      co_await wait_for_names(std::move(asker));
  }
  switch (request.body_case()) {
    case wire::Envelope::kHeartbeat: co_return on_heartbeat(request.heartbeat());
    case wire::Envelope::kPublish: co_return co_await publish(control::from_wire(request.publish()));
    case wire::Envelope::kNameRemove:
      co_return co_await remove_name(std::move(*request.mutable_name_remove()));
    case wire::Envelope::kLostReplica:
      // It is lost already; names are given out marked from now on.
      names_.lose_extent(id_of(request.lost_replica()));
      co_return Status();
    case wire::Envelope::kGoodbye:
      membership_.goodbye(request.goodbye().node());
      look();
      co_return Status();
    case wire::Envelope::kAttach: co_return co_await attach(std::move(*request.mutable_attach()));
    case wire::Envelope::kNameList: {
      wire::Envelope out;
      const wire::NameListRequest& of = request.name_list();
      control::to_wire(names_now(of.prefix(), of.after(), of.uid()), *out.mutable_names());
      co_return out;
    }
    default: co_return Status(Code::kProtocol, "not a request to a coordinator");
  }
}

Reply Coordinator::on_heartbeat(const wire::Heartbeat& beat) {
  ++core_.metrics.heartbeats_received;
  const uint64_t now = core_.now_ns();
  // This node is heard by look() alone.
  if (beat.self().name() == core_.name)
    return Status::of_node(Code::kExists, core_.name, " is the coordinator's own name");
  membership_.know_features(beat.features_all());
  const auto heard = membership_.heard(now, control::from_wire(beat.self()));
  if (!heard.is_ok()) return heard.status();
  quorum_.reported(control::voter_report_from(beat));
  const auto& what = heard.value();
  const std::string& name = beat.self().name();
  if (what.joined || what.restarted || what.returned) {
    log::info("node_heard", {{"node", name},
                             {"how", what.joined      ? "joined"
                                     : what.restarted ? "restarted"
                                                      : "returned"}});
    look();
  }
  tell_news();
  merge_names(beat);
  note_report(beat);
  if (const auto waiting = unheard_.find(name); waiting != unheard_.end()) {
    auto waited = std::move(unheard_.extract(waiting).mapped());
    for (auto& [key, told] : waited) {
      if (!what.restarted) spawn(tell_what_waited(name, std::move(told)));  // another run has nothing of it
    }
    told_.notify();
  }
  wire::Envelope out;
  tell_view(*out.mutable_cluster_view());
  control::to_wire(quorum_.newest(), *out.mutable_cluster_view()->mutable_council());
  return out;
}

void Coordinator::remade(const control::PartMoved& part) {
  if (names_.find_id(part.allocation) != nullptr) unnoted_.insert(part.allocation);  // it has other homes
  heard_by_all_.clear();  // a home that came may have a mode of before; the part may be one of many of a name
  if (names_.relocate(part) || !names_.was_removed(part.allocation)) return;
  // Made again by a home that could not be told of the removal: its new replicas' homes were none then.
  control::Allocation removed;
  removed.id = part.allocation;
  removed.extents = part.now;
  tell_removed(removed);
}

void Coordinator::tell_removed(const control::Allocation& removed) {
  for (const std::string& node : homes_of(removed)) spawn(tell_until_heard(node, removal(removed)));
}

void Coordinator::merge_names(const wire::Heartbeat& beat) {
  const std::string& name = beat.self().name();
  for (const std::string& id : beat.removed()) {
    const auto removed = wire::id_from<AllocationId>(id);
    const auto back = names_.remember_removed(removed);
    if (!back) continue;
    unnoted_.insert(removed);
    tell_removed(*back);
  }
  const auto merge = [&](const wire::Allocation& told, bool all) {
    const auto allocation = control::from_wire(told);
    if (allocation.is_ok())
      merge_name(name, allocation.value(), all);
    else
      log::warn("name_refused", {{"name", told.name()}, {"node", name}});
  };
  for (const wire::Allocation& told : beat.published()) merge(told, true);
  for (const wire::Allocation& told : beat.changed()) merge(told, false);
}

void Coordinator::merge_name(const std::string& node, const control::Allocation& allocation, bool all) {
  // N7: undone, and its home gave a part of it on before it heard so.
  const AllocationId& id = allocation.id;
  if (undone_.contains(id) && names_.find_id(id) == nullptr && !names_.was_removed(id)) return;
  std::vector<control::PlacedExtent> former;
  const bool is_noted = names_.expects(id);
  const auto merged = names_.merge(allocation, core_.env.random_number(), all ? &former : nullptr);
  tell_of_former(id, former);
  if ((merged == control::Names::Merged::kAdded && !is_noted) || merged == control::Names::Merged::kRenamed)
    unnoted_.insert(id);
  switch (merged) {
    case control::Names::Merged::kRemoved:
      fault::reached(fault::State::kRemovedReported);
      spawn(tell_until_heard(node, removal(allocation)));
      break;
    case control::Names::Merged::kRenamed: {
      fault::reached(fault::State::kNameConflict);
      OCM_DASSERT(names_.find_id(id) != nullptr);
      const control::NameChange renamed{.allocation = *names_.find_id(id),
                                        .attempt = core_.env.random_number()};
      log::warn("name_conflict",
                {{"name", allocation.name}, {"node", node}, {"now", renamed.allocation.name}});
      for (const std::string& home : homes_of(allocation)) spawn(tell_until_heard(home, renamed));
      break;
    }
    case control::Names::Merged::kRefused:
      log::warn("name_refused", {{"name", allocation.name}, {"node", node}});
      break;
    default: break;
  }
}

void Coordinator::note_report(const wire::Heartbeat& beat) {
  constexpr size_t kAwaitedMax = 4096;
  if (knows_all_names()) return;
  const std::string& name = beat.self().name();
  if (beat.names_included() && beat.coordinator_run() == membership_.run()) {
    reported_.insert(name);
    awaited_.erase(name);
  }
  const auto await = [this](const std::string& node) {
    if (node != core_.name && !reported_.contains(node) && awaited_.size() < kAwaitedMax)
      awaited_.insert(node);
  };
  await(name);
  for (const std::string& node : beat.nodes_known()) await(node);
  OCM_DASSERT(is_valid());  // C3
  member_.notify_news();
}

/// Whoever was there is heard by then.
uint64_t Coordinator::all_known_ns() const { return started_ns_ + core_.config.failure_deadline_ns(); }

bool Coordinator::knows_all_names() const { return core_.now_ns() >= all_known_ns(); }

Task<void> Coordinator::wait_for_names(std::string asker) {
  const auto all_told = [&] {
    return member_.settled() && awaited_.empty() && (asker == core_.name || reported_.contains(asker));
  };
  while (!knows_all_names() && !all_told()) co_await member_.next_news(all_known_ns());
}

Task<void> Coordinator::wait_until_published(std::string name) {
  const control::Allocation* named = names_.find(name);
  const AllocationId id = named == nullptr ? AllocationId() : named->id;
  if (publishing_.contains(id)) fault::reached(fault::State::kAttachedMeanwhile);
  const uint64_t give_up_ns = core_.now_ns() + core_.config.failure_deadline_ns();
  while (publishing_.contains(id) && core_.now_ns() < give_up_ns) co_await told_.wait_until(give_up_ns);
}

bool Coordinator::gone(const control::PlacedExtent& extent, bool replica) const {
  if (!membership_.may_live(extent.node, extent.id.address.partition())) return true;
  return replica && membership_.freed_replica(extent.node, extent.id.generation);
}

}  // namespace ocm::node
