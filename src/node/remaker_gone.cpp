// Which replicas are given up: those whose nodes are gone for long, or came back without them.
#include <algorithm>
#include <map>
#include <utility>

#include "base/fault.h"
#include "control/parts.h"
#include "node/remaker.h"

namespace ocm::node {

using control::Task;

namespace {

constexpr size_t kGivenUpAtOnceMax = 64, kGivenUpMax = 65536;

}  // namespace

bool Remaker::gone_for_long(const wire::ExtentDescriptor& extent,
                            std::map<uint32_t, uint64_t>& gone_since_ns) {
  if (extent.lost()) return false;
  const uint32_t partition = GlobalAddress(extent.address()).partition();
  const wire::NodeView* node = cluster_.find(extent.node());
  const bool same = node != nullptr && node->partition() == partition;
  if (same && !is_state(*node, control::NodeState::kDead)) return false;
  const uint64_t now = core_.now_ns();
  const auto known = gone_since_ns_.find(partition);
  const uint64_t since_ns =
      gone_since_ns.try_emplace(partition, known == gone_since_ns_.end() ? now : known->second).first->second;
  // Another run of its daemon: what this node knows of it may be older than the extent, but not for long.
  const uint64_t patience_ns =
      node != nullptr && !same ? 2 * core_.config.failure_deadline_ns() : core_.config.replica_again_ns();
  return now >= since_ns + std::max(patience_ns, core_.config.failure_deadline_ns());
}

bool Remaker::is_over(const wire::ExtentDescriptor& extent, std::map<uint32_t, uint64_t>& gone_since_ns) {
  const wire::NodeView* node = cluster_.find(extent.node());
  const bool runs_again = node != nullptr && is_state(*node, control::NodeState::kAlive) &&
                          node->partition() != GlobalAddress(extent.address()).partition();
  return runs_again && (extent.lost() || gone_for_long(extent, gone_since_ns));
}

bool Remaker::is_back(const Gone& one) const {
  const wire::NodeView* node = cluster_.find(one.node);
  return node != nullptr && node->partition() == one.replica.address.partition() &&
         !is_state(*node, control::NodeState::kDead);
}

Task<void> Remaker::give_up_the_gone() {
  if (!cluster_.has_coordinator() || !cluster_.settled()) co_return;
  // Each run of the coordinator counts its epochs anew.
  const uint64_t run = fault::at(fault::Point::kEpochOfAnotherRun) ? 0 : cluster_.coordinator_run();
  const std::pair view(run, cluster_.view().epoch());
  const std::map<std::string, uint32_t> freed = freed_their_replicas();
  if (view == looked_at_ && gone_since_ns_.empty() && !again_ && !asks_lost_ && freed.empty()) co_return;
  control::Shortage away;
  // A voter that was alone took what was decided with it, and homes may not have heard of it: the next is asked for all.
  if (view.first != looked_at_.first && !fault::at(fault::Point::kNotAskedAgain)) {
    given_up_.clear();
    asks_lost_ = true;
  }
  looked_at_ = view;
  if (given_up_.size() >= kGivenUpMax) given_up_.clear();
  again_ = false;
  std::erase_if(no_room_until_ns_, [this](const auto& one) { return core_.now_ns() >= one.second; });
  std::vector<Gone> found;
  std::map<uint32_t, size_t> found_of;  // each user
  std::map<uint32_t, uint64_t> gone_since_ns;
  const auto is_away = [&](const wire::ExtentDescriptor& extent) {
    (void)gone_for_long(extent, gone_since_ns);
    return gone_since_ns.contains(GlobalAddress(extent.address()).partition());
  };
  const auto look_at = [&](const wire::Allocation& allocation, bool own, uint32_t uid) {
    if (!control::has_replicas(allocation) || allocation.bytes_total() == 0) return;
    for (const auto& extent : allocation.extents()) {
      const bool was_lost = own && asks_lost_ && extent.lost() && !extent.vacant();
      const bool is_gone =
          !given_up_.contains(id_of(extent)) && (was_lost || gone_for_long(extent, gone_since_ns));
      const bool may_be = !extent.lost() && freed.contains(extent.node()) && !there_.contains(id_of(extent));
      if (!is_gone && !may_be) continue;
      if (no_room_until_ns_.contains(uid) || found_of[uid] >= kGivenUpAtOnceMax) {
        again_ = true;
        return;
      }
      auto part = control::part_of(allocation, id_of(extent));
      const bool mine = own || std::any_of(part.begin(), part.end(), [this](ExtentId id) {
                          return id.address.partition() == core_.partition && home_.has(id);
                        });
      std::vector<ExtentId> over;
      for (const auto& other : allocation.extents()) {
        if (std::find(part.begin(), part.end(), id_of(other)) != part.end() && is_over(other, gone_since_ns))
          over.push_back(id_of(other));
      }
      if (part.size() > 1 && mine) {
        ++found_of[uid];
        found.push_back(
            {std::move(part), id_of(extent), extent.node(), uid, std::move(over), !is_gone, was_lost});
      } else if (is_gone) {
        given_up_.insert(id_of(extent));  // others ask for it
      }
    }
  };
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& [allocation, held] : session->allocations) {
      if (!held.owned) continue;
      look_at(held.allocation, true, session->uid);
      if (!gone_since_ns.empty() && control::has_replicas(held.allocation))
        away.add(control::shortage_of(held.allocation, is_away));
    }
  }
  for (const auto& [id, allocation] : home_.published()) look_at(allocation, false, allocation.owner_uid());
  if (away.parts > away_.parts)
    log::warn("replicas_away", {{"parts", away.parts}, {"left", away.left}, {"of", away.made}});
  away_ = away;
  gone_since_ns_ = std::move(gone_since_ns);
  bool unheard = false;
  std::vector<uint32_t> uids;
  for (const Gone& one : found) uids.push_back(one.uid);
  again_ = again_ || found.size() > kGivenUpAtOnceMax;
  for (const size_t i : control::in_turns(uids, kGivenUpAtOnceMax)) {
    const Gone& one = found[i];
    if (core_.draining) co_return;
    if (no_room_until_ns_.contains(one.uid)) continue;
    if (one.may_be_there) {
      const Status there = co_await is_there(one.node, one.replica);
      unheard = unheard || there.code() == Code::kPeerLost;
      if (there.is_ok()) there_.insert(one.replica);
      if (there.code() != Code::kRevoked) continue;
      fault::reached(fault::State::kFreedAskedFor);
    } else if (!one.was_lost && is_back(one)) {
      continue;
    }
    const Status lost = co_await cluster_.lose_replica(one.part, one.replica, one.node, one.uid, one.over);
    if (lost.code() == Code::kLimit) {  // R14 of control/loss.h; those of others go on
      no_room_until_ns_[one.uid] = core_.now_ns() + 8 * core_.config.failure_deadline_ns();
      again_ = true;
      continue;
    }
    if (lost.code() == Code::kDeadline) {  // no majority: later
      again_ = true;
      co_return;
    }
    given_up_.insert(one.replica);  // or the last of its part
    if (!lost.is_ok()) continue;
    for (const auto& [id, session] : sessions_.all()) session->allocations.mark_lost(one.replica);
  }
  if (again_ || unheard) co_return;
  asks_lost_ = false;
  there_.clear();
  std::erase_if(freed_seen_, [this](const auto& one) { return !cluster_.find_partition(one.first); });
  for (const auto& [name, count] : freed) {
    if (const wire::NodeView* node = cluster_.find(name)) freed_seen_[node->partition()] = count;
  }
}

std::map<std::string, uint32_t> Remaker::freed_their_replicas() const {
  std::map<std::string, uint32_t> out;
  for (const auto& node : cluster_.view().nodes()) {
    const auto seen = freed_seen_.find(node.partition());
    const bool more = node.replicas_freed_before() != (seen == freed_seen_.end() ? 0 : seen->second);
    if (more && is_state(node, control::NodeState::kAlive)) out[node.name()] = node.replicas_freed_before();
  }
  return out;
}

Task<Status> Remaker::is_there(std::string node, ExtentId replica) {
  wire::ResolveRequest request;
  *request.add_part() = ref_of(replica);
  Answers answers;
  co_await ask(std::move(node), std::move(request), answers);
  if (!answers.unheard.is_ok()) co_return answers.unheard;
  if (answers.remade) remade(*answers.remade);
  const bool there = answers.unchanged || answers.remade;
  co_return there ? Status() : Status(Code::kRevoked);
}

}  // namespace ocm::node
