#include "control/quorum.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/membership.h"
#include "control/parts.h"
#include "wire/convert.h"

namespace ocm::control {
namespace {

bool same(const wire::Voter& a, const wire::Voter& b) {
  return a.name() == b.name() && a.incarnation() == b.incarnation();
}

bool has(const wire::Council& council, const std::string& name, const std::string& incarnation) {
  return std::any_of(council.voters().begin(), council.voters().end(), [&](const wire::Voter& voter) {
    return voter.name() == name && voter.incarnation() == incarnation;
  });
}

Ballot ballot_of(const wire::Ballot& from) { return {from.round(), from.by()}; }

void set_ballot(const Ballot& from, wire::Ballot& out) {
  out.set_round(from.round);
  out.set_by(from.by);
}

wire::VoterState to_wire(const LossState& from) {
  wire::VoterState out;
  for (const auto& [partition, left_ns] : from.votes_ns) {
    auto& vote = *out.add_votes();
    vote.set_partition(partition);
    vote.set_left_ns(left_ns);
    const auto node = from.nodes.find(partition);
    if (node != from.nodes.end()) vote.set_node(node->second);
    const auto over = from.over.find(partition);
    if (over != from.over.end()) vote.set_over(over->second);
    const auto end = from.ends.find(partition);
    if (end == from.ends.end()) continue;
    vote.set_leaving(end->second.leaving);
    vote.set_stays(end->second.stays);
  }
  for (const auto& [first, part] : from.parts) {
    auto& copy = *out.add_parts();
    for (const ExtentId& id : part.replicas) set_ref(id, *copy.add_replicas());
    for (const LossState::Lost& lost : part.lost) {
      set_ref(lost.id, *copy.add_lost());
      copy.add_freed(lost.freed);
    }
    if (part.ended) set_ref(*part.ended, *copy.mutable_ended());
    for (const ExtentId& id : part.gone) set_ref(id, *copy.add_gone());
    set_ballot(part.accepted_at, *copy.mutable_accepted_at());
    set_ref(part.accepted, *copy.mutable_accepted());
    copy.set_uid(part.uid);
  }
  return out;
}

/// Without times: the votes of a run that is remembered are over.
wire::VoterState to_memory(LossState from) {
  std::erase_if(from.parts, [](const auto& part) { return part.second.is_blank(); });
  wire::VoterState out = to_wire(from);
  for (auto& vote : *out.mutable_votes()) vote.clear_left_ns();
  return out;
}

LossState from_wire(const wire::VoterState& from) {
  LossState out;
  for (const auto& vote : from.votes()) {
    out.votes_ns[vote.partition()] = vote.left_ns();
    if (check_node_name(vote.node()).is_ok()) out.nodes[vote.partition()] = vote.node();
    if (vote.over() != 0) out.over[vote.partition()] = vote.over();
    if (vote.leaving() != 0) out.ends[vote.partition()] = {vote.leaving(), vote.stays()};
  }
  for (const auto& part : from.parts()) {
    if (part.replicas_size() < 2 || part.lost_size() >= part.replicas_size() ||
        part.freed_size() != part.lost_size())
      continue;
    LossState::Part& copy = out.parts[id_of(part.replicas(0))];
    copy.replicas = ids_in(part.replicas());
    for (int i = 0; i < part.lost_size(); ++i) copy.lost.push_back({id_of(part.lost(i)), part.freed(i)});
    if (part.has_ended()) copy.ended = id_of(part.ended());
    copy.gone = ids_in(part.gone());
    copy.accepted_at = ballot_of(part.accepted_at());
    copy.accepted = id_of(part.accepted());
    copy.uid = part.uid();
  }
  return out;
}

std::map<std::string, uint64_t> seats_of(const wire::VoterState& state) {
  constexpr size_t kHoldersMax = 16;
  std::map<std::string, uint64_t> out;
  for (const auto& vote : state.seats()) {
    if (vote.holder().size() == 16 && out.size() < kHoldersMax) out[vote.holder()] = vote.left_ns();
  }
  OCM_DASSERT(out.size() <= kHoldersMax);
  return out;
}

void set_seats(const std::map<std::string, uint64_t>& left_ns, wire::VoterState& out) {
  out.clear_seats();
  for (const auto& [holder, left] : left_ns) {
    auto& vote = *out.add_seats();
    vote.set_holder(holder);
    vote.set_left_ns(left);
  }
}

Status check_council(const wire::Council& council) {
  if (is_council(council)) return {};
  return Status(Code::kProtocol, "not a council");
}

/// A council that follows `base` and others.
Status check_next(const wire::InstallCouncil& next, uint64_t base) {
  constexpr int kBasesMax = 17;
  OCM_TRY(check_council(next.council()));
  if (next.bases_size() > kBasesMax) return Status(Code::kProtocol, "it follows too many councils");
  bool follows = false;
  for (const wire::Council& one : next.bases()) {
    OCM_TRY(check_council(one));
    follows = follows || one.id() == base;
  }
  if (!follows) return Status(Code::kProtocol, "it does not follow this council");
  return {};
}

}  // namespace

bool is_council(const wire::Council& council) {
  const int voters = council.voters_size();
  return council.id() != 0 && voters >= 1 && voters <= 5 && voters % 2 == 1;
}

bool continues(const wire::Council& newer, const wire::Council& older) {
  if (std::find(newer.after().begin(), newer.after().end(), older.id()) != newer.after().end()) return true;
  return std::all_of(older.chains().begin(), older.chains().end(), [&](uint64_t chain) {
    return std::find(newer.chains().begin(), newer.chains().end(), chain) != newer.chains().end();
  });
}

wire::LoseReplica to_wire(const LossRequest& request, uint64_t council_id) {
  wire::LoseReplica out;
  out.set_council_id(council_id);
  out.set_phase(static_cast<uint32_t>(request.phase));
  for (const ExtentId& id : request.part) set_ref(id, *out.add_part());
  set_ref(request.replica, *out.mutable_replica());
  for (const ExtentId& id : request.lost) set_ref(id, *out.add_lost());
  if (request.ended) set_ref(*request.ended, *out.mutable_ended());
  for (const ExtentId& id : request.over) set_ref(id, *out.add_over());
  out.set_remembered(request.remembered);
  out.set_uid(request.uid);
  set_ballot(request.ballot, *out.mutable_ballot());
  out.set_promised_at_ns(request.promised_at_ns);
  return out;
}

LossAnswer from_wire(const wire::ReplicaLosing& answer) {
  LossAnswer out;
  out.agreed = answer.agreed();
  out.promised = ballot_of(answer.promised());
  out.accepted_at = ballot_of(answer.accepted_at());
  out.accepted = id_of(answer.accepted());
  out.lost = ids_in(answer.lost());
  if (answer.has_ended()) out.ended = id_of(answer.ended());
  out.at_ns = answer.at_ns();
  out.wait_ns = answer.wait_ns();
  return out;
}

void Voter::grant(uint64_t now_ns, const wire::LeaseVote& request, wire::LeaseGranted& out) {
  if (council_.id() == 0 || request.partition() == 0 || request.partition() > GlobalAddress::kPartitionMax)
    return;
  if (request.council_id() != council_.id()) {
    *out.mutable_council() = council_;
    return;
  }
  if (!votes()) return;  // Q3
  const std::string node = check_node_name(request.node()).is_ok() ? request.node() : std::string();
  OCM_DASSERT(has(council_, name_, incarnation_));  // Q5
  if (!request.seat_given_up().empty()) seat_.release(now_ns, request.seat_given_up());
  const auto vote =
      ledger_.grant(now_ns, request.partition(), ids_in(request.freed()), ids_in(request.gone()),
                    {request.leaving(), request.stays()}, request.tell_all(), node, request.freed_before());
  if (vote.over) {
    out.set_over(true);
    return;
  }
  for (const ExtentId& id : vote.dropped) set_ref(id, *out.add_dropped());
  for (const auto& [replica, part, lost, ended, in_doubt] : vote.watched) {
    auto& watched = *out.add_watched();
    for (const ExtentId& id : part) set_ref(id, *watched.add_part());
    set_ref(replica, *watched.mutable_replica());
    for (const ExtentId& id : lost) set_ref(id, *watched.add_lost());
    if (ended) set_ref(*ended, *watched.mutable_ended());
    if (in_doubt) set_ref(*in_doubt, *watched.mutable_in_doubt());
  }
  out.set_granted(true);
  if (!request.seat().empty() && coordinator_of(council_).incarnation() == request.seat())
    out.set_seat(seat_.grant(now_ns, request.seat()));
}

uint64_t Voter::candidate_at_ns(uint64_t jitter_ns) const {
  size_t place = 0;
  for (const wire::Voter& voter : council_.voters()) {
    if (voter.name() == name_) break;
    if (!same(voter, coordinator_of(council_))) ++place;
  }
  return seat_.candidate_at_ns(place, jitter_ns);
}

Result<wire::ReplicaLosing> Voter::lose(uint64_t now_ns, const wire::LoseReplica& request) {
  if (!votes() || request.council_id() != council_.id()) return Status(Code::kPeerLost, "another council");
  if (request.phase() < 1 || request.phase() > 3) return Status(Code::kInvalidArgument, "unknown phase");
  LossRequest step;
  step.phase = static_cast<LossRequest::Phase>(request.phase());
  step.part = ids_in(request.part());
  step.replica = id_of(request.replica());
  step.lost = ids_in(request.lost());
  if (request.has_ended()) step.ended = id_of(request.ended());
  step.over = ids_in(request.over());
  step.remembered = request.remembered();
  step.uid = request.uid();
  step.ballot = ballot_of(request.ballot());
  step.promised_at_ns = request.promised_at_ns();
  OCM_TRY_ASSIGN(const LossAnswer answer, ledger_.answer(now_ns, step));
  if (answer.agreed && step.phase == LossRequest::Phase::kAccept) fault::reached(fault::State::kLossAccepted);
  wire::ReplicaLosing out;
  out.set_agreed(answer.agreed);
  set_ballot(answer.promised, *out.mutable_promised());
  set_ballot(answer.accepted_at, *out.mutable_accepted_at());
  set_ref(answer.accepted, *out.mutable_accepted());
  for (const ExtentId& id : answer.lost) set_ref(id, *out.add_lost());
  if (answer.ended) set_ref(*answer.ended, *out.mutable_ended());
  out.set_at_ns(answer.at_ns);
  out.set_wait_ns(answer.wait_ns);
  return out;
}

std::vector<uint64_t> NextCouncil::bases() const {
  std::vector<uint64_t> out;
  for (const wire::Council& base : install.bases()) out.push_back(base.id());
  return out;
}

Result<wire::CouncilPromise> Voter::seal(uint64_t now_ns, const wire::SealCouncil& request) {
  const Ballot ballot = ballot_of(request.ballot());
  if (council_.id() == 0 || request.council_id() != council_.id() || ballot.round <= council_.number())
    return Status(Code::kPeerLost, "not this voter's council");
  wire::CouncilPromise out;
  out.set_agreed(seat_.allows_end(now_ns, request.candidate()) && end_.promise(ballot));
  set_ballot(end_.promised(), *out.mutable_promised());
  if (!out.agreed()) return out;
  OCM_DASSERT(end_.is_sealed() && !votes());  // Q3
  *out.mutable_state() = to_wire(ledger_.state(now_ns));
  set_seats(seat_.left_ns(now_ns), *out.mutable_state());
  set_ballot(end_.accepted_at(), *out.mutable_accepted_at());
  if (end_.accepted()) *out.mutable_accepted() = end_.accepted()->install;
  if (request.tell()) *out.mutable_made_of() = made_of_;
  return out;
}

Status Voter::accept(const wire::ProposeCouncil& request) {
  if (council_.id() == 0 || request.council_id() != council_.id())
    return Status(Code::kPeerLost, "not this voter's council");
  OCM_TRY(check_next(request.next(), council_.id()));
  if (ballot_of(request.ballot()).round == 0) return Status(Code::kInvalidArgument, "an attempt has a round");
  if (!end_.accept(ballot_of(request.ballot()), NextCouncil{request.next()}))
    return Status(Code::kPeerLost, "a later attempt was promised");
  fault::reached(fault::State::kCouncilAccepted);
  return {};
}

Status Voter::install(uint64_t now_ns, const wire::InstallCouncil& request) {
  const wire::Council& council = request.council();
  if (council.id() != 0 && council.id() == council_.id()) return {};
  OCM_TRY(check_council(council));
  if (!has(council, name_, incarnation_)) return Status(Code::kPeerLost, "a council without this voter");
  if (council_.id() != 0 && (!continues(council, council_) || council.number() <= council_.number()))
    return Status(Code::kPeerLost, "it does not continue this voter's council");
  const bool is_past = std::any_of(home_in_.begin(), home_in_.end(), [&](const wire::Council& home) {
    return home.id() != council.id() && home.number() >= council.number() && continues(home, council);
  });
  if (is_past && !fault::at(fault::Point::kVoterComesBack))  // Q8
    return Status(Code::kPeerLost, "another council follows it");
  made_of_ = request;
  end_.start_over();
  council_ = council;
  seat_.install(now_ns, seats_of(request.state()));
  if (fault::at(fault::Point::kCouncilForgets)) {
    ledger_.clear();
    return {};
  }
  ledger_.install(now_ns, from_wire(request.state()));
  OCM_DASSERT(votes() && is_valid());  // Q3
  return {};
}

bool Voter::is_valid() const {
  if (!ledger_.is_valid() || !seat_.is_valid()) return false;
  if (council_.id() == 0) return made_of_.council().id() == 0 && !end_.is_sealed();
  return is_council(council_) && made_of_.council().id() == council_.id() &&
         has(council_, name_, incarnation_);  // Q5
}

void Voter::home_came_to(const wire::Council& council) {
  const auto is_before = [](const wire::Council& older, const wire::Council& newer) {
    return older.number() < newer.number() && continues(newer, older);
  };
  const bool is_known = std::any_of(home_in_.begin(), home_in_.end(), [&](const wire::Council& home) {
    return home.id() == council.id() || is_before(council, home);
  });
  if (!is_known || fault::at(fault::Point::kHomeGoesBack)) {
    std::erase_if(home_in_, [&](const wire::Council& home) {
      return is_before(home, council) || fault::at(fault::Point::kHomeGoesBack);
    });
    if (home_in_.size() >= kHomesMax) home_in_.erase(home_in_.begin());
    home_in_.push_back(council);
    ++homes_version_;
  }
  const bool is_over =
      council_.id() != 0 && council.number() > council_.number() && continues(council, council_);
  if (is_over && council.voters_size() == 1 && !has(council, name_, incarnation_)) leave();
}

void Voter::leave() {
  council_.Clear();
  made_of_.Clear();
  end_.start_over();
  ledger_.clear();
  seat_.clear();
  OCM_DASSERT(is_valid() && !votes());
}

Voter::MemoryKey Voter::memory_key() const {
  return {council_.id(), homes_version_, end_.promised(), end_.accepted_at(), ledger_.version()};
}

wire::VoterMemory Voter::memory() const {
  wire::VoterMemory out;
  out.set_name(name_);
  out.set_incarnation(incarnation_);
  out.mutable_home_in()->Add(home_in_.begin(), home_in_.end());
  if (council_.id() == 0) return out;
  *out.mutable_made_of() = made_of_;
  set_ballot(end_.promised(), *out.mutable_promised());
  set_ballot(end_.accepted_at(), *out.mutable_accepted_at());
  if (end_.accepted()) *out.mutable_accepted() = end_.accepted()->install;
  if (!fault::at(fault::Point::kMemoryOfLosses)) *out.mutable_state() = to_memory(ledger_.state(0));
  return out;
}

std::optional<wire::VoterChange> Voter::memory_since(const MemoryKey& before) const {
  if (council_.id() != before.council) return std::nullopt;
  const auto change = ledger_.changed_since(before.ledger);
  if (!change) return std::nullopt;
  wire::VoterChange out;
  set_ballot(end_.promised(), *out.mutable_promised());
  set_ballot(end_.accepted_at(), *out.mutable_accepted_at());
  if (end_.accepted_at() != before.accepted_at) *out.mutable_accepted() = end_.accepted()->install;
  if (homes_version_ != before.homes) out.mutable_home_in()->Add(home_in_.begin(), home_in_.end());
  if (fault::at(fault::Point::kMemoryOfLosses)) return out;
  *out.mutable_state() = to_memory(change->state);
  for (const ExtentId& first : change->forgotten) set_ref(first, *out.add_forgotten());
  return out;
}

void apply_changes(wire::VoterMemory& memory, std::span<const wire::VoterChange> changes) {
  if (changes.empty()) return;
  std::map<ExtentId, wire::VoterState::Part> parts;
  const auto put = [&parts](const wire::VoterState& state) {
    for (const wire::VoterState::Part& part : state.parts()) {
      if (part.replicas_size() > 0) parts[id_of(part.replicas(0))] = part;
    }
  };
  put(memory.state());
  for (const wire::VoterChange& change : changes) {
    *memory.mutable_promised() = change.promised();
    *memory.mutable_accepted_at() = change.accepted_at();
    if (change.has_accepted()) *memory.mutable_accepted() = change.accepted();
    if (change.home_in_size() > 0) *memory.mutable_home_in() = change.home_in();
    if (change.state().votes_size() > 0) *memory.mutable_state()->mutable_votes() = change.state().votes();
    put(change.state());
    for (const wire::ExtentRef& first : change.forgotten()) parts.erase(id_of(first));
  }
  memory.mutable_state()->clear_parts();
  for (auto& [first, part] : parts) *memory.mutable_state()->add_parts() = std::move(part);
}

std::optional<Voter> Voter::remembered(uint64_t now_ns, const std::string& name,
                                       const wire::VoterMemory& memory, uint64_t lease_ns) {
  if (memory.name() != name || memory.incarnation().size() != 16) return std::nullopt;
  std::optional<Voter> out(std::in_place, name, memory.incarnation(), lease_ns);
  out->home_in_.assign(memory.home_in().begin(), memory.home_in().end());
  if (!memory.has_made_of()) return out;
  const wire::Council& council = memory.made_of().council();
  if (!is_council(council) || !has(council, name, memory.incarnation())) return std::nullopt;
  std::optional<NextCouncil> accepted;
  if (memory.accepted_at().round() != 0) {
    if (!check_next(memory.accepted(), council.id()).is_ok()) return std::nullopt;
    accepted = NextCouncil{memory.accepted()};
  }
  out->council_ = council;
  out->made_of_ = memory.made_of();
  out->end_.remember(ballot_of(memory.promised()), ballot_of(memory.accepted_at()), std::move(accepted));
  out->ledger_.install(now_ns, from_wire(memory.state()));
  return out;
}

void merge(wire::VoterState& into, const wire::VoterState& from) {
  LossState state = from_wire(into);
  merge(state, from_wire(from));
  std::map<std::string, uint64_t> seats = seats_of(into);
  merge(seats, seats_of(from));
  into = to_wire(state);
  set_seats(seats, into);
}

bool LeaseHolder::adopt(const wire::Council& council) {
  if (council.id() == 0 || council.id() == council_.id()) return false;
  if (council_.id() != 0 && (council.number() <= council_.number() || !continues(council, council_)))
    return false;
  council_ = council;
  asked_ns_.clear();  // the lease runs on: the voters of the new council know of it (Q4)
  return true;
}

bool LeaseHolder::is_stranger(const wire::Council& council) const {
  return council.id() != 0 && council_.id() != 0 && council.id() != council_.id() &&
         !continues(council, council_);
}

void LeaseHolder::start_over(const wire::Council& council) {
  council_ = council;
  asked_ns_.clear();
  until_ns_ = 0;
}

void LeaseHolder::granted(uint64_t council_id, const std::string& voter, uint64_t sent_ns, uint64_t now_ns) {
  OCM_DASSERT(sent_ns <= now_ns);  // Q2
  if (council_id != council_.id() || council_id == 0) return;
  uint64_t& newest = asked_ns_[voter];
  newest = std::max(newest, sent_ns);
  std::vector<uint64_t> asked;
  for (const wire::Voter& v : council_.voters()) {
    const auto it = asked_ns_.find(v.name());
    if (it != asked_ns_.end()) asked.push_back(it->second);
  }
  OCM_DASSERT(asked.size() <= static_cast<size_t>(council_.voters_size()));
  const bool had_lapsed = until_ns_ != 0 && until_ns_ <= now_ns;
  until_ns_ = std::max(until_ns_, lease_until_ns(std::move(asked), majority(council_), lease_ns_));
  if (fault::at(fault::Point::kLeaseTooLong)) until_ns_ = newest + 4 * lease_ns_;
  if (had_lapsed && now_ns < until_ns_) cut_off_until_ns_ = now_ns + lease_ns_;
}

wire::InstallCouncil Convener::found(uint64_t id) {
  OCM_DASSERT(id != 0 && council_.id() == 0);
  council_.set_id(id);
  council_.set_number(round_ = 1);
  council_.add_chains(run_);
  *council_.add_voters() = self_;
  *made_of_.mutable_council() = council_;
  heard_ = {self_.name()};
  OCM_DASSERT(is_valid());
  return made_of_;
}

void Convener::take_up(const wire::InstallCouncil& made_of) {
  OCM_DASSERT(is_council(made_of.council()));
  round_ = std::max(round_, made_of.council().number());
  council_ = made_of.council();
  made_of_ = made_of;
  heard_ = {self_.name()};
  drop_continued();
  chosen_.Clear();
  OCM_DASSERT(is_valid());
}

void Convener::reported(const wire::Council& council) {
  constexpr size_t kForeignMax = 16;
  if (!check_council(council).is_ok() || council.chains_size() == 0 || continues(council_, council)) return;
  if (has_chosen() && council.id() != chosen_.council().id()) {
    if (council.number() > chosen_.council().number() && continues(council, chosen_.council())) {
      chosen_.Clear();  // an earlier run had it acting, and made the next of it
    } else if (continues(chosen_.council(), council)) {
      return;
    }
  }
  if (foreign_.contains(council.id())) return;
  // Of one chain the newest counts.
  for (auto it = foreign_.begin(); it != foreign_.end();) {
    if (continues(it->second, council) && it->second.number() >= council.number()) return;
    if (continues(council, it->second) && council.number() > it->second.number())
      it = foreign_.erase(it);
    else
      ++it;
  }
  if (foreign_.size() < kForeignMax) foreign_[council.id()] = council;
  OCM_DASSERT(is_valid());
}

bool Convener::is_continued(const wire::Council& council) const {
  return std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& one) {
    return one.second.number() > council.number() && continues(one.second, council);
  });
}

void Convener::drop_continued() {
  std::erase_if(foreign_, [this](const auto& one) { return continues(council_, one.second); });
}

void Convener::drop_foreign(const std::function<bool(const wire::Council&)>& cannot_be_sealed) {
  std::erase_if(foreign_, [&](const auto& one) { return cannot_be_sealed(one.second); });
}

bool Convener::is_over(const wire::Council& council) const {
  return council.voters_size() == 1 && council.voters(0).name() == self_.name() &&
         council.voters(0).incarnation() != self_.incarnation() &&
         !(remembers_ && remembers_(council.voters(0).incarnation()));
}

bool Convener::is_past(uint64_t base) const {
  const auto it = bases_.find(base);
  if (it == bases_.end()) return false;
  const auto is_after = [&](const wire::Council& council) {
    return council.number() > it->second.number() && continues(council, it->second);
  };
  return is_after(council_) ||
         std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& one) { return is_after(one.second); });
}

void Convener::add_base(const wire::Council& base, bool all_heard) {
  OCM_DASSERT(attempt_.has_value());
  if (attempt_->knows(base.id()) || (is_over(base) && !all_heard)) return;
  bases_[base.id()] = base;
  attempt_->add(base.id(), is_over(base) ? 0 : majority(base));
}

void Convener::begin(bool all_heard) {
  round_ = std::max(round_, council_.number());
  for (const auto& [id, council] : foreign_) round_ = std::max(round_, council.number());
  bases_.clear();
  knowledge_.clear();
  remembered_.clear();
  attempt_.emplace(Ballot{++round_, run_}, [this](uint64_t base) { return is_past(base); });
  add_base(council_, true);
  for (const auto& [id, council] : foreign_) add_base(council, all_heard);
}

std::vector<wire::Council> Convener::to_seal() const {
  std::vector<wire::Council> out;
  if (!attempt_) return out;
  for (const auto& [id, base] : bases_) {
    if (id != council_.id() && attempt_->knows(id) && !attempt_->is_sealed(id)) out.push_back(base);
  }
  return out;
}

wire::SealCouncil Convener::seal_request(const wire::Council& base, bool tell) const {
  OCM_DASSERT(attempt_.has_value());
  wire::SealCouncil out;
  out.set_council_id(base.id());
  set_ballot(attempt_->ballot(), *out.mutable_ballot());
  out.set_tell(tell);
  out.set_candidate(self_.incarnation());
  return out;
}

bool Convener::promised(const wire::Council& base, const std::string& voter,
                        const wire::CouncilPromise& promise) {
  round_ = std::max(round_, promise.promised().round());
  if (!attempt_ || !promise.agreed()) return false;
  merge(knowledge_[base.id()], promise.state());
  if (promise.remembered()) remembered_.emplace(base.id(), voter);
  std::optional<NextCouncil> accepted;
  if (promise.accepted_at().round() != 0 && check_next(promise.accepted(), base.id()).is_ok()) {
    accepted = NextCouncil{promise.accepted()};
    for (const wire::Council& other : promise.accepted().bases()) bases_.try_emplace(other.id(), other);
  }
  attempt_->promised(base.id(), voter, ballot_of(promise.accepted_at()), accepted);
  for (const auto& [ballot, value] : attempt_->heard()) {
    for (const wire::Council& other : value.install.bases()) add_base(other, true);
  }
  return true;
}

bool Convener::has_found() const {
  OCM_DASSERT(attempt_.has_value());
  const std::vector<uint64_t> free = attempt_->free();
  return attempt_->to_finish() != nullptr ||
         std::any_of(free.begin(), free.end(), [this](uint64_t id) { return id != council_.id(); });
}

void Convener::join(wire::Council& next, const wire::Council& base) const {
  constexpr int kAfterMax = 64;
  // Nobody was sealed, so a council of its chain that was not heard of may still act.
  const bool alone = is_over(base);
  if (alone) next.add_after(base.id());
  for (const uint64_t id : base.after()) next.add_after(id);
  while (next.after_size() > kAfterMax) next.mutable_after()->erase(next.after().begin());
  if (alone) return;
  for (const uint64_t chain : base.chains()) {
    if (std::find(next.chains().begin(), next.chains().end(), chain) == next.chains().end())
      next.add_chains(chain);
  }
}

wire::Council Convener::together() const {
  wire::Council out;
  *out.mutable_chains() = council_.chains();
  *out.mutable_after() = council_.after();
  if (!attempt_) return out;
  for (const uint64_t id : attempt_->free()) {
    if (id != council_.id()) join(out, bases_.at(id));
  }
  return out;
}

std::vector<wire::Voter> Convener::promisers() const {
  std::vector<wire::Voter> out;
  if (!attempt_) return out;
  const std::vector<uint64_t> free = attempt_->free();
  attempt_->visit([&](uint64_t id, const std::set<std::string>& promised, const std::set<std::string>&) {
    if (std::find(free.begin(), free.end(), id) == free.end()) return;
    for (const wire::Voter& voter : bases_.at(id).voters()) {
      if (promised.contains(voter.name()) && !remembered_.contains({id, voter.name()})) out.push_back(voter);
    }
  });
  return out;
}

bool Convener::propose(uint64_t id, const std::vector<wire::Voter>& voters) {
  OCM_DASSERT(attempt_.has_value() && id != 0);
  if (const NextCouncil* old = attempt_->to_finish()) {
    attempt_->propose(NextCouncil(*old));
    const auto& chains = old->install.council().chains();
    if (std::find(chains.begin(), chains.end(), run_) == chains.end())
      fault::reached(fault::State::kCouncilFinished);
    return true;
  }
  const std::vector<uint64_t> free = attempt_->free();
  if (std::find(free.begin(), free.end(), council_.id()) == free.end()) return false;
  NextCouncil next;
  *next.install.mutable_council() = together();
  next.install.mutable_council()->set_id(id);
  next.install.mutable_council()->set_number(attempt_->ballot().round);
  for (const wire::Voter& voter : voters) *next.install.mutable_council()->add_voters() = voter;
  OCM_DASSERT(is_council(next.install.council()));
  *next.install.add_bases() = council_;  // the first that accepts
  merge(*next.install.mutable_state(), knowledge_[council_.id()]);
  for (const uint64_t base : free) {
    if (base == council_.id()) continue;
    *next.install.add_bases() = bases_.at(base);
    merge(*next.install.mutable_state(), knowledge_[base]);
  }
  attempt_->propose(std::move(next));
  return true;
}

std::optional<wire::Council> Convener::to_accept() const {
  OCM_DASSERT(attempt_.has_value());
  const auto base = attempt_->to_ask();
  if (!base) return {};
  return bases_.at(*base);
}

wire::ProposeCouncil Convener::accept_request(const wire::Council& base) const {
  OCM_DASSERT(attempt_.has_value() && attempt_->value());
  wire::ProposeCouncil out;
  out.set_council_id(base.id());
  set_ballot(attempt_->ballot(), *out.mutable_ballot());
  *out.mutable_next() = attempt_->value()->install;
  return out;
}

bool Convener::end() {
  const bool chosen = attempt_ && attempt_->is_chosen();
  if (chosen) {
    chosen_ = attempt_->value()->install;
    installed_.clear();
    if (is_over(chosen_.council())) adopt_chosen();
  }
  attempt_.reset();
  bases_.clear();
  knowledge_.clear();
  remembered_.clear();
  return chosen;
}

void Convener::adopt_chosen() {
  OCM_DASSERT(has_chosen() && is_council(chosen_.council()));
  bool mine = false;
  for (const wire::Council& base : chosen_.bases()) {
    foreign_.erase(base.id());
    mine = mine || base.id() == council_.id();
  }
  if (mine) {
    council_ = chosen_.council();
    made_of_ = chosen_;
    heard_ = installed_;
    drop_continued();
  } else {
    foreign_[chosen_.council().id()] = chosen_.council();
  }
  chosen_.Clear();
  OCM_DASSERT(is_valid());
}

bool Convener::is_valid() const {
  if (council_.id() != 0 && !is_council(council_)) return false;
  if (made_of_.council().id() != council_.id()) return false;
  if (has_chosen() && !is_council(chosen_.council())) return false;
  for (const auto& [id, council] : foreign_) {
    if (!is_council(council) || council.id() != id) return false;
  }
  return true;
}

bool Convener::installed(const std::string& voter) {
  if (!has_chosen()) return false;
  installed_.insert(voter);
  if (installed_.size() < majority(chosen_.council())) return false;
  adopt_chosen();
  return true;
}

bool Convener::has_unheard() const {
  const auto& voters = council_.voters();
  return !has_chosen() && std::any_of(voters.begin(), voters.end(), [this](const wire::Voter& voter) {
    return !heard_.contains(voter.name());
  });
}

std::vector<wire::Voter> choose_voters(const wire::Council& now, const std::vector<wire::Voter>& living) {
  OCM_DASSERT(!living.empty());
  const size_t wanted = voters_for(living.size());
  std::vector<wire::Voter> out{living.front()};
  for (const bool present : {true, false}) {
    for (const wire::Voter& voter : living) {
      if (out.size() == wanted) return out;
      const bool taken =
          std::any_of(out.begin(), out.end(), [&](const wire::Voter& v) { return same(v, voter); });
      if (!taken && has(now, voter.name(), voter.incarnation()) == present) out.push_back(voter);
    }
  }
  OCM_DASSERT(out.size() == wanted && out.size() % 2 == 1);
  return out;
}

bool same_voters(const wire::Council& council, const std::vector<wire::Voter>& voters) {
  return static_cast<size_t>(council.voters_size()) == voters.size() &&
         std::all_of(voters.begin(), voters.end(),
                     [&](const wire::Voter& v) { return has(council, v.name(), v.incarnation()); });
}

}  // namespace ocm::control
