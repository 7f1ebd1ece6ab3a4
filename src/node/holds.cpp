#include "node/holds.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "control/parts.h"

namespace ocm::node {

using control::Task;

namespace {

void add(const wire::ExtentDescriptor& extent, wire::HoldRequest& to) {
  auto& ref = *to.add_extents();
  ref.set_address(extent.address());
  ref.set_generation(extent.generation());
}

}  // namespace

Task<Status> Holds::begin(std::shared_ptr<Session> session, control::HoldId id, wire::Allocation allocation) {
  auto [requests, later, gone] = requests_of(*session, id, allocation);
  if (requests.empty() && !later.empty())  // who is cut off takes all others for dead: nothing would be held
    co_return Status::of_node(Code::kPeerLost, later.begin()->first, " has a part of it and seems dead");
  Answers answers;
  std::set<uint64_t> asked;  // addresses
  for (const auto& [node, request] : requests) {
    for (const auto& ref : request.extents()) asked.insert(ref.address());
  }
  std::vector<Task<void>> tasks;
  for (auto& [node, request] : requests)
    tasks.push_back(begin_at(session, node, std::move(request), answers));
  co_await core_.env.join(std::move(tasks));
  // A replica that is not held may go: its part has others, which are held, not only to be told.
  std::set<uint32_t> missed;  // parts
  std::set<std::string> unasked;
  for (const auto& extent : allocation.extents()) {
    if (!extent.lost() && answers.missing.contains(extent.address())) missed.insert(extent.part());
  }
  const bool replicas = control::has_replicas(allocation);
  const bool lost = control::is_lost(allocation, [&](const auto& extent, bool) {
    if (answers.missing.contains(extent.address())) return true;
    if (asked.contains(extent.address()) || !replicas || !missed.contains(extent.part())) return false;
    unasked.insert(extent.node());
    return true;
  });
  if (!lost && !session->ended) {
    later.merge(answers.unheard);
    later.merge(gone);
    for (auto& [node, request] : later) {
      wire::Envelope message;
      *message.mutable_hold() = std::move(request);
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
                                   const wire::Allocation& allocation) const {
  Requests out;
  for (const auto& extent : allocation.extents()) {
    const control::NodeInfo* home = cluster_.find(extent.node());
    const bool other_run = home != nullptr && home->partition != GlobalAddress(extent.address()).partition();
    auto& some = other_run ? out.gone : seems_dead(extent.node()) ? out.later : out.now;
    const auto [request, is_first] = some.try_emplace(extent.node());
    if (is_first) request->second = request_of(session, id);
    add(extent, request->second);
  }
  return out;
}

wire::HoldRequest Holds::request_of(const Session& session, control::HoldId id) const {
  wire::HoldRequest out;
  out.set_session_id(id_field(session.id));
  out.set_owner_node(core_.name);
  out.set_owner_incarnation(id_field(core_.incarnation));
  out.set_hold_id(id_field(id));
  return out;
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
    for (const auto& extent : held->second.allocation.extents()) nodes.insert(extent.node());
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
  wire::Envelope out;
  *out.mutable_hold() = request_of(session, id);
  for (const auto& extent : held->second.allocation.extents()) {
    if (extent.node() == node) add(extent, *out.mutable_hold());
  }
  if (out.hold().extents().empty()) return std::nullopt;
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

Task<void> Holds::begin_at(std::shared_ptr<Session> session, std::string node, wire::HoldRequest request,
                           Answers& out) {
  const wire::HoldRequest asked = request;
  control::HoldId id;
  [[maybe_unused]] const bool is_id = read_id(request.hold_id(), id);
  OCM_DASSERT(is_id);
  session->holds[id].insert(node);
  Result<wire::Held> held = Status(Code::kCancelled);
  if (session->ended) {  // its homes were told already
  } else {
    if (!homes_.is_here(node)) session->homes.insert(node);
    wire::Envelope message;
    *message.mutable_hold() = std::move(request);
    auto reply = co_await homes_.ask(node, std::move(message));
    if (reply.is_ok())
      held = std::move(*reply.value().mutable_held());
    else
      held = reply.status();
  }
  if (held.is_ok()) {
    for (const auto& ref : held.value().missing()) out.missing.insert(ref.address());
    co_return;
  }
  for (const auto& ref : asked.extents()) out.missing.insert(ref.address());
  if (Homes::is_unheard(held.status())) out.unheard[node] = asked;
  const Code code = held.status().code() == Code::kDeadline ? Code::kPeerLost : held.status().code();
  if (out.unreached.is_ok())
    out.unreached = Status::of_node(code, node, ": " + std::string(held.status().message()));
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
    auto& request = *message.mutable_hold();
    request.set_session_id(id_field(session->id));
    request.set_hold_id(id_field(id));
    request.set_end(true);
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
