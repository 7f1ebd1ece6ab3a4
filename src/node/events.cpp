#include "node/events.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "control/parts.h"
#include "node/standing.h"

namespace ocm::node {

using control::EventKind;
using control::Reply;
using control::Task;

namespace {

constexpr size_t kEventsAtOnce = 256;            // in an answer
constexpr size_t kSettledAtOnce = 32;            // parts of a session's allocations
constexpr uint64_t kLongestWait = 32;            // heartbeats
constexpr uint64_t kWaitNsMax = 60'000'000'000;  // of a request

const control::PlacedExtent* find_extent(const control::Allocation& allocation, const ExtentId& id) {
  const auto found = std::find_if(allocation.extents.begin(), allocation.extents.end(),
                                  [&](const auto& extent) { return extent.id == id; });
  return found == allocation.extents.end() ? nullptr : &*found;
}

}  // namespace

Events::Events(Core& core, Cluster& cluster, Sessions& sessions, Remaker& remaker, Watches& watches)
    : core_(core), cluster_(cluster), sessions_(sessions), remaker_(remaker), watches_(watches) {
  watches_.on_news(
      [this](const SessionId& session, ExtentId id, Watches::News what) { on_news(session, id, what); });
  watches_.on_reach([this](const std::string& node, uint32_t partition, bool reached) {
    if (reached)
      unreached_.erase(node);
    else
      unreached_[node] = partition;
    look();
  });
}

/// What its session holds is watched, and nothing else. Who follows a part, and why, makes no difference: also this node may
/// be its home, which then watches what was there no more when it is over.
class Events::Held final : public Records::Observer {
 public:
  Held(Events& events, Session& session)
      : events_(events), watches_(events.watches_), session_(session), stream_(session.events) {}
  void comes(const control::PlacedExtent& extent) override {
    if (!extent.lost && !extent.vacant) watches_.want(session_.id, extent.node, extent.id);
  }
  void goes(const ExtentId& extent) override { watches_.drop(session_.id, extent); }
  void moved(const AllocationId& id, const ExtentId& to) override {
    events_.put(session_, EventKind::kMoved, id, to);
  }
  void ended(const AllocationId& id) override {
    stream_->queue.forget(id);
    stream_->revoked.erase(id);
  }

 private:
  Events& events_;
  Watches& watches_;
  Session& session_;  // whose this is
  const std::shared_ptr<EventStream> stream_;
};

void Events::begin(const std::shared_ptr<Session>& session) {
  session->events = std::make_shared<EventStream>(core_.env);
  session->events->id = core_.env.random_number() | 1;
  for (const auto& [name, node] : nodes_) {
    if (node.kind != EventKind::kNodeAlive) put_node(*session->events, name, node);
  }
  const auto held = std::make_shared<Held>(*this, *session);
  session->allocations.observe(held);
  for (const auto& [id, record] : session->allocations) {
    if (!record.is_whole()) continue;
    for (const auto& extent : record.allocation.extents) held->comes(extent);
  }
}

Task<Reply> Events::answer(std::shared_ptr<Session> session, wire::EventsRequest request) {
  if (!session->events) begin(session);
  const std::shared_ptr<EventStream> stream = session->events;
  if (request.stream() == stream->id) stream->queue.received(request.after());
  const uint64_t mine = ++stream->requests;
  stream->changed.notify();
  const uint64_t wait_ns = std::min(uint64_t{request.wait_ms()} * 1'000'000, kWaitNsMax);
  const uint64_t until_ns = core_.now_ns() + wait_ns;
  // Another stream is told at once: its reader looks at what it holds.
  while (stream->queue.empty() && request.stream() == stream->id && mine == stream->requests &&
         !session->ended && !core_.draining && core_.now_ns() < until_ns)
    co_await stream->changed.wait_until(until_ns);
  wire::Envelope out;
  auto& reply = *out.mutable_events_reply();
  reply.set_stream(stream->id);
  if (mine != stream->requests || session->ended) co_return out;
  for (const auto& event : stream->queue.first(kEventsAtOnce)) {
    auto& told = *reply.add_events();
    told.set_number(event.number);
    told.set_kind(static_cast<uint32_t>(event.kind));
    if (event.allocation != AllocationId()) told.set_allocation_id(id_field(event.allocation));
    told.set_name(event.name);
    told.set_node(event.node);
    told.set_partition(event.partition);
  }
  co_return out;
}

void Events::ends(Session& session, const AllocationId& id) {
  const auto held = session.allocations.find(id);
  if (session.events && held != session.allocations.end()) ++session.events->ending[id];
}

void Events::ended(Session& session, const AllocationId& id) {
  if (!session.events) return;
  const std::shared_ptr<EventStream> stream = session.events;
  const auto ending = stream->ending.find(id);
  if (ending == stream->ending.end() || --ending->second != 0) return;
  stream->ending.erase(ending);
  std::vector<EventStream::HeldBack> all = std::exchange(stream->held_back, {});
  for (const EventStream::HeldBack& one : all) {
    if (one.id != id)
      stream->held_back.push_back(one);
    else if (session.allocations.contains(id))
      put(session, one.kind, id, one.extent);
  }
}

void Events::program_ended(const Session& session) {
  if (!session.events) return;
  ++session.events->requests;
  session.events->changed.notify();
}

// ---- allocations

void Events::put(Session& session, EventKind kind, const AllocationId& id, const ExtentId& extent) {
  const auto held = session.allocations.find(id);
  OCM_ASSERT(session.events && held != session.allocations.end());  // E1
  EventStream& stream = *session.events;
  if (stream.revoked.contains(id)) return;
  if (stream.ending.contains(id)) {
    stream.held_back.push_back({id, kind, extent});
    return;
  }
  if (kind == EventKind::kRevoked) {
    fault::reached(fault::State::kRevokedTold);
    stream.revoked.insert(id);
  }
  const control::PlacedExtent* const placed = find_extent(held->second.allocation, extent);
  stream.queue.put({.kind = kind,
                    .allocation = id,
                    .name = held->second.allocation.name,
                    .node = placed == nullptr ? std::string() : placed->node,
                    .partition = extent.address.partition()});
  stream.changed.notify();
}

void Events::on_news(const SessionId& id, ExtentId extent, Watches::News what) {
  const auto known = sessions_.all().find(id);
  if (known == sessions_.all().end() || !known->second->events) return;
  const std::shared_ptr<Session>& session = known->second;
  for (const auto& it : session->allocations.with(extent)) {
    if (session->events->revoked.contains(it->first)) continue;
    const bool replicas = control::has_replicas(it->second.allocation);
    if (what == Watches::News::kUnwatched)
      put(*session, EventKind::kUnwatched, it->first, extent);
    else if (what == Watches::News::kGone && !replicas)
      put(*session, EventKind::kRevoked, it->first, extent);  // E2
    else
      session->events->to_settle.emplace_back(it->first, extent);
  }
  settle_more(session);
}

void Events::settle_more(const std::shared_ptr<Session>& session) {
  EventStream& stream = *session->events;
  const size_t wanted = std::min(kSettledAtOnce, stream.to_settle.size());
  for (size_t i = stream.settling; i < wanted; ++i) core_.env.spawn(settle(session));
}

Task<void> Events::settle(std::shared_ptr<Session> session) {
  const std::shared_ptr<EventStream> stream = session->events;
  if (stream->settling >= kSettledAtOnce) co_return;
  ++stream->settling;
  for (size_t done = 1; !stream->to_settle.empty() && !session->ended; ++done) {
    const auto [id, extent] = stream->to_settle.front();
    stream->to_settle.pop_front();
    co_await settle_one(session, id, extent);
    if (done % 64 == 0) co_await core_.env.sleep_ns(1);  // others are answered meanwhile
  }
  --stream->settling;
  if (!stream->unheard.empty() && !stream->asks_again) core_.env.spawn(ask_again(session));
}

Task<void> Events::ask_again(std::shared_ptr<Session> session) {
  const std::shared_ptr<EventStream> stream = session->events;
  if (stream->asks_again) co_return;
  {
    const Standing asking(stream->asks_again);
    co_await core_.env.sleep_ns(stream->wait * core_.config.heartbeat_ns());
  }
  stream->wait = std::min(2 * stream->wait, kLongestWait);
  if (session->ended || core_.draining) co_return;
  stream->to_settle.insert(stream->to_settle.end(), stream->unheard.begin(), stream->unheard.end());
  stream->unheard.clear();
  settle_more(session);
}

Task<void> Events::settle_one(std::shared_ptr<Session> session, AllocationId id, ExtentId extent) {
  const auto held = session->allocations.find(id);
  const std::shared_ptr<EventStream> stream = session->events;
  if (held == session->allocations.end() || stream->revoked.contains(id)) co_return;
  const auto known = co_await remaker_.resolve(session, id, extent, false);
  if (session->ended || !session->allocations.contains(id)) co_return;
  if (known.status().code() == Code::kPeerLost) {
    stream->unheard.emplace_back(id, extent);
    co_return;
  }
  stream->wait = 1;
  // Where the part goes on elsewhere, Held::moved() has told so when the record changed.
  if (known.status().code() == Code::kRevoked) put(*session, EventKind::kRevoked, id, extent);  // E2
}

// ---- nodes

Events::Node Events::state_of(const control::NodeInfo& node) const {
  const auto unreached = unreached_.find(node.name);
  const bool silent = unreached != unreached_.end() && unreached->second == node.partition;
  EventKind kind = EventKind::kNodeAlive;
  switch (node.state) {
    case control::NodeState::kAlive: kind = silent ? EventKind::kNodeSuspect : kind; break;
    case control::NodeState::kSuspect: kind = EventKind::kNodeSuspect; break;
    case control::NodeState::kDead: kind = EventKind::kNodeDead; break;
    case control::NodeState::kDraining: kind = EventKind::kNodeDraining; break;
  }
  return {kind, node.partition};
}

void Events::put_node(EventStream& stream, const std::string& name, const Node& node) {
  stream.queue.put({.kind = node.kind, .node = name, .partition = node.partition});
  stream.changed.notify();
}

void Events::look() {
  std::map<std::string, Node> now;
  for (const control::NodeInfo& node : cluster_.view().nodes) now[node.name] = state_of(node);
  for (const auto& [name, before] : nodes_) {  // a new run of the coordinator may not know it
    if (before.kind == EventKind::kNodeDead) continue;
    const auto [at, fresh] = now.try_emplace(name, before);
    if (fresh) at->second.kind = EventKind::kNodeSuspect;
  }
  for (const auto& [name, node] : now) {
    const auto before = nodes_.find(name);
    if (before != nodes_.end() && before->second == node) continue;
    for (const auto& [id, session] : sessions_.all()) {
      if (session->events) put_node(*session->events, name, node);
    }
  }
  nodes_ = std::move(now);
}

bool Events::is_valid() const {
  const auto& all = sessions_.all();
  return watches_.is_valid() && std::all_of(all.begin(), all.end(), [](const auto& one) {
           const auto& session = one.second;
           return !session->events ||
                  (session->events->queue.is_valid() &&
                   std::all_of(session->events->revoked.begin(), session->events->revoked.end(),
                               [&](const AllocationId& id) { return session->allocations.contains(id); }));
         });
}

}  // namespace ocm::node
