#include "control/quorum.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"

namespace ocm::control {
namespace {

bool same(const VoterInfo& a, const VoterInfo& b) {
  return a.name == b.name && a.incarnation == b.incarnation;
}

/// Without times: the votes of a run that is remembered are over.
LossState without_times(LossState state) {
  for (auto& [partition, left_ns] : state.votes_ns) left_ns = 0;
  return state;
}

Status check_council(const Council& council) {
  if (is_council(council)) return {};
  return Status(Code::kProtocol, "not a council");
}

/// Of what grows with each council the newest stay.
void add_newest(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  constexpr size_t kMost = 64;
  to.insert(to.end(), from.begin(), from.end());
  if (to.size() > kMost) to.erase(to.begin(), to.end() - static_cast<ptrdiff_t>(kMost));
}

/// A council that follows `base` and others.
Status check_next(const MadeCouncil& next, uint64_t base) {
  constexpr size_t kBasesMax = 17;
  OCM_TRY(check_council(next.council));
  if (next.follows.size() > kBasesMax) return Status(Code::kProtocol, "it follows too many councils");
  bool follows = false;
  for (const Council& one : next.follows) {
    OCM_TRY(check_council(one));
    follows = follows || one.id == base;
  }
  if (!follows) return Status(Code::kProtocol, "it does not follow this council");
  return {};
}

}  // namespace

LeaseGrant Voter::grant(uint64_t now_ns, const LeaseVote& request) {
  LeaseGrant out;
  if (made_.council.id == 0 || request.partition == 0 || request.partition > GlobalAddress::kPartitionMax)
    return out;
  if (request.council != made_.council.id) {
    out.council = made_.council;
    return out;
  }
  if (!votes()) return out;                             // Q3
  OCM_DASSERT(made_.council.has(name_, incarnation_));  // Q5
  if (request.seat_given_up) seat_.release(now_ns, *request.seat_given_up);
  auto vote = ledger_.grant(now_ns, request.partition, request.freed, request.gone, request.end,
                            request.tell_all, request.node, request.freed_before);
  if (vote.over) {
    out.over = true;
    return out;
  }
  out.dropped = std::move(vote.dropped);
  out.watched = std::move(vote.watched);
  out.granted = true;
  if (request.seat && coordinator_of(made_.council).incarnation == *request.seat)
    out.seat = seat_.grant(now_ns, *request.seat);
  return out;
}

uint64_t Voter::candidate_at_ns(uint64_t jitter_ns) const {
  size_t place = 0;
  for (const VoterInfo& voter : made_.council.voters) {
    if (voter.name == name_) break;
    if (!same(voter, coordinator_of(made_.council))) ++place;
  }
  return seat_.candidate_at_ns(place, jitter_ns);
}

Result<LossAnswer> Voter::lose(uint64_t now_ns, uint64_t council_id, const LossRequest& request) {
  if (!votes() || council_id != made_.council.id) return Status(Code::kPeerLost, "another council");
  OCM_TRY_ASSIGN(LossAnswer answer, ledger_.answer(now_ns, request));
  if (answer.agreed && request.phase == LossRequest::Phase::kAccept)
    fault::reached(fault::State::kLossAccepted);
  return answer;
}

Status Voter::note(const NoteRequest& request) {
  if (!votes() || request.council != made_.council.id) return Status(Code::kPeerLost, "another council");
  if (coordinator_of(made_.council).incarnation != request.by)
    return Status(Code::kPermission, "it is not the coordinator of this council");
  bool room = true;
  for (const NameNote& note : request.notes) room = notes_.take_new(note) && room;
  fault::reached(fault::State::kNameNoted);
  return room ? Status() : Status(Code::kLimit, "the voters note no more names");
}

Result<CouncilPromise> Voter::seal(uint64_t now_ns, const SealRequest& request) {
  if (made_.council.id == 0 || request.council != made_.council.id ||
      request.ballot.round <= made_.council.number)
    return Status(Code::kPeerLost, "not this voter's council");
  CouncilPromise out;
  out.agreed = seat_.allows_end(now_ns, request.candidate) && end_.promise(request.ballot);
  out.promised = end_.promised();
  if (!out.agreed) return out;
  OCM_DASSERT(end_.is_sealed() && !votes());  // Q3
  if (request.candidate != incarnation_) seat_.promised(now_ns);
  out.state = {ledger_.state(now_ns), seat_.left_ns(now_ns),
               fault::at(fault::Point::kNotesNotHanded) ? NameNotes() : notes_};
  out.accepted_at = end_.accepted_at();
  out.accepted = end_.accepted();
  if (request.tell) out.made_of = made_;
  return out;
}

Status Voter::accept(Proposal proposal) {
  if (made_.council.id == 0 || proposal.council != made_.council.id)
    return Status(Code::kPeerLost, "not this voter's council");
  OCM_TRY(check_next(proposal.next, made_.council.id));
  if (proposal.ballot.round == 0)
    return Status(Code::kInvalidArgument, "the attempt has round 0; rounds begin at 1");
  if (!end_.accept(proposal.ballot, std::move(proposal.next)))
    return Status(Code::kPeerLost, "attempt " + std::to_string(proposal.ballot.round) +
                                       " is too late: attempt " + std::to_string(end_.promised().round) +
                                       " was promised");
  fault::reached(fault::State::kCouncilAccepted);
  return {};
}

Status Voter::install(uint64_t now_ns, MadeCouncil made) {
  const Council& next = made.council;
  if (next.id != 0 && next.id == made_.council.id) return {};
  OCM_TRY(check_council(next));
  if (!next.has(name_, incarnation_)) return Status(Code::kPeerLost, "a council without this voter");
  if (made_.council.id != 0 && (!continues(next, made_.council) || next.number <= made_.council.number))
    return Status(Code::kPeerLost, "it does not continue this voter's council");
  const bool is_past = std::any_of(home_in_.begin(), home_in_.end(), [&](const Council& home) {
    return home.id != next.id && home.number >= next.number && continues(home, next);
  });
  if (is_past && !fault::at(fault::Point::kVoterComesBack))  // Q8
    return Status(Code::kPeerLost, "another council follows it");
  made_ = std::move(made);
  end_.start_over();
  seat_.install(now_ns, made_.state.seats_ns);
  notes_.clear();
  notes_.merge(made_.state.notes);
  if (fault::at(fault::Point::kCouncilForgets)) {
    ledger_.clear();
    return {};
  }
  ledger_.install(now_ns, made_.state.losses);
  OCM_DASSERT(votes() && is_valid());  // Q3
  return {};
}

bool Voter::is_valid() const {
  if (!ledger_.is_valid() || !seat_.is_valid() || !notes_.is_valid()) return false;
  if (made_.council.id == 0) return !end_.is_sealed();
  return is_council(made_.council) && made_.council.has(name_, incarnation_);  // Q5
}

void Voter::home_came_to(const Council& council) {
  const auto is_before = [](const Council& older, const Council& newer) {
    return older.number < newer.number && continues(newer, older);
  };
  const bool is_known = std::any_of(home_in_.begin(), home_in_.end(), [&](const Council& home) {
    return home.id == council.id || is_before(council, home);
  });
  if (!is_known || fault::at(fault::Point::kHomeGoesBack)) {
    std::erase_if(home_in_, [&](const Council& home) {
      return is_before(home, council) || fault::at(fault::Point::kHomeGoesBack);
    });
    if (home_in_.size() >= kHomesMax) home_in_.erase(home_in_.begin());
    home_in_.push_back(council);
    ++homes_version_;
  }
  const bool is_over =
      made_.council.id != 0 && council.number > made_.council.number && continues(council, made_.council);
  if (is_over && council.voters.size() == 1 && !council.has(name_, incarnation_)) leave();
}

void Voter::leave() {
  made_ = {};
  end_.start_over();
  ledger_.clear();
  seat_.clear();
  notes_.clear();
  OCM_DASSERT(is_valid() && !votes());
}

Voter::MemoryKey Voter::memory_key() const {
  return {made_.council.id,   homes_version_,    end_.promised(),
          end_.accepted_at(), ledger_.version(), notes_.version()};
}

VoterMemory Voter::memory() const {
  VoterMemory out;
  out.name = name_;
  out.incarnation = incarnation_;
  out.home_in = home_in_;
  if (made_.council.id == 0) return out;
  out.made_of = made_;
  out.promised = end_.promised();
  out.accepted_at = end_.accepted_at();
  out.accepted = end_.accepted();
  out.notes = notes_;
  if (fault::at(fault::Point::kMemoryOfLosses)) return out;
  out.losses = without_times(ledger_.state(0));
  std::erase_if(out.losses.parts, [](const auto& part) { return part.second.is_blank(); });
  return out;
}

std::optional<VoterChange> Voter::memory_since(const MemoryKey& before) const {
  if (made_.council.id != before.council) return std::nullopt;
  auto change = ledger_.changed_since(before.ledger);
  auto notes = notes_.since(before.notes);
  if (!change || !notes) return std::nullopt;
  VoterChange out;
  out.promised = end_.promised();
  out.accepted_at = end_.accepted_at();
  if (end_.accepted_at() != before.accepted_at) out.accepted = end_.accepted();
  if (homes_version_ != before.homes) out.home_in = home_in_;
  out.notes = std::move(*notes);
  if (fault::at(fault::Point::kMemoryOfLosses)) return out;
  out.losses = std::move(*change);
  out.losses.state = without_times(std::move(out.losses.state));
  return out;
}

void apply_changes(VoterMemory& memory, std::vector<VoterChange> changes) {
  LossState& losses = memory.losses;
  for (VoterChange& change : changes) {
    memory.promised = change.promised;
    memory.accepted_at = change.accepted_at;
    if (change.accepted) memory.accepted = std::move(change.accepted);
    if (!change.home_in.empty()) memory.home_in = std::move(change.home_in);
    for (NameNote& note : change.notes) (void)memory.notes.take(std::move(note));
    LossState& changed = change.losses.state;
    for (auto& [first, part] : changed.parts) losses.parts.insert_or_assign(first, std::move(part));
    for (const ExtentId& first : change.losses.forgotten) losses.parts.erase(first);
    if (changed.votes_ns.empty()) continue;
    changed.parts = std::move(losses.parts);
    losses = std::move(changed);
  }
}

std::optional<Voter> Voter::remembered(uint64_t now_ns, const std::string& name, VoterMemory memory,
                                       uint64_t lease_ns) {
  if (memory.name != name) return std::nullopt;
  std::optional<Voter> out(std::in_place, name, memory.incarnation, lease_ns);
  out->home_in_ = std::move(memory.home_in);
  if (!memory.made_of) return out;
  const Council& council = memory.made_of->council;
  if (!is_council(council) || !council.has(name, memory.incarnation)) return std::nullopt;
  if (memory.accepted_at.round == 0)
    memory.accepted.reset();
  else if (!memory.accepted || !check_next(*memory.accepted, council.id).is_ok())
    return std::nullopt;
  out->made_ = std::move(*memory.made_of);
  out->end_.remember(memory.promised, memory.accepted_at, std::move(memory.accepted));
  out->ledger_.install(now_ns, memory.losses);
  out->notes_ = std::move(memory.notes);
  return out;
}

bool LeaseHolder::adopt(const Council& council) {
  if (council.id == 0 || council.id == council_.id) return false;
  if (council_.id != 0 && (council.number <= council_.number || !continues(council, council_))) return false;
  council_ = council;
  asked_ns_.clear();  // the lease runs on: the voters of the new council know of it (Q4)
  return true;
}

bool LeaseHolder::is_stranger(const Council& council) const {
  return council.id != 0 && council_.id != 0 && council.id != council_.id && !continues(council, council_);
}

void LeaseHolder::start_over(const Council& council) {
  council_ = council;
  asked_ns_.clear();
  until_ns_ = 0;
}

void LeaseHolder::granted(uint64_t council_id, const std::string& voter, uint64_t sent_ns, uint64_t now_ns) {
  OCM_DASSERT(sent_ns <= now_ns);  // Q2
  if (council_id != council_.id || council_id == 0) return;
  uint64_t& newest = asked_ns_[voter];
  newest = std::max(newest, sent_ns);
  std::vector<uint64_t> asked;
  for (const VoterInfo& v : council_.voters) {
    const auto it = asked_ns_.find(v.name);
    if (it != asked_ns_.end()) asked.push_back(it->second);
  }
  OCM_DASSERT(asked.size() <= council_.voters.size());
  const bool had_lapsed = until_ns_ != 0 && until_ns_ <= now_ns;
  until_ns_ = std::max(until_ns_, lease_until_ns(std::move(asked), majority(council_), lease_ns_));
  if (fault::at(fault::Point::kLeaseTooLong)) until_ns_ = newest + 4 * lease_ns_;
  if (had_lapsed && now_ns < until_ns_) cut_off_until_ns_ = now_ns + lease_ns_;
}

const MadeCouncil& Convener::found(uint64_t id, std::vector<uint64_t> instead_of, NameNotes notes) {
  OCM_DASSERT(id != 0 && made_.council.id == 0);
  round_ = 1;
  made_.council = {id, round_, {run_}, {self_}, {}, std::move(instead_of)};
  made_.state.notes = std::move(notes);
  heard_ = {self_.name};
  OCM_DASSERT(is_valid());
  return made_;
}

void Convener::take_up(const MadeCouncil& made_of) {
  OCM_DASSERT(is_council(made_of.council));
  round_ = std::max(round_, made_of.council.number);
  made_ = made_of;
  heard_ = {self_.name};
  drop_continued();
  chosen_ = {};
  OCM_DASSERT(is_valid());
}

void Convener::reported(const Council& council) {
  constexpr size_t kForeignMax = 16;
  if (!check_council(council).is_ok() || council.chains.empty() || continues(made_.council, council)) return;
  if (has_chosen() && council.id != chosen_.council.id) {
    if (council.number > chosen_.council.number && continues(council, chosen_.council)) {
      chosen_ = {};  // an earlier run had it acting, and made the next of it
    } else if (continues(chosen_.council, council)) {
      return;
    }
  }
  if (foreign_.contains(council.id)) return;
  // Of one chain the newest counts.
  for (auto it = foreign_.begin(); it != foreign_.end();) {
    if (continues(it->second, council) && it->second.number >= council.number) return;
    if (continues(council, it->second) && council.number > it->second.number)
      it = foreign_.erase(it);
    else
      ++it;
  }
  if (foreign_.size() < kForeignMax) foreign_[council.id] = council;
  OCM_DASSERT(is_valid());
}

bool Convener::is_continued(const Council& council) const {
  return std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& one) {
    return one.second.number > council.number && continues(one.second, council);
  });
}

void Convener::drop_continued() {
  std::erase_if(foreign_, [this](const auto& one) { return continues(made_.council, one.second); });
}

void Convener::drop_foreign(const std::function<bool(const Council&)>& cannot_be_sealed) {
  std::erase_if(foreign_, [&](const auto& one) { return cannot_be_sealed(one.second); });
}

bool Convener::is_over(const Council& council) const {
  if (council.voters.size() != 1) return false;
  const VoterInfo& only = council.voters.front();
  return only.name == self_.name && only.incarnation != self_.incarnation &&
         !(remembers_ && remembers_(only.incarnation));
}

bool Convener::is_past(uint64_t base) const {
  const auto it = bases_.find(base);
  if (it == bases_.end()) return false;
  const auto is_after = [&](const Council& council) {
    return council.number > it->second.number && continues(council, it->second);
  };
  return is_after(made_.council) ||
         std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& one) { return is_after(one.second); });
}

void Convener::add_base(const Council& base, bool all_heard) {
  OCM_DASSERT(attempt_.has_value());
  if (attempt_->knows(base.id) || (is_over(base) && !all_heard)) return;
  bases_[base.id] = base;
  attempt_->add(base.id, is_over(base) ? 0 : majority(base));
}

void Convener::begin(bool all_heard) {
  round_ = std::max(round_, made_.council.number);
  for (const auto& [id, council] : foreign_) round_ = std::max(round_, council.number);
  bases_.clear();
  knowledge_.clear();
  remembered_.clear();
  attempt_.emplace(Ballot{++round_, run_}, [this](uint64_t base) { return is_past(base); });
  add_base(made_.council, true);
  for (const auto& [id, council] : foreign_) add_base(council, all_heard);
}

std::vector<Council> Convener::to_seal() const {
  std::vector<Council> out;
  if (!attempt_) return out;
  for (const auto& [id, base] : bases_) {
    if (id != made_.council.id && attempt_->knows(id) && !attempt_->is_sealed(id)) out.push_back(base);
  }
  return out;
}

SealRequest Convener::seal_request(const Council& base, bool tell) const {
  OCM_DASSERT(attempt_.has_value());
  return {base.id, attempt_->ballot(), tell, self_.incarnation};
}

bool Convener::promised(const Council& base, const std::string& voter, CouncilPromise promise) {
  round_ = std::max(round_, promise.promised.round);
  if (!attempt_ || !promise.agreed) return false;
  const auto [known, is_first] = knowledge_.try_emplace(base.id);
  if (is_first)
    known->second = std::move(promise.state);
  else
    merge(known->second, promise.state);
  if (promise.remembered) remembered_.emplace(base.id, voter);
  std::optional<MadeCouncil> accepted;
  if (promise.accepted_at.round != 0 && promise.accepted && check_next(*promise.accepted, base.id).is_ok()) {
    accepted = std::move(promise.accepted);
    for (const Council& other : accepted->follows) bases_.try_emplace(other.id, other);
  }
  attempt_->promised(base.id, voter, promise.accepted_at, accepted);
  for (const auto& [ballot, value] : attempt_->heard()) {
    for (const Council& other : value.follows) add_base(other, true);
  }
  return true;
}

bool Convener::has_found() const {
  OCM_DASSERT(attempt_.has_value());
  const std::vector<uint64_t> free = attempt_->free();
  return attempt_->to_finish() != nullptr ||
         std::any_of(free.begin(), free.end(), [this](uint64_t id) { return id != made_.council.id; });
}

void Convener::join(Council& next, const Council& base) const {
  // Nobody was sealed, so a council of its chain that was not heard of may still act.
  const bool alone = is_over(base);
  if (alone) next.after.push_back(base.id);
  add_newest(next.after, base.after);
  add_newest(next.instead_of, base.instead_of);
  if (alone) return;
  for (const uint64_t chain : base.chains) {
    if (std::find(next.chains.begin(), next.chains.end(), chain) == next.chains.end())
      next.chains.push_back(chain);
  }
  // What it goes on from is not given up any more.
  std::erase_if(next.instead_of, [&](uint64_t chain) {
    return std::find(next.chains.begin(), next.chains.end(), chain) != next.chains.end();
  });
}

Council Convener::together() const {
  Council out;
  out.chains = made_.council.chains;
  out.after = made_.council.after;
  out.instead_of = made_.council.instead_of;
  if (!attempt_) return out;
  for (const uint64_t id : attempt_->free()) {
    if (id != made_.council.id) join(out, bases_.at(id));
  }
  return out;
}

std::vector<VoterInfo> Convener::promisers() const {
  std::vector<VoterInfo> out;
  if (!attempt_) return out;
  const std::vector<uint64_t> free = attempt_->free();
  attempt_->visit([&](uint64_t id, const std::set<std::string>& promised, const std::set<std::string>&) {
    if (std::find(free.begin(), free.end(), id) == free.end()) return;
    for (const VoterInfo& voter : bases_.at(id).voters) {
      if (promised.contains(voter.name) && !remembered_.contains({id, voter.name})) out.push_back(voter);
    }
  });
  return out;
}

bool Convener::propose(uint64_t id, const std::vector<VoterInfo>& voters) {
  OCM_DASSERT(attempt_.has_value() && id != 0);
  if (const MadeCouncil* old = attempt_->to_finish()) {
    attempt_->propose(MadeCouncil(*old));
    const auto& chains = old->council.chains;
    if (std::find(chains.begin(), chains.end(), run_) == chains.end())
      fault::reached(fault::State::kCouncilFinished);
    return true;
  }
  const std::vector<uint64_t> free = attempt_->free();
  if (std::find(free.begin(), free.end(), made_.council.id) == free.end()) return false;
  MadeCouncil next;
  next.council = together();
  next.council.id = id;
  next.council.number = attempt_->ballot().round;
  next.council.voters = voters;
  OCM_DASSERT(is_council(next.council));
  next.follows.push_back(made_.council);  // the first that accepts
  next.state = knowledge_[made_.council.id];
  for (const uint64_t base : free) {
    if (base == made_.council.id) continue;
    next.follows.push_back(bases_.at(base));
    merge(next.state, knowledge_[base]);
  }
  attempt_->propose(std::move(next));
  return true;
}

std::optional<Council> Convener::to_accept() const {
  OCM_DASSERT(attempt_.has_value());
  const auto base = attempt_->to_ask();
  if (!base) return {};
  return bases_.at(*base);
}

Proposal Convener::accept_request(const Council& base) const {
  OCM_DASSERT(attempt_.has_value() && attempt_->value());
  return {base.id, attempt_->ballot(), *attempt_->value()};
}

bool Convener::end() {
  const bool chosen = attempt_ && attempt_->is_chosen();
  if (chosen) {
    chosen_ = *attempt_->value();
    installed_.clear();
    if (is_over(chosen_.council)) adopt_chosen();
  }
  attempt_.reset();
  bases_.clear();
  knowledge_.clear();
  remembered_.clear();
  return chosen;
}

void Convener::adopt_chosen() {
  OCM_DASSERT(has_chosen() && is_council(chosen_.council));
  bool mine = false;
  for (const Council& base : chosen_.follows) {
    foreign_.erase(base.id);
    mine = mine || base.id == made_.council.id;
  }
  if (mine) {
    made_ = std::move(chosen_);
    heard_ = installed_;
    drop_continued();
  } else {
    foreign_[chosen_.council.id] = chosen_.council;
  }
  chosen_ = {};
  OCM_DASSERT(is_valid());
}

bool Convener::is_valid() const {
  if (made_.council.id != 0 && !is_council(made_.council)) return false;
  if (has_chosen() && !is_council(chosen_.council)) return false;
  for (const auto& [id, council] : foreign_) {
    if (!is_council(council) || council.id != id) return false;
  }
  return true;
}

bool Convener::installed(const std::string& voter) {
  if (!has_chosen()) return false;
  installed_.insert(voter);
  if (installed_.size() < majority(chosen_.council)) return false;
  adopt_chosen();
  return true;
}

bool Convener::has_unheard() const {
  const auto& voters = made_.council.voters;
  return !has_chosen() && std::any_of(voters.begin(), voters.end(), [this](const VoterInfo& voter) {
    return !heard_.contains(voter.name);
  });
}

std::vector<VoterInfo> choose_voters(const Council& now, const std::vector<VoterInfo>& living) {
  OCM_DASSERT(!living.empty());
  const size_t wanted = voters_for(living.size());
  std::vector<VoterInfo> out{living.front()};
  for (const bool present : {true, false}) {
    for (const VoterInfo& voter : living) {
      if (out.size() == wanted) return out;
      const bool taken =
          std::any_of(out.begin(), out.end(), [&](const VoterInfo& v) { return same(v, voter); });
      if (!taken && now.has(voter.name, voter.incarnation) == present) out.push_back(voter);
    }
  }
  OCM_DASSERT(out.size() == wanted && out.size() % 2 == 1);
  return out;
}

bool same_voters(const Council& council, const std::vector<VoterInfo>& voters) {
  return council.voters.size() == voters.size() &&
         std::all_of(voters.begin(), voters.end(),
                     [&](const VoterInfo& v) { return council.has(v.name, v.incarnation); });
}

}  // namespace ocm::control
