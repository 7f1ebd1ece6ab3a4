// What becomes of replicas that are made again, for those that do not lead: the plans of homes that do, and the answers
// to who asks.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/parts.h"
#include "node/remaker.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

/// Of the home of a living replica; otherwise of a spare home.
bool is_peer(const control::PlannedPart& plan) { return is_in(plan.give.part.peers, plan.replica); }

/// Than those.
bool has_others(const std::vector<control::Ownership::HeldBy>& holds,
                const std::set<control::HoldId>& those) {
  return std::any_of(holds.begin(), holds.end(), [&](const auto& by) { return !those.contains(by.hold); });
}

}  // namespace

bool Remaker::is_frozen(ExtentId id) const {
  const Job* job = job_of(id);
  const bool led = job != nullptr && job->steps.is_frozen();
  return led || following_.contains(id) || home_.planned_as(id).has_value();
}

Status Remaker::plan(control::PlannedPart plan) {
  const auto& part = plan.give.part;
  if (part.now.size() < 2 + part.peers.size() || plan.of.size() < 2) return Code::kInvalidArgument;
  if (is_peer(plan)) return home_.plan(std::move(plan));
  if (has_another_owner(plan.give)) return Code::kCancelled;  // late: it is given already
  OCM_TRY(home_.give(plan.give, false));  // from now on the end of the home that leads does not free it
  fault::reached(fault::State::kPartPlanned);
  const ExtentId replica = plan.replica;
  spare_plans_[replica] = std::move(plan);
  return {};
}

Task<Status> Remaker::follow_plan(ExtentId id) {
  const auto is_planned = [this, id] { return home_.plan_of(id) != nullptr; };
  if (!following_.insert(id).second) {  // another message says so, too
    const uint64_t give_up_ns = core_.deadline_ns();
    while (following_.contains(id) && core_.now_ns() < give_up_ns) co_await thawed_.wait_until(give_up_ns);
    if (following_.contains(id)) co_return Status(Code::kDeadline, "writes that began before have not ended");
    co_return home_.remade(id) != nullptr ? Status() : Status(Code::kRevoked, "the replica was freed");
  }
  fault::reached(fault::State::kPlanFollowed);
  auto frozen = home_.freeze(id);
  while (frozen.is_ok() && is_planned() && !frozen.value().expired())
    co_await core_.env.sleep_ns(1'000'000);  // threads that use it yet tell nobody
  following_.erase(id);
  thawed_.notify();
  if (!is_planned()) {
    if (home_.is_here(id)) home_.thaw(id);  // the plan was taken back
    co_return Status(Code::kRevoked, "the replica was freed");
  }
  const control::PartMoved part = home_.plan_of(id)->give.part;
  std::set<std::string> planned_owners;
  planned_owners.insert(owner_in(home_.plan_of(id)->give));
  const bool given_to_name = home_.plan_of(id)->give.published.has_value();
  std::set<control::HoldId> planned_holds;
  for (const auto& by : home_.plan_of(id)->give.holds) planned_holds.insert(by.hold);
  home_.switch_over(id, part);
  const ExtentId now = home_.present(id);
  if (const control::Title* title = home_.title(now);
      title != nullptr &&
      (title->session.has_value() == given_to_name || has_others(home_.holds_on(now), planned_holds)))
    part_given(part, now, planned_owners);
  remade(part);
  tell_name(now);
  log::info("replica_follows", {{"extent", id.address.to_string()}, {"led_by", part.now[0].node}});
  co_return Status();
}

void Remaker::settle_plans() {
  constexpr size_t kAtOnceMax = 64;
  std::erase_if(spare_plans_, [this](const auto& entry) { return !home_.has(entry.first); });
  std::erase_if(leader_silent_ns_, [this](const auto& entry) {
    return !spare_plans_.contains(entry.first) && home_.plan_of(entry.first) == nullptr;
  });
  if (!cluster_.settled()) return;
  std::map<ExtentId, control::PlannedPart> over;
  for (const auto* plans : {&home_.plans(), &std::as_const(spare_plans_)}) {
    for (const auto& [id, plan] : *plans) {
      const control::NodeInfo* leads = cluster_.find_partition(plan.give.part.was.address.partition());
      if (leads == nullptr || leads->state == control::NodeState::kDead || is_in_force(plan)) over[id] = plan;
    }
  }
  for (size_t i = 0; i < over.size() && settling_.size() < kAtOnceMax; ++i) {
    auto next = over.upper_bound(settled_last_);
    if (next == over.end()) next = over.begin();
    settled_last_ = next->first;
    if (settling_.insert(next->first).second) core_.env.spawn(settle(next->second));
  }
}

bool Remaker::is_plan_there(const control::PlannedPart& plan) const {
  const ExtentId id = plan.replica;
  return is_peer(plan) ? home_.plan_of(id) != nullptr : spare_plans_.contains(id) && home_.has(id);
}

bool Remaker::is_in_force(const control::PlannedPart& plan) const {
  return !is_peer(plan) && !home_.lost_of(plan.replica).empty();
}

Task<void> Remaker::settle(control::PlannedPart plan) {
  const ExtentId id = plan.replica;
  const control::PartMoved follows = plan.give.part;
  Status known(Code::kRevoked);
  if (!is_in_force(plan)) known = co_await hear_of_plan(plan);
  if (known.is_ok()) {
    const uint64_t silent_since_ns = leader_silent_ns_.try_emplace(id, core_.now_ns()).first->second;
    known = co_await cluster_.settle_part(plan.of, plan.lost, follows.was, follows.now[0].id);
    // It may only stand still, and have the end decided when it goes on. Another run of it does not, and the voters forget.
    const control::NodeInfo* leads = cluster_.find(follows.now[0].node);
    const bool is_over = leads != nullptr && leads->partition != follows.now[0].id.address.partition();
    const bool is_patient =
        !is_over && core_.now_ns() < silent_since_ns + 3 * core_.config.failure_deadline_ns();
    if (known.code() == Code::kLost && is_patient && !fault::at(fault::Point::kPlanThrownAway))
      known = Code::kDeadline;
  } else {
    leader_silent_ns_.erase(id);
  }
  const bool decided = known.code() == Code::kRevoked || is_in_force(plan);
  if (is_plan_there(plan) && !core_.draining && (decided || known.code() != Code::kDeadline)) {
    fault::reached(fault::State::kPlanSettled);
    if (decided && is_peer(plan)) {
      (void)co_await follow_plan(id);
    } else if (decided) {
      follow_as_spare(plan);
    } else if (is_peer(plan)) {
      home_.unshare(id);
    } else {
      home_.discard(id);
    }
  }
  settling_.erase(id);
  thawed_.notify();
}

/// Voters may have forgotten the part, and know it anew from who had slept through all that; a home of it that lives knows what
/// it became.
Task<Status> Remaker::hear_of_plan(control::PlannedPart plan) {
  const control::PartMoved follows = plan.give.part;
  Answers leader, others;
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < 1 + follows.peers.size() && i < follows.now.size(); ++i) {
    const control::NodeInfo* view = cluster_.find(follows.now[i].node);
    const bool same = view != nullptr && view->partition == follows.now[i].id.address.partition();
    if (same && view->name != core_.name)
      tasks.push_back(ask(view->name, plan.of, i == 0 ? leader : others, i == 0));
  }
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
  const auto& remade = leader.remade ? leader.remade : others.remade;
  if (!remade) {
    co_return leader.unchanged ? Status(Code::kDeadline, "the home that leads goes on") : Status();
  }
  const auto& now = remade->now;
  const bool follows_it = std::any_of(now.begin(), now.end(), [&](const auto& one) {
    return one.id == follows.now[0].id || one.id == plan.give.replica;
  });
  co_return follows_it ? Code::kRevoked : Code::kCancelled;
}

void Remaker::follow_as_spare(const control::PlannedPart& plan) {
  if (given(plan.give).is_ok()) spare_plans_.erase(plan.replica);
}

void Remaker::look_at_leaders() {
  const auto parts = home_.followed_parts();
  const uint64_t now = core_.now_ns();
  std::map<ExtentId, uint64_t> asked;
  for (const Home::ShortPart& one : parts) {
    const auto known = asked_leader_ns_.find(one.id);
    uint64_t& at_ns = asked[one.id] = known == asked_leader_ns_.end() ? now : known->second;
    if (now < at_ns + 8 * core_.config.failure_deadline_ns()) continue;
    at_ns = now;
    const std::optional<ExtentId> leads = one.leader();
    if (!leads) continue;
    const control::NodeInfo* node = cluster_.find_partition(leads->address.partition());
    if (node == nullptr) continue;
    const auto look = [](Remaker& self, std::vector<ExtentId> part, ExtentId leader,
                         std::string at) -> Task<void> {
      (void)co_await self.lose_if_gone(std::move(part), leader, std::move(at));
    };
    core_.env.spawn(look(*this, one.part, *leads, node->name));
  }
  asked_leader_ns_ = std::move(asked);
}

Task<Reply> Remaker::what_became_of(std::vector<ExtentId> part) {
  const auto frozen = [&] {  // or a second id, which answers when its part is switched over here
    return std::any_of(part.begin(), part.end(),
                       [&](ExtentId id) { return is_frozen(id) || (home_.is_second(id) && !home_.has(id)); });
  };
  const uint64_t give_up_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 2;
  while (frozen() && core_.now_ns() < give_up_ns) {                         // A2
    const uint64_t look_ns = core_.now_ns() + core_.config.heartbeat_ns();  // a vote may have ended a plan
    co_await thawed_.wait_until(std::min(give_up_ns, look_ns));
  }
  const bool still_frozen = frozen();
  wire::Envelope out;
  for (const ExtentId& id : part) {
    const control::PartMoved* remade = home_.remade(id);
    if (remade == nullptr) continue;
    control::to_wire(*remade, *out.mutable_part_moved());
    co_return out;
  }
  for (const ExtentId& id : part) {
    if (!home_.has(id) && !still_frozen) continue;
    *out.mutable_part_moved()->mutable_was() = ref_of(id);  // as it was; who finds it frozen asks again
    out.mutable_part_moved()->set_frozen(still_frozen);
    co_return out;
  }
  co_return Status(Code::kRevoked, "it is gone");
}

Task<void> Remaker::ask(std::string node, std::vector<ExtentId> part, Answers& out, bool dead_too) {
  const control::NodeInfo* view = cluster_.find(node);
  const bool alive = view != nullptr && (view->state != control::NodeState::kDead ||
                                         (dead_too && !fault::at(fault::Point::kPlanThrownAway)));
  if (!alive && !homes_.is_here(node)) {
    out.unheard = Status::of_node(Code::kPeerLost, node, " does not answer");
    co_return;
  }
  wire::Envelope message;
  wire::add_refs(part, *message.mutable_resolve()->mutable_part());
  auto reply = co_await homes_.ask(node, std::move(message));
  if (!reply.is_ok() && reply.status().code() != Code::kRevoked)
    out.unheard = Status::of_node(Code::kPeerLost, node, ": " + std::string(reply.status().message()));
  if (!reply.is_ok() || !reply.value().has_part_moved()) co_return;
  const wire::PartMoved& told = reply.value().part_moved();
  if (told.now().empty()) {
    out.unchanged = true;
    out.frozen = told.frozen();
  } else {
    out.remade = control::from_wire(told);
  }
}

Task<Result<bool>> Remaker::look(std::vector<control::PlacedExtent> part) {
  std::vector<ExtentId> ids;
  std::set<std::string> homes, others;
  Answers answers;
  for (const auto& extent : part) {
    if (extent.vacant) continue;
    ids.push_back(extent.id);
    if (extent.lost) continue;
    // Another run of that daemon has nothing of it.
    const control::NodeInfo* view = cluster_.find(extent.node);
    const bool same = view != nullptr && view->partition == extent.id.address.partition();
    if (same) homes.insert(extent.node);
    // A daemon that has not joined yet, or whose coordinator has just started, knows few nodes.
    if (view == nullptr)
      answers.unheard = Status::of_node(Code::kPeerLost, extent.node, " is not known here");
  }
  for (const control::NodeInfo& node : cluster_.view().nodes) {
    if (!homes.contains(node.name) && node.state != control::NodeState::kDead) others.insert(node.name);
  }
  // The homes know best; where they are gone, one of the new ones does.
  for (const auto* nodes : {&homes, &others}) {
    Answers now;
    std::vector<Task<void>> tasks;
    for (const std::string& node : *nodes) tasks.push_back(ask(node, ids, now));
    co_await core_.env.join(std::move(tasks));
    if (now.remade) {
      remade(*now.remade);
      co_return true;
    }
    if (now.unchanged) co_return false;
    if (!now.unheard.is_ok()) answers.unheard = now.unheard;
  }
  if (!answers.unheard.is_ok()) co_return answers.unheard;
  co_return Status(Code::kRevoked, "it was freed or removed");
}

Task<Status> Remaker::check_revoked(control::Allocation allocation, ExtentId replica, std::string node) {
  const control::NodeInfo* view = cluster_.find(node);
  if (view == nullptr || view->partition != replica.address.partition()) co_return Status();
  const std::vector<ExtentId> part = control::part_of(allocation, replica);
  Answers answers;
  const uint64_t patience_ns = core_.deadline_ns();
  do {  // A6; each answer takes half a deadline as long as it is frozen
    answers = {};
    co_await ask(node, part, answers);
  } while (answers.frozen && core_.now_ns() < patience_ns && !fault::at(fault::Point::kFrozenForSilence));
  if (answers.remade) remade(*answers.remade);
  const bool answers_again = answers.unchanged && !answers.frozen;
  if (answers.remade || answers_again)
    co_return Status(Code::kRevoked, "it answers again, or its part was made again");
  co_return Status();
}

Task<Status> Remaker::check_given_up(std::vector<ExtentId> part, std::vector<control::PlacedExtent> others,
                                     ExtentId replica, uint32_t epoch_before) {
  Answers answers;
  answers.unheard = Status(Code::kPeerLost, "no node with another replica answers: try again");
  std::vector<Task<void>> tasks;
  for (const auto& extent : others) {
    const control::NodeInfo* view = cluster_.find(extent.node);
    // Another run of that daemon has nothing of it.
    if (view != nullptr && view->partition == extent.id.address.partition())
      tasks.push_back(ask(extent.node, part, answers));
  }
  co_await core_.env.join(std::move(tasks));
  if (answers.unchanged || !answers.remade) co_return answers.unchanged ? Status() : answers.unheard;
  remade(*answers.remade);
  if (!control::may_go_on(*answers.remade, replica, epoch_before)) co_return Status();
  fault::reached(fault::State::kLostOfFormer);
  co_return Status(Code::kRevoked, "the part was made again and goes on under other ids");
}

bool Remaker::seems_to_live(const ExtentDescriptor& extent) const {
  const control::NodeInfo* home = cluster_.find(extent.node);
  return home != nullptr && home->partition == extent.id.address.partition() &&
         home->state != control::NodeState::kDead;
}

Task<Result<control::Allocation>> Remaker::resolve(std::shared_ptr<Session> session, AllocationId id,
                                                   ExtentId asked, bool silent) {
  auto held = session->allocations.find(id);
  if (held == session->allocations.end())
    co_return Status(Code::kNotFound, "the session holds no such allocation");
  if (!held->second.is_whole())
    co_return Status(Code::kUnsupported, "the daemon restarted and does not know the allocation's replicas");
  const control::Allocation& record = held->second.allocation;
  std::vector<control::PlacedExtent> part;
  for (size_t i = 0; i < record.extents.size() && part.empty(); ++i) {
    if (record.extents[i].id != asked) continue;  // if none is, the program knows less than its daemon
    if (silent && seems_to_live(record.extents[i])) break;
    for (size_t j = 0; j < record.extents.size(); ++j) {
      if (control::part_at(record, j) == control::part_at(record, i)) part.push_back(record.extents[j]);
    }
  }
  if (part.empty()) co_return record;
  const auto known = co_await look(std::move(part));
  if (!known.is_ok()) co_return known.status();
  held = session->allocations.find(id);
  if (held == session->allocations.end())
    co_return Status(Code::kNotFound, "the session holds no such allocation");
  co_return held->second.allocation;
}

Task<bool> Remaker::follow(std::shared_ptr<Session> session, AllocationId id, std::set<uint32_t>* unheard) {
  const auto held = session->allocations.find(id);
  if (held == session->allocations.end() || !held->second.is_whole()) co_return false;
  const auto wanted = unheard == nullptr ? std::set<uint32_t>() : std::exchange(*unheard, {});
  std::map<uint32_t, std::vector<control::PlacedExtent>> parts;  // as they are known now
  const control::Allocation& record = held->second.allocation;
  for (size_t i = 0; i < record.extents.size(); ++i) {
    const uint32_t part = control::part_at(record, i);
    if (wanted.empty() || wanted.contains(part)) parts[part].push_back(record.extents[i]);
  }
  bool found = false;
  for (auto& [part, before] : parts) {
    const auto known = co_await look(std::move(before));
    found = found || known.is_ok();
    if (unheard != nullptr && known.status().code() == Code::kPeerLost) unheard->insert(part);
  }
  co_return found;
}

Task<void> Remaker::follow_outdated(std::shared_ptr<Session> session) {
  constexpr uint64_t kLongestWait = 64;  // heartbeats
  if (std::exchange(session->follows_outdated, true)) co_return;
  std::map<AllocationId, std::set<uint32_t>> unheard;
  uint64_t wait = 1;
  while (!session->outdated.empty() && !session->ended && !core_.draining) {
    const std::vector<AllocationId> ids(session->outdated.begin(), session->outdated.end());
    for (const AllocationId& id : ids) {
      std::set<uint32_t>& parts = unheard[id];
      const bool found = co_await follow(session, id, &parts);
      if (found) fault::reached(fault::State::kOutdatedFollowed);
      if (parts.empty()) session->outdated.erase(id);
    }
    gone_.look_again();
    if (session->outdated.empty()) break;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns() * wait);
    wait = std::min(2 * wait, kLongestWait);
  }
  session->follows_outdated = false;
}

Task<void> Remaker::follow_unknown(std::shared_ptr<Session> session, AllocationId id,
                                   std::vector<ExtentId> extents) {
  constexpr size_t kOutsideMax = 65536;
  for (const auto& [other, held] : session->allocations) {
    if (std::find(held.parts.begin(), held.parts.end(), id) == held.parts.end()) continue;
    id = other;
    break;
  }
  if (!session->looked_for.insert(id).second) co_return;  // under way
  std::set<uint32_t> unheard;
  (void)co_await follow(session, id, &unheard);
  session->looked_for.erase(id);
  if (!unheard.empty() || (session->resumed && !session->complete)) co_return;
  for (const ExtentId& extent : extents) {
    if (session->outside.size() < kOutsideMax) session->outside.insert(extent);
  }
}

}  // namespace ocm::node
