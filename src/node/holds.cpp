#include "node/holds.h"

#include <map>
#include <set>
#include <string>

#include "base/assert.h"
#include "base/fault.h"
#include "control/parts.h"

namespace ocm::node {

using control::Task;

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
    for (auto& [node, request] : later) core_.env.spawn(begin_later(session, id, node, std::move(request)));
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
    const wire::NodeView* home = cluster_.find(extent.node());
    const bool other_run =
        home != nullptr && home->partition() != GlobalAddress(extent.address()).partition();
    auto& some = other_run ? out.gone : seems_dead(extent.node()) ? out.later : out.now;
    auto& request = some[extent.node()];
    auto& ref = *request.add_extents();
    ref.set_address(extent.address());
    ref.set_generation(extent.generation());
  }
  for (auto* some : {&out.now, &out.later, &out.gone}) {
    for (auto& [node, request] : *some) {
      request.set_session_id(id_field(session.id));
      request.set_owner_node(core_.name);
      request.set_owner_incarnation(id_field(core_.incarnation));
      request.set_hold_id(id_field(id));
    }
  }
  return out;
}

void Holds::resume(const std::shared_ptr<Session>& session) {
  for (const auto& [id, allocation] : session->holds_shown) {
    const auto held = session->allocations.find(allocation);
    if (held == session->allocations.end()) continue;
    auto [now, later, gone] = requests_of(*session, id, held->second.allocation);
    now.merge(later);
    now.merge(gone);
    for (auto& [node, request] : now) {
      if (session->holds[id].contains(node)) continue;
      const size_t bytes = request.ByteSizeLong();
      if (bytes >
          Sessions::kRestoredBytesMax - std::min(Sessions::kRestoredBytesMax, session->restored_bytes))
        return;
      session->restored_bytes += bytes;
      core_.env.spawn(begin_later(session, id, node, std::move(request)));
    }
  }
}

bool Holds::seems_dead(const std::string& node) const {
  const wire::NodeView* known = cluster_.find(node);
  return known != nullptr && is_state(*known, control::NodeState::kDead);
}

Task<void> Holds::begin_later(std::shared_ptr<Session> session, control::HoldId id, std::string node,
                              wire::HoldRequest request) {
  fault::reached(fault::State::kHoldBegunLater);
  session->holds[id].insert(node);
  session->homes.insert(node);
  wire::Envelope message;
  *message.mutable_hold() = std::move(request);
  const uint32_t run = homes_.run_of(node);
  std::function<bool()> wanted = [session, id] { return !session->ended && session->holds.contains(id); };
  (void)co_await homes_.until_heard(std::move(node), run, std::move(message), std::move(wanted));
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
  wire::Envelope message;
  auto& request = *message.mutable_hold();
  request.set_session_id(id_field(session->id));
  request.set_hold_id(id_field(id));
  request.set_end(true);
  Status told = Code::kPeerLost;
  if (!seems_dead(node)) {  // else nobody waits for it
    const auto reply = co_await homes_.ask(node, message);
    told = reply.status();
  }
  if (Homes::is_unheard(told))
    core_.env.spawn(end_later(std::move(session), std::move(node), std::move(message)));
}

Task<void> Holds::end_later(std::shared_ptr<Session> session, std::string node, wire::Envelope message) {
  fault::reached(fault::State::kHoldEndLater);
  const uint32_t run = homes_.run_of(node);
  std::function<bool()> wanted = [session] { return !session->ended; };
  (void)co_await homes_.until_heard(std::move(node), run, std::move(message), std::move(wanted));
}

}  // namespace ocm::node
