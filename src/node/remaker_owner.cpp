// Whose a part is while it is made again: its name or its session may change, and the new homes are told.
#include <algorithm>

#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/home_requests_wire.h"
#include "node/remaker.h"
#include "node/standing.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

constexpr size_t kHoldsMax = 16384;  // of one message

std::vector<control::HoldId> ids_of(const std::vector<control::Ownership::HeldBy>& holds) {
  std::vector<control::HoldId> out;
  for (const control::Ownership::HeldBy& by : holds) out.push_back(by.hold);
  return out;
}

}  // namespace

std::optional<control::GivenReplica> Remaker::owner_of(ExtentId here) const {
  const control::Title* title = home_.title(here);
  if (title == nullptr) return std::nullopt;
  control::GivenReplica out;
  if (!title->session) {
    const control::Allocation* published = home_.published_with(here);
    if (published == nullptr) return std::nullopt;
    out.published = *published;
    out.attempt = title->attempt;
    return out;
  }
  const auto owner = home_.vouching(*title->session);
  if (!owner) return std::nullopt;
  out.session = *title->session;
  out.owner_node = owner->node;
  out.owner_incarnation = owner->incarnation;
  return out;
}

void Remaker::add_holds(control::GivenReplica& give, ExtentId here, const Holds& only) const {
  if (!give.published) return;
  const Holds all =
      only ? only : std::make_shared<const std::vector<control::Ownership::HeldBy>>(home_.holds_on(here));
  for (const control::Ownership::HeldBy& by : *all) {
    if (give.holds.size() == kHoldsMax) break;
    if (!only || home_.has_hold(by)) give.holds.push_back(by);
  }
}

Task<Status> Remaker::tell_owner(control::GivenReplica owned, std::string node,
                                 std::optional<control::HoldId> hold) {
  wire::Envelope message;
  auto& note = *message.mutable_session_at();
  note.set_session_id(id_field(owned.session));
  note.set_owner_incarnation(
      id_field(owned.owner_incarnation));  // another run may not have taken the session up yet
  note.set_node(std::move(node));
  if (hold) note.set_hold_id(id_field(*hold));
  const auto reply = co_await homes_.ask(owned.owner_node, std::move(message));
  co_return reply.status();
}

void Remaker::note_told(Job& job, control::GivenReplica& give) {
  give.instead_of.assign(job.owners.begin(), job.owners.end());
  job.owners.insert(owner_in(give));
  job.told = give;
}

Task<bool> Remaker::give(std::shared_ptr<Job> job) {
  std::optional<control::GivenReplica> request = next_part(*job);
  if (!request && job->goes_on_elsewhere()) request = job->told;
  if (!request || request->part.now.empty()) co_return false;
  note_told(*job, *request);
  const bool changed = job->given_to != owner_in(*request);  // since they heard
  job->given_to = owner_in(*request);
  job->given_holds = ids_of(home_.holds_on(job->steps.is_frozen() ? job->was : job->now.id));
  bool all = true;
  for (auto* homes : {&job->spares, &job->peers}) {
    for (Spare& home : *homes) {
      home.given = home.given && !changed;
      if (!home.given) home.given = co_await give_to(home, *request);
      all = all && home.given;
    }
  }
  co_return all;
}

Task<bool> Remaker::give_to(Spare& home, control::GivenReplica request) {
  if (!request.published && !home.owner_told) {  // it was a name's when the replica was reserved
    const Status told = co_await tell_owner(request, home.node);
    home.owner_told = told.is_ok();
    if (!home.owner_told && !is_of_former_run(request, told)) co_return false;
  }
  request.replica = home.extent.id;
  std::set<std::string> owners(request.instead_of.begin(), request.instead_of.end());
  owners.insert(owner_in(request));
  wire::Envelope message;
  control::to_wire(request, *message.mutable_give_replica());
  const auto reply = co_await homes_.ask(home.node, std::move(message));
  const Code code = reply.status().code();
  // As good as heard: its session is over, and so is the part; or it is not there any more. Any other refusal may pass.
  if (code == Code::kCancelled) release_replica(home.extent, owners);
  home.gone = code == Code::kNotFound || code == Code::kRevoked;
  co_return reply.is_ok() || code == Code::kCancelled || home.gone;
}

Task<Status> Remaker::is_there(std::string node, ExtentId replica) {
  Answers answers;
  std::vector<ExtentId> part(1, replica);
  co_await ask(std::move(node), std::move(part), answers);
  if (!answers.unheard.is_ok()) co_return answers.unheard;
  if (answers.remade) remade(*answers.remade);
  const bool there = answers.unchanged || answers.remade;
  co_return there ? Status() : Status(Code::kRevoked);
}

Task<bool> Remaker::lose_if_gone(std::vector<ExtentId> part, ExtentId replica, std::string node) {
  const Status there = co_await is_there(node, replica);
  if (there.code() != Code::kRevoked) co_return there.is_ok();  // it became another one, or nobody knows
  std::sort(part.begin(), part.end());
  fault::reached(fault::State::kGoneAtHome);
  control::LossKnown known;
  known.is_unread = co_await cluster_.is_unread(replica);
  const Status lost =
      co_await cluster_.lose_replica(std::move(part), replica, std::move(node), 0, std::move(known));
  const bool is_later = lost.code() == Code::kDeadline || lost.code() == Code::kLimit;
  co_return !is_later;
}

Task<void> Remaker::lose_what_is_gone(std::vector<ExtentId> part, ExtentId here, ExtentId replica,
                                      std::string node) {
  while (!core_.draining && home_.is_here(here)) {
    const bool known = co_await lose_if_gone(part, replica, node);
    if (known) co_return;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

void Remaker::miss_what_is_gone(Job& job) {
  const std::vector<ExtentId> part = control::ids_in(job.follows.now);
  for (auto* homes : {&job.spares, &job.peers}) {
    for (Spare& home : *homes) {
      if (!home.gone || std::exchange(home.is_missed, true)) continue;
      core_.env.spawn(lose_what_is_gone(part, job.now.id, home.extent.id, home.node));
    }
  }
}

void Remaker::switch_over(Job& job) {
  fault::reached(fault::State::kReplicaRemade);
  if (job.follows.now.size() < job.wanted) fault::reached(fault::State::kRemadeShort);
  if (job.lost.empty()) fault::reached(fault::State::kVacancyFilled);
  const control::Title* title = home_.title(job.was);
  std::string owner;  // of a session
  if (title != nullptr && title->session) {
    const auto vouching = home_.vouching(*title->session);
    if (vouching) owner = vouching->node;
  }
  const bool named = title != nullptr && !title->session;
  const bool is_over = title != nullptr && title->name_ended;
  const std::string owner_now = title != nullptr ? title->owner() : std::string();
  home_.switch_over(job.was, job.follows);
  if (is_over) part_freed(job.follows);  // since the others were given it: who holds it reads it here
  const bool held_since = named && ids_of(home_.holds_on(job.now.id)) != job.given_holds;
  if ((!job.given_to.empty() && job.given_to != owner_now) || held_since)
    part_given(job.follows, job.now.id, job.owners);
  miss_what_is_gone(job);
  const auto made =
      std::find_if(job.spares.begin(), job.spares.end(), [](const Spare& home) { return !home.gone; });
  if (made == job.spares.end()) {
    tell_failed(job.now.id, control::Remake::Step::kGive);
  } else if (!job.goes_on_elsewhere()) {
    log::info("replica_made_again", {{"extent", job.was.address.to_string()},
                                     {"now", job.now.id.address.to_string()},
                                     {"bytes", job.bytes},
                                     {"node", made->node},
                                     {"there", made->extent.id.address.to_string()}});
  }
  remade(job.follows);
  if (named) {
    tell_name(job.now.id);
  } else if (!owner.empty() && owner != core_.name) {
    wire::Envelope message;
    control::to_wire(job.follows, *message.mutable_part_moved());
    homes_.tell(owner, homes_.run_of(owner), std::move(message));
  }
}

bool Remaker::has_another_owner(const control::GivenReplica& give) const {
  const control::Title* title = home_.title(give.replica);
  if (title == nullptr) return false;
  if (give.published && !title->session) return false;  // the records are merged
  return title->owner() != owner_in(give) && !title->is_of(give.instead_of);
}

Status Remaker::given(const control::GivenReplica& give) {
  if (has_another_owner(give)) {  // M11
    home_.lead_to(give.part, give.replica);
    return {};
  }
  OCM_TRY(home_.give(give));
  if (give.published && !fault::at(fault::Point::kNewsOfOne)) tell_name(give.replica);
  for (control::Ownership::HeldBy& by : home_.take_holds(give)) core_.env.spawn(tell_holder(std::move(by)));
  return {};
}

Status Remaker::note_hold(Session& session, const std::string& id, const std::string& node) {
  control::HoldId hold;
  if (!read_id(id, hold)) return Code::kInvalidArgument;
  const bool known = session.holds.contains(hold) || session.holds_shown.contains(hold);
  if (!known && session.resumed && (session.resuming || !session.complete))
    return Status(Code::kPeerLost, "the program has not reported yet what it holds");
  if (!known) return Status(Code::kNotFound, "the session has no such hold");
  session.holds[hold].insert(node);
  if (node != core_.name) session.homes.insert(node);
  return {};
}

Task<void> Remaker::tell_holder(control::Ownership::HeldBy by) {
  while (!core_.draining && home_.has_hold(by.session, by.hold)) {
    const auto owner = home_.vouching(by.session);
    if (!owner) co_return;
    control::GivenReplica held;
    held.session = by.session;
    held.owner_node = owner->node;
    held.owner_incarnation = owner->incarnation;
    const Status told = co_await tell_owner(std::move(held), core_.name, by.hold);
    if (told.code() == Code::kNotFound) home_.end_hold(by.session, by.hold);
    if (!Homes::is_unheard(told)) co_return;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

void Remaker::part_freed(const control::PartMoved& part, const std::set<std::string>& owners) {
  for (const auto& extent : part.now) {
    if (extent.node != core_.name) release_replica(extent, owners);
  }
}

void Remaker::part_given(const control::PartMoved& part, ExtentId here, std::set<std::string> instead_of) {
  if (!owner_of(here)) return;
  fault::reached(fault::State::kOwnerCorrected);
  for (const auto& replica : new_replicas(part))
    core_.env.spawn(correct_owner(replica, part, here, instead_of));
}

std::vector<ExtentDescriptor> Remaker::new_replicas(const control::PartMoved& part) const {
  std::vector<ExtentDescriptor> out;
  for (size_t i = 1 + part.peers.size(); i < part.now.size(); ++i) {
    if (part.now[i].node != core_.name) out.push_back(part.now[i]);
  }
  return out;
}

void Remaker::held_late(const control::PartMoved& part, ExtentId here, control::Ownership::HeldBy by) {
  std::shared_ptr<HeldLate>& late = held_late_[here];
  if (!late) late = std::make_shared<HeldLate>();
  late->part = part;
  late->holds.push_back(std::move(by));
  if (late->holds.size() > std::max<size_t>(late->look_at, kHoldsMax)) {
    std::erase_if(late->holds, [this](const auto& one) { return !home_.has_hold(one); });
    late->look_at = 2 * late->holds.size();
  }
  if (!late->is_told) core_.env.spawn(tell_held_late(here));
}

Task<void> Remaker::tell_held_late(ExtentId here) {
  const std::shared_ptr<HeldLate> late = held_late_.at(here);
  if (late->is_told) co_return;
  const Standing telling(late->is_told);
  fault::reached(fault::State::kOwnerCorrected);
  co_await core_.env.sleep_ns(1);  // more of them are in the message, or behind it
  auto& all = late->holds;
  while (!all.empty() && !core_.draining) {
    const auto end = all.begin() + static_cast<ptrdiff_t>(std::min<size_t>(all.size(), kHoldsMax));
    const Holds told = std::make_shared<const std::vector<control::Ownership::HeldBy>>(all.begin(), end);
    all.erase(all.begin(), end);
    const control::PartMoved part = late->part;
    std::vector<Task<void>> tasks;
    for (const auto& replica : new_replicas(part))
      tasks.push_back(correct_owner(replica, part, here, std::set<std::string>(), told));
    co_await core_.env.join(std::move(tasks));
  }
  held_late_.erase(here);
}

bool Remaker::is_of_former_run(const control::GivenReplica& give, const Status& told) const {
  const control::NodeInfo* owner = cluster_.find(give.owner_node);
  const bool same = owner != nullptr && owner->incarnation == give.owner_incarnation;
  return !same && told.code() != Code::kNotFound;
}

void Remaker::release_replica(const ExtentDescriptor& replica, const std::set<std::string>& instead_of) {
  control::ReleaseRequest request{
      .session = {}, .extent = replica.id, .capability = replica.capability, .holders_keep = true};
  request.instead_of.assign(instead_of.begin(), instead_of.end());
  wire::Envelope message;
  control::to_wire(request, *message.mutable_release());
  homes_.tell(replica.node, replica.id.address.partition(), std::move(message));
}

Task<void> Remaker::correct_owner(ExtentDescriptor replica, control::PartMoved part, ExtentId here,
                                  std::set<std::string> instead_of, Holds only) {
  const uint32_t partition = replica.id.address.partition();
  const uint32_t shown = homes_.run_of(replica.node);
  while (!core_.draining && !homes_.is_over(replica.node, partition, shown)) {
    std::optional<control::GivenReplica> owner = owner_of(home_.present(here));  // as it is now
    if (!owner) co_return;
    control::GivenReplica give = std::move(*owner);
    add_holds(give, home_.present(here), only);
    give.part = part;
    give.replica = replica.id;
    give.instead_of.assign(instead_of.begin(), instead_of.end());
    instead_of.insert(owner_in(give));
    Status done;
    bool is_home_asked = false;
    if (!give.published) done = co_await tell_owner(give, replica.node);
    if (done.is_ok() || is_of_former_run(give, done)) {
      wire::Envelope message;
      control::to_wire(give, *message.mutable_give_replica());
      const auto reply = co_await homes_.ask(replica.node, std::move(message));
      done = reply.status();
      is_home_asked = true;
    }
    const auto since = owner_of(home_.present(here));
    if (since && owner_in(*since) != owner_in(give)) continue;  // what was told is old by now
    if (done.is_ok()) co_return;
    if (is_home_asked && (done.code() == Code::kNotFound || done.code() == Code::kRevoked)) {
      core_.env.spawn(
          lose_what_is_gone(control::ids_in(part.now), home_.present(here), replica.id, replica.node));
      co_return;
    }
    if (done.code() == Code::kNotFound || done.code() == Code::kCancelled) {  // the session has ended
      release_replica(replica, instead_of);
      co_return;
    }
    if (!Homes::is_unheard(done)) co_return;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

}  // namespace ocm::node
