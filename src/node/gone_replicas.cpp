#include "node/gone_replicas.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "base/fault.h"

namespace ocm::node {

using control::Task;

namespace {

constexpr size_t kWaitingOfUserMax = 1024;  // with hope, and without it
constexpr size_t kGivenUpMax = 65536;

}  // namespace

bool GoneReplicas::gone_for_long(const control::PlacedExtent& extent, GoneSince& gone_since_ns) const {
  if (extent.lost) return false;
  const uint32_t partition = extent.id.address.partition();
  const control::NodeInfo* node = cluster_.find(extent.node);
  const bool same = node != nullptr && node->partition == partition;
  if (same && node->state != control::NodeState::kDead) return false;
  const uint64_t now = core_.now_ns();
  const auto known = gone_since_ns_.find(partition);
  const uint64_t since_ns =
      gone_since_ns.try_emplace(partition, known == gone_since_ns_.end() ? now : known->second).first->second;
  // Another run of its daemon: what this node knows of it may be older than the extent, but not for long.
  const uint64_t patience_ns =
      node != nullptr && !same ? 2 * core_.config.failure_deadline_ns() : core_.config.replica_again_ns();
  return now >= since_ns + std::max(patience_ns, core_.config.failure_deadline_ns());
}

bool GoneReplicas::is_over(const control::PlacedExtent& extent, GoneSince& gone_since_ns) const {
  const control::NodeInfo* node = cluster_.find(extent.node);
  const bool runs_again = node != nullptr && node->state == control::NodeState::kAlive &&
                          node->partition != extent.id.address.partition();
  return runs_again && (extent.lost || gone_for_long(extent, gone_since_ns));
}

bool GoneReplicas::seems_to_live(ExtentId replica) const {
  const control::NodeInfo* node = cluster_.find_partition(replica.address.partition());
  return node != nullptr && node->state != control::NodeState::kDead;
}

Task<void> GoneReplicas::run() {
  while (!core_.draining) {
    co_await core_.env.sleep_ns(core_.until_next_ns(core_.config.heartbeat_ns()));
    look();
    begin_next();
  }
}

void GoneReplicas::look() {
  waiting_.clear();
  if (!cluster_.has_coordinator() || !cluster_.settled()) return;
  // Each run of the coordinator counts its epochs anew.
  const uint64_t run = fault::at(fault::Point::kEpochOfAnotherRun) ? 0 : cluster_.coordinator_run();
  const std::pair view(run, cluster_.view().epoch);
  Look at{.freed = freed_some()};
  const bool is_calm = gone_since_ns_.empty() && !misses_ && !again_ && !asks_lost_ && at.freed.empty();
  if (view == looked_at_ && is_calm) return;
  // A voter that was alone took what was decided with it, and homes may not have heard of it: the next is asked for all.
  if (view.first != looked_at_.first && !fault::at(fault::Point::kNotAskedAgain)) {
    given_up_.clear();
    asks_lost_ = true;
  }
  if (view != looked_at_) failed_until_ns_.clear();  // whoever came may answer
  looked_at_ = view;
  for (const auto& [home, freed] : at.freed) {  // what was there before may not be there any more
    if (std::exchange(freed_asked_[home], freed) == freed) continue;
    std::erase_if(there_, [home = home](const ExtentId& id) { return id.address.partition() == home; });
  }
  if (given_up_.size() >= kGivenUpMax) given_up_.clear();
  again_ = false;
  const auto is_past = [now = core_.now_ns()](const auto& one) { return now >= one.second; };
  std::erase_if(no_room_until_ns_, is_past);
  std::erase_if(failed_until_ns_, is_past);
  control::Shortage away;
  const auto is_away = [&](const control::PlacedExtent& extent) {
    (void)gone_for_long(extent, at.gone_since_ns);
    return at.gone_since_ns.contains(extent.id.address.partition());
  };
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& [allocation, held] : session->allocations) {
      if (!held.owned) continue;
      look_at(held.allocation, session.get(), session->uid, at);
      if (!at.gone_since_ns.empty() && control::has_replicas(held.allocation))
        away.add(control::shortage_of(held.allocation, is_away));
    }
  }
  for (const auto& [id, allocation] : home_.published())
    look_at(allocation, nullptr, allocation.owner_uid, at);
  if (away.parts > away_.parts)
    log::warn("replicas_away", {{"parts", away.parts}, {"left", away.left}, {"of", away.made}});
  away_ = away;
  gone_since_ns_ = std::move(at.gone_since_ns);
  misses_ = at.misses;
  if (again_ || !waiting_.empty() || !under_way_.empty()) return;
  asks_lost_ = false;
  there_.clear();
  std::erase_if(freed_seen_, [this](const auto& one) { return !cluster_.find_partition(one.first); });
  for (const auto& [home, freed] : at.freed) freed_seen_[home] = freed;
  freed_asked_.clear();
}

void GoneReplicas::look_at(const control::Allocation& allocation, const Session* session, uint32_t uid,
                           Look& at) {
  if (!control::has_replicas(allocation) || allocation.bytes_total == 0) return;
  std::vector<const control::PlacedExtent*> part;
  for (size_t i = 0; i < allocation.extents.size(); ++i) {
    if (!allocation.extents[i].vacant) part.push_back(&allocation.extents[i]);
    const bool ends = i + 1 == allocation.extents.size() ||
                      control::part_at(allocation, i + 1) != control::part_at(allocation, i);
    if (!ends) continue;
    look_at_part(part, session, uid, at);
    part.clear();
  }
}

void GoneReplicas::look_at_part(std::span<const control::PlacedExtent* const> extents, const Session* session,
                                uint32_t uid, Look& at) {
  const bool own = session != nullptr;
  const bool mine = own || std::any_of(extents.begin(), extents.end(), [this](const auto* one) {
                      return one->id.address.partition() == core_.partition && home_.has(one->id);
                    });
  std::optional<Gone> found;  // one at a time
  const control::PlacedExtent* of = nullptr;
  for (const control::PlacedExtent* extent : extents) {
    const ExtentId id = extent->id;
    const bool was_lost = own && asks_lost_ && extent->lost;
    const bool is_gone = !given_up_.contains(id) && (was_lost || gone_for_long(*extent, at.gone_since_ns));
    const bool is_missing = own && session->missing.contains(id) && !fault::at(fault::Point::kMissingStay);
    const bool is_asked = (at.freed.contains(id.address.partition()) && !there_.contains(id)) || is_missing;
    const bool may_be = is_asked && !extent->lost && !given_up_.contains(id) && seems_to_live(id);
    at.misses = at.misses || (may_be && is_missing);
    if (!is_gone && !may_be) continue;
    if (extents.size() < 2 || !mine) {
      if (is_gone) given_up_.insert(id);  // others ask for it
      continue;
    }
    if (under_way_.contains(id)) return;
    if (found && (failed_until_ns_.contains(id) || !failed_until_ns_.contains(found->replica))) continue;
    found = Gone{.part = {},
                 .replica = id,
                 .node = extent->node,
                 .turn = {uid, failed_until_ns_.contains(id)},
                 .known = {},
                 .may_be_there = !is_gone,
                 .is_missing = is_missing,
                 .was_lost = was_lost};
    of = extent;
  }
  if (!found) return;
  for (const control::PlacedExtent* extent : extents) {
    found->part.push_back(extent->id);
    if (is_over(*extent, at.gone_since_ns)) found->known.over.push_back(extent->id);
  }
  std::sort(found->part.begin(), found->part.end());
  if (at.parts.contains(found->part.front())) return;  // a session's and a name's
  const auto is_hope = [&](const control::PlacedExtent* one) {
    const ExtentId id = one->id;
    return one != of && !one->lost && !given_up_.contains(id) && seems_to_live(id) &&
           !silent_.contains(id.address.partition());
  };
  if (std::none_of(extents.begin(), extents.end(), is_hope)) found->turn.is_hopeless = true;
  size_t& waiting = at.waiting[{found->turn.is_hopeless, uid}];
  if (no_room_until_ns_.contains(uid) || waiting >= kWaitingOfUserMax) {
    again_ = true;
    return;
  }
  ++waiting;
  at.parts.insert(found->part.front());
  waiting_.push_back(std::move(*found));
}

void GoneReplicas::begin_next() {
  if (core_.draining || waiting_.empty()) return;
  std::vector<control::ToGiveUp> waiting, under_way;
  for (const Gone& one : waiting_) waiting.push_back(one.turn);
  for (const auto& [id, turn] : under_way_) under_way.push_back(turn);
  std::vector<Gone> begun;
  std::vector<bool> begins(waiting_.size());
  for (const size_t i : control::next_to_give_up(waiting, under_way)) {
    begins[i] = true;
    begun.push_back(std::move(waiting_[i]));
  }
  size_t i = 0;
  std::erase_if(waiting_, [&](const Gone&) { return begins[i++]; });
  for (const Gone& one : begun) under_way_.emplace(one.replica, one.turn);
  for (Gone& one : begun) core_.env.spawn(give_up(std::move(one)));
}

Task<void> GoneReplicas::give_up(Gone one) {
  const bool given_up = co_await is_given_up(one);
  under_way_.erase(one.replica);
  if (given_up && waiting_.empty() && again_) look();  // there may be more than waited at once
  co_await core_.env.next_pass();                      // not within another's beginning
  begin_next();
}

Task<bool> GoneReplicas::is_given_up(const Gone& one) {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  control::LossKnown known = one.known;
  if (one.may_be_there) {
    const uint32_t home = one.replica.address.partition();
    const Freed freed = freed_asked_[home];
    const Status there = co_await is_there_(one.node, one.replica);
    if (there.is_ok() && freed_asked_[home] == freed) there_.insert(one.replica);
    if (there.is_ok()) not_missing(one.replica);
    if (there.code() != Code::kRevoked) co_return false;
    known.is_unread = co_await cluster_.is_unread(one.replica);
    fault::reached(one.is_missing ? fault::State::kMissingAskedFor : fault::State::kFreedAskedFor);
  } else if (!one.was_lost) {  // its node may be back by now, with all that it had
    if (seems_to_live(one.replica)) co_return false;
  }
  const Status lost =
      co_await cluster_.lose_replica(one.part, one.replica, one.node, one.turn.uid, std::move(known));
  if (lost.code() == Code::kLimit || lost.code() == Code::kDeadline) {
    again_ = true;
    if (lost.code() == Code::kLimit)  // R14 of control/loss.h; those of others go on
      no_room_until_ns_[one.turn.uid] = core_.now_ns() + 8 * deadline_ns;
    else if (!cluster_.is_cut_off())
      note_silent(one);
    co_return false;
  }
  given_up_.insert(one.replica);  // or the last of its part
  not_missing(one.replica);
  if (!lost.is_ok()) co_return false;
  for (const auto& [id, session] : sessions_.all()) session->allocations.mark_lost(one.replica);
  co_return true;
}

void GoneReplicas::not_missing(const ExtentId& replica) {
  for (const auto& [id, session] : sessions_.all()) session->missing.erase(replica);
}

void GoneReplicas::note_silent(const Gone& one) {
  failed_until_ns_[one.replica] =
      core_.now_ns() + 8 * core_.config.failure_deadline_ns();  // longer than an attempt
  for (const ExtentId& id : one.part) {
    const uint32_t home = id.address.partition();
    if (id != one.replica && home != core_.partition && silent_.insert(home).second)
      core_.env.spawn(until_it_answers(id));
  }
  waiting_.clear();  // the next look knows it
}

Task<void> GoneReplicas::until_it_answers(ExtentId extent) {
  const uint32_t home = extent.address.partition();
  bool was_silent = false;
  while (!core_.draining && seems_to_live(extent)) {
    const control::NodeInfo* node = cluster_.find_partition(home);
    OCM_DASSERT(node != nullptr);
    const Status there = co_await is_there_(node->name, extent);
    if (there.is_ok() || there.code() == Code::kRevoked) break;
    was_silent = true;
    co_await core_.env.sleep_ns(core_.until_next_ns(core_.config.heartbeat_ns()));
  }
  silent_.erase(home);
  if (was_silent) failed_until_ns_.clear();
  again_ = true;
}

std::map<uint32_t, GoneReplicas::Freed> GoneReplicas::freed_some() const {
  std::map<uint32_t, Freed> out;
  for (const control::NodeInfo& node : cluster_.view().nodes) {
    const auto seen = freed_seen_.find(node.partition);
    const Freed freed{node.replicas_freed_before, node.orphans_freed};
    const bool more = freed != (seen == freed_seen_.end() ? Freed{} : seen->second);
    if (more && node.state == control::NodeState::kAlive) out[node.partition] = freed;
  }
  return out;
}

}  // namespace ocm::node
