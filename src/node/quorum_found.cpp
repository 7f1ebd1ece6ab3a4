// How a council begins without one before it: at a coordinator's start, by the first seed (P2), after a council that is over,
// or by the word of an operator (control/founding.h).
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "node/quorum.h"

namespace ocm::node {

using control::Task;

void Quorum::found(uint64_t run, std::vector<uint64_t> instead_of) {
  OCM_DASSERT(run != 0);
  control::NameNotes notes = voter_->notes();  // of names this node may be all that is left of the voters
  voter_->leave();
  sealing_ = telling_ = false;
  convener_.emplace(run, self_,
                    [this](const control::Incarnation& former) { return memory_.remembers(former); });
  const uint64_t id = core_.env.random_number() | 1;
  const Status alone =
      voter_->install(core_.now_ns(), convener_->found(id, std::move(instead_of), std::move(notes)));
  OCM_ASSERT(alone.is_ok());
  OCM_DASSERT(is_mine(voter_->council()) && voter_->council().id == convener_->council().id);
  memory_.keep(*voter_);
}

void Quorum::found_first() {
  if (known().id != 0 || convening_) return;
  log::info("council_founded", {{"node", core_.name}});
  begin_with({});
}

void Quorum::begin_with(std::vector<uint64_t> instead_of) {
  found(core_.env.random_number() | 1, std::move(instead_of));
  if (home_.directory().replicas().empty()) start_over(voter_->council());  // else its replicas may be old
  ask_round();
}

std::vector<std::pair<control::VoterInfo, control::VoterSeen>> Quorum::voters_seen() const {
  using control::VoterSeen;
  std::vector<std::pair<control::VoterInfo, VoterSeen>> out;
  const control::Council council = known();
  const uint64_t lately_ns = core_.config.failure_deadline_ns();
  for (const control::VoterInfo& voter : council.voters) {
    const auto heard = runs_.find(voter.name);
    VoterSeen seen = VoterSeen::kSilent;
    if (!core_.passes_on()) {  // its run tells nothing that could be promised
      const auto echo = echoes_.find(voter.name);
      if (echo != echoes_.end() && core_.now_ns() < echo->second.heard_ns + lately_ns)
        seen = echo->second.votes ? VoterSeen::kAnswers : VoterSeen::kRestarted;
    } else if (is_self(voter))
      seen = own_run().may_promise(voter, council) ? VoterSeen::kAnswers : VoterSeen::kRestarted;
    else if (heard != runs_.end() && core_.now_ns() < heard->second.at_ns + lately_ns)
      seen = heard->second.run.may_promise(voter, council) ? VoterSeen::kAnswers : VoterSeen::kRestarted;
    out.emplace_back(voter, seen);
  }
  return out;
}

Task<Status> Quorum::found_by_hand() {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  if (!core_.passes_on()) {
    co_return Status::of_node(
        Code::kUnsupported, core_.name,
        " was given a coordinator ([cluster] coordinator), which founds by itself when it "
        "starts; only where nodes have seeds one is founded by hand");
  }
  if (core_.now_ns() < started_ns_ + deadline_ns) {
    co_return Status::of_node(
        Code::kDeadline, core_.name,
        " has just started, and may not know of the cluster yet: ask again in a moment");
  }
  for (const uint64_t until_ns = core_.now_ns() + 2 * deadline_ns; convening_;) {  // it stands for the seat
    if (core_.now_ns() >= until_ns)
      co_return Status::of_node(Code::kDeadline, core_.name, " still asks the voters to follow it");
    co_await core_.env.sleep_ns(deadline_ns / 64);
  }
  std::vector<control::VoterSeen> seen;
  std::string answer;
  for (const auto& [voter, how] : voters_seen()) {
    seen.push_back(how);
    if (how == control::VoterSeen::kAnswers) answer += (answer.empty() ? "" : ", ") + voter.name;
  }
  if (!control::may_found_by_hand(seen)) {
    co_return Status::of_node(Code::kExists, core_.name,
                              ": a majority of the voters answers (" + answer +
                                  "), and makes one of them the coordinator by itself");
  }
  fault::reached(fault::State::kFoundedByHand);
  std::vector<uint64_t> instead_of = newest().chains;
  instead_of.insert(instead_of.end(), newest().instead_of.begin(), newest().instead_of.end());
  log::error("founded_by_hand",
             {{"node", core_.name},
              {"why", "an operator gave the former council up: what its voters knew of replicas is gone"},
              {"answering", answer}});
  begin_with(std::move(instead_of));
  co_return Status();
}

void Quorum::found_anew(const control::Council& former) {
  tell_over(former);
  fault::reached(fault::State::kCouncilOver);
  found(core_.env.random_number() | 1);
}

}  // namespace ocm::node
