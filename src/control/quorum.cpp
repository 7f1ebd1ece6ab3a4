#include "control/quorum.h"

#include <algorithm>

#include "base/fault.h"

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

ExtentId id_of(const wire::ExtentRef& ref) { return {GlobalAddress(ref.address()), ref.generation()}; }

void set_ref(const ExtentId& id, wire::ExtentRef& out) {
  out.set_address(id.address.bits());
  out.set_generation(id.generation);
}

std::vector<ExtentId> ids_of(const google::protobuf::RepeatedPtrField<wire::ExtentRef>& refs) {
  std::vector<ExtentId> out;
  for (const wire::ExtentRef& ref : refs) out.push_back(id_of(ref));
  return out;
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
  }
  for (const auto& [first, part] : from.parts) {
    auto& copy = *out.add_parts();
    for (const ExtentId& id : part.replicas) set_ref(id, *copy.add_replicas());
    for (const LossState::Lost& lost : part.lost) {
      set_ref(lost.id, *copy.add_lost());
      copy.add_freed(lost.freed);
    }
    if (part.ended) set_ref(*part.ended, *copy.mutable_ended());
    set_ballot(part.accepted_at, *copy.mutable_accepted_at());
    set_ref(part.accepted, *copy.mutable_accepted());
  }
  return out;
}

LossState from_wire(const wire::VoterState& from) {
  LossState out;
  for (const auto& vote : from.votes()) out.votes_ns[vote.partition()] = vote.left_ns();
  for (const auto& part : from.parts()) {
    if (part.replicas_size() < 2 || part.lost_size() >= part.replicas_size() ||
        part.freed_size() != part.lost_size())
      continue;
    LossState::Part& copy = out.parts[id_of(part.replicas(0))];
    copy.replicas = ids_of(part.replicas());
    for (int i = 0; i < part.lost_size(); ++i) copy.lost.push_back({id_of(part.lost(i)), part.freed(i)});
    if (part.has_ended()) copy.ended = id_of(part.ended());
    copy.accepted_at = ballot_of(part.accepted_at());
    copy.accepted = id_of(part.accepted());
  }
  return out;
}

}  // namespace

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
  out.lost = ids_of(answer.lost());
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
  const auto vote =
      ledger_.grant(now_ns, request.partition(), ids_of(request.freed()), ids_of(request.gone()));
  for (const ExtentId& id : vote.dropped) set_ref(id, *out.add_dropped());
  for (const auto& [replica, part, lost, ended] : vote.watched) {
    auto& watched = *out.add_watched();
    for (const ExtentId& id : part) set_ref(id, *watched.add_part());
    set_ref(replica, *watched.mutable_replica());
    for (const ExtentId& id : lost) set_ref(id, *watched.add_lost());
    if (ended) set_ref(*ended, *watched.mutable_ended());
  }
  out.set_granted(true);
}

Result<wire::ReplicaLosing> Voter::lose(uint64_t now_ns, const wire::LoseReplica& request) {
  if (!votes() || request.council_id() != council_.id()) return Status(Code::kPeerLost, "another council");
  if (request.phase() < 1 || request.phase() > 3) return Status(Code::kInvalidArgument, "unknown phase");
  LossRequest step;
  step.phase = static_cast<LossRequest::Phase>(request.phase());
  step.part = ids_of(request.part());
  step.replica = id_of(request.replica());
  step.lost = ids_of(request.lost());
  if (request.has_ended()) step.ended = id_of(request.ended());
  step.ballot = ballot_of(request.ballot());
  step.promised_at_ns = request.promised_at_ns();
  OCM_TRY_ASSIGN(const LossAnswer answer, ledger_.answer(now_ns, step));
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

Result<wire::VoterState> Voter::seal(uint64_t now_ns, const wire::SealCouncil& request) {
  if (council_.id() == 0 || request.council_id() != council_.id() || request.number() <= council_.number())
    return Status(Code::kPeerLost, "not this voter's council");
  if (!votes() && request.run() != sealed_run_)
    return Status(Code::kPeerLost, "an earlier run of the coordinator may have made another council of it");
  sealed_number_ = std::max(sealed_number_, request.number());
  sealed_run_ = request.run();
  return to_wire(ledger_.state(now_ns));
}

Status Voter::install(uint64_t now_ns, const wire::InstallCouncil& request) {
  const wire::Council& council = request.council();
  if (council.id() != 0 && council.id() == council_.id()) return {};
  if (council.id() == 0 || council.voters_size() == 0 || council.voters_size() > 5 ||
      council.voters_size() % 2 == 0)
    return Status(Code::kProtocol, "not a council");
  if (!has(council, name_, incarnation_)) return Status(Code::kPeerLost, "a council without this voter");
  if (council_.id() != 0 && (!continues(council, council_) || council.number() <= council_.number()))
    return Status(Code::kPeerLost, "it does not continue this voter's council");
  if (council.number() < sealed_number_) return Status(Code::kPeerLost, "an abandoned council");
  council_ = council;
  if (fault::at(fault::Point::kCouncilForgets)) {
    ledger_.clear();
    return {};
  }
  ledger_.install(now_ns, from_wire(request.state()));
  return {};
}

void Voter::leave() {
  council_.Clear();
  ledger_.clear();
  sealed_number_ = sealed_run_ = 0;
}

void merge(wire::VoterState& into, const wire::VoterState& from) {
  LossState state = from_wire(into);
  merge(state, from_wire(from));
  into = to_wire(state);
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

void LeaseHolder::granted(uint64_t council_id, const std::string& voter, uint64_t sent_ns) {
  if (council_id != council_.id() || council_id == 0) return;
  uint64_t& newest = asked_ns_[voter];
  newest = std::max(newest, sent_ns);
  std::vector<uint64_t> asked;
  for (const wire::Voter& v : council_.voters()) {
    const auto it = asked_ns_.find(v.name());
    if (it != asked_ns_.end()) asked.push_back(it->second);
  }
  until_ns_ = std::max(until_ns_, lease_until_ns(std::move(asked), majority(council_), lease_ns_));
  if (fault::at(fault::Point::kLeaseTooLong)) until_ns_ = newest + 4 * lease_ns_;
}

wire::InstallCouncil Convener::found(uint64_t id, const wire::Voter& self) {
  council_.set_id(id);
  council_.set_number(number_ = 1);
  council_.add_chains(run_);
  *council_.add_voters() = self;
  wire::InstallCouncil out;
  *out.mutable_council() = council_;
  return out;
}

void Convener::reported(const wire::Council& council) {
  constexpr size_t kForeignMax = 16;
  if (council.id() == 0 || continues(council_, council) || foreign_.contains(council.id())) return;
  if (has_proposal() && continues(next_.council(), council)) return;
  if (council.voters_size() == 0 || council.voters_size() > 5 || council.chains_size() == 0) return;
  // Of one chain the newest counts.
  for (auto it = foreign_.begin(); it != foreign_.end();) {
    if (continues(it->second, council) && it->second.number() >= council.number()) return;
    if (continues(council, it->second) && council.number() > it->second.number())
      it = foreign_.erase(it);
    else
      ++it;
  }
  if (foreign_.size() < kForeignMax) foreign_[council.id()] = council;
}

wire::SealCouncil Convener::seal_request(const wire::Council& base) {
  number_ = std::max(number_, base.number()) + 1;
  wire::SealCouncil out;
  out.set_council_id(base.id());
  out.set_number(number_);
  out.set_run(run_);
  return out;
}

bool Convener::is_sealed(const wire::Council& base, size_t sealed, const wire::Voter& self, bool all_heard) {
  if (sealed >= majority(base)) return true;
  return all_heard && base.voters_size() == 1 && base.voters(0).name() == self.name() &&
         base.voters(0).incarnation() != self.incarnation();
}

void Convener::join(wire::Council& next, const wire::Council& base) {
  constexpr int kAfterMax = 64;
  // Nobody was sealed, so a council of its chain that was not heard of may still act.
  const bool alone = base.voters_size() == 1;
  if (alone) next.add_after(base.id());
  for (const uint64_t id : base.after()) next.add_after(id);
  while (next.after_size() > kAfterMax) next.mutable_after()->erase(next.after().begin());
  if (alone) return;
  for (const uint64_t chain : base.chains()) {
    if (std::find(next.chains().begin(), next.chains().end(), chain) == next.chains().end())
      next.add_chains(chain);
  }
}

const wire::InstallCouncil& Convener::propose(uint64_t id, std::vector<wire::Voter> voters,
                                              const std::vector<wire::Council>& merged,
                                              wire::VoterState state) {
  OCM_ASSERT(!has_proposal());
  wire::Council& next = *next_.mutable_council();
  next.set_id(id);
  next.set_number(++number_);
  *next.mutable_chains() = council_.chains();
  *next.mutable_after() = council_.after();
  for (const wire::Council& council : merged) {
    join(next, council);
    foreign_.erase(council.id());
  }
  for (wire::Voter& voter : voters) *next.add_voters() = std::move(voter);
  *next_.mutable_state() = std::move(state);
  return next_;
}

bool Convener::installed(size_t count) {
  if (!has_proposal() || count < majority(next_.council())) return false;
  council_ = next_.council();
  next_.Clear();
  return true;
}

std::vector<wire::Voter> choose_voters(const wire::Council& now, const std::vector<wire::Voter>& living) {
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
  return out;
}

bool same_voters(const wire::Council& council, const std::vector<wire::Voter>& voters) {
  return static_cast<size_t>(council.voters_size()) == voters.size() &&
         std::all_of(voters.begin(), voters.end(),
                     [&](const wire::Voter& v) { return has(council, v.name(), v.incarnation()); });
}

}  // namespace ocm::control
