#include "control/quorum.h"

#include <algorithm>

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

/// The first extent of a partition in an ordered map of them.
ExtentId first_of(uint32_t partition) { return {GlobalAddress(partition, 0), 0}; }

}  // namespace

bool continues(const wire::Council& newer, const wire::Council& older) {
  if (std::find(newer.after().begin(), newer.after().end(), older.id()) != newer.after().end()) return true;
  return std::all_of(older.chains().begin(), older.chains().end(), [&](uint64_t chain) {
    return std::find(newer.chains().begin(), newer.chains().end(), chain) != newer.chains().end();
  });
}

void Voter::make_room() {
  if (voted_until_ns_.size() < kHomesMax) return;
  const auto oldest = std::min_element(voted_until_ns_.begin(), voted_until_ns_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
  voted_until_ns_.erase(oldest);  // its losses cannot be confirmed any more, and it is no less safe
}

void Voter::grant(uint64_t now_ns, const wire::LeaseVote& request, wire::LeaseGranted& out) {
  if (council_.id() == 0 || request.partition() == 0 || request.partition() > GlobalAddress::kPartitionMax)
    return;
  if (request.council_id() != council_.id()) {
    *out.mutable_council() = council_;
    return;
  }
  if (!votes()) return;
  const uint32_t partition = request.partition();
  for (const wire::ExtentRef& freed : request.freed()) {
    if (GlobalAddress(freed.address()).partition() == partition) dropped_.erase(id_of(freed));
  }
  for (auto it = dropped_.lower_bound(first_of(partition));
       it != dropped_.end() && it->first.address.partition() == partition; ++it) {
    set_ref(it->first, *out.add_dropped());
  }
  if (!voted_until_ns_.contains(partition)) make_room();
  uint64_t& until = voted_until_ns_[partition];
  until = std::max(until, now_ns + lease_ns_);
  out.set_granted(true);
}

Result<uint64_t> Voter::lose(uint64_t now_ns, const wire::LoseReplica& request) {
  if (!votes() || request.council_id() != council_.id()) return Status(Code::kPeerLost, "another council");
  const ExtentId id{GlobalAddress(request.address()), request.generation()};
  const auto voted = voted_until_ns_.find(id.address.partition());
  if (voted == voted_until_ns_.end())
    return Status(Code::kPeerLost, "this council never gave the replica's node a lease");
  const auto known = dropped_.find(id);
  if (known == dropped_.end() && dropped_.size() >= kDroppedMax)
    return Status(Code::kLimit, "too many lost replicas whose nodes have not come back");
  // Votes after the first note name the replica, so they do not count.
  const uint64_t lost_ns = known != dropped_.end() ? known->second : (dropped_[id] = voted->second);
  return lost_ns > now_ns ? lost_ns - now_ns : 0;
}

Result<wire::VoterState> Voter::seal(uint64_t now_ns, const wire::SealCouncil& request) {
  if (council_.id() == 0 || request.council_id() != council_.id() || request.number() <= council_.number())
    return Status(Code::kPeerLost, "not this voter's council");
  if (!votes() && request.run() != sealed_run_)
    return Status(Code::kPeerLost, "an earlier run of the coordinator may have made another council of it");
  sealed_number_ = std::max(sealed_number_, request.number());
  sealed_run_ = request.run();
  wire::VoterState out;
  for (const auto& [id, lost_ns] : dropped_) set_ref(id, *out.add_dropped());
  for (const auto& [partition, until_ns] : voted_until_ns_) {
    auto& vote = *out.add_votes();
    vote.set_partition(partition);
    vote.set_left_ns(until_ns > now_ns ? until_ns - now_ns : 0);
  }
  return out;
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
  for (const auto& vote : request.state().votes()) {
    if (!voted_until_ns_.contains(vote.partition())) make_room();
    uint64_t& until = voted_until_ns_[vote.partition()];
    until = std::max(until, now_ns + std::min(vote.left_ns(), lease_ns_));
  }
  for (const wire::ExtentRef& ref : request.state().dropped()) dropped_.try_emplace(id_of(ref), 0);
  // Votes of others may still run that did not name it, also where this voter noted it before: as if now.
  for (auto& [id, lost_ns] : dropped_) {
    const auto voted = voted_until_ns_.find(id.address.partition());
    lost_ns = std::max(lost_ns, voted == voted_until_ns_.end() ? now_ns + lease_ns_ : voted->second);
  }
  return {};
}

void Voter::leave() {
  council_.Clear();
  dropped_.clear();
  voted_until_ns_.clear();
  sealed_number_ = sealed_run_ = 0;
}

void merge(wire::VoterState& into, const wire::VoterState& from) {
  std::set<ExtentId> dropped;
  std::map<uint32_t, uint64_t> votes;
  for (const wire::VoterState* state : {static_cast<const wire::VoterState*>(&into), &from}) {
    for (const auto& ref : state->dropped()) dropped.insert(id_of(ref));
    for (const auto& vote : state->votes())
      votes[vote.partition()] = std::max(votes[vote.partition()], vote.left_ns());
  }
  into.Clear();
  for (const ExtentId& id : dropped) set_ref(id, *into.add_dropped());
  for (const auto& [partition, left_ns] : votes) {
    auto& vote = *into.add_votes();
    vote.set_partition(partition);
    vote.set_left_ns(left_ns);
  }
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
  const size_t needed = majority(council_);
  if (asked.size() < needed) return;
  std::nth_element(asked.begin(), asked.begin() + static_cast<long>(needed) - 1, asked.end(),
                   std::greater<>());
  until_ns_ = std::max(until_ns_, asked[needed - 1] + lease_ns_ - lease_ns_ / 20);
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
