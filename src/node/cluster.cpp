#include "node/cluster.h"

#include <unistd.h>

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/council_wire.h"
#include "control/home_requests_wire.h"
#include "control/parts.h"
#include "control/replica_query_wire.h"
#include "control/sockets.h"
#include "control/view_wire.h"
#include "os/crypto.h"

namespace ocm::node {

using control::NodeState;
using control::Reply;
using control::Task;

Cluster::Cluster(Core& core, Home& home, Peers& peers)
    : core_(core),
      home_(home),
      peers_(peers),
      quorum_(core, home, peers),
      heard_of_(core.config.failure_deadline_ns()),
      founding_(core.other_seeds.size(), core.config.heartbeat_ns(), core.config.failure_deadline_ns(),
                core.now_ns()),
      founding_again_(core.other_seeds.size(), core.config.heartbeat_ns(),
                      2 * core.config.failure_deadline_ns(), core.now_ns()),
      pools_heard_(core.env),
      news_(core.env) {
  if (core.coordinates)
    coordinator_ = std::make_unique<Coordinator>(core, quorum_, *this, core.env.random_number() | 1);
}

void Cluster::start(std::function<void(control::NodeInfo&)> fill) {
  quorum_.on_dropped([this](const ExtentId& id) {
    if (home_.published_with(id) != nullptr) note_lost(id);
  });
  quorum_.on_witness([this](std::vector<ExtentId> replicas) { return is_witnessed(std::move(replicas)); });
  OCM_DASSERT(!fill_);
  fill_ = std::move(fill);
  quorum_.start(is_coordinator() ? coordinator_->run() : 0);
  if (core_.passes_on()) quorum_.on_leader([this] { core_.env.spawn(leader_changed()); });
  if (is_coordinator()) {
    coordinator_->look();
    tell_own_names();  // that its pools kept
  } else {             // usable before the coordinator answers: this node alone
    control::View alone;
    alone.nodes.push_back(self_view());
    apply(std::move(alone));
  }
  core_.env.spawn(beat());
}

control::NodeInfo Cluster::self_view() const {
  control::NodeInfo out;
  out.name = core_.name;
  out.partition = core_.partition;
  out.state = core_.draining || core_.stopping ? NodeState::kDraining : NodeState::kAlive;
  out.incarnation = core_.incarnation;
  out.control_address = core_.control_address;
  out.http_address = core_.http_address;
  out.host_id = core_.host_id;
  out.version = kVersion;
  out.features = core_.versions.features;
  out.failure_deadline_ms = core_.config.failure_deadline_ms;
  out.passes_on = core_.passes_on();
  out.remembered = quorum_.remembered_runs();
  out.addresses = core_.addresses;
  add_figures(out);
  return out;
}

void Cluster::add_figures(control::NodeInfo& self) const {
  self.pools = home_.pools();
  self.extents = home_.extents();
  self.replicas_freed_before = quorum_.replicas_freed_before();
  self.orphans_freed = home_.orphans_freed();
  if (fill_) fill_(self);
}

Task<void> Cluster::beat() {
  while (!core_.draining) {
    const uint64_t since_ns = core_.now_ns();
    co_await beat_once();  // first: after a standstill what this node knew of others is old
    for (Home::Orphan& orphan : home_.tick(core_.now_ns())) {
      if (asking_.insert(orphan.session).second) core_.env.spawn(ask_for(std::move(orphan)));
    }
    look_for_runs_that_are_over();
    uint64_t pause_ns = core_.config.heartbeat_ns();
    // The coordinator looks more often, so that a death is known soon after the deadline.
    constexpr size_t kManyNodes = 256;
    if (is_coordinator() && coordinator_->nodes() > 1 && coordinator_->nodes() < kManyNodes) {
      pause_ns = std::min(pause_ns, core_.config.failure_deadline_ns() / 24);
    }
    const bool is_late = core_.now_ns() - since_ns >= pause_ns;
    const uint64_t left_ns = is_late ? 1'000'000 : core_.until_next_ns(pause_ns);
    co_await core_.env.sleep_ns(left_ns);
  }
}

void Cluster::look_for_runs_that_are_over() {
  const uint64_t now = core_.now_ns(), deadline_ns = core_.config.failure_deadline_ns();
  if (!has_coordinator()) followed_since_ns_.clear();  // nobody heard the others
  if (!has_coordinator() || now < runs_looked_at_ns_ + deadline_ns) return;
  runs_looked_at_ns_ = now;
  std::map<uint32_t, uint64_t> followed;
  for (const auto& [partition, name] : quorum_.voter().ledger().awaited(now)) {
    const control::NodeInfo* node = find(name);
    if (node == nullptr || node->state != NodeState::kAlive || node->partition == partition) continue;
    const auto known = followed_since_ns_.find(partition);
    const uint64_t since_ns = known == followed_since_ns_.end() ? now : known->second;
    OCM_DASSERT(since_ns <= now);
    // The coordinator hears the other one for as long: there is one daemon of a name.
    if (now >= since_ns + 2 * deadline_ns)
      quorum_.run_is_over(partition);
    else
      followed[partition] = since_ns;
  }
  followed_since_ns_ = std::move(followed);
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
  const auto asked = co_await homes_.ask(orphan.node, std::move(message));
  const Status told = asked.status();
  asking_.erase(orphan.session);
  const bool has_not = told.code() == Code::kNotFound;
  home_.answered(orphan, told.is_ok() ? Home::Answer::kHasIt
                         : has_not    ? Home::Answer::kHasItNot
                                      : Home::Answer::kNone);
}

Task<void> Cluster::beat_once() {
  if (core_.passes_on()) {
    follow_role();
    std::erase_if(retired_, [](const auto& one) { return one->is_idle(); });
  }
  if (is_coordinator()) coordinator_->look();
  const std::string leader = leader_address();
  if (!is_coordinator() && !leader.empty()) co_await beat_to(leader);
  if (!is_coordinator() && leader.empty()) miss_council();
  if (core_.passes_on() && (is_coordinator() || !heard_of_.coordinator_reachable(core_.now_ns())))
    ask_seeds();
}

Task<void> Cluster::leader_changed() {
  follow_role();
  if (is_coordinator()) co_return;
  const std::string leader = leader_address();
  if (!leader.empty()) co_await beat_to(leader);
}

void Cluster::miss_council() {
  const uint64_t now = core_.now_ns();
  if (!heard_of_.coordinator_reachable(now)) view_.coordinator.clear();
  coordinator_error_ = quorum_.known().id != 0
                           ? "this node was the coordinator, and no majority of the voters answers it"
                       : core_.founds ? "not enough seeds answer to found the cluster"
                                      : "no seed that answers knows a council, and the first one, " +
                                            core_.config.seeds.front() + ", founds it when it starts";
  if (now < started_ns_ + core_.config.failure_deadline_ns()) return;  // starting together takes a moment
  if (const auto left_out = core_.limiter.admit("no_council", core_.name, now, coordinator_error_))
    log::warn("no_council", {{"why", coordinator_error_}, {"left_out", *left_out}});
}

std::string Cluster::leader_address() const {
  if (!core_.passes_on()) return core_.config.coordinator;
  const control::Council council = quorum_.known();
  if (council.voters.empty()) return {};
  const control::VoterInfo& leader = control::coordinator_of(council);
  return leader.name == core_.name ? std::string() : leader.address;
}

void Cluster::follow_role() {
  if (quorum_.acts()) {
    if (!is_coordinator()) take_office();
  } else if (is_coordinator()) {
    lay_down();
  }
}

void Cluster::tell_own_names() {
  OCM_DASSERT(is_coordinator());
  Report report;
  for (bool more = !fault::at(fault::Point::kOwnNamesForgotten); more;) {
    wire::Heartbeat own;
    own.mutable_self()->set_name(core_.name);
    more = !add_published(own, report);
    coordinator_->merge_names(own);
  }
}

void Cluster::take_office() {
  fault::reached(fault::State::kOfficeTaken);
  OCM_DASSERT(!is_coordinator() && core_.passes_on());
  coordinator_ = std::make_unique<Coordinator>(core_, quorum_, *this, core_.env.random_number() | 1);
  coordinator_->take_over(view_, followed_);
  (void)heard_of_.follow(coordinator_->run());
  tell_own_names();
  log::info("coordinates", {{"node", core_.name}, {"term", quorum_.newest().number}, {"after", followed_}});
  followed_ = core_.name;
  const auto tell = [](Cluster& self, std::string address) -> Task<void> {
    (void)co_await self.tell_leader(std::move(address));
  };
  for (const control::NodeInfo& node : view_.nodes) {
    if (node.name != core_.name && node.state != NodeState::kDead)
      core_.env.spawn(tell(*this, node.control_address));
  }
  coordinator_->look();
}

void Cluster::lay_down() {
  fault::reached(fault::State::kOfficeLaidDown);
  OCM_DASSERT(is_coordinator() && core_.passes_on());
  log::warn("coordinates_no_more",
            {{"node", core_.name},
             {"why", core_.draining ? "it stops" : "another node has the seat, or no majority votes"}});
  for (const AllocationId& id : registry().removed()) removed_.insert(id);  // N2: the next one may not know
  coordinator_->retire();
  retired_.push_back(std::move(coordinator_));
  OCM_DASSERT(!is_coordinator() && retired_.back() != nullptr);
  (void)heard_of_.follow(0);
  view_.coordinator.clear();
  send_names_ = true;
}

Task<void> Cluster::beat_to(std::string leader) {
  if (!beating_.insert(leader).second) co_return;
  Report report;
  bool more = send_names_;
  do {
    const uint64_t sent_ns = core_.now_ns();
    is_behind_ = false;
    wire::Envelope request;
    auto& beat = *request.mutable_heartbeat();
    to_wire(self_view(), *beat.mutable_self());
    beat.set_epoch_known(view_.epoch);
    beat.set_coordinator_run(heard_of_.run());
    beat.set_features_all(view_.features_all);
    control::to_wire(quorum_.newest(), *beat.mutable_council());
    for (const control::Council& council : quorum_.remembered_councils())
      control::to_wire(council, *beat.add_remembered());
    if (more) more = !add_published(beat, report);
    const auto told = add_changed(beat);
    ++core_.metrics.heartbeats_sent;
    auto reply = co_await peers_.call(leader, std::move(request), sent_ns + patience_ns());
    if (leader != leader_address()) break;  // another one meanwhile
    if (reply.is_ok() && reply.value().has_leader()) {
      quorum_.told_of(control::from_wire(reply.value().leader().council()));
      reply = Status(Code::kNoCoordinator, "it is not the coordinator");
    }
    if (!reply.is_ok()) {
      missed_coordinator(leader, reply.status());
      break;
    }
    control::View view = control::from_wire(reply.value().cluster_view());
    if (heard_of_.is_former(view.run)) break;  // M3
    quorum_.learn(control::from_wire(reply.value().cluster_view().council()));
    if (heard_of_.replied(sent_ns, view.run)) {
      log::info("joined", {{"coordinator", view.coordinator}, {"nodes", view.nodes.size()}});
      send_names_ = more = true;
      report = Report();
      keep_until_ns_ = sent_ns + core_.config.failure_deadline_ns();
      kept_.clear();
      for (const control::NodeInfo& node : view_.nodes) kept_[node.name] = node;
    } else if (!more) {
      send_names_ = false;
    }
    for (const auto& [id, change] : told) {
      const auto known = changed_names_.find(id);
      if (known != changed_names_.end() && known->second == change) changed_names_.erase(known);
    }
    followed_ = view.coordinator;
    apply(std::move(view));
  } while (more || is_behind_);
  beating_.erase(leader);
}

void Cluster::on_view_news(uint64_t run, uint64_t epoch) {
  if (run != heard_of_.run() || epoch <= view_.epoch || is_coordinator()) return;
  is_behind_ = true;
  if (std::string leader = leader_address(); !leader.empty()) core_.env.spawn(beat_to(std::move(leader)));
}

void Cluster::missed_coordinator(const std::string& address, const Status& why) {
  ++core_.metrics.heartbeats_failed;
  coordinator_error_ = why.message();
  const uint64_t now = core_.now_ns();
  if (!view_.coordinator.empty() && !heard_of_.coordinator_reachable(now)) {
    view_.coordinator.clear();
    log::warn("coordinator_lost", {{"coordinator", address}, {"why", why.message()}});
  }
  if (why.code() == Code::kExists || why.code() == Code::kInvalidArgument) {
    if (const auto left_out = core_.limiter.admit("join_refused", address, now, why.message())) {
      log::error("join_refused", {{"coordinator", address}, {"why", why.message()}, {"left_out", *left_out}});
    }
  } else if (view_.coordinator.empty()) {
    if (const auto left_out = core_.limiter.admit("coordinator_unreachable", address, now, why.message())) {
      log::warn("coordinator_unreachable",
                {{"coordinator", address}, {"why", why.message()}, {"left_out", *left_out}});
    }
  }
}

bool Cluster::add_published(wire::Heartbeat& beat, Report& report) const {
  const size_t bytes_max = fault::at(fault::Point::kSmallReports) ? 0 : size_t{1} << 20;
  size_t bytes = 0;
  if (!report.ids) {
    for (const AllocationId& id : removed_.in_order()) beat.add_removed(id_field(id));
    report.ids.emplace();
    for (const auto& [id, allocation] : home_.published()) report.ids->push_back(id);
  }
  for (; report.next < report.ids->size(); ++report.next) {
    if (bytes > bytes_max) return false;
    const auto known = home_.published().find((*report.ids)[report.next]);
    if (known == home_.published().end()) continue;
    control::to_wire(known->second, *beat.add_published());
    bytes += beat.published(beat.published_size() - 1).ByteSizeLong();
  }
  for (const auto& [name, node] : kept_) {
    if (node.state != NodeState::kDead) beat.add_nodes_known(name);
  }
  beat.set_names_included(true);
  return true;
}

std::vector<std::pair<AllocationId, uint64_t>> Cluster::add_changed(wire::Heartbeat& beat) const {
  constexpr size_t kBytesMax = size_t{1} << 20;
  size_t bytes = 0;
  std::vector<std::pair<AllocationId, uint64_t>> out;
  for (const auto& change : changed_names_) {
    if (bytes > kBytesMax) break;
    out.push_back(change);
    const auto known = home_.published().find(change.first);
    if (known == home_.published().end()) continue;
    control::to_wire(known->second, *beat.add_changed());
    bytes += beat.changed(beat.changed_size() - 1).ByteSizeLong();
  }
  return out;
}

control::View Cluster::fresh_view() const {
  control::View view;
  if (is_coordinator()) {
    view = coordinator_->view();
    view.self = core_.name;
  } else {
    view = view_;
  }
  OCM_DASSERT(core_.now_ns() >= view_at_ns_);
  const uint64_t age_ns = is_coordinator() ? 0 : core_.now_ns() - view_at_ns_;
  for (control::NodeInfo& node : view.nodes) {
    if (node.name == core_.name) {
      add_figures(node);
      continue;
    }
    node.heartbeat_age_ns += age_ns;
    if (!has_coordinator() && node.state == NodeState::kAlive) node.state = NodeState::kSuspect;
  }
  return view;
}

void Cluster::tell_of_leaving() const {
  if (!on_leaving_) return;
  using Kind = fabric::shm::NodeWord::Kind;
  std::vector<fabric::shm::NodeWord> leaving;
  for (const NodeState state :
       {NodeState::kDead, NodeState::kDraining}) {  // the dead first, should there be many
    for (const control::NodeInfo& node : view_.nodes) {
      if (node.state != state) continue;
      leaving.push_back({state == NodeState::kDead ? Kind::kDead : Kind::kDraining, node.partition});
    }
  }
  on_leaving_(std::move(leaving));
}

void Cluster::apply(control::View view) {
  view.self = core_.name;
  view.features_all |=
      view_.features_all;  // M4 of control/membership.h: a new coordinator hears of them from here
  if (core_.now_ns() < keep_until_ns_) {
    for (const control::NodeInfo& node : view.nodes) kept_.erase(node.name);
    for (const auto& [name, node] : kept_) view.nodes.push_back(node);
  }
  std::unordered_map<std::string, const control::NodeInfo*> before;
  std::vector<std::string> appeared;
  for (const control::NodeInfo& node : view_.nodes) before[node.name] = &node;
  for (const control::NodeInfo& node : view.nodes) {
    const auto it = before.find(node.name);
    const control::NodeInfo* old = it == before.end() ? nullptr : it->second;
    if (it != before.end()) before.erase(it);
    if (node.name == core_.name) continue;
    if (old == nullptr || old->incarnation != node.incarnation) appeared.push_back(node.name);
    const bool restarted = old != nullptr && old->incarnation != node.incarnation;
    const bool dead = node.state == NodeState::kDead;
    if (old != nullptr && !restarted && (old->state == NodeState::kDead) == dead) continue;
    const auto alive = dead ? std::nullopt : node.incarnation;
    home_.owner_node(node.name, alive);
    // Also when it returned: a connection from before would wait for its next retransmission.
    if (old != nullptr) peers_.forget(old->control_address, alive.has_value());
  }
  constexpr size_t kFormerMax = 4096;
  for (const auto& [name, node] : before) {
    if (name == core_.name) continue;
    home_.owner_node(name, std::nullopt);
    if (former_.size() < kFormerMax) former_[name] = node->control_address;
  }
  OCM_DASSERT(former_.size() <= kFormerMax);
  view_ = std::move(view);
  if (joined_ns_ == 0 && heard_of_.run() != 0) joined_ns_ = core_.now_ns();
  for (const control::NodeInfo& node : view_.nodes) former_.erase(node.name);
  view_at_ns_ = core_.now_ns();
  rooms_.take(view_);
  OCM_DASSERT(rooms_.all().size() == view_.nodes.size());
  note_own_pool();
  tell_of_leaving();
  news_.notify();
  if (!view_.coordinator.empty())
    home_.members([this](const std::string& node) { return find(node) != nullptr; });
  if (!on_node_) return;
  for (const std::string& name : appeared) {
    if (const control::NodeInfo* node = find(name)) on_node_(*node);
  }
}

std::string Cluster::address_of(const std::string& node) const {
  const control::NodeInfo* known = find(node);
  if (known != nullptr) return known->control_address;
  const auto former = former_.find(node);
  return former == former_.end() ? std::string() : former->second;
}

const control::NodeInfo* Cluster::find(const std::string& node) const {
  const auto place = rooms_.find(node);
  OCM_DASSERT(!place || *place < view_.nodes.size());
  return place ? &view_.nodes[*place] : nullptr;
}

const control::NodeInfo* Cluster::find_partition(uint32_t partition) const {
  const auto it =
      std::find_if(view_.nodes.begin(), view_.nodes.end(),
                   [partition](const control::NodeInfo& node) { return node.partition == partition; });
  return it == view_.nodes.end() ? nullptr : &*it;
}

bool Cluster::settled() const {
  if (!is_coordinator()) return heard_of_.run() != 0;
  return core_.config.embedded || core_.now_ns() >= settled_from_ns();
}

uint64_t Cluster::coordinator_run() const { return is_coordinator() ? coordinator_->run() : heard_of_.run(); }

bool Cluster::may_learn_of_nodes() const {
  return !core_.config.embedded && core_.now_ns() < is_new_until_ns();
}

/// A member that has its first view hears of others that join at the same time by the next ones. A coordinator that was
/// killed and started again is let in by the next one a little after the failure deadline.
uint64_t Cluster::is_new_until_ns() const {
  const uint64_t until_ns = started_ns_ + core_.config.failure_deadline_ns() / 2 * 3;
  if (is_coordinator() || joined_ns_ == 0) return until_ns;
  return std::min(until_ns, joined_ns_ + 2 * core_.config.heartbeat_ns());
}

Task<void> Cluster::next_news(uint64_t deadline_ns) {
  for (const uint64_t at_ns : {settled_from_ns(), is_new_until_ns()}) {
    if (core_.now_ns() < at_ns) deadline_ns = std::min(deadline_ns, at_ns);
  }
  return news_.wait_until(deadline_ns);
}

control::NameList Cluster::list_names(uint32_t uid) const {
  return is_coordinator() ? coordinator_->list_names(uid) : control::NameList();
}

const control::Names& Cluster::registry() const {
  static const control::Names kNone(0);
  return is_coordinator() ? coordinator_->names() : kNone;
}

void Cluster::remade(const control::PartMoved& part) {
  if (is_coordinator()) coordinator_->remade(part);
}

void Cluster::name_changed(const AllocationId& allocation) {
  if (is_coordinator()) {
    const auto known = home_.published().find(allocation);
    if (known != home_.published().end()) coordinator_->merge_name(core_.name, known->second, false);
    return;
  }
  changed_names_[allocation] = ++name_changes_;
  if (std::string leader = leader_address(); !leader.empty()) core_.env.spawn(beat_to(std::move(leader)));
}

void Cluster::remember_removed(const AllocationId& allocation) {
  if (is_coordinator())
    coordinator_->remember_removed(allocation);
  else
    removed_.insert(allocation);
}

Status Cluster::told(const control::NameChange& what) {
  if (heard_of_.is_former(what.coordinator_run)) {  // M3 of control/membership.h
    fault::reached(fault::State::kToldByFormer);
    return Status::of_node(Code::kNoCoordinator, core_.name, " follows another coordinator by now");
  }
  const bool has_extents = !what.allocation.extents.empty();
  const Status done = has_extents || !what.remove ? home_.publish(what) : Status();
  // A home remembers it, too: where it has freed its part, another home has not heard yet, and the coordinator may
  // start anew before it has.
  if (what.remove && done.is_ok() && !fault::at(fault::Point::kHomeForgetsRemoval))
    remember_removed(what.allocation.id);
  return done;
}

Task<Result<wire::Envelope>> Cluster::ask_coordinator(wire::Envelope request) {
  if (is_coordinator()) {
    Reply reply = co_await coordinate(std::move(request), core_.name);
    const Status status = control::reply_status(reply.message);
    if (!status.is_ok()) co_return status;
    co_return std::move(reply.message);
  }
  const std::string leader = leader_address();
  if (leader.empty())
    co_return Status(Code::kNoCoordinator, "no coordinator is known now: " + coordinator_error_);
  wire::Envelope answered;
  auto reply = co_await peers_.call(leader, std::move(request), core_.deadline_ns(), &answered);
  const Code code = reply.status().code();
  if (answered.code() != 0) co_return std::move(reply);  // it speaks of another node
  if (code == Code::kPeerLost || code == Code::kDeadline || code == Code::kAuth) {
    co_return Status(Code::kNoCoordinator, "the coordinator at " + leader +
                                               " does not answer: " + std::string(reply.status().message()));
  }
  co_return std::move(reply);
}

void Cluster::enter(PeerHandlers& handlers) {
  quorum_.enter(handlers);
  for (const auto body : Coordinator::kAnswered)
    handlers.on(body, [this](std::string node, wire::Envelope request) {
      return coordinate(std::move(request), std::move(node));
    });
  handlers.on(wire::Envelope::kFoundCluster,
              [this](std::string, wire::Envelope) -> Task<Reply> { co_return co_await found_by_hand(); });
  handlers.on_now(wire::Envelope::kLeader,
                  [this](const std::string&, const wire::Envelope& request) { return not_here(request); });
  handlers.on_now(wire::Envelope::kViewNews,
                  [this](const std::string&, const wire::Envelope& request) -> Reply {
                    on_view_news(request.view_news().run(), request.view_news().epoch());
                    return Status();
                  });
  handlers.on(wire::Envelope::kPublishExtents, [this](std::string, wire::Envelope request) -> Task<Reply> {
    const auto what = control::from_wire(request.publish_extents());
    if (!what.is_ok()) co_return what.status();
    const Status done = told(what.value());
    const Status kept = co_await home_.kept();  // what failed may have changed something
    // A device that takes no more writes does not hinder a removal: voters and homes remember it.
    co_return done.is_ok() && !what.value().remove ? kept : done;
  });
}

Task<Reply> Cluster::coordinate(wire::Envelope request, std::string asker) {
  if (!is_coordinator() || !quorum_.acts()) co_return not_here(request);
  const Coordinator* asked = coordinator_.get();
  Reply reply = co_await coordinator_->answer(std::move(request), std::move(asker));
  if (coordinator_.get() != asked || !quorum_.acts())  // P1 of node/quorum.h
    co_return Status::of_node(Code::kNoCoordinator, core_.name, " is not the coordinator any more");
  co_return reply;
}

Reply Cluster::not_here(const wire::Envelope& request) {
  if (core_.passes_on() && request.has_heartbeat()) {
    const wire::NodeView& self = request.heartbeat().self();
    quorum_.heard_run(self.name(), control::voter_run_from(self.incarnation(), self.remembered()));
    quorum_.told_of(control::from_wire(request.heartbeat().council()));
  }
  if (core_.passes_on() && request.has_leader()) {
    const control::Council told = control::from_wire(request.leader().council());
    if (told.id != 0) quorum_.told_of(told);
  }
  const control::Council council = quorum_.known();
  if (request.has_leader() || (core_.passes_on() && request.has_heartbeat())) {
    control::Leader known{council, {}, *founds_by_hand_, core_.name};
    if (core_.passes_on() && request.has_leader()) known.remembered = quorum_.remembered_councils();
    wire::Envelope out;
    control::to_wire(known, *out.mutable_leader());
    return out;
  }
  const bool none = council.voters.empty() || control::coordinator_of(council).name == core_.name;
  const std::string why = !core_.passes_on() ? "compare [cluster] coordinator of both"
                          : none             ? "none is known now"
                                             : "it may be " + control::coordinator_of(council).name;
  return Status::of_node(Code::kNoCoordinator, core_.name, " is not the coordinator: " + why);
}

Task<Status> Cluster::lose_replica(std::vector<ExtentId> part, ExtentId replica, std::string node,
                                   uint32_t uid, control::LossKnown known, uint64_t until_ns) {
  const uint64_t give_up_ns =
      until_ns != 0 ? until_ns : core_.now_ns() + 3 * core_.config.failure_deadline_ns();
  const Status lost = co_await quorum_.lose(std::move(part), replica, give_up_ns, uid, std::move(known));
  if (!lost.is_ok()) {
    co_return lost
        .with_message("the replica on node " + node + " was not given up: " + std::string(lost.message()))
        .with_node(node);
  }
  // A writer that tries again has the same loss decided again.
  if (std::string id = replica.address.to_string(); !lost_logged_.contains(id)) {
    log::warn("replica_lost", {{"node", node}, {"extent", id}});
    lost_logged_.insert(std::move(id));
  }
  note_lost(replica);
  co_return Status();
}

Task<std::optional<bool>> Cluster::ask_its_home(ExtentId replica) {
  const control::NodeInfo* home = find_partition(replica.address.partition());
  if (home == nullptr) co_return std::nullopt;
  const auto run = home->incarnation;
  control::ReplicaQuery query;
  query.witness = true;
  query.replicas.push_back(replica);
  wire::Envelope message;
  to_wire(query, *message.mutable_replica_query());
  const uint64_t deadline_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 3;
  const auto reply = co_await homes_.ask(home->name, std::move(message), deadline_ns);
  if (!reply.is_ok()) co_return std::nullopt;
  const control::ReplicaAnswer answer = control::from_wire(reply.value().replica_answer());
  if (!answer.incarnation || answer.incarnation != run) co_return std::nullopt;
  co_return !answer.living.empty();
}

Task<bool> Cluster::is_unread(ExtentId replica) {
  const std::optional<bool> lives = co_await ask_its_home(replica);
  co_return lives.has_value() && !*lives;
}

Task<bool> Cluster::is_witnessed(std::vector<ExtentId> replicas) {
  struct Asked {
    explicit Asked(control::Env& env) : changed(env) {}
    control::Signal changed;
    size_t left = 0;
    bool lives = false;
  };
  // Answers that nobody waits for any more may still come.
  const auto asked = std::make_shared<Asked>(core_.env);
  const auto ask = [](Cluster& cluster, ExtentId replica, std::shared_ptr<Asked> out) -> Task<void> {
    const std::optional<bool> lives = co_await cluster.ask_its_home(replica);
    out->lives = out->lives || lives.value_or(false);
    OCM_DASSERT(out->left > 0);
    --out->left;
    out->changed.notify();
  };
  for (const ExtentId& id : replicas) {
    if (id.address.partition() == core_.partition && !core_.draining && home_.knows(id)) co_return true;
    const control::NodeInfo* home = find_partition(id.address.partition());
    if (home == nullptr || home->name == core_.name) continue;
    ++asked->left;
    core_.env.spawn(ask(*this, id, asked));
  }
  while (asked->left > 0 && !asked->lives) co_await asked->changed.wait();
  co_return asked->lives;
}

void Cluster::note_lost(const ExtentId& replica) {
  constexpr size_t kLostMax = 65536;
  if (lost_.size() >= kLostMax) return;
  lost_.push_back(replica);
  OCM_DASSERT(lost_.size() <= kLostMax);
  if (!std::exchange(telling_lost_, true)) core_.env.spawn(tell_lost());
}

Task<void> Cluster::tell_lost() {
  uint64_t give_up_ns = core_.now_ns() + 10 * core_.config.failure_deadline_ns();
  while (!lost_.empty() && !core_.draining) {
    wire::Envelope message;
    message.mutable_lost_replica()->set_address(lost_.front().address.bits());
    message.mutable_lost_replica()->set_generation(lost_.front().generation);
    const auto reply = co_await ask_coordinator(std::move(message));
    OCM_DASSERT(telling_lost_ && !lost_.empty());
    if (reply.is_ok() || core_.now_ns() >= give_up_ns) {
      lost_.pop_front();
      give_up_ns = core_.now_ns() + 10 * core_.config.failure_deadline_ns();
    } else {
      co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    }
  }
  telling_lost_ = false;
}

Task<void> Cluster::leave() {
  if (is_coordinator() && core_.passes_on()) {
    lay_down();
    co_await quorum_.resign();
    co_return;
  }
  const std::string leader = leader_address();
  if (is_coordinator() || leader.empty()) co_return;
  wire::Envelope goodbye;
  goodbye.mutable_goodbye()->set_node(core_.name);
  const uint64_t deadline =
      core_.now_ns() + std::min<uint64_t>(core_.config.failure_deadline_ns(), 1'000'000'000);
  (void)co_await peers_.call(leader, std::move(goodbye), deadline);
}

}  // namespace ocm::node
