#include "node/watches.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "node/standing.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

/// Of one message.
constexpr size_t kAtOnce = 1024;
/// Extents that one user's sessions, on all nodes together, watch at a home: 130 bytes each.
constexpr size_t kUserWatchedMax = size_t{1} << 20;

}  // namespace

Watches::Watches(Core& core, Home& home, Cluster& cluster)
    : core_(core), home_(home), cluster_(cluster), homes_(cluster.homes()) {
  home_.on_over([this](ExtentId id) { note_over(id); });
}

size_t Watches::most_of(uint32_t uid) { return is_privileged(uid) ? ~size_t{0} : kUserWatchedMax; }

// ---- what sessions here want of homes

void Watches::want(const SessionId& session, const std::string& node, ExtentId id) {
  std::vector<SessionId>& sessions = wanted_[id];
  if (std::find(sessions.begin(), sessions.end(), session) != sessions.end()) return;
  sessions.push_back(session);
  const PlaceId at(id.address.partition(), uid_of(session));
  auto& place = places_[at];
  if (!place) {
    place = std::make_shared<Place>();
    place->node = node;
  }
  place->watching.want(id);
  wake(at);
}

void Watches::drop(const SessionId& session, ExtentId id) {
  const auto wanted = wanted_.find(id);
  if (wanted == wanted_.end() || std::erase(wanted->second, session) == 0) return;
  const uint32_t uid = uid_of(session);
  const bool by_another = std::any_of(wanted->second.begin(), wanted->second.end(),
                                      [uid](const SessionId& other) { return uid_of(other) == uid; });
  if (wanted->second.empty()) wanted_.erase(wanted);
  const PlaceId at(id.address.partition(), uid);
  const auto place = places_.find(at);
  if (by_another || place == places_.end()) return;
  place->second->watching.drop(id);
  wake(at);
}

void Watches::wake(const PlaceId& id) {
  const std::shared_ptr<Place>& place = places_.at(id);
  if (!place->is_told && place->watching.is_due()) core_.env.spawn(tell_home(id, place));
}

Task<void> Watches::tell_home(PlaceId id, std::shared_ptr<Place> place) {
  if (place->is_told) co_return;
  const Standing telling(place->is_told);
  co_await core_.env.sleep_ns(1);  // who wants one extent may want more
  while (!core_.draining && !place->is_over && !place->watching.is_empty() &&
         (place->watching.is_due() || place->look)) {
    wire::Envelope message;
    auto& asked = *message.mutable_watch();
    place->look = false;
    if (place->watching.is_due()) {
      const control::WatchAsked& request = place->watching.ask(++requests_, kAtOnce);
      asked.set_number(request.number);
      wire::add_refs(request.begin, *asked.mutable_begin());
      wire::add_refs(request.end, *asked.mutable_end());
    }
    asked.set_node(core_.name);
    asked.set_incarnation(id_field(core_.incarnation));
    asked.set_uid(id.second);
    const bool asks = asked.number() != 0;
    const std::vector<ExtentId> begin = wire::ids_in(asked.begin());
    const auto reply = co_await homes_.ask(place->node, std::move(message));
    if (place->is_over) co_return;
    // A daemon of a version before tells nothing of what is over.
    const bool is_older = reply.status().code() == Code::kProtocol;
    // Any other answer is of a run that is not the one that it was meant for: the view will show that.
    if (is_older || (reply.is_ok() && reply.value().has_watched())) {
      control::WatchAnswer answer;
      if (is_older) {
        answer.refused = begin;
      } else {
        answer.over = wire::ids_in(reply.value().watched().over());
        answer.refused = wire::ids_in(reply.value().watched().refused());
      }
      reached(id, *place, true);
      if (!asks) continue;
      const control::WatchAnswer wanted = place->watching.answered(answer);
      if (!wanted.over.empty()) fault::reached(fault::State::kOverBefore);
      news(id.second, wanted.over, News::kOver);
      news(id.second, wanted.refused, News::kUnwatched);
      continue;
    }
    if (Homes::is_unheard(reply.status())) reached(id, *place, false);
    if (asks && fault::at(fault::Point::kWatchAskedOnce))
      (void)place->watching.answered({});
    else if (asks)
      place->watching.unheard();
    place->look = place->look || place->silent;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  if (place->is_over || !place->watching.is_empty()) co_return;
  reached(id, *place, true);  // nobody looks any more whether it is: it is what the view says
  places_.erase(id);
}

void Watches::reached(const PlaceId& id, Place& place, bool reached) {
  if (place.silent != reached) return;
  place.silent = !reached;
  if (on_reach_) on_reach_(place.node, id.first, reached);
}

void Watches::news(uint32_t uid, const std::vector<ExtentId>& ids, News what) {
  for (const ExtentId& id : ids) {
    const auto wanted = wanted_.find(id);
    if (wanted == wanted_.end()) continue;
    std::vector<SessionId> sessions, others;
    for (const SessionId& session : wanted->second)
      (uid_of(session) == uid ? sessions : others).push_back(session);
    if (others.empty())
      wanted_.erase(wanted);
    else
      wanted->second = std::move(others);
    for (const SessionId& session : sessions) on_news_(session, id, what);
  }
}

void Watches::node_appeared(const control::NodeInfo& node) {
  if (node.incarnation) watchers_.other_run(node.name, *node.incarnation);
  for (auto it = places_.begin(); it != places_.end();) {
    const auto [partition, uid] = it->first;
    const std::shared_ptr<Place> place = it->second;
    if (place->node != node.name || partition == node.partition) {
      ++it;
      continue;
    }
    place->is_over = true;
    it = places_.erase(it);
    news(uid, place->watching.all_over(), News::kOver);
  }
}

void Watches::connection_lost(const std::string& address) {
  for (const auto& [id, place] : places_) {
    if (homes_.is_here(place->node) || cluster_.address_of(place->node) != address) continue;
    place->look = true;
    if (!place->is_told) core_.env.spawn(tell_home(id, place));
  }
}

Reply Watches::told(const wire::ExtentsOver& told) {
  const auto over = [&](const std::vector<ExtentId>& ids, News what) {
    for (auto at = places_.lower_bound({told.partition(), 0}); at != places_.end();) {
      const auto [partition, uid] = at->first;
      const std::shared_ptr<Place> place = at->second;
      if (partition != told.partition()) break;
      ++at;
      news(uid, place->watching.told(ids), what);
      if (place->watching.is_empty() && !place->is_told) places_.erase({partition, uid});
    }
  };
  over(wire::ids_in(told.over()), News::kGone);
  over(wire::ids_in(told.elsewhere()), News::kOver);
  return Status();
}

// ---- what is watched here

void Watches::enter(PeerHandlers& handlers) {
  handlers.on_now(wire::Envelope::kWatch, [this](const std::string& from, const wire::Envelope& request) {
    return take(from, request.watch());
  });
  handlers.on_now(wire::Envelope::kExtentsOver, [this](const std::string&, const wire::Envelope& request) {
    return told(request.extents_over());
  });
}

Reply Watches::take(const std::string& from, const wire::WatchRequest& request) {
  control::Watchers::Watcher by{from, {}, request.uid()};
  if (!read_id(request.incarnation(), by.incarnation)) return Status(Code::kInvalidArgument);
  if (request.node() != from)
    return Status(Code::kInvalidArgument, "node " + from + " watches in the name of another");
  wire::Envelope out;
  out.mutable_watched();
  if (request.number() == 0) return out;  // it only looks whether this one answers
  control::WatchAsked asked;
  asked.number = request.number();
  asked.begin = wire::ids_in(request.begin());
  asked.end = wire::ids_in(request.end());
  const auto is_over = [this](ExtentId id) { return !home_.is_here(id) && !home_.is_second(id); };
  const control::WatchAnswer answer = watchers_.take(by, asked, most_of(by.uid), is_over);
  wire::add_refs(answer.over, *out.mutable_watched()->mutable_over());
  wire::add_refs(answer.refused, *out.mutable_watched()->mutable_refused());
  return out;
}

void Watches::note_over(ExtentId id) {
  for (control::Watchers::Watcher& watcher : watchers_.over(id)) {
    if (telling_.insert(watcher).second) core_.env.spawn(tell_watcher(std::move(watcher)));
  }
}

Task<void> Watches::tell_watcher(control::Watchers::Watcher watcher) {
  co_await core_.env.sleep_ns(
      1);  // who frees one extent may free more; and whoever ends it has more to do first
  for (bool again = false; !core_.draining;) {
    const std::vector<ExtentId> ids = watchers_.untold(watcher, kAtOnce);
    if (ids.empty()) break;
    wire::Envelope message;
    auto& over = *message.mutable_extents_over();
    over.set_partition(core_.partition);
    for (const ExtentId& id : ids)
      wire::set_ref(id, home_.remade(id) != nullptr ? *over.add_elsewhere() : *over.add_over());
    const auto reply = co_await homes_.ask(watcher.node, std::move(message));
    if (!Homes::is_unheard(reply.status()) || fault::at(fault::Point::kOverToldOnce)) {
      if (reply.is_ok()) fault::reached(again ? fault::State::kOverToldLater : fault::State::kOverTold);
      watchers_.heard(watcher, ids);  // perhaps by another run, which has no use for it
      again = false;
      continue;
    }
    again = true;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  telling_.erase(watcher);
}

bool Watches::is_valid() const {
  return watchers_.is_valid() && std::all_of(places_.begin(), places_.end(),
                                             [](const auto& one) { return one.second->watching.is_valid(); });
}

}  // namespace ocm::node
