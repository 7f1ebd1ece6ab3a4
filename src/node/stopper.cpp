#include "node/stopper.h"

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "base/fault.h"
#include "base/units.h"
#include "control/names.h"
#include "control/parts.h"
#include "control/replica_query_wire.h"

namespace ocm::node {

using control::Task;

namespace {

constexpr size_t kAskedAtOnceMax = 65536;  // replicas in one message
constexpr size_t kOwnedAtOnceMax = 16384;  // with their sessions
constexpr size_t kNamesMax = 64;           // that a check tells
constexpr uint64_t kLogEveryNs = 60'000'000'000;
static_assert(kOwnedAtOnceMax <= kAskedAtOnceMax, "each takes more");

}  // namespace

void Stopper::add_parts(const control::Allocation& allocation, uint32_t partition, std::vector<Part>& out) {
  if (!control::has_replicas(allocation)) return;
  const auto& extents = allocation.extents;
  for (size_t begin = 0, end = 0; begin < extents.size(); begin = end) {
    while (end < extents.size() && extents[end].part == extents[begin].part) ++end;
    OCM_DASSERT(end > begin);
    for (size_t here = begin; here < end; ++here) {
      if (extents[here].lost || extents[here].id.address.partition() != partition) continue;
      Part& part = out.emplace_back(Part{extents[here].id, {}});
      for (size_t i = begin; i < end; ++i) {
        if (i != here && !extents[i].lost) part.others.push_back({extents[i].id, extents[i].node});
      }
    }
  }
}

void Stopper::add_parts_of_sessions(uint32_t partition, std::vector<Part>& out, bool& incomplete) const {
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& [allocation, held] : session->allocations) {
      if (held.allocation.bytes_total == 0) incomplete = true;  // this daemon restarted and does not know it
      add_parts(held.allocation, partition, out);
    }
  }
}

control::ReplicaAnswer Stopper::answer(const control::ReplicaQuery& query) const {
  control::ReplicaAnswer out;
  for (const ExtentId& id : query.replicas) {
    const bool lives = query.witness ? home_.knows(id) : !core_.stopping && home_.has(id);
    if (lives && !core_.draining) out.living.push_back(id);
  }
  out.incarnation = core_.incarnation;
  answer_owned(query, out);
  if (query.partition == 0) return out;
  add_parts_of_sessions(query.partition, out.parts, out.incomplete);
  if (out.parts.size() > kAskedAtOnceMax) {
    out.parts.resize(kAskedAtOnceMax);
    out.incomplete = true;
  }
  return out;
}

void Stopper::answer_owned(const control::ReplicaQuery& query, control::ReplicaAnswer& out) const {
  for (const control::ReplicaQuery::Owned& owned : query.owned) {
    const auto session = sessions_.all().find(owned.session);
    if (session == sessions_.all().end()) continue;  // a copy that another home has under way
    std::vector<ExtentId> unknown;
    for (const ExtentId& id : owned.replicas) {
      if (!session->second->outside.contains(id)) unknown.push_back(id);
    }
    out.unsure.insert(out.unsure.end(), unknown.begin(), unknown.end());
    if (!unknown.empty() && on_unknown_) on_unknown_(session->second, owned.allocation, std::move(unknown));
  }
}

Task<std::set<ExtentId>> Stopper::ask_owners(std::set<ExtentId> owned) {
  struct Asked {
    std::string node;
    control::Incarnation incarnation;  // that vouches
    control::ReplicaQuery query;
    std::vector<ExtentId> replicas;
    Result<control::ReplicaAnswer> answer = Status(Code::kPeerLost);
  };
  std::vector<Asked> asked;
  std::map<std::pair<std::string, control::Incarnation>, size_t> open;  // where more fits
  for (const ExtentId& id : owned) {
    const control::Title* title = home_.title(id);
    OCM_DASSERT(title != nullptr && title->session);
    const auto owner = home_.vouching(*title->session);
    if (!owner) continue;
    const std::pair key(owner->node, owner->incarnation);
    auto at = open.find(key);
    if (at == open.end() || asked[at->second].replicas.size() >= kOwnedAtOnceMax) {
      open[key] = asked.size();
      at = open.find(key);
      asked.push_back({key.first, key.second, {}, {}});
    }
    Asked& one = asked[at->second];
    one.query.owned.push_back({*title->session, title->allocation, {id}});
    one.replicas.push_back(id);
  }
  std::vector<Task<void>> tasks;
  for (Asked& one : asked) {
    tasks.push_back(ask(one.node, std::move(one.query), one.answer));
  }
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
  std::set<ExtentId> out;
  for (const Asked& one : asked) {
    // Another run of the daemon does not know the session until its program is back.
    if (!one.answer.is_ok() || one.answer.value().incarnation != one.incarnation)
      out.insert(one.replicas.begin(), one.replicas.end());
    else
      out.insert(one.answer.value().unsure.begin(), one.answer.value().unsure.end());
  }
  co_return out;
}

Task<void> Stopper::ask(std::string node, control::ReplicaQuery query, Result<control::ReplicaAnswer>& out) {
  const control::NodeInfo* known = cluster_.find(node);
  const bool seems_dead = known == nullptr || known->state == control::NodeState::kDead;
  if (seems_dead && !homes_.is_here(node)) co_return;
  wire::Envelope message;
  to_wire(query, *message.mutable_replica_query());
  const auto reply = co_await homes_.ask(node, std::move(message));
  if (reply.is_ok()) out = control::from_wire(reply.value().replica_answer());
}

Task<Stopper::Found> Stopper::look() {
  Found found;
  std::set<ExtentId> left;
  for (const ExtentId& id : home_.directory().replicas()) {
    const control::Title* title = home_.title(id);
    if (title != nullptr) left.insert(id);
  }
  for (const auto& last : home_.last_replicas()) {
    found.last.push_back(last.id);
    left.erase(last.id);
  }
  // Which parts they are of.
  std::vector<Part> parts;
  bool forgot = false;
  for (const auto& [id, allocation] : home_.published()) add_parts(allocation, core_.partition, parts);
  for (const ExtentId& id : left) {
    const control::PartMoved* part = home_.made_as(id);  // newer than many a record
    if (part == nullptr) continue;
    Part& known = parts.emplace_back(Part{id, {}});
    for (const auto& extent : part->now) {
      if (extent.id != id) known.others.push_back({extent.id, extent.node});
    }
  }
  add_parts_of_sessions(core_.partition, parts, forgot);
  std::map<std::string, Result<control::ReplicaAnswer>> daemons;
  std::map<ExtentId, std::set<std::string>> told_by;
  const auto holders = home_.holders_of_the_ended();  // no record of a name has that any more
  for (const ExtentId& id : left) {
    const control::Title* title = home_.title(id);
    OCM_DASSERT(title != nullptr);
    if (title->session) {
      if (const auto owner = home_.vouching(*title->session); owner) told_by[id] = {owner->node};
    } else if (const auto held = holders.find(id); held != holders.end()) {
      told_by[id] = held->second;
    }
    const auto by = told_by.find(id);
    if (by == told_by.end()) continue;
    for (const std::string& node : by->second) {
      if (node != core_.name) daemons.try_emplace(node, Status(Code::kPeerLost));
    }
  }
  std::vector<Task<void>> tasks;
  for (auto& [node, answer] : daemons) {
    control::ReplicaQuery query;
    query.partition = core_.partition;
    tasks.push_back(ask(node, std::move(query), answer));
  }
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
  std::set<std::string> unsure;  // whose daemons did not tell all
  if (forgot) unsure.insert(core_.name);
  for (const auto& [node, answer] : daemons) {
    if (!answer.is_ok()) found.unheard.insert(node);
    if (!answer.is_ok() || answer.value().incomplete) unsure.insert(node);
    if (!answer.is_ok()) continue;
    parts.insert(parts.end(), answer.value().parts.begin(), answer.value().parts.end());
  }
  // Which of the others live.
  std::map<std::string, std::vector<control::ReplicaQuery>> queries;
  for (const Part& part : parts) {
    if (!left.contains(part.here)) continue;
    for (const Sibling& other : part.others) {
      auto& of_node = queries[other.node];
      if (of_node.empty() || of_node.back().replicas.size() >= kAskedAtOnceMax) of_node.emplace_back();
      of_node.back().replicas.push_back(other.id);
    }
  }
  std::vector<std::pair<std::string, Result<control::ReplicaAnswer>>> homes;
  for (const auto& [node, of_node] : queries) {
    for (size_t i = 0; i < of_node.size(); ++i) homes.emplace_back(node, Status(Code::kPeerLost));
  }
  tasks.clear();
  size_t next = 0;
  for (auto& [node, of_node] : queries) {
    for (auto& query : of_node) {
      OCM_DASSERT(next < homes.size() && homes[next].first == node);
      tasks.push_back(ask(node, std::move(query), homes[next++].second));
    }
  }
  OCM_DASSERT(next == homes.size());
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
  std::set<ExtentId> living;
  for (const auto& [node, answer] : homes) {
    if (!answer.is_ok()) found.unheard.insert(node);
    if (!answer.is_ok()) continue;
    living.insert(answer.value().living.begin(), answer.value().living.end());
  }
  std::set<ExtentId> known, safe;  // of two records of a part the older one knows less
  for (const Part& part : parts) {
    if (!left.contains(part.here)) continue;
    known.insert(part.here);
    // S4
    const bool other = std::any_of(part.others.begin(), part.others.end(), [&](const Sibling& sibling) {
      const bool lost = home_.is_known_lost(part.here, sibling.id) && !fault::at(fault::Point::kLostIsCopy);
      return living.contains(sibling.id) && !lost;
    });
    if (other) safe.insert(part.here);
  }
  for (const ExtentId& id : known) {
    left.erase(id);
    if (!safe.contains(id)) found.last.push_back(id);
  }
  // What no daemon knows is a copy that another home has under way, or its owner's daemon knows an older part.
  std::set<ExtentId> owned;
  for (const ExtentId& id : left) {
    const control::Title* title = home_.title(id);
    if (title != nullptr && title->session) owned.insert(id);
  }
  std::set<ExtentId> unsure_of;
  if (!owned.empty()) unsure_of = co_await ask_owners(std::move(owned));
  for (const ExtentId& id : left) {
    const control::Title* title = home_.title(id);
    const auto by = told_by.find(id);
    const auto is_unsure = [&](const std::string& node) { return unsure.contains(node); };
    if (by == told_by.end() || std::any_of(by->second.begin(), by->second.end(), is_unsure) ||
        unsure_of.contains(id) ||
        (title != nullptr && title->name_ended))  // no copy under way; its holders' records are older ones
      found.unknown.push_back(id);
  }
  const auto freed = [this](const ExtentId& id) { return home_.title(id) == nullptr; };  // meanwhile
  std::erase_if(found.last, freed);
  std::erase_if(found.unknown, freed);
  co_return found;
}

Task<std::shared_ptr<const Stopper::Seen>> Stopper::see() {
  ++core_.metrics.stop_looks;
  const Found found = co_await look();
  const auto seen = std::make_shared<Seen>();
  control::StopCheck& out = seen->figures;
  out.node = core_.name;
  out.coordinator = cluster_.is_coordinator();
  out.hands_over =
      cluster_.is_coordinator() && core_.passes_on() && cluster_.quorum().newest().voters.size() > 1;
  out.stopping = core_.stopping;
  out.sessions = sessions_.count();
  size_t held = 0;
  for (const ExtentId& id : found.last) {
    OCM_DASSERT(home_.title(id) != nullptr);
    held += home_.title(id)->name_ended ? 1 : 0;
    const uint64_t bytes = home_.title(id)->bytes;
    ++out.last_parts;
    out.last_bytes += bytes;
    const control::Allocation* named = home_.published_with(id);
    if (named != nullptr) seen->named.push_back({named->name, named->mode, named->owner_uid, bytes});
  }
  for (const ExtentId& id : found.unknown) {
    OCM_DASSERT(home_.title(id) != nullptr);
    ++out.unknown_parts;
    out.unknown_bytes += home_.title(id)->bytes;
  }
  out.unheard.assign(found.unheard.begin(), found.unheard.end());
  uint64_t extents = 0, bytes = 0;  // replicas
  for (const ExtentId& id : home_.directory().replicas()) {
    const control::Title* title = home_.title(id);
    extents += title != nullptr ? 1 : 0;
    bytes += title != nullptr ? title->bytes : 0;
  }
  const Home::Owned owned = home_.owned();
  out.single_extents = owned.extents - std::min(owned.extents, extents);
  out.single_bytes = owned.bytes - std::min(owned.bytes, bytes);
  OCM_DASSERT(held <= out.last_parts);
  if (!out.takes_nothing()) out.waits_for = what_it_waits_for(out, held);
  co_return seen;
}

Task<std::shared_ptr<const Stopper::Seen>> Stopper::see_for_all() {
  while (seeing_) co_await seeing_ended_.wait();
  if (seen_ == nullptr || core_.now_ns() >= seen_ns_ + core_.config.heartbeat_ns()) {
    seeing_ = true;
    try {
      seen_ = co_await see();
    } catch (...) {
      seeing_ = false;  // the next one looks itself
      seeing_ended_.notify();
      throw;
    }
    seen_ns_ = core_.now_ns();
    OCM_DASSERT(seeing_);
    seeing_ = false;
    seeing_ended_.notify();
  }
  OCM_DASSERT(seen_ != nullptr);
  co_return seen_;
}

Task<control::StopCheck> Stopper::check(uint32_t uid) {
  std::shared_ptr<const Seen> seen;
  if (is_privileged(uid))
    seen = co_await see();
  else
    seen = co_await see_for_all();
  control::StopCheck out = seen->figures;
  std::map<std::string, control::StopCheck::Name> names;
  for (const Seen::Named& one : seen->named) {
    if (!control::may_access(one.mode, one.owner_uid, uid, Access::kRead)) continue;
    control::StopCheck::Name& name = names[one.name];
    ++name.parts;
    name.bytes += one.bytes;
  }
  out.names_count = names.size();
  for (auto& [text, name] : names) {
    if (out.names.size() >= kNamesMax) break;
    name.name = text;
    out.names.push_back(std::move(name));
  }
  co_return out;
}

std::string Stopper::what_it_waits_for(const control::StopCheck& found, size_t held) const {
  if (found.last_parts == 0) {
    return !found.unheard.empty() ? "daemons that own replicas here do not answer"
                                  : "daemons that restarted do not know yet what their programs have here";
  }
  if (held == found.last_parts) return "handles with a hold end: what has no name any more is not copied";
  uint64_t most = 0;
  size_t others = 0;
  for (const control::NodeRoom& room : cluster_.rooms()) {
    if (!room.usable || room.name == core_.name) continue;
    ++others;
    for (const memory::Entry* kind : core_.config.kinds) most = std::max(most, room.bytes_free(kind->kind));
  }
  if (others == 0) return "there is no other node that takes copies";
  if (most < found.last_bytes / found.last_parts) return "no other node has room for a copy";
  if (home_.last_replicas().empty()) {
    return "copies are made when the other homes are gone for " +
           std::to_string(core_.config.replica_again_after_ms) + " ms";
  }
  return "copies are being made";
}

Task<bool> Stopper::may_end(control::StopCheck& found) {
  found = co_await check(0);
  if (!found.takes_nothing()) co_return false;
  constexpr const char* kVotesAlone = "it votes alone: the other nodes could make no council without it";
  if (cluster_.quorum().votes_alone_for_now()) {  // S5
    found.waits_for = kVotesAlone;
    co_return false;
  }
  if (home_.directory().replicas().empty() || fault::at(fault::Point::kEndNotTold)) co_return true;
  const bool told = co_await cluster_.begin_end();
  found = co_await check(0);
  const bool votes_alone = cluster_.quorum().votes_alone_for_now();
  if (told && found.takes_nothing() && !votes_alone) {
    fault::reached(fault::State::kEndedSafely);
    co_return true;
  }
  cluster_.take_back_end();
  if (found.takes_nothing())
    found.waits_for =
        votes_alone ? kVotesAlone : "too few of the council's voters answer, or a loss is being decided";
  fault::reached(fault::State::kEndTakenBack);
  co_return false;
}

Task<void> Stopper::check_into(std::shared_ptr<Checked> out) {
  out->found = co_await check(0);
  out->done.notify();
}

Task<void> Stopper::tell(std::function<void()> then) {
  const uint64_t give_up_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 2;
  const auto checked = std::make_shared<Checked>(core_.env);
  core_.env.spawn(check_into(checked));
  while (!checked->found && core_.now_ns() < give_up_ns) co_await checked->done.wait_until(give_up_ns);
  if (!checked->found) {
    log::warn("stop_takes", {{"why", "other homes did not say what copies they have"}});
  } else if (!checked->found->takes_nothing()) {
    log::warn("stop_takes",
              {{"why", "this node has the last copy of replicated bytes, and is told not to wait"},
               {"parts", checked->found->last_parts},
               {"bytes", checked->found->last_bytes},
               {"parts_unknown", checked->found->unknown_parts}});
  }
  then();
}

Task<void> Stopper::wait(std::function<void()> then) {
  core_.stopping = true;  // S1
  cluster_.tell_state();
  uint64_t log_next_ns = 0;
  while (!core_.draining) {
    control::StopCheck found;
    if (co_await may_end(found)) {
      then();
      co_return;
    }
    if (core_.now_ns() >= log_next_ns) {
      log_next_ns = core_.now_ns() + kLogEveryNs;
      const bool has_last = !found.takes_nothing();
      log::warn("stop_waits", {{"why", has_last ? "this node has the last copy of replicated bytes"
                                                : "it could take the last copy, or the council"},
                               {"parts", found.last_parts},
                               {"bytes", found.last_bytes},
                               {"parts_unknown", found.unknown_parts},
                               {"waits_for", found.waits_for},
                               {"do", "wait, or send SIGTERM again to stop now and lose them"}});
    }
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

}  // namespace ocm::node
