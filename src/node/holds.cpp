#include "node/holds.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "control/home_requests_wire.h"
#include "control/parts.h"

namespace ocm::node {

using control::Task;

Task<Status> Holds::begin(std::shared_ptr<Session> session, control::HoldId id,
                          control::Allocation allocation) {
  auto [requests, later, gone] = requests_of(*session, id, allocation);
  if (requests.empty() && !later.empty())  // who is cut off takes all others for dead: nothing would be held
    co_return Status::of_node(Code::kPeerLost, later.begin()->first, " has a part of it and seems dead");
  Answers answers;
  std::set<ExtentId> asked;
  for (const auto& [node, request] : requests) asked.insert(request.extents.begin(), request.extents.end());
  std::vector<Task<void>> tasks;
  for (auto& [node, request] : requests)
    tasks.push_back(request_hold(session, node, std::move(request), answers));
  co_await core_.env.join(std::move(tasks));
  // A replica that is not held may go: its part has others, which are held, not only to be told.
  std::set<uint32_t> missed;  // parts
  std::set<std::string> unasked;
  for (const auto& extent : allocation.extents) {
    if (!extent.lost && answers.missing.contains(extent.id)) missed.insert(extent.part);
  }
  const bool replicas = control::has_replicas(allocation);
  const bool lost = control::is_lost(allocation, [&](const auto& extent, bool) {
    if (answers.missing.contains(extent.id)) return true;
    if (asked.contains(extent.id) || !replicas || !missed.contains(extent.part)) return false;
    unasked.insert(extent.node);
    return true;
  });
  if (!lost && !session->ended) {
    later.merge(answers.unheard);
    later.merge(gone);
    for (auto& [node, request] : later) {
      wire::Envelope message;
      control::to_wire(request, *message.mutable_hold());
      begin_later(session, id, node, Homes::kept(std::move(message)));
    }
    co_return Status();
  }
  co_await end(session, id);
  OCM_DASSERT(replicas || unasked.empty());
  if (session->ended) co_return Status(Code::kCancelled);
  if (!answers.unreached.is_ok()) co_return answers.unreached;
  if (!unasked.empty())
    co_return Status::of_node(Code::kPeerLost, *unasked.begin(), " has a part of it and seems dead");
  co_return Status(Code::kNotFound, "the name was removed meanwhile");
}

Holds::Requests Holds::requests_of(const Session& session, control::HoldId id,
                                   const control::Allocation& allocation) const {
  Requests out;
  for (const auto& extent : allocation.extents) {
    const control::NodeInfo* home = cluster_.find(extent.node);
    const bool other_run = home != nullptr && home->partition != extent.id.address.partition();
    auto& some = other_run ? out.gone : seems_dead(extent.node) ? out.later : out.now;
    const auto [request, is_first] = some.try_emplace(extent.node);
    if (is_first) request->second = request_of(session, id);
    request->second.extents.push_back(extent.id);
  }
  return out;
}

control::HoldRequest Holds::request_of(const Session& session, control::HoldId id) const {
  return {.by = {session.id, core_.name, core_.incarnation, id}, .extents = {}};
}

Task<void> Holds::resume(std::shared_ptr<Session> session) {
  constexpr size_t kAtOnce = 1024;
  std::unordered_map<AllocationId, std::vector<control::HoldId>> shown;
  for (const auto& [id, allocation] : session->holds_shown) shown[allocation].push_back(id);
  size_t done = 0;
  for (const auto& [allocation, ids] : shown) {
    const auto held = session->allocations.find(allocation);
    if (held == session->allocations.end()) continue;
    std::set<std::string> nodes;
    for (const auto& extent : held->second.allocation.extents) nodes.insert(extent.node);
    for (const control::HoldId& id : ids) {
      if (!session->holds_shown.contains(id)) continue;  // it ended meanwhile
      for (const std::string& node : nodes) {
        if (session->holds[id].contains(node)) continue;
        begin_later(session, id, node, {[this, session, id, of = allocation, node] {
                      return message_to(*session, id, of, node);
                    }});
        ++done;
      }
      if (done < kAtOnce) continue;
      done = 0;
      co_await core_.env.sleep_ns(1);  // others are answered meanwhile
      if (session->ended) co_return;
    }
  }
}

bool Holds::seems_dead(const std::string& node) const {
  const control::NodeInfo* known = cluster_.find(node);
  return known != nullptr && known->state == control::NodeState::kDead;
}

std::optional<wire::Envelope> Holds::message_to(const Session& session, control::HoldId id,
                                                AllocationId allocation, const std::string& node) const {
  const auto held = session.allocations.find(allocation);
  if (held == session.allocations.end()) return std::nullopt;
  control::HoldRequest request = request_of(session, id);
  for (const auto& extent : held->second.allocation.extents) {
    if (extent.node == node) request.extents.push_back(extent.id);
  }
  if (request.extents.empty()) return std::nullopt;
  wire::Envelope out;
  control::to_wire(request, *out.mutable_hold());
  return out;
}

void Holds::begin_later(const std::shared_ptr<Session>& session, control::HoldId id, const std::string& node,
                        Homes::Message message) {
  fault::reached(fault::State::kHoldBegunLater);
  session->holds[id].insert(node);
  if (!homes_.is_here(node)) session->homes.insert(node);
  const auto wanted = [session, id] { return !session->ended && session->holds.contains(id); };
  homes_.tell_in_turn(session->id, node, {homes_.run_of(node), std::move(message), wanted});
}

Task<void> Holds::request_hold(std::shared_ptr<Session> session, std::string node,
                               control::HoldRequest request, Answers& out) {
  session->holds[request.by.hold].insert(node);
  Status held(Code::kCancelled);
  if (session->ended) {  // its homes were told already
  } else {
    if (!homes_.is_here(node)) session->homes.insert(node);
    wire::Envelope message;
    control::to_wire(request, *message.mutable_hold());
    const auto reply = co_await homes_.ask(node, std::move(message));
    held = reply.status();
    if (reply.is_ok()) {
      for (const ExtentId& id : wire::ids_in(reply.value().held().missing())) out.missing.insert(id);
      co_return;
    }
  }
  out.missing.insert(request.extents.begin(), request.extents.end());
  if (Homes::is_unheard(held)) out.unheard[node] = request;
  const Code code = held.code() == Code::kDeadline ? Code::kPeerLost : held.code();
  if (out.unreached.is_ok()) out.unreached = Status::of_node(code, node, ": " + std::string(held.message()));
}

Task<void> Holds::end(std::shared_ptr<Session> session, control::HoldId id) {
  session->holds_shown.erase(id);
  const auto hold = session->holds.find(id);
  if (hold == session->holds.end()) co_return;
  const std::set<std::string> nodes = std::move(hold->second);
  session->holds.erase(hold);
  std::vector<Task<void>> tasks;
  for (const std::string& node : nodes) tasks.push_back(end_at(session, node, id));
  co_await core_.env.join(std::move(tasks));
}

Task<void> Holds::end_at(std::shared_ptr<Session> session, std::string node, control::HoldId id) {
  const auto end_of_it = [session, id] {
    wire::Envelope message;
    control::end_to_wire(session->id, id, *message.mutable_hold());
    return message;
  };
  Status told = Code::kPeerLost;
  if (!seems_dead(node)) {  // else nobody waits for it
    wire::Envelope message = end_of_it();
    const auto reply = co_await homes_.ask(node, std::move(message));
    told = reply.status();
  }
  if (!Homes::is_unheard(told) || session->ended) co_return;
  fault::reached(fault::State::kHoldEndLater);
  homes_.tell_in_turn(session->id, node,
                      {homes_.run_of(node), {end_of_it}, [session] { return !session->ended; }});
}

}  // namespace ocm::node
