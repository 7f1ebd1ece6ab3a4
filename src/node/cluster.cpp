#include "node/cluster.h"

#include <unistd.h>

#include "base/fault.h"
#include "control/parts.h"
#include "control/sockets.h"
#include "os/crypto.h"

namespace ocm::node {

using control::NodeState;
using control::Reply;
using control::Task;

namespace {

bool is_about_names(const wire::Envelope& request) {
  return request.has_publish() || request.has_attach() || request.has_name_remove() ||
         request.has_name_list();
}

}  // namespace

Cluster::Cluster(Core& core, Home& home, Peers& peers)
    : core_(core),
      home_(home),
      peers_(peers),
      quorum_(core, home, peers),
      member_(core.config.failure_deadline_ns()),
      names_(core.config.names, ::geteuid()) {
  const std::string& coordinator = core.config.coordinator;
  if (coordinator.empty() || core.coordinates) {
    const uint64_t run = core.env.random_number();
    control::Membership::Options options;
    options.failure_deadline_ns = core.config.failure_deadline_ns();
    membership_ = std::make_unique<control::Membership>(options, run | 1);
  }
}

void Cluster::start(std::function<void(wire::NodeView&)> fill) {
  fill_ = std::move(fill);
  quorum_.start(is_coordinator() ? membership_->run() : 0);
  if (is_coordinator()) {
    update_own_view();
  } else {  // usable before the coordinator answers: this node alone
    wire::ClusterView alone;
    *alone.add_nodes() = self_view();
    apply(std::move(alone));
  }
  core_.env.spawn(beat());
}

wire::NodeView Cluster::self_view() const {
  wire::NodeView out;
  out.set_name(core_.name);
  out.set_partition(core_.partition);
  out.set_state(
      static_cast<uint32_t>(core_.draining || core_.stopping ? NodeState::kDraining : NodeState::kAlive));
  out.set_incarnation(id_field(core_.incarnation));
  out.set_control_address(core_.control_address);
  out.set_http_address(core_.http_address);
  out.set_host_id(core_.host_id);
  out.set_version(kVersion);
  for (const auto& address : core_.addresses) *out.add_addresses() = address;
  add_figures(out);
  return out;
}

void Cluster::add_figures(wire::NodeView& self) const {
  self.clear_pools();
  *self.add_pools() = home_.pool(Kind::kDram);
  self.set_extents(home_.extents());
  self.set_replicas_freed(quorum_.replicas_freed());
  if (fill_) fill_(self);
}

Task<void> Cluster::beat() {
  uint64_t next_ns = core_.now_ns();
  while (!core_.draining) {
    co_await beat_once();
    for (Home::Orphan& orphan : home_.tick(core_.now_ns())) {
      if (asking_.insert(orphan.session).second) core_.env.spawn(ask_for(std::move(orphan)));
    }
    const uint64_t now = core_.now_ns();
    uint64_t pause_ns = core_.config.heartbeat_ns();
    // The coordinator looks more often, so that a death is known soon after the deadline.
    constexpr size_t kManyNodes = 256;
    if (is_coordinator() && membership_->nodes() > 1 && membership_->nodes() < kManyNodes) {
      pause_ns = std::min(pause_ns, core_.config.failure_deadline_ns() / 20);
    }
    next_ns = std::max(next_ns + pause_ns, now + 1'000'000);
    co_await core_.env.sleep_ns(next_ns - now);
  }
}

Task<void> Cluster::ask_for(Home::Orphan orphan) {
  if (orphan.node == core_.name) {  // of a former run of this daemon
    asking_.erase(orphan.session);
    const bool has_it = has_session_ && has_session_(orphan.session);
    home_.answered(orphan, has_it ? Home::Answer::kHasIt : Home::Answer::kHasItNot);
    co_return;
  }
  wire::Envelope message;
  auto& at = *message.mutable_session_at();
  at.set_session_id(id_field(orphan.session));
  at.set_node(core_.name);
  // Of a node that the coordinator does not reach, any run may have taken the session up.
  if (orphan.lives) at.set_owner_incarnation(id_field(orphan.incarnation));
  const Status told = co_await tell_home(orphan.node, std::move(message));
  asking_.erase(orphan.session);
  const bool has_not = told.code() == Code::kNotFound;
  home_.answered(orphan, told.is_ok() ? Home::Answer::kHasIt
                         : has_not    ? Home::Answer::kHasItNot
                                      : Home::Answer::kNone);
}

Task<void> Cluster::beat_once() {
  if (is_coordinator()) {
    update_own_view();
    co_return;
  }
  size_t next = 0;
  bool more = send_names_;
  do {
    const uint64_t sent_ns = core_.now_ns();
    wire::Envelope request;
    auto& beat = *request.mutable_heartbeat();
    *beat.mutable_self() = self_view();
    beat.set_epoch_known(view_.epoch());
    beat.set_coordinator_run(member_.run());
    *beat.mutable_council() = quorum_.newest();
    if (more) more = !add_published(beat, next);
    ++core_.metrics.heartbeats_sent;
    const uint64_t patience = std::max(core_.config.heartbeat_ns(), core_.config.failure_deadline_ns() / 2);
    auto reply = co_await peers_.call(core_.config.coordinator, std::move(request), sent_ns + patience);
    if (!reply.is_ok()) {
      missed_coordinator(reply.status());
      co_return;
    }
    wire::ClusterView view = std::move(*reply.value().mutable_cluster_view());
    quorum_.saw(view.council());
    if (member_.replied(sent_ns, view)) {
      log::info("joined", {{"coordinator", view.coordinator()}, {"nodes", view.nodes_size()}});
      send_names_ = more = true;
      next = 0;
      keep_until_ns_ = sent_ns + core_.config.failure_deadline_ns();
      kept_.clear();
      for (const auto& node : view_.nodes()) kept_[node.name()] = node;
    } else if (!more) {
      send_names_ = false;
    }
    apply(std::move(view));
  } while (more);
}

void Cluster::missed_coordinator(const Status& why) {
  ++core_.metrics.heartbeats_failed;
  coordinator_error_ = why.message();
  const std::string& address = core_.config.coordinator;
  const uint64_t now = core_.now_ns();
  if (!view_.coordinator().empty() && !member_.coordinator_reachable(now)) {
    view_.clear_coordinator();
    log::warn("coordinator_lost", {{"coordinator", address}, {"why", why.message()}});
  }
  if (why.code() == Code::kExists) {
    if (const auto left_out = core_.limiter.admit("join_refused", address, now, why.message())) {
      log::error("join_refused", {{"coordinator", address}, {"why", why.message()}, {"left_out", *left_out}});
    }
  } else if (view_.coordinator().empty()) {
    if (const auto left_out = core_.limiter.admit("coordinator_unreachable", address, now, why.message())) {
      log::warn("coordinator_unreachable",
                {{"coordinator", address}, {"why", why.message()}, {"left_out", *left_out}});
    }
  }
}

bool Cluster::add_published(wire::Heartbeat& beat, size_t& next) const {
  constexpr size_t kBytesMax = size_t{1} << 20;
  size_t bytes = 0, position = 0;
  if (next == 0) {
    for (const std::string& id : names_.removed()) beat.add_removed(id);
  }
  for (const auto& [id, allocation] : home_.published()) {
    if (position++ < next) continue;
    if (bytes > kBytesMax) return false;
    *beat.add_published() = allocation;
    bytes += allocation.ByteSizeLong();
    ++next;
  }
  for (const auto& [name, node] : kept_) {
    if (!is_state(node, NodeState::kDead)) beat.add_nodes_known(name);
  }
  beat.set_names_included(true);
  return true;
}

void Cluster::update_own_view() {
  const uint64_t now = core_.now_ns();
  const auto heard = membership_->heard(now, self_view());
  OCM_ASSERT(heard.is_ok());
  for (const std::string& name : membership_->tick(now)) log::warn("node_dead", {{"node", name}});
  wire::ClusterView view;
  membership_->fill(view, now);
  view.set_coordinator(core_.name);
  std::vector<wire::Voter> living;
  std::set<std::string> leaving;
  for (const auto& node : view.nodes()) {
    if (is_state(node, NodeState::kDraining)) leaving.insert(node.name());
    if (!is_state(node, NodeState::kAlive) && !is_state(node, NodeState::kSuspect)) continue;
    wire::Voter& voter = living.emplace_back();
    voter.set_name(node.name());
    voter.set_incarnation(node.incarnation());
    voter.set_address(node.control_address());
  }
  apply(std::move(view));
  take_census();
  core_.env.spawn(quorum_.convene(std::move(living), std::move(leaving)));
}

void Cluster::take_census() {
  constexpr uint64_t kPauseNs = 1'000'000'000;  // it looks at every extent of every name
  constexpr size_t kLoggedMax = 32;
  const std::pair of(membership_->epoch(), names_.version());
  const uint64_t now = core_.now_ns();
  if ((of == census_of_ && !lost_untold_) || now < census_next_ns_) return;
  census_of_ = of;
  census_next_ns_ = now + kPauseNs;
  auto census = names_.census([this](const wire::ExtentDescriptor& extent) { return gone(extent); });
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
  census_ = std::move(census);
}

wire::ClusterView Cluster::fresh_view() const {
  wire::ClusterView view = view_;
  if (is_coordinator()) {
    view.Clear();
    membership_->fill(view, core_.now_ns());
    view.set_coordinator(core_.name);
    view.set_self(core_.name);
  }
  const uint64_t age_ns = is_coordinator() ? 0 : core_.now_ns() - view_at_ns_;
  for (auto& node : *view.mutable_nodes()) {
    if (node.name() == core_.name) {
      add_figures(node);
      continue;
    }
    node.set_heartbeat_age_ns(node.heartbeat_age_ns() + age_ns);
    if (!has_coordinator() && is_state(node, NodeState::kAlive)) {
      node.set_state(static_cast<uint32_t>(NodeState::kSuspect));
    }
  }
  return view;
}

void Cluster::apply(wire::ClusterView view) {
  view.clear_council();
  view.set_self(core_.name);
  if (core_.now_ns() < keep_until_ns_) {
    for (const auto& node : view.nodes()) kept_.erase(node.name());
    for (const auto& [name, node] : kept_) *view.add_nodes() = node;
  }
  std::unordered_map<std::string, const wire::NodeView*> before;
  std::vector<std::string> appeared;
  for (const auto& node : view_.nodes()) before[node.name()] = &node;
  for (const auto& node : view.nodes()) {
    const auto it = before.find(node.name());
    const wire::NodeView* old = it == before.end() ? nullptr : it->second;
    if (it != before.end()) before.erase(it);
    if (node.name() == core_.name) continue;
    if (old == nullptr || old->incarnation() != node.incarnation()) appeared.push_back(node.name());
    const bool restarted = old != nullptr && old->incarnation() != node.incarnation();
    const bool dead = is_state(node, NodeState::kDead);
    if (old != nullptr && !restarted && is_state(*old, NodeState::kDead) == dead) continue;
    control::Incarnation alive;
    const bool known = !dead && read_id(node.incarnation(), alive);
    home_.owner_node(node.name(), known ? std::optional(alive) : std::nullopt);
    // Also when it returned: a connection from before would wait for its next retransmission.
    if (old != nullptr) peers_.forget(old->control_address(), known);
  }
  constexpr size_t kFormerMax = 4096;
  for (const auto& [name, node] : before) {
    if (name == core_.name) continue;
    home_.owner_node(name, std::nullopt);
    if (former_.size() < kFormerMax) former_[name] = node->control_address();
  }
  for (const auto& node : view.nodes()) former_.erase(node.name());
  view_ = std::move(view);
  view_at_ns_ = core_.now_ns();
  rebuild_rooms();
  if (!view_.coordinator().empty())
    home_.members([this](const std::string& node) { return find(node) != nullptr; });
  if (!on_node_) return;
  for (const std::string& name : appeared) {
    if (const wire::NodeView* node = find(name)) on_node_(*node);
  }
}

void Cluster::rebuild_rooms() {
  rooms_.clear();
  room_index_.clear();
  for (const auto& node : view_.nodes()) {
    control::NodeRoom room;
    room.name = node.name();
    room.usable = is_state(node, NodeState::kAlive);
    for (const auto& address : node.addresses()) {
      if (address.fabric() < 32) room.fabrics |= 1u << address.fabric();
    }
    for (const auto& pool : node.pools()) {
      if (pool.kind() >= kKinds) continue;
      room.bytes_total[pool.kind()] = pool.bytes_total();
      room.bytes_used[pool.kind()] = pool.bytes_used() - std::min(pool.bytes_used(), pool.bytes_reclaiming());
    }
    room_index_[room.name] = rooms_.size();
    rooms_.push_back(std::move(room));
  }
  note_pool(core_.name, home_.pool(Kind::kDram));
}

std::string Cluster::address_of(const std::string& node) const {
  const wire::NodeView* known = find(node);
  if (known != nullptr) return known->control_address();
  const auto former = former_.find(node);
  return former == former_.end() ? std::string() : former->second;
}

const wire::NodeView* Cluster::find(const std::string& node) const {
  const auto it = room_index_.find(node);
  return it == room_index_.end() ? nullptr : &view_.nodes(static_cast<int>(it->second));
}

const wire::NodeView* Cluster::find_partition(uint32_t partition) const {
  const auto it =
      std::find_if(view_.nodes().begin(), view_.nodes().end(),
                   [partition](const wire::NodeView& node) { return node.partition() == partition; });
  return it == view_.nodes().end() ? nullptr : &*it;
}

bool Cluster::settled() const {
  if (!is_coordinator()) return member_.run() != 0;
  return core_.config.embedded || core_.now_ns() > started_ns_ + 2 * core_.config.heartbeat_ns();
}

uint64_t Cluster::coordinator_run() const { return is_coordinator() ? membership_->run() : member_.run(); }

bool Cluster::may_learn_of_nodes() const {
  return !core_.config.embedded && !knows_all_names() && (is_coordinator() || !settled());
}

wire::NameList Cluster::list_names(uint32_t uid) const {
  wire::NameListRequest all;
  all.set_uid(uid);
  return names_now(all);
}

wire::NameList Cluster::names_now(const wire::NameListRequest& request) const {
  return names_.list(request.prefix(), request.after(), request.uid(),
                     [this](const wire::ExtentDescriptor& extent) { return gone(extent); });
}

void Cluster::note_pool(const std::string& node, const wire::PoolView& pool, bool full) {
  const auto it = room_index_.find(node);
  if (it == room_index_.end() || pool.kind() >= kKinds || pool.bytes_total() == 0) return;
  rooms_[it->second].bytes_total[pool.kind()] = pool.bytes_total();
  const uint64_t coming = full ? 0 : std::min(pool.bytes_used(), pool.bytes_reclaiming());
  rooms_[it->second].bytes_used[pool.kind()] = pool.bytes_used() - coming;
}

void Cluster::note_freed(const std::string& node, Kind kind, uint64_t bytes) {
  const auto it = room_index_.find(node);
  if (it == room_index_.end()) return;
  uint64_t& used = rooms_[it->second].bytes_used[static_cast<size_t>(kind)];
  used -= std::min(used, bytes);
}

Task<void> Cluster::refresh_pools() {
  constexpr size_t kAskedMax = 64;
  std::vector<Task<void>> tasks;
  const auto ask = [](Cluster& cluster, std::string node, std::string address) -> Task<void> {
    wire::Envelope request;
    request.mutable_stats();
    const uint64_t deadline =
        cluster.core_.now_ns() + std::min<uint64_t>(cluster.core_.config.failure_deadline_ns(), 500'000'000);
    const auto reply = co_await cluster.peers_.call(std::move(address), std::move(request), deadline);
    if (!reply.is_ok()) co_return;
    for (const auto& pool : reply.value().stats_reply().pools()) cluster.note_pool(node, pool);
  };
  for (const auto& room : rooms_) {
    if (room.usable && room.name != core_.name && tasks.size() < kAskedMax) {
      tasks.push_back(ask(*this, room.name, address_of(room.name)));
    }
  }
  note_pool(core_.name, home_.pool(Kind::kDram));
  co_await core_.env.join(std::move(tasks));
}

Task<Result<wire::Envelope>> Cluster::ask_coordinator(wire::Envelope request) {
  if (is_coordinator()) {
    Reply reply = co_await coordinate(std::move(request), core_.name);
    const Status status = control::reply_status(reply.message);
    if (!status.is_ok()) co_return status;
    co_return std::move(reply.message);
  }
  wire::Envelope answered;
  auto reply =
      co_await peers_.call(core_.config.coordinator, std::move(request), core_.deadline_ns(), &answered);
  const Code code = reply.status().code();
  if (answered.code() != 0) co_return std::move(reply);  // it speaks of another node
  if (code == Code::kPeerLost || code == Code::kDeadline || code == Code::kAuth) {
    co_return Status(Code::kNoCoordinator, "the coordinator at " + core_.config.coordinator +
                                               " does not answer: " + std::string(reply.status().message()));
  }
  co_return std::move(reply);
}

bool Cluster::handles(const wire::Envelope& request) const {
  if (quorum_.handles(request)) return true;
  switch (request.body_case()) {
    case wire::Envelope::kHeartbeat:
    case wire::Envelope::kPublish:
    case wire::Envelope::kAttach:
    case wire::Envelope::kNameRemove:
    case wire::Envelope::kNameList:
    case wire::Envelope::kLostReplica:
    case wire::Envelope::kGoodbye: return true;
    default: return false;
  }
}

Task<Reply> Cluster::coordinate(wire::Envelope request, std::string asker) {
  if (quorum_.handles(request)) co_return quorum_.answer(request);
  if (!is_coordinator())
    co_return Status(Code::kNoCoordinator,
                     "node " + core_.name + " is not the coordinator: compare [cluster] coordinator of both");
  if (is_about_names(request)) co_await wait_for_names(std::move(asker));
  switch (request.body_case()) {
    case wire::Envelope::kHeartbeat: co_return heard(request.heartbeat());
    case wire::Envelope::kPublish: co_return co_await publish(std::move(*request.mutable_publish()));
    case wire::Envelope::kNameRemove:
      co_return co_await remove_name(std::move(*request.mutable_name_remove()));
    case wire::Envelope::kLostReplica:
      // It is lost already; names are given out marked from now on.
      names_.lose_extent(id_of(request.lost_replica()));
      co_return Status();
    case wire::Envelope::kPartRemade:  // of this daemon itself
      (void)names_.remake(request.part_remade());
      co_return Status();
    case wire::Envelope::kGoodbye:
      membership_->goodbye(request.goodbye().node());
      update_own_view();
      co_return Status();
    case wire::Envelope::kAttach: {
      const auto& attach = request.attach();
      if (attach.access() != 1 && attach.access() != 3)
        co_return Status(Code::kInvalidArgument, "unknown access");
      auto found = names_.attach(attach.name(), static_cast<Access>(attach.access()), attach.uid());
      if (!found.is_ok()) co_return found.status();
      wire::Envelope out;
      auto& allocation = *out.mutable_allocation() = std::move(found).value();
      allocation.set_lost(control::is_lost(allocation, [this](const auto& extent) { return gone(extent); }));
      co_return out;
    }
    case wire::Envelope::kNameList: {
      wire::Envelope out;
      *out.mutable_names() = names_now(request.name_list());
      co_return out;
    }
    default: co_return Status(Code::kProtocol, "not a request to a coordinator");
  }
}

Reply Cluster::heard(const wire::Heartbeat& beat) {
  ++core_.metrics.heartbeats_received;
  const uint64_t now = core_.now_ns();
  const auto heard = membership_->heard(now, beat.self());
  if (!heard.is_ok()) return heard.status();
  quorum_.reported(beat.self(), beat.council());
  const auto& what = heard.value();
  const std::string& name = beat.self().name();
  if (what.joined || what.restarted || what.returned) {
    log::info("node_heard", {{"node", name},
                             {"how", what.joined      ? "joined"
                                     : what.restarted ? "restarted"
                                                      : "returned"}});
    update_own_view();
  }
  for (const std::string& id : beat.removed()) {
    const auto back = names_.remember_removed(id);
    if (!back) continue;
    for (const std::string& node : homes_of(*back)) core_.env.spawn(tell_until_heard(node, removal(*back)));
  }
  for (const auto& allocation : beat.published()) {
    std::vector<wire::ExtentDescriptor> former;
    const auto merged = names_.merge(allocation, core_.env.random_number(), &former);
    tell_of_former(allocation.allocation_id(), former);
    switch (merged) {
      case control::Names::Merged::kRemoved:
        fault::reached(fault::State::kRemovedReported);
        core_.env.spawn(tell_until_heard(name, removal(allocation)));
        break;
      case control::Names::Merged::kRenamed: {
        fault::reached(fault::State::kNameConflict);
        wire::PublishExtents renamed;
        *renamed.mutable_allocation() = *names_.find_id(allocation.allocation_id());
        renamed.set_attempt(core_.env.random_number());
        log::warn("name_conflict",
                  {{"name", allocation.name()}, {"node", name}, {"now", renamed.allocation().name()}});
        for (const std::string& node : homes_of(allocation)) core_.env.spawn(tell_until_heard(node, renamed));
        break;
      }
      case control::Names::Merged::kRefused:
        log::warn("name_refused", {{"name", allocation.name()}, {"node", name}});
        break;
      default: break;
    }
  }
  note_report(beat);
  if (const auto waiting = unheard_.find(name); waiting != unheard_.end()) {
    unheard_count_ -= waiting->second.size();
    const auto waited = std::move(unheard_.extract(waiting).mapped());
    for (const auto& told : waited) core_.env.spawn(tell_until_heard(name, told));
  }
  wire::Envelope out;
  auto& view = *out.mutable_cluster_view();
  membership_->fill(view, now);
  view.set_coordinator(core_.name);
  *view.mutable_council() = quorum_.newest();
  return out;
}

void Cluster::note_report(const wire::Heartbeat& beat) {
  constexpr size_t kAwaitedMax = 4096;
  if (knows_all_names()) return;
  const std::string& name = beat.self().name();
  if (beat.names_included() && beat.coordinator_run() == membership_->run()) {
    reported_.insert(name);
    awaited_.erase(name);
  }
  const auto await = [this](const std::string& node) {
    if (node != core_.name && !reported_.contains(node) && awaited_.size() < kAwaitedMax)
      awaited_.insert(node);
  };
  await(name);
  for (const std::string& node : beat.nodes_known()) await(node);
}

/// Whoever was there is heard by then.
bool Cluster::knows_all_names() const {
  return core_.now_ns() >= started_ns_ + core_.config.failure_deadline_ns();
}

Task<void> Cluster::wait_for_names(std::string asker) {
  const auto all_told = [&] {
    return settled() && awaited_.empty() && (asker == core_.name || reported_.contains(asker));
  };
  while (!knows_all_names() && !all_told()) co_await core_.env.sleep_ns(5'000'000);
}

Task<Status> Cluster::tell_home(std::string node, wire::Envelope request, uint64_t deadline_ns) {
  if (node == core_.name) {
    if (request.has_publish_extents()) co_return home_.publish(request.publish_extents());
    if (request.has_release()) co_return home_.release(request.release());
    co_return Code::kInternal;
  }
  const std::string address = address_of(node);
  if (address.empty()) co_return Status(Code::kPeerLost, "node " + node + " is not in the cluster");
  if (deadline_ns == 0) deadline_ns = core_.deadline_ns();
  const auto reply = co_await peers_.call(address, std::move(request), deadline_ns);
  co_return reply.status();
}

Task<Status> Cluster::lose_replica(std::vector<ExtentId> part, ExtentId replica, std::string node,
                                   std::vector<ExtentId> over) {
  const uint64_t give_up_ns = core_.now_ns() + 3 * core_.config.failure_deadline_ns();
  const Status lost = co_await quorum_.lose(std::move(part), replica, give_up_ns, std::move(over));
  if (!lost.is_ok()) {
    co_return Status(lost.code(),
                     "the replica on node " + node + " was not given up: " + std::string(lost.message()));
  }
  log::warn("replica_lost", {{"node", node}, {"extent", replica.address.to_string()}});
  const auto tell_names = [](Cluster& cluster, ExtentId id) -> Task<void> {
    wire::Envelope message;
    message.mutable_lost_replica()->set_address(id.address.bits());
    message.mutable_lost_replica()->set_generation(id.generation);
    (void)co_await cluster.ask_coordinator(std::move(message));
  };
  core_.env.spawn(tell_names(*this, replica));
  co_return Status();
}

bool Cluster::gone(const wire::ExtentDescriptor& extent) const {
  return is_coordinator() &&
         !membership_->may_live(extent.node(), GlobalAddress(extent.address()).partition());
}

Task<void> Cluster::leave() {
  if (is_coordinator()) co_return;
  wire::Envelope goodbye;
  goodbye.mutable_goodbye()->set_node(core_.name);
  const uint64_t deadline =
      core_.now_ns() + std::min<uint64_t>(core_.config.failure_deadline_ns(), 1'000'000'000);
  (void)co_await peers_.call(core_.config.coordinator, std::move(goodbye), deadline);
}

}  // namespace ocm::node
