#include "control/loss.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/mutation.h"

namespace ocm::control {
namespace {

using Phase = LossRequest::Phase;

template <class List>
bool has(const List& list, const ExtentId& id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

std::vector<ExtentId> ids_of(const auto& lost) {
  std::vector<ExtentId> out;
  for (const auto& one : lost) out.push_back(one.id);
  return out;
}

bool is_prefix(const std::vector<ExtentId>& shorter, const std::vector<ExtentId>& longer) {
  return shorter.size() <= longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

Status check(const LossRequest& request) {
  const auto& part = request.part;
  const auto bad = [](std::string why) { return Status(Code::kInvalidArgument, std::move(why)); };
  if (part.size() < 2 || part.size() > kReplicasMax) {
    return bad("the part has " + std::to_string(part.size()) + " replicas; allowed are 2 to " +
               std::to_string(kReplicasMax));
  }
  if (std::adjacent_find(part.begin(), part.end(), std::greater_equal<>()) != part.end())
    return bad("the part's replicas are not in ascending order, or one is named twice");
  const auto lives_beside = [&](const ExtentId& follows) {
    return !has(part, follows) && std::any_of(part.begin(), part.end(), [&](const ExtentId& id) {
      return id.address.partition() == follows.address.partition();
    });
  };
  if (!has(part, request.replica) && !lives_beside(request.replica))
    return bad("the replica is neither one of the part nor one that may follow it");
  if (request.ended && !lives_beside(*request.ended))
    return bad("what is to follow the part is on a node that had no replica of it");
  if (request.lost.size() >= part.size())
    return bad("all replicas of the part are named as lost; one has to remain");
  for (size_t i = 0; i < request.lost.size(); ++i) {
    const auto seen = std::span(request.lost).first(i);
    if (!has(part, request.lost[i]) || has(seen, request.lost[i]))
      return bad("a replica named as lost is not one of the part, or is named twice");
  }
  return {};
}

void add_number(std::string& out, uint64_t value) {
  do {
    out += static_cast<char>((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
  } while ((value >>= 7) != 0);
}

void add_id(std::string& out, const ExtentId& id) { add_number(out, id.address.bits()); }

/// Of the replicas of a run that are forgotten, the newest generation; 0: none was.
void forget(uint32_t& newest, uint32_t generation) {
  if (newest == 0 || made_before(newest, generation)) newest = generation;
}

/// The bounds of a partition's extents in an ordered map.
ExtentId first_of(uint32_t partition) { return {GlobalAddress(partition, 0), 0}; }
ExtentId last_of(uint32_t partition) {
  return {GlobalAddress(partition, GlobalAddress::kOffsetMask), ~uint32_t{0}};
}

}  // namespace

void merge(LossState& into, const LossState& from) {
  for (const auto& [partition, left_ns] : from.votes_ns) {
    uint64_t& mine = into.votes_ns.try_emplace(partition, 0).first->second;
    mine = std::max(mine, left_ns);
  }
  for (const auto& [partition, end] : from.ends) {
    if (!OCM_MUTATION("merge-without-who-leaves")) into.ends[partition].merge(end);
  }
  into.nodes.insert(from.nodes.begin(), from.nodes.end());
  for (const auto& [partition, newest] : from.over) forget(into.over[partition], newest);
  for (const auto& [first, theirs] : from.parts) {
    const auto [it, fresh] = into.parts.try_emplace(first, theirs);
    if (fresh) continue;
    LossState::Part& mine = it->second;
    const size_t decided = mine.lost.size() + (mine.ended ? 1 : 0);
    const size_t decided_there = theirs.lost.size() + (theirs.ended ? 1 : 0);
    const bool newer =
        OCM_MUTATION("merge-the-lower-ballot")
            ? theirs.accepted_at < mine.accepted_at
            : decided_there > decided || (decided_there == decided && theirs.accepted_at > mine.accepted_at);
    if (newer) {
      mine.accepted_at = theirs.accepted_at;
      mine.accepted = theirs.accepted;
    }
    for (size_t i = mine.lost.size(); i < theirs.lost.size(); ++i) mine.lost.push_back(theirs.lost[i]);
    for (const ExtentId& id : theirs.gone) {
      if (!has(mine.gone, id)) mine.gone.push_back(id);
    }
    if (theirs.ended && !OCM_MUTATION("merge-without-the-end")) mine.ended = theirs.ended;
    for (const LossState::Lost& lost : theirs.lost) {
      for (LossState::Lost& known : mine.lost)
        known.freed = known.freed || (known.id == lost.id && lost.freed);
    }
  }
}

uint64_t lease_until_ns(std::vector<uint64_t> asked_ns, size_t needed, uint64_t lease_ns) {
  OCM_DASSERT(needed > 0);
  if (asked_ns.size() < needed) return 0;
  std::sort(asked_ns.begin(), asked_ns.end(), std::greater<>());
  return asked_ns[needed - 1] + lease_ns - lease_ns / 20;
}

// ---- the voter

LossLedger::HomeVotes& LossLedger::home(uint32_t partition) {
  const auto known = homes_.find(partition);
  if (known != homes_.end()) return known->second;
  if (homes_.size() >= kHomesMax) {
    // The oldest one's losses cannot be confirmed any more (R3), and it is no less safe.
    homes_.erase(std::min_element(homes_.begin(), homes_.end(), [](const auto& a, const auto& b) {
      return a.second.until_ns < b.second.until_ns;
    }));
  }
  homes_changed();
  OCM_DASSERT(homes_.size() < kHomesMax);
  return homes_[partition];
}

LossLedger::Vote LossLedger::grant(uint64_t now_ns, uint32_t partition, std::span<const ExtentId> freed,
                                   std::span<const ExtentId> gone, const HomeEnd& end, bool tell_all,
                                   const std::string& node, uint32_t freed_before) {
  for (const bool is_gone : {false, true}) {
    for (const ExtentId& id : is_gone ? gone : freed) {
      const auto of = part_of_.find(id);
      if (id.address.partition() != partition || of == part_of_.end()) continue;
      const auto part = parts_.find(of->second);
      OCM_DASSERT(part != parts_.end());
      for (Lost& lost : part->second.lost) {
        if (lost.id != id || lost.freed) continue;
        note_freed(lost);
        part_changed(of->second);
      }
      if (is_gone) leave(part->second, id);
      forget_if_over(part);
    }
  }
  Vote out;
  HomeVotes& votes = home(partition);
  const HomeEnd before = votes.end;
  votes.end.merge(end);
  if (votes.end != before) homes_changed();
  if (!node.empty()) votes.node = node;
  out.over = votes.over != 0 && (freed_before == 0 || !made_before(votes.over, freed_before));
  if (out.over) return out;
  if (std::exchange(votes.over, 0) != 0) homes_changed();
  if (!OCM_MUTATION("name-no-loss"))
    out.dropped.assign(unfreed_.lower_bound(first_of(partition)), unfreed_.upper_bound(last_of(partition)));
  const size_t told_max = tell_all ? part_of_.size() : kWatchedMax;
  const auto watch = [&](const ExtentId& id, const Part& part) {
    const bool lost =
        std::any_of(part.lost.begin(), part.lost.end(), [&](const Lost& one) { return one.id == id; });
    const bool rests =
        now_ns > part.promised_ns + 2 * lease_ns_ || (tell_all && !OCM_MUTATION("hide-what-is-in-doubt"));
    const bool is_blank = part.lost.empty() && !part.ended && part.accepted_at.round == 0;
    if (lost || (tell_all && is_blank)) return;
    out.watched.push_back({id, part.replicas, ids_of(part.lost), part.ended, {}});
    const bool in_doubt = part.accepted_at.round != 0 && rests;
    if (in_doubt && part.accepted != id && has(part.replicas, part.accepted))
      out.watched.back().in_doubt = part.accepted;
  };
  // A few with each vote, all in turn: those behind the last of the vote before, and then from the first one on.
  const auto first = part_of_.lower_bound(first_of(partition)),
             end_of = part_of_.upper_bound(last_of(partition));
  const auto next =
      votes.watched.address.partition() == partition ? part_of_.upper_bound(votes.watched) : first;
  for (const auto& [from, to] : {std::pair(next, end_of), std::pair(first, next)}) {
    for (auto it = from; it != to && out.watched.size() < told_max; ++it) {
      OCM_DASSERT(parts_.contains(it->second));
      watch(it->first, parts_.find(it->second)->second);
    }
  }
  if (!out.watched.empty()) votes.watched = out.watched.back().replica;
  OCM_DASSERT(tell_all || out.watched.size() <= kWatchedMax);
  votes.until_ns = std::max(votes.until_ns, now_ns + lease_ns_);
  return out;
}

Status LossLedger::check_leases(const Part* known, const LossRequest& request) const {
  for (const ExtentId& id : request.part) {
    if (has(request.lost, id) || has(request.over, id) || (known != nullptr && has(ids_of(known->lost), id)))
      continue;
    if (!homes_.contains(id.address.partition()))
      return Status(Code::kPeerLost, "this council never gave a lease to the home of a replica");
  }
  return {};
}

void LossLedger::forget_promises(uint64_t now_ns) {
  // An accept that follows an older promise is refused (R5), so this one may be forgotten.
  for (auto it = parts_.begin(); it != parts_.end();) {
    const Part& part = it->second;
    const bool idle = part.lost.empty() && !part.ended && part.accepted_at.round == 0 &&
                      now_ns > part.promised_ns + 2 * lease_ns_;
    if (!idle) {
      ++it;
      continue;
    }
    it = erase(it);
  }
}

Result<LossLedger::Part*> LossLedger::find_or_make(uint64_t now_ns, const LossRequest& request) {
  OCM_DASSERT(request.part.size() >= 2 && std::is_sorted(request.part.begin(), request.part.end()));
  const auto known = parts_.find(request.part.front());
  const bool remembers = known != parts_.end() && is_prefix(request.lost, ids_of(known->second.lost));
  if (request.remembered && !remembers && !OCM_MUTATION("settle-what-is-forgotten"))
    return Status(Code::kPeerLost, "this voter does not remember the part");
  OCM_TRY(check_leases(known == parts_.end() ? nullptr : &known->second, request));
  if (known != parts_.end()) {
    if (known->second.replicas != request.part)
      return Status(Code::kInvalidArgument, "the part has other replicas");
    return &known->second;
  }
  for (const ExtentId& id : request.part) {
    if (part_of_.contains(id)) return Status(Code::kInvalidArgument, "a replica is of another part");
  }
  if (!has_room(request.uid) && now_ns >= forgot_ns_ + lease_ns_) {
    forgot_ns_ = now_ns;
    forget_promises(now_ns);
  }
  if (!has_room(request.uid)) return Status(Code::kLimit, "too many parts with lost replicas are remembered");
  return &add(request.part, request.uid);
}

bool LossLedger::has_room(uint32_t uid) const {
  if (parts_.size() >= kPartsMax) return false;
  const auto of = parts_of_.find(uid);
  return uid == 0 ||
         (parts_of_users_ < kPartsOfUsersMax && (of == parts_of_.end() || of->second < kPartsOfUidMax));
}

LossLedger::Part& LossLedger::add(const std::vector<ExtentId>& replicas, uint32_t uid) {
  const auto [known, fresh] = parts_.try_emplace(replicas.front());
  Part& part = known->second;
  if (!fresh) return part;
  for (const ExtentId& id : replicas) part_of_[id] = replicas.front();
  part.replicas = replicas;
  part.uid = uid;
  if (uid != 0) ++parts_of_[uid], ++parts_of_users_;
  OCM_DASSERT(parts_.size() <= kPartsMax && part_of_.size() >= 2 * parts_.size());
  return part;
}

LossLedger::Parts::iterator LossLedger::erase(Parts::iterator it) {
  for (const ExtentId& id : it->second.replicas) part_of_.erase(id), unfreed_.erase(id);
  part_changed(it->first);
  if (const auto of = parts_of_.find(it->second.uid); of != parts_of_.end()) {
    --parts_of_users_;
    if (--of->second == 0) parts_of_.erase(of);
  }
  return parts_.erase(it);
}

bool LossLedger::has_living_sibling(uint64_t now_ns, const Part& part, const ExtentId& replica) const {
  return std::any_of(part.replicas.begin(), part.replicas.end(), [&](const ExtentId& id) {
    const auto voted = homes_.find(id.address.partition());
    return id != replica && !has(ids_of(part.lost), id) && voted != homes_.end() &&
           now_ns < voted->second.until_ns && voted->second.over == 0 &&
           (!voted->second.end.is_near() || OCM_MUTATION("count-on-who-leaves"));  // R11
  });
}

void LossLedger::learn(uint64_t now_ns, Part& part, const std::vector<ExtentId>& lost,
                       const std::optional<ExtentId>& ended) {
  const bool ends = ended && !part.ended;
  if (lost.size() <= part.lost.size() && !ends) return;
  part_changed(part.replicas.front());
  if (ends) part.ended = ended;
  for (size_t i = part.lost.size(); i < lost.size(); ++i) {
    const auto voted = homes_.find(lost[i].address.partition());
    part.lost.push_back(
        {lost[i], voted == homes_.end() ? now_ns + lease_ns_ : voted->second.until_ns, false});
    unfreed_.insert(lost[i]);
  }
  OCM_DASSERT(part.lost.size() < part.replicas.size());  // R2
  part.promised = part.accepted_at = {};                 // of an instance that is decided
  part.accepted = {};
}

Result<LossAnswer> LossLedger::answer(uint64_t now_ns, const LossRequest& request) {
  OCM_TRY(check(request));
  OCM_TRY_ASSIGN(Part * part, find_or_make(now_ns, request));
  const std::vector<ExtentId> known = ids_of(part->lost);
  if (!is_prefix(known, request.lost) && !is_prefix(request.lost, known))
    return Status(Code::kInvalidArgument,
                  "the lost replicas of the request differ from those that were decided");
  const bool after_end = (request.ended && known.size() > request.lost.size()) ||
                         (part->ended && request.lost.size() > known.size()) ||
                         (request.ended && part->ended && *request.ended != *part->ended);
  if (after_end)
    return Status(Code::kInvalidArgument,
                  "the end of the part in the request differs from the one that was decided");
  learn(now_ns, *part, request.lost, request.ended);
  for (const ExtentId& id : request.over) leave(*part, id);
  OCM_DASSERT(part->lost.size() >= request.lost.size());
  LossAnswer out;
  out.at_ns = now_ns;
  // The instance is the present one.
  const bool now =
      request.lost.size() == part->lost.size() && (!part->ended || OCM_MUTATION("decide-after-the-end"));
  switch (request.phase) {
    case Phase::kPrepare:
      if (!now || (request.ballot < part->promised && !OCM_MUTATION("promise-twice"))) break;
      if (!OCM_MUTATION("promise-nothing")) part->promised = request.ballot;
      part->promised_ns = now_ns;
      out.agreed = true;
      break;
    case Phase::kAccept: {
      const bool late = now_ns > request.promised_at_ns + lease_ns_ || now_ns < request.promised_at_ns;  // R5
      const bool last =
          part->lost.size() + 1 >= part->replicas.size() && has(part->replicas, request.replica);  // R2
      const bool alone = !has_living_sibling(now_ns, *part, request.replica);                      // R4
      if (!now || (late && !OCM_MUTATION("accept-late")) || last ||
          (alone && !OCM_MUTATION("accept-without-a-sibling")) || has(request.lost, request.replica) ||
          (request.ballot < part->promised && !OCM_MUTATION("accept-below-the-promise")))
        break;
      OCM_DASSERT(request.ballot >= part->promised);
      part->promised = part->accepted_at = request.ballot;
      part->promised_ns = now_ns;
      part->accepted = request.replica;
      part_changed(request.part.front());
      out.agreed = true;
      break;
    }
    case Phase::kLearn: out.agreed = true; break;
  }
  out.promised = part->promised;
  if (!OCM_MUTATION("hide-what-was-accepted")) out.accepted_at = part->accepted_at;
  out.accepted = part->accepted;
  if (!OCM_MUTATION("decide-after-the-end")) out.ended = part->ended;
  out.wait_ns = ~uint64_t{0};
  for (const Lost& lost : part->lost) {
    out.lost.push_back(lost.id);
    if (lost.id != request.replica) continue;
    if (OCM_MUTATION("quiet-at-once"))
      out.wait_ns = 0;
    else
      out.wait_ns = lost.freed || lost.quiet_ns <= now_ns ? 0 : lost.quiet_ns - now_ns;  // R7
  }
  return out;
}

void LossLedger::note_freed(Lost& lost) {
  lost.freed = true;
  unfreed_.erase(lost.id);
}

void LossLedger::leave(Part& part, const ExtentId& replica) {
  if (!has(part.replicas, replica) || has(part.gone, replica)) return;
  part.gone.push_back(replica);
  OCM_DASSERT(part.gone.size() <= part.replicas.size());
  part_changed(part.replicas.front());
}

bool LossLedger::is_awaited(const Part& part, const ExtentId& replica) {
  return !has(part.gone, replica) && std::none_of(part.lost.begin(), part.lost.end(), [&](const Lost& lost) {
    return lost.id == replica && lost.freed;
  });
}

void LossLedger::forget_if_over(Parts::iterator it) {
  OCM_DASSERT(it != parts_.end());
  const Part& part = it->second;
  const bool awaited = std::any_of(part.replicas.begin(), part.replicas.end(),
                                   [&](const ExtentId& id) { return is_awaited(part, id); });
  if (awaited && !OCM_MUTATION("forget-too-early")) return;  // R8
  erase(it);
}

void LossLedger::part_changed(const ExtentId& first) {
  ++version_;
  if (changes_.size() >= kChangesMax) {
    const auto half = changes_.begin() + kChangesMax / 2;
    changes_from_ = std::prev(half)->first;
    changes_.erase(changes_.begin(), half);
  }
  changes_.emplace_back(version_, first);
}

void LossLedger::all_changed() {
  homes_changed();
  changes_.clear();
  changes_from_ = version_;
}

std::optional<LossChange> LossLedger::changed_since(uint64_t version) const {
  if (version < changes_from_) return std::nullopt;
  std::set<ExtentId> changed;
  for (auto it = changes_.rbegin(); it != changes_.rend() && it->first > version; ++it)
    changed.insert(it->second);
  LossChange out;
  for (const ExtentId& first : changed) {
    const auto part = parts_.find(first);
    LossState::Part copy = part == parts_.end() ? LossState::Part() : copy_of(part->second);
    if (copy.is_blank())
      out.forgotten.push_back(first);
    else
      out.state.parts[first] = std::move(copy);
  }
  if (homes_version_ > version) add_homes(0, out.state);
  return out;
}

LossState::Part LossLedger::copy_of(const Part& part) {
  LossState::Part out;
  out.replicas = part.replicas;
  for (const Lost& lost : part.lost) out.lost.push_back({lost.id, lost.freed});
  out.ended = part.ended;
  out.gone = part.gone;
  out.accepted_at = part.accepted_at;
  out.accepted = part.accepted;
  out.uid = part.uid;
  return out;
}

LossState LossLedger::state(uint64_t now_ns) const {
  LossState out;
  for (const auto& [first, part] : parts_) out.parts[first] = copy_of(part);
  add_homes(now_ns, out);
  return out;
}

void LossLedger::add_homes(uint64_t now_ns, LossState& out) const {
  for (const auto& [partition, votes] : homes_) {
    out.votes_ns[partition] = votes.until_ns > now_ns ? votes.until_ns - now_ns : 0;
    if (votes.end.leaving != 0) out.ends[partition] = votes.end;
    if (!votes.node.empty()) out.nodes[partition] = votes.node;
    if (votes.over != 0) out.over[partition] = votes.over;
  }
}

std::map<uint32_t, std::string> LossLedger::awaited(uint64_t now_ns) const {
  std::map<uint32_t, std::string> out;
  for (const auto& [partition, votes] : homes_) {
    if (votes.node.empty() || now_ns < votes.until_ns) continue;
    const auto end = part_of_.upper_bound(last_of(partition));
    const bool awaited = std::any_of(part_of_.lower_bound(first_of(partition)), end, [this](const auto& one) {
      return is_awaited(parts_.find(one.second)->second, one.first);
    });
    if (awaited) out[partition] = votes.node;
  }
  return out;
}

void LossLedger::run_is_over(uint32_t partition) {
  std::vector<ExtentId> there;
  const auto end = part_of_.upper_bound(last_of(partition));
  for (auto it = part_of_.lower_bound(first_of(partition)); it != end; ++it) there.push_back(it->first);
  uint32_t& newest = home(partition).over;
  if (!there.empty()) homes_changed();
  for (const ExtentId& id : there) {
    forget(newest, id.generation);
    const auto of = part_of_.find(id);
    if (of == part_of_.end()) continue;  // of a part that is forgotten by now
    const auto part = parts_.find(of->second);
    OCM_DASSERT(part != parts_.end());
    leave(part->second, id);
    forget_if_over(part);
  }
}

bool LossLedger::may_be(const LossState::Part& part) const {
  if (part.replicas.empty()) return false;
  const ExtentId& first = part.replicas.front();
  LossRequest learned;
  learned.part = part.replicas;
  learned.replica = first;
  learned.lost = ids_of(part.lost);
  learned.ended = part.ended;
  if (!check(learned).is_ok()) return false;
  const auto known = parts_.find(first);
  if (known == parts_.end() ? parts_.size() >= kPartsMax : known->second.replicas != part.replicas)
    return false;
  return std::all_of(part.replicas.begin(), part.replicas.end(), [&](const ExtentId& id) {
    const auto of = part_of_.find(id);
    return of == part_of_.end() || of->second == first;
  });
}

void LossLedger::install(uint64_t now_ns, const LossState& state) {
  all_changed();
  for (const auto& [partition, left_ns] : state.votes_ns) {
    HomeVotes& votes = home(partition);
    votes.until_ns = std::max(votes.until_ns, now_ns + std::min(left_ns, lease_ns_));
    const auto end = state.ends.find(partition);
    if (end != state.ends.end() && !OCM_MUTATION("install-without-who-leaves")) votes.end.merge(end->second);
    const auto node = state.nodes.find(partition);
    if (node != state.nodes.end()) votes.node = node->second;
    const auto over = state.over.find(partition);
    if (over != state.over.end()) forget(votes.over, over->second);
  }
  // R13. What a majority accepted is in `state`.
  for (auto& [first, part] : parts_) {
    if (OCM_MUTATION("install-beside-ones-own")) break;
    part.accepted_at = {};
    part.accepted = {};
  }
  for (const auto& [first, theirs] : state.parts) {
    if (!may_be(theirs)) continue;
    OCM_DASSERT(theirs.replicas.front() == first);
    Part& part = add(theirs.replicas, theirs.uid);
    learn(now_ns, part, ids_of(theirs.lost), theirs.ended);
    for (const ExtentId& id : theirs.gone) leave(part, id);
    const bool same = theirs.lost.size() == part.lost.size() && theirs.ended == part.ended;
    if (same && theirs.accepted_at > part.accepted_at && !OCM_MUTATION("install-without-accepted")) {
      part.accepted_at = theirs.accepted_at;
      part.accepted = theirs.accepted;
      part.promised_ns = now_ns;  // its asker may go on
      part.promised = std::max(part.promised, part.accepted_at);
    }
    for (const LossState::Lost& lost : theirs.lost) {
      for (Lost& known : part.lost) {
        if (known.id == lost.id && lost.freed) note_freed(known);
      }
    }
  }
  // Votes of others may still run that did not name a loss, also where this voter knew of it: as if learned now.
  for (auto& [first, part] : parts_) {
    for (Lost& lost : part.lost) {
      const auto voted = homes_.find(lost.id.address.partition());
      lost.quiet_ns =
          std::max(lost.quiet_ns, voted == homes_.end() ? now_ns + lease_ns_ : voted->second.until_ns);
    }
  }
  OCM_DASSERT(is_valid());
}

void LossLedger::clear() {
  all_changed();
  parts_.clear();
  parts_of_.clear();
  parts_of_users_ = 0;
  part_of_.clear();
  unfreed_.clear();
  homes_.clear();
}

bool LossLedger::is_valid() const {
  size_t replicas = 0, of_users = 0, unfreed = 0;
  std::map<uint32_t, size_t> of_uid;
  for (const auto& [first, part] : parts_) {
    replicas += part.replicas.size();
    if (part.uid != 0) ++of_uid[part.uid], ++of_users;
    if (part.replicas.empty() || part.replicas.front() != first) return false;
    if (part.lost.size() >= part.replicas.size()) return false;  // R2
    if (part.accepted_at > part.promised) return false;
    for (const ExtentId& id : part.replicas) {
      const auto of = part_of_.find(id);
      if (of == part_of_.end() || of->second != first) return false;
    }
    for (const Lost& lost : part.lost) {
      if (!has(part.replicas, lost.id) || lost.freed == unfreed_.contains(lost.id)) return false;
      if (!lost.freed) ++unfreed;
    }
  }
  return replicas == part_of_.size() && unfreed == unfreed_.size() && of_uid == parts_of_ &&
         of_users == parts_of_users_;
}

void LossLedger::fingerprint(uint64_t now_ns, std::string& out) const {
  const auto left = [now_ns](uint64_t until_ns) { return until_ns > now_ns ? until_ns - now_ns : 0; };
  for (const auto& [partition, votes] : homes_) {
    add_number(out, partition);
    add_number(out, left(votes.until_ns));
    add_number(out, votes.end.leaving);
    add_number(out, votes.end.stays);
  }
  for (const auto& [first, part] : parts_) {
    add_number(out, part.replicas.size());
    for (const Lost& lost : part.lost) {
      add_id(out, lost.id);
      add_number(out, lost.freed ? 0 : left(lost.quiet_ns) + 1);
    }
    add_number(out, part.ended ? 1 : 0);
    if (part.ended) add_id(out, *part.ended);
    add_number(out, part.gone.size());
    for (const ExtentId& id : part.gone) add_id(out, id);
    for (const Ballot& ballot : {part.promised, part.accepted_at}) {
      add_number(out, ballot.round);
      add_number(out, ballot.by);
    }
    add_id(out, part.accepted);
  }
}

// ---- the proposer

LossAsker::LossAsker(std::vector<ExtentId> part, ExtentId replica, uint64_t by)
    : part_(std::move(part)), replica_(replica), by_(by) {
  OCM_DASSERT(by != 0);
  prepare();
}

LossAsker LossAsker::ending(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor,
                            uint64_t by) {
  LossAsker out(std::move(part), successor, by);
  out.lost_ = std::move(lost);
  return out;
}

LossAsker LossAsker::finishing(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                               uint64_t by) {
  LossAsker out(std::move(part), replica, by);
  out.lost_ = std::move(lost);
  out.finishes_ = true;
  return out;
}

LossAsker LossAsker::settling(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                              uint64_t by) {
  LossAsker out = confirming(std::move(part), std::move(lost), replica, by);
  out.settles_ = true;
  return out;
}

LossAsker LossAsker::confirming(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                                uint64_t by) {
  LossAsker out(std::move(part), replica, by);
  out.lost_ = std::move(lost);
  out.restart();
  return out;
}

void LossAsker::restart() {
  promised_at_ns_.clear();
  prepare();
}

void LossAsker::fingerprint(std::string& out) const {
  for (const uint64_t value : {static_cast<uint64_t>(phase_), static_cast<uint64_t>(outcome_), ballot_.round})
    add_number(out, value);
  if (phase_ == Phase::kAccept) add_id(out, value_);
  add_number(out, lost_.size());
  for (const ExtentId& id : lost_) add_id(out, id);
  if (ended_) add_id(out, *ended_);
  if (known_.is_unread) add_number(out, 1);
}

bool LossAsker::is_lost() const { return has(lost_, replica_); }

bool LossAsker::ends() const { return !has(part_, replica_); }

/// The next thing to ask, with a ballot that was not used before.
void LossAsker::prepare() {
  ballot_ = {ballot_.round + 1, by_};
  const bool over = ended_ || is_lost() || (!ends() && lost_.size() + 1 >= part_.size());
  phase_ = over ? Phase::kLearn : Phase::kPrepare;
}

LossRequest LossAsker::request(const std::string& voter) const {
  LossRequest out;
  out.phase = phase_;
  out.part = part_;
  out.replica = phase_ == Phase::kAccept ? value_ : replica_;
  out.lost = lost_;
  out.ended = ended_;
  out.over = known_.over;
  out.remembered = settles_;
  out.uid = uid_;
  out.ballot = ballot_;
  const auto promised = promised_at_ns_.find(voter);
  if (phase_ == Phase::kAccept && promised != promised_at_ns_.end()) out.promised_at_ns = promised->second;
  return out;
}

void LossAsker::answered(size_t needed, const Answers& answers) {
  OCM_DASSERT(needed > 0 && outcome_ == Outcome::kAsking);
  wait_ns_ = 0;
  refused_ = false;
  const size_t known = lost_.size();
  const bool knew_end = ended_.has_value();
  for (const auto& [voter, answer] : answers) {
    if (answer.lost.size() > lost_.size() && is_prefix(lost_, answer.lost)) lost_ = answer.lost;
    if (answer.ended) ended_ = answer.ended;
  }
  if (ends() && lost_.size() != known && !ended_) return overtaken();
  if (finishes_ && !is_lost() && (lost_.size() != known || ended_)) return overtaken();
  if (phase_ == Phase::kLearn) return after_learn(needed, answers);
  if (lost_.size() != known || ended_.has_value() != knew_end)
    return prepare();  // the instance was decided by another
  if (phase_ == Phase::kPrepare)
    after_prepare(needed, answers);
  else
    after_accept(needed, answers);
}

void LossAsker::after_prepare(size_t needed, const Answers& answers) {
  OCM_DASSERT(phase_ == Phase::kPrepare && !ended_);
  uint64_t highest = 0;
  std::vector<const LossAnswer*> promises;
  value_ = replica_;
  promised_at_ns_.clear();
  for (const auto& [voter, answer] : answers) {
    highest = std::max(highest, answer.promised.round);
    if (!answer.agreed) continue;
    promised_at_ns_[voter] = answer.at_ns;
    promises.push_back(&answer);
  }
  if (promises.size() >= needed) {
    // Any majority will do: one that accepted as little as there is. What only others accepted was never decided, and may
    // never be (R4: the other replica's home has ended since), so it must not be in the way.
    std::sort(promises.begin(), promises.end(),
              [](const auto* a, const auto* b) { return a->accepted_at < b->accepted_at; });
    const LossAnswer& newest = *promises[needed - 1];
    if (newest.accepted_at.round != 0 && !OCM_MUTATION("propose-ones-own")) value_ = newest.accepted;
    if (finishes_ && (newest.accepted_at.round == 0 || value_ != replica_)) return overtaken();
    phase_ = Phase::kAccept;
    return;
  }
  refused_ = true;
  ballot_.round = std::max(ballot_.round, highest);
  prepare();
}

void LossAsker::after_accept(size_t needed, const Answers& answers) {
  OCM_DASSERT(phase_ == Phase::kAccept && !ended_);
  size_t accepted = 0;
  for (const auto& [voter, answer] : answers) {
    ballot_.round = std::max(ballot_.round, answer.promised.round);
    accepted += answer.agreed ? 1 : 0;
  }
  if (accepted < (OCM_MUTATION("minority-accepts") ? needed - 1 : needed))
    refused_ = true;
  else if (!has(part_, value_))
    ended_ = value_;
  else
    lost_.push_back(value_);
  if (ends() && !refused_ && !ended_) return overtaken();
  prepare();
}

std::vector<ExtentId> LossAsker::siblings() const {
  std::vector<ExtentId> out;
  if (phase_ != Phase::kAccept || !has(part_, value_)) return out;
  for (const ExtentId& id : part_) {
    if (id != value_ && !has(lost_, id)) out.push_back(id);
  }
  return out;
}

void LossAsker::not_witnessed() {
  refused_ = true;
  prepare();
}

void LossAsker::overtaken() { outcome_ = Outcome::kOvertaken; }

void LossAsker::after_learn(size_t needed, const Answers& answers) {
  OCM_DASSERT(phase_ == Phase::kLearn);
  std::vector<uint64_t> waits;
  for (const auto& [voter, answer] : answers) {
    if (answer.agreed) waits.push_back(answer.wait_ns);
  }
  if (!is_lost()) {
    // It is decided all the same. But who has a plan asks a majority whether one of it knows the end, or that there is none.
    const bool by_all = (ends() && !OCM_MUTATION("end-unlearned")) || (settles_ && !ended_);
    refused_ = by_all && waits.size() < needed;
    if (!refused_) outcome_ = ended_ ? Outcome::kEnded : Outcome::kLast;
    return;
  }
  if (OCM_MUTATION("minority-is-quiet") && !waits.empty()) needed = 1;
  refused_ = waits.size() < needed;  // a pause, for the others may be asked at once in vain again and again
  if (refused_) return;
  std::sort(waits.begin(), waits.end());
  wait_ns_ = known_.is_unread ? 0 : waits[needed - 1];
  if (wait_ns_ == 0) outcome_ = Outcome::kLost;
}

}  // namespace ocm::control
