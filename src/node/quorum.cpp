#include "node/quorum.h"

#include "base/fault.h"

namespace ocm::node {

using control::Reply;
using control::Task;
using Outcome = control::LossAsker::Outcome;

Quorum::Quorum(Core& core, Home& home, Peers& peers)
    : core_(core), home_(home), peers_(peers), holder_(core.config.failure_deadline_ns()) {}

void Quorum::start(uint64_t coordinator_run) {
  self_.set_name(core_.name);
  self_.set_incarnation(id_field(core_.incarnation));
  self_.set_address(core_.control_address);
  voter_.emplace(core_.name, self_.incarnation(), core_.config.failure_deadline_ns());
  if (coordinator_run != 0) {
    convener_.emplace(coordinator_run);
    const Status alone =
        voter_->install(core_.now_ns(), convener_->found(core_.env.random_number() | 1, self_));
    OCM_ASSERT(alone.is_ok());
  }
  ask_round();
  core_.env.spawn(keep_lease());
}

bool Quorum::handles(const wire::Envelope& request) const {
  switch (request.body_case()) {
    case wire::Envelope::kLeaseVote:
    case wire::Envelope::kLoseReplica:
    case wire::Envelope::kSealCouncil:
    case wire::Envelope::kInstallCouncil: return true;
    default: return false;
  }
}

Reply Quorum::answer(const wire::Envelope& request) {
  const uint64_t now = core_.now_ns();
  wire::Envelope out;
  switch (request.body_case()) {
    case wire::Envelope::kLeaseVote:
      voter_->grant(now, request.lease_vote(), *out.mutable_lease_granted());
      return out;
    case wire::Envelope::kLoseReplica: {
      auto losing = voter_->lose(now, request.lose_replica());
      if (!losing.is_ok()) return losing.status();
      *out.mutable_replica_losing() = std::move(losing).value();
      return out;
    }
    case wire::Envelope::kSealCouncil: {
      auto state = voter_->seal(now, request.seal_council());
      if (!state.is_ok()) return state.status();
      *out.mutable_voter_state() = std::move(state).value();
      return out;
    }
    case wire::Envelope::kInstallCouncil: {
      const Status status = voter_->install(now, request.install_council());
      if (status.is_ok()) ask_round();
      return status;
    }
    default: return Status(Code::kProtocol, "not a request to a voter");
  }
}

Task<void> Quorum::keep_lease() {
  const uint64_t pause_ns = std::min(core_.config.heartbeat_ns(), core_.config.failure_deadline_ns() / 8);
  while (!core_.draining) {
    co_await core_.env.sleep_ns(pause_ns);
    ask_round();
  }
}

void Quorum::ask_round() {
  holder_.adopt(voter_->council());
  if (convener_) holder_.adopt(convener_->council());
  const wire::Council council = holder_.council();  // a vote may bring another
  for (const wire::Voter& voter : council.voters()) {
    wire::Envelope request;
    auto& vote = *request.mutable_lease_vote();
    vote.set_council_id(council.id());
    vote.set_partition(core_.partition);
    const Echo& echo = echoes_[voter.name()];
    vote.mutable_freed()->Add(echo.freed.begin(), echo.freed.end());
    vote.mutable_gone()->Add(echo.gone.begin(), echo.gone.end());
    if (is_self(voter)) {
      const uint64_t sent_ns = core_.now_ns();
      wire::LeaseGranted out;
      voter_->grant(sent_ns, vote, out);
      granted(voter.name(), vote.council_id(), sent_ns, out);
    } else if (asking_.insert(voter.name()).second) {
      core_.env.spawn(ask(voter, std::move(request)));
    }
  }
}

Task<void> Quorum::ask(wire::Voter voter, wire::Envelope request) {
  const uint64_t sent_ns = core_.now_ns();
  const uint64_t council = request.lease_vote().council_id();
  const auto reply = co_await peers_.call(voter.address(), std::move(request), sent_ns + patience_ns());
  asking_.erase(voter.name());
  if (reply.is_ok()) granted(voter.name(), council, sent_ns, reply.value().lease_granted());
}

void Quorum::granted(const std::string& voter, uint64_t council_id, uint64_t sent_ns,
                     const wire::LeaseGranted& vote) {
  // Replicas that the cluster goes on without are freed before the vote counts.
  for (const auto& dropped : vote.dropped()) {
    if (fault::at(fault::Point::kDropIgnored)) break;
    home_.drop(id_of(dropped));
  }
  Echo& echo = echoes_[voter];
  echo.freed.assign(vote.dropped().begin(), vote.dropped().end());
  echo.gone.clear();
  for (const auto& watched : vote.watched()) {
    const ExtentId id = id_of(watched.replica());
    std::vector<ExtentId> part, lost;
    for (const auto& ref : watched.part()) part.push_back(id_of(ref));
    for (const auto& ref : watched.lost()) lost.push_back(id_of(ref));
    std::optional<ExtentId> ended;
    if (watched.has_ended()) ended = id_of(watched.ended());
    if (!home_.note_lost(id, part, lost, ended)) echo.gone.push_back(watched.replica());
  }
  if (vote.granted())
    holder_.granted(council_id, voter, sent_ns);
  else if (vote.has_council())
    holder_.adopt(vote.council());
  renew();
}

void Quorum::renew() { core_.lease_until_ns->store(holder_.until_ns(), std::memory_order_release); }

void Quorum::saw(const wire::Council& council) {
  if (holder_.adopt(council)) ask_round();
  const uint64_t now = core_.now_ns();
  if (!holder_.is_stranger(council)) {
    stranger_since_ns_ = 0;
    return;
  }
  // The coordinator started anew and could not bring this node's council over: its voters are gone.
  constexpr uint64_t kPatienceDeadlines = 10;
  if (stranger_since_ns_ == 0) stranger_since_ns_ = now;
  if (now < stranger_since_ns_ + kPatienceDeadlines * core_.config.failure_deadline_ns()) return;
  if (now >= holder_.until_ns()) start_over(council);
}

void Quorum::start_over(const wire::Council& council) {
  log::warn("replicas_freed", {{"why", "the voters that knew which of them are old are gone"}});
  for (const ExtentId& id : home_.directory().replicas()) home_.drop(id);
  voter_->leave();
  holder_.start_over(council);
  stranger_since_ns_ = 0;
  renew();
  ask_round();
}

const wire::Council& Quorum::newest() const {
  const wire::Council& mine = holder_.council();
  const wire::Council& voted = voter_->council();
  return voted.number() > mine.number() && control::continues(voted, mine) ? voted : mine;
}

void Quorum::reported(const wire::NodeView& node, const wire::Council& council) {
  convener_->reported(council);
  reported_[node.name()] = {node.incarnation(), council};
}

Task<Quorum::Answers> Quorum::ask_all(wire::Council council, Request request) {
  Answers answers;
  const auto one = [](Quorum& quorum, wire::Voter voter, wire::Envelope message, Answers& out) -> Task<void> {
    if (quorum.is_self(voter)) {
      if (voter.incarnation() != quorum.self_.incarnation()) co_return;
      Reply reply = quorum.answer(message);
      if (control::reply_status(reply.message).is_ok())
        out.emplace_back(voter.name(), std::move(reply.message));
      co_return;
    }
    const uint64_t deadline_ns = quorum.core_.now_ns() + quorum.patience_ns();
    auto reply = co_await quorum.peers_.call(voter.address(), std::move(message), deadline_ns);
    if (reply.is_ok()) out.emplace_back(voter.name(), std::move(reply).value());
  };
  std::vector<Task<void>> tasks;
  for (const wire::Voter& voter : council.voters())
    tasks.push_back(one(*this, voter, request(voter.name()), answers));
  co_await core_.env.join(std::move(tasks));
  co_return answers;
}

Task<bool> Quorum::seal(wire::Council base, wire::VoterState& state) {
  wire::Envelope request;
  *request.mutable_seal_council() = convener_->seal_request(base);
  const Answers answers = co_await ask_all(base, [&](const std::string&) { return request; });
  for (const auto& [voter, answer] : answers) control::merge(state, answer.voter_state());
  const bool all_heard = core_.now_ns() > started_ns_ + core_.config.failure_deadline_ns();
  co_return control::Convener::is_sealed(base, answers.size(), self_, all_heard);
}

Task<void> Quorum::install() {
  wire::Envelope request;
  *request.mutable_install_council() = convener_->proposal();
  const wire::Council next = convener_->proposal().council();
  const Answers answers = co_await ask_all(next, [&](const std::string&) { return request; });
  if (!convener_->installed(answers.size())) co_return;
  std::string names;
  for (const wire::Voter& voter : next.voters()) names += (names.empty() ? "" : " ") + voter.name();
  log::info("council", {{"number", next.number()}, {"voters", names}});
  ask_round();
}

Task<void> Quorum::convene(std::vector<wire::Voter> nodes) {
  if (convening_) co_return;
  convening_ = true;
  if (convener_->has_proposal()) {
    co_await install();
    convening_ = false;
    co_return;
  }
  wire::VoterState state;
  std::vector<wire::Council> merged;
  wire::Council together;  // the chains of the council to come
  *together.mutable_chains() = convener_->council().chains();
  *together.mutable_after() = convener_->council().after();
  const auto foreign = convener_->foreign();
  for (const auto& [id, council] : foreign) {
    wire::VoterState theirs;
    const bool sealed = co_await seal(council, theirs);
    if (!sealed) continue;
    fault::reached(fault::State::kCouncilContinued);
    control::merge(state, theirs);
    control::Convener::join(together, council);
    merged.push_back(council);
  }
  std::vector<wire::Voter> living{self_};
  for (wire::Voter& node : nodes) {
    if (is_self(node) || node.address().empty()) continue;
    const auto it = reported_.find(node.name());
    if (it == reported_.end() || it->second.first != node.incarnation()) continue;
    if (control::continues(together, it->second.second)) living.push_back(std::move(node));
  }
  std::vector<wire::Voter> voters = control::choose_voters(convener_->council(), living);
  if (!merged.empty() || sealing_ || !control::same_voters(convener_->council(), voters)) {
    sealing_ = true;
    bool sealed = fault::at(fault::Point::kCouncilUnsealed);
    if (!sealed) sealed = co_await seal(convener_->council(), state);
    if (sealed) {
      sealing_ = false;
      convener_->propose(core_.env.random_number() | 1, std::move(voters), merged, std::move(state));
      co_await install();
    }
  }
  convening_ = false;
}

Task<Status> Quorum::lose(std::vector<ExtentId> part, ExtentId replica, uint64_t give_up_ns) {
  control::LossAsker asker(std::move(part), replica, core_.env.random_number() | 1);
  co_await decide(asker, give_up_ns);
  switch (asker.outcome()) {
    case Outcome::kLost: co_return Status();
    case Outcome::kLast:
      co_return Status(Code::kLost,
                       "it is the last replica: the cluster gave up the others, which another "
                       "writer could not reach");
    case Outcome::kEnded: co_return Status(Code::kRevoked, "the part was made again and goes on under other ids");
    default:
      co_return Status(Code::kDeadline,
                       "the voters that are reached are no majority, or the node may still serve");
  }
}

Task<Status> Quorum::end(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor,
                         uint64_t give_up_ns) {
  auto asker = control::LossAsker::ending(std::move(part), std::move(lost), successor, core_.env.random_number() | 1);
  co_await decide(asker, give_up_ns);
  if (asker.outcome() == Outcome::kAsking) co_return Status(Code::kDeadline);
  const bool mine = asker.outcome() == Outcome::kEnded && asker.ended() == successor;
  co_return mine ? Status() : Status(Code::kCancelled, "another decision about the part was faster");
}

Task<void> Quorum::decide(control::LossAsker& asker, uint64_t give_up_ns) {
  uint64_t asked_council = 0;
  while (core_.now_ns() < give_up_ns) {
    const wire::Council council = newest();
    if (council.id() != asked_council) asker.restart();
    asked_council = council.id();
    const auto request = [&](const std::string& voter) {
      wire::Envelope out;
      *out.mutable_lose_replica() = control::to_wire(asker.request(voter), council.id());
      return out;
    };
    const Answers replies = co_await ask_all(council, request);
    control::LossAsker::Answers answers;
    for (const auto& [voter, reply] : replies)
      answers.emplace_back(voter, control::from_wire(reply.replica_losing()));
    asker.answered(fault::at(fault::Point::kLostByOne) ? 1 : control::majority(council), answers);
    if (asker.outcome() != Outcome::kAsking) co_return;
    // Attempts that were refused wait at random, so that one of two writers comes through.
    uint64_t pause_ns = 0;
    const uint64_t rest_ns = core_.config.failure_deadline_ns() / 16;
    if (asker.was_refused()) pause_ns = rest_ns / 2 + core_.env.random_number() % rest_ns;
    if (asker.wait_ns() != 0) pause_ns = std::min(rest_ns, asker.wait_ns());
    if (pause_ns != 0 || council.id() == 0 || answers.empty())
      co_await core_.env.sleep_ns(std::max<uint64_t>(pause_ns, 1'000'000));
  }
}

}  // namespace ocm::node
