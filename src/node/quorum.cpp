#include "node/quorum.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "control/council_wire.h"
#include "control/voting_wire.h"

namespace ocm::node {

using control::Reply;
using control::Task;

Quorum::Quorum(Core& core, Home& home, Peers& peers)
    : core_(core),
      home_(home),
      peers_(peers),
      holder_(core.config.failure_deadline_ns()),
      memory_(core),
      seat_(core.config.failure_deadline_ns()),
      presence_(core.config.failure_deadline_ns()) {}

void Quorum::start(uint64_t coordinator_run) {
  OCM_DASSERT(!voter_.has_value() && !convener_.has_value());
  self_ = {core_.name, core_.incarnation, core_.control_address};
  voter_.emplace(core_.name, core_.incarnation, core_.config.failure_deadline_ns());
  memory_.start(*voter_);
  if (coordinator_run != 0) found(coordinator_run);
  ask_round();
  core_.env.spawn(keep_lease());
}

void Quorum::enter(PeerHandlers& handlers) {
  using Body = PeerHandlers::Body;
  for (const Body body : {Body::kLeaseVote, Body::kLoseReplica, Body::kSealCouncil, Body::kProposeCouncil,
                          Body::kInstallCouncil, Body::kNoteNames})
    handlers.on_now(body,
                    [this](const std::string&, const wire::Envelope& request) { return answer(request); });
}

Reply Quorum::answer(const wire::Envelope& request) {
  OCM_DASSERT(voter_.has_value());
  Reply out = answer_as_voter(request);
  memory_.keep(*voter_);
  return out;
}

Reply Quorum::answer_as_voter(const wire::Envelope& request) {
  wire::Envelope out;
  switch (request.body_case()) {
    case wire::Envelope::kLeaseVote:
      control::to_wire(answer_vote(control::from_wire(request.lease_vote())), *out.mutable_lease_granted());
      return out;
    case wire::Envelope::kLoseReplica: {
      const auto step = control::from_wire(request.lose_replica());
      if (!step.is_ok()) return step.status();
      const auto losing = voter_->lose(core_.now_ns(), request.lose_replica().council_id(), step.value());
      const bool no_room = losing.status().code() == Code::kLimit;
      if (!losing.is_ok() && !no_room) return losing.status();
      if (no_room)
        out.mutable_replica_losing()->set_no_room(true);
      else
        control::to_wire(losing.value(), *out.mutable_replica_losing());
      return out;
    }
    case wire::Envelope::kNoteNames: {
      const Status noted = voter_->note(control::from_wire(request.note_names()));
      if (noted.code() != Code::kLimit) return noted;  // K3 of control/notes.h
      if (const auto left_out = core_.limiter.admit("names_not_noted", core_.name, core_.now_ns(), ""))
        log::warn("names_not_noted", {{"why", noted.message()}, {"left_out", *left_out}});
      return Status();
    }
    case wire::Envelope::kSealCouncil: {
      const auto promised = answer_seal(control::from_wire(request.seal_council()));
      if (!promised.is_ok()) return promised.status();
      control::to_wire(promised.value(), *out.mutable_council_promise());
      return out;
    }
    case wire::Envelope::kProposeCouncil:
      return answer_proposal(control::from_wire(request.propose_council()));
    case wire::Envelope::kInstallCouncil:
      return answer_install(control::from_wire(request.install_council()));
    default: return Status(Code::kProtocol, "not a request to a voter");
  }
}

control::LeaseGrant Quorum::answer_vote(const control::LeaseVote& request) {
  control::LeaseGrant out = voter_->grant(core_.now_ns(), request);
  if (!core_.passes_on()) return out;
  if (request.seat_given_up) seek_seat();
  out.run = own_run();
  if (out.granted || out.council) return out;
  // For who asks voters that vote no more, or not yet: it may know an old council only.
  control::Council council = known();
  if (council.id != 0 && council.id != request.council) out.council = std::move(council);
  return out;
}

Result<control::CouncilPromise> Quorum::answer_seal(const control::SealRequest& request) {
  if (auto former = memory_.seal(request)) return std::move(*former);
  return voter_->seal(core_.now_ns(), request);
}

Status Quorum::answer_proposal(control::Proposal proposal) {
  if (const auto former = memory_.accept(proposal)) return *former;
  return voter_->accept(std::move(proposal));
}

Status Quorum::answer_install(control::MadeCouncil made) {
  if (const auto former = memory_.install(made)) return *former;
  const Status status = voter_->install(core_.now_ns(), std::move(made));
  if (!status.is_ok()) return status;
  fault::reached(fault::State::kCouncilInstalled);
  ask_round();
  return status;
}

Task<void> Quorum::keep_lease() {
  const uint64_t pause_ns = std::min(core_.config.heartbeat_ns(), core_.config.failure_deadline_ns() / 8);
  while (!core_.draining) {
    co_await core_.env.sleep_ns(core_.until_next_ns(pause_ns));
    ask_round();
    memory_.keep(*voter_);
    if (core_.passes_on()) seek_seat();
  }
}

bool Quorum::acts() const {
  if (!core_.passes_on()) return convener_.has_value();
  // A council of its own that it is just changing knows of the votes that it holds.
  const control::Council& council = newest();
  return !resigned_ && convener_ && is_mine(council) && control::continues(council, seat_in_) &&
         core_.now_ns() < seat_.until_ns();
}

bool Quorum::has_ended(const control::Council& council) const {
  const auto lately = [&](uint64_t at_ns) {
    return at_ns != 0 && core_.now_ns() < at_ns + 2 * core_.config.failure_deadline_ns();
  };
  size_t run = 0, may_promise = 0;
  bool one_heard = false;  // of those that run
  for (const control::VoterInfo& voter : council.voters) {
    const auto it = runs_.find(voter.name);
    const Heard known = is_self(voter)      ? Heard{own_run(), core_.now_ns()}
                        : it != runs_.end() ? it->second
                                            : Heard{{voter.incarnation, {}}, 0};
    const bool runs = known.run.votes(voter);
    run += runs ? 1 : 0;
    one_heard = one_heard || (runs && lately(known.at_ns));
    may_promise += known.run.may_promise(voter, council) ? 1 : 0;
  }
  OCM_DASSERT(run <= may_promise && may_promise <= council.voters.size());
  // Those that remember it stand for no seat: one that runs must.
  return 2 * (one_heard ? may_promise : run) <= council.voters.size();
}

bool Quorum::is_over(const control::Council& council) const {
  if (is_given_up(council)) return true;
  return council.voters.size() > 1 && (has_ended(council) || council.id == before_own_);
}

bool Quorum::is_given_up(const control::Council& council) const {
  return control::replaces(stranger_, council) && core_.now_ns() >= holder_.until_ns() &&
         !fault::at(fault::Point::kGivenUpStays);
}

control::Council Quorum::known() const {
  const control::Council& council = newest();
  if (!is_over(council)) return council;
  return is_over(stranger_) ? control::Council() : stranger_;
}

void Quorum::heard_run(const std::string& node, control::VoterRun run) {
  if (run.incarnation != control::Incarnation{} && holder_.council().has_node(node)) {
    constexpr size_t kRunsMax = 64;
    if (runs_.size() >= kRunsMax) runs_.clear();
    runs_[node] = {std::move(run), core_.now_ns()};
    OCM_DASSERT(runs_.size() <= kRunsMax);
  }
}

void Quorum::told_of(const control::Council& council) {
  if (!control::is_council(council)) return;
  if (was_alone(council) && fault::at(fault::Point::kLoneFoundsAtOnce)) found_first();
  learn(council);
}

bool Quorum::was_alone(const control::Council& council) const {
  if (council.voters.size() != 1) return false;
  const control::VoterInfo& first = control::coordinator_of(council);
  return is_self(first) && first.incarnation != self_.incarnation;
}

bool Quorum::is_dead(const control::Council& council) const {
  return core_.passes_on() && was_alone(council) && !fault::at(fault::Point::kLoneFollowsItself);
}

void Quorum::seek_seat() {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns(), now = core_.now_ns();
  OCM_DASSERT(core_.passes_on() && deadline_ns >= 8);
  const control::Council& council = voter_->council();
  if (convening_ || resigned_ || council.id == 0 || newest().id != council.id || is_over(council)) return;
  if (core_.stopping && fault::at(fault::Point::kNeverStands)) return;
  if (std::exchange(voter_of_, council.id) != council.id) {
    voter_since_ns_ = now;
    jitter_ns_ = core_.env.random_number() % (deadline_ns / 8);
  }
  const bool mine = is_mine(council);
  if (mine) take_up();
  // The votes for the coordinator before may have to be waited out.
  const uint64_t lost_ns = std::max(seat_.until_ns(), voter_since_ns_ + deadline_ns + deadline_ns / 8);
  // Who is about to end lets others go first; the other voters may all have restarted, and nobody else can.
  const uint64_t at_ns =
      (mine ? lost_ns : voter_->candidate_at_ns(jitter_ns_)) + (core_.stopping ? deadline_ns : 0);
  if (now >= std::max(at_ns, stand_next_ns_)) core_.env.spawn(stand());
}

Task<void> Quorum::resign() {
  if (!core_.passes_on() || !is_mine(newest())) co_return;
  fault::reached(fault::State::kSeatGivenUp);
  resigned_ = true;
  seat_.drop();
  control::LeaseVote vote;
  vote.council = newest().id;
  vote.partition = core_.partition;
  vote.seat_given_up = self_.incarnation;
  wire::Envelope message;
  control::to_wire(vote, *message.mutable_lease_vote());
  (void)co_await ask_all(newest(), std::move(message), control::majority(newest()));
}

void Quorum::take_up() {
  if (!convener_)
    convener_.emplace(core_.env.random_number() | 1, self_,
                      [this](const control::Incarnation& former) { return memory_.remembers(former); });
  if (convener_->council().id == voter_->council().id) return;
  convener_->take_up(voter_->made_of());
  sealing_ = telling_ = false;
  OCM_DASSERT(convener_->council().id == voter_->council().id && convener_->is_valid());
}

Task<void> Quorum::stand() {
  if (convening_ || voter_->council().id == 0) co_return;  // since it was spawned
  convening_ = true;
  fault::reached(fault::State::kSeatSought);
  take_up();
  ++core_.metrics.council_attempts;
  convener_->begin(true);
  const control::Council council = convener_->council();
  const bool agreed = co_await others_agree(council);
  if (!agreed) {  // P4: some may not have it, for who made it ended; they have it at the next attempt
    if (!fault::at(fault::Point::kNotTaughtAgain)) core_.env.spawn(tell(council, voter_->made_of()));
  } else {
    sealing_ = true;
    co_await seal(convener_->council());
    const auto voters = control::choose_voters(convener_->council(), candidates({}, {}));
    if (convener_->propose(core_.env.random_number() | 1, voters)) co_await accept();
  }
  if (convener_->end()) co_await install();
  const uint64_t rest_ns = core_.config.failure_deadline_ns() / 4;
  stand_next_ns_ = core_.now_ns() + rest_ns / 2 + core_.env.random_number() % rest_ns;
  convening_ = false;
}

void Quorum::ask_round() {
  (void)come_to(voter_->council());
  if (convener_) (void)come_to(convener_->council());
  const control::Council council = holder_.council();  // a vote may bring another
  for (const control::VoterInfo& voter : council.voters) ask_voter(council, voter);
  if (!core_.passes_on()) return;
  const control::Council mine = newest();  // founded anew, and this node's home is of another yet
  if (mine.id == council.id || !is_mine(mine)) return;
  for (const control::VoterInfo& voter : mine.voters) ask_voter(mine, voter);
}

void Quorum::ask_voter(const control::Council& council, const control::VoterInfo& voter) {
  const Echo& echo = echoes_[voter.name];
  if (!is_self(voter) && !asking_.emplace(council.id, voter.name).second) return;
  control::LeaseVote vote;
  vote.council = council.id;
  vote.partition = core_.partition;
  vote.node = core_.name;
  // P4: who could not install what it made leaves the seat to a voter that has it.
  const bool is_installed = voter_->council().id == council.id || fault::at(fault::Point::kSeatTooEarly);
  if (core_.passes_on() && !resigned_ && is_mine(council) && is_installed) vote.seat = self_.incarnation;
  vote.end = end_;
  vote.freed = echo.freed;
  vote.gone = echo.gone;
  vote.freed_before = replicas_freed_before_;
  if (!is_self(voter)) {
    core_.env.spawn(ask(voter, std::move(vote)));
    return;
  }
  const uint64_t sent_ns = core_.now_ns();
  control::LeaseGrant grant = voter_->grant(sent_ns, vote);
  memory_.keep(*voter_);
  granted(voter.name, vote.council, sent_ns, std::move(grant));
}

void Quorum::follow_seat() {
  const control::Council& council = newest();
  if (council.id == seat_in_.id) return;
  // A lease that runs goes on where those voters know of it.
  if (control::continues(council, seat_in_))
    seat_.change_voters();
  else
    seat_.drop();
  seat_in_ = council;
  OCM_DASSERT(seat_in_.id == newest().id);
}

void Quorum::leader_changed() {
  const uint64_t council = known().id;
  if (std::exchange(leader_of_, council) != council && on_leader_) on_leader_();
}

Task<void> Quorum::ask(control::VoterInfo voter, control::LeaseVote vote) {
  const uint64_t sent_ns = core_.now_ns();
  wire::Envelope request;
  control::to_wire(vote, *request.mutable_lease_vote());
  const auto reply = co_await peers_.call(voter.address, std::move(request), sent_ns + patience_ns());
  asking_.erase({vote.council, voter.name});
  if (reply.is_ok())
    granted(voter.name, vote.council, sent_ns, control::from_wire(reply.value().lease_granted()));
}

void Quorum::granted(const std::string& voter, uint64_t council_id, uint64_t sent_ns,
                     control::LeaseGrant grant) {
  // Replicas that the cluster goes on without are freed before the vote counts.
  for (const ExtentId& dropped : grant.dropped) {
    if (fault::at(fault::Point::kDropIgnored)) break;
    if (on_dropped_) on_dropped_(dropped);
    home_.drop(dropped);
  }
  Echo& echo = echoes_[voter];
  echo.heard_ns = core_.now_ns();
  echo.votes = grant.granted;
  echo.over = grant.over && sent_ns > taken_for_over_ns_;
  if (echo.over) free_if_over();
  echo.freed = std::move(grant.dropped);
  echo.gone.clear();
  for (Watched& watched : grant.watched) {
    if (!note(watched))
      echo.gone.push_back(watched.replica);
    else if (watched.in_doubt)
      settle_doubt(std::move(watched));
  }
  const bool tells_run = grant.run.has_value();
  if (tells_run) heard_run(voter, std::move(*grant.run));
  if (grant.seat) {
    follow_seat();
    if (council_id == seat_in_.id) seat_.granted(voter, sent_ns, control::majority(seat_in_));
  }
  const bool is_sealed = !grant.granted && !grant.council && !grant.over && tells_run;
  if (is_sealed && council_id == newest().id && acts() && !fault::at(fault::Point::kSealedStays)) {
    // It promised the end to a candidate that failed, and votes no more: the next council lets it.
    fault::reached(fault::State::kVoterLeftSealed);
    sealing_ = true;
  }
  if (grant.granted)
    holder_.granted(council_id, voter, sent_ns, core_.now_ns());
  else if (grant.council)
    (void)come_to(*grant.council);
  renew();
}

void Quorum::renew() {
  OCM_DASSERT(core_.lease_until_ns != nullptr);
  core_.lease_until_ns->store(holder_.until_ns(), std::memory_order_release);
  core_.lease_renewed.notify();
}

bool Quorum::come_to(const control::Council& council) {
  if (!control::is_council(council) || is_dead(council)) return false;
  const bool is_new = holder_.adopt(council);
  if (is_new && !fault::at(fault::Point::kVoterStays)) voter_->home_came_to(council);
  if (!is_new) return false;
  OCM_DASSERT(holder_.council().id == council.id);
  memory_.keep(*voter_);
  memory_.home_came_to(council);
  leader_changed();
  return true;
}

void Quorum::learn(const control::Council& council) {
  if (council.id != 0 && !control::is_council(council)) return;
  if (is_dead(council)) {
    // Of two on one chain each continues the other.
    const bool later = council.number > holder_.council().number;
    if (later && control::continues(council, holder_.council()) && !fault::at(fault::Point::kFormerStays))
      before_own_ = holder_.council().id;
    return;
  }
  if (come_to(council)) ask_round();
  const uint64_t now = core_.now_ns();
  if (!holder_.is_stranger(council)) {
    stranger_since_ns_ = 0;
    strangers_.clear();
    return;
  }
  // Who restarts again and again is not gone: each chain is waited for anew, as long as there are not too many.
  constexpr size_t kStrangersMax = 256;
  const bool is_next = control::continues(council, stranger_);
  OCM_DASSERT(strangers_.size() <= kStrangersMax);
  if (strangers_.size() < kStrangersMax && strangers_.insert(council.id).second && !is_next)
    stranger_since_ns_ = 0;
  if (std::exchange(stranger_, council).id != council.id) leader_changed();
  // The coordinator started anew and could not bring this node's council over: its voters are gone.
  constexpr uint64_t kPatienceDeadlines = 10;
  if (stranger_since_ns_ == 0) stranger_since_ns_ = now;
  if (now < holder_.until_ns()) return;
  // Who neither votes nor has replicas knows nothing that another could miss; nor does a voter whom nobody can ask.
  const bool may_matter =
      (voter_->votes() && !is_over(voter_->council())) || !home_.directory().replicas().empty();
  const uint64_t patience_ns = kPatienceDeadlines * core_.config.failure_deadline_ns();
  if (!may_matter || now >= stranger_since_ns_ + patience_ns) start_over(council);
}

void Quorum::free_replicas(const char* why) {
  std::vector<ExtentId> replicas = home_.directory().replicas();
  // A second id before the one that it follows: M11 of control/remake.h.
  std::sort(replicas.begin(), replicas.end(),
            [](ExtentId a, ExtentId b) { return made_before(b.generation, a.generation); });
  if (replicas.empty()) return;
  log::warn("replicas_freed", {{"why", why}});
  replicas_freed_before_ = home_.next_generation();
  for (const ExtentId& id : replicas) home_.drop(id);
}

void Quorum::free_if_over() {
  const control::Council& council = holder_.council();
  const auto taken = static_cast<size_t>(
      std::count_if(council.voters.begin(), council.voters.end(), [this](const control::VoterInfo& voter) {
        const auto echo = echoes_.find(voter.name);
        return echo != echoes_.end() && echo->second.over;
      }));
  OCM_DASSERT(taken <= council.voters.size());
  if (council.voters.size() - taken >= control::majority(council)) return;
  free_replicas("another run of this node's daemon was taken for the only one");
  replicas_freed_before_ = home_.next_generation();  // also where there was none
  taken_for_over_ns_ = core_.now_ns();               // answers on the way tell of what was here until now
  for (auto& [voter, echo] : echoes_) echo.over = false;
}

void Quorum::start_over(const control::Council& council) {
  free_replicas("the voters that knew which of them are old are gone");
  if (!control::continues(council, voter_->council())) voter_->leave();
  memory_.keep(*voter_);
  holder_.start_over(council);
  stranger_ = {};
  strangers_.clear();
  stranger_since_ns_ = 0;
  renew();
  leader_changed();
  ask_round();
}

const control::Council& Quorum::newest() const {
  OCM_DASSERT(voter_.has_value());
  const control::Council& mine = holder_.council();
  const control::Council& voted = voter_->council();
  // Founded anew, and this node's home is of the council before; not where that has come to one which follows both.
  const auto is_anew = [&](const control::Council& council) {
    return holder_.is_stranger(council) && !control::continues(mine, council);
  };
  if (core_.passes_on() && is_anew(voted)) return voted;
  if (!core_.passes_on() && convener_ && is_anew(convener_->council())) return convener_->council();
  return voted.number > mine.number && control::continues(voted, mine) ? voted : mine;
}

void Quorum::reported(const control::VoterReport& report) {
  OCM_DASSERT(convener_.has_value());
  presence_.heard(core_.now_ns(), report.node, report.run);
  if (!cannot_be_sealed(report.council))
    convener_->reported(report.council);
  else if (!convener_->is_continued(report.council))
    tell_over(report.council);
  reported_[report.node] = {report.run.incarnation, report.council};
  for (const control::Council& council : report.remembered) remembered(council);
  // Whoever knew it, or one that it followed, has come to this one since.
  convener_->drop_foreign([this](const control::Council& one) {
    return std::none_of(reported_.begin(), reported_.end(), [&](const auto& last) {
      const control::Council& known = last.second.second;
      return known.id == one.id || control::continues(one, known);
    });
  });
}

Task<Quorum::Answers> Quorum::ask_all(control::Council council, Request request, size_t enough,
                                      bool (*counts)(const wire::Envelope&)) {
  struct Round {
    explicit Round(control::Env& env) : changed(env) {}
    control::Signal changed;
    Answers answers;
    size_t left = 0;
  };
  const auto count = [counts](const Answers& answers) {
    return static_cast<size_t>(std::count_if(answers.begin(), answers.end(),
                                             [counts](const auto& one) { return counts(one.second); }));
  };
  // Answers that nobody waits for any more may still come.
  const auto round = std::make_shared<Round>(core_.env);
  const auto one = [](Quorum& quorum, control::VoterInfo voter, wire::Envelope message,
                      std::shared_ptr<Round> out) -> Task<void> {
    if (quorum.is_self(voter)) {
      if (voter.incarnation == quorum.self_.incarnation || quorum.memory_.remembers(voter.incarnation)) {
        Reply reply = quorum.answer(message);
        if (control::reply_status(reply.message).is_ok())
          out->answers.emplace_back(voter.name, std::move(reply.message));
      }
    } else {
      const uint64_t deadline_ns = quorum.core_.now_ns() + quorum.patience_ns();
      auto reply = co_await quorum.peers_.call(voter.address, std::move(message), deadline_ns);
      if (reply.is_ok()) out->answers.emplace_back(voter.name, std::move(reply).value());
    }
    OCM_DASSERT(out->left > 0);
    --out->left;
    out->changed.notify();
  };
  round->left = council.voters.size();
  for (const control::VoterInfo& voter : council.voters) {
    core_.env.spawn(one(*this, voter, request(voter.name), round));
  }
  while (round->left > 0 && count(round->answers) < enough) co_await round->changed.wait();
  OCM_DASSERT(round->answers.size() + round->left <= council.voters.size());
  co_return round->answers;
}

Task<Quorum::Answers> Quorum::ask_all(control::Council council, wire::Envelope same, size_t enough) {
  co_return co_await ask_all(
      std::move(council), [&same](const std::string&) { return same; }, enough);
}

std::vector<control::VoterInfo> Quorum::candidates(const std::vector<control::VoterInfo>& nodes,
                                                   const std::set<std::string>& leaving) const {
  OCM_DASSERT(convener_.has_value() && self_.incarnation != control::Incarnation{});
  const control::Council together = convener_->together();
  const uint64_t now = core_.now_ns();
  std::vector<control::VoterInfo> out{self_};
  const auto add = [&](const control::VoterInfo& node) {
    const bool is_in = std::any_of(out.begin(), out.end(),
                                   [&](const control::VoterInfo& other) { return other.name == node.name; });
    if (!is_in && !node.address.empty() && !leaving.contains(node.name)) out.push_back(node);
  };
  const auto add_reported = [&](const control::VoterInfo& node) {
    const auto it = reported_.find(node.name);
    if (it == reported_.end() || it->second.first != node.incarnation) return;
    if (control::continues(together, it->second.second)) add(node);
  };
  for (const control::VoterInfo& voter : convener_->council().voters) {
    if (!presence_.misses(now, voter)) add_reported(voter);
  }
  for (const control::VoterInfo& voter : convener_->promisers()) add(voter);
  for (const control::VoterInfo& node : nodes) {
    if (presence_.heard_lately(now, node))
      add_reported(node);  // what was reported before this term may be over
  }
  return out;
}

Task<void> Quorum::convene(std::vector<control::VoterInfo> nodes, std::set<std::string> leaving) {
  living_ = nodes.size() + leaving.size();
  if (!convener_) co_return;
  // Its council was chosen by another voter: seek_seat() takes it up.
  const bool is_past = core_.passes_on() && !convening_ && convener_->council().id != newest().id;
  if (is_past && !convener_->has_chosen()) co_return;
  presence_.heard(core_.now_ns(), self_.name, own_run());  // its former runs are over
  for (const control::Council& council : memory_.councils()) remembered(council);
  const bool in_touch = presence_.look(core_.now_ns(), convener_->council(), self_.name);
  if (convening_) co_return;
  convening_ = true;
  const control::Council& mine = convener_->has_chosen() ? convener_->chosen().council : convener_->council();
  if (!core_.passes_on() && presence_.is_over(mine)) found_anew(mine);  // else P3
  convener_->drop_foreign([this](const control::Council& council) { return cannot_be_sealed(council); });
  learn(convener_->council());  // this node's home may be of the council before
  if (convener_->has_chosen()) {
    co_await install();
  } else if (in_touch || sealing_ || fault::at(fault::Point::kShrinksAlone)) {
    co_await attempt(nodes, leaving);
  }
  convening_ = false;
}

bool Quorum::cannot_be_sealed(const control::Council& council) const {
  const bool alone = council.voters.size() == 1 && is_self(council.voters.front());
  return !alone && presence_.is_over(council);
}

void Quorum::remembered(const control::Council& council) {
  const auto may_come = [&](const control::Council& known) {
    return known.id != 0 && (known.id == council.id || control::continues(council, known));
  };
  const bool is_needed = may_come(holder_.council()) ||
                         std::any_of(reported_.begin(), reported_.end(),
                                     [&](const auto& last) { return may_come(last.second.second); });
  if (is_needed && control::is_council(council) && !cannot_be_sealed(council)) convener_->reported(council);
}

void Quorum::tell_over(const control::Council& council) {
  if (std::exchange(told_over_, council.id) == council.id) return;
  log::warn("council_over",
            {{"why", "a majority of its voters restarted: what they knew of replicas is gone"}});
}

Task<void> Quorum::attempt(const std::vector<control::VoterInfo>& nodes,
                           const std::set<std::string>& leaving) {
  const auto voters = [&] {
    return control::choose_voters(convener_->council(), candidates(nodes, leaving));
  };
  if (!telling_ && convener_->has_unheard()) {
    telling_ = true;
    core_.env.spawn(tell(convener_->council(), convener_->made_of()));
  }
  if (!sealing_ && !convener_->has_foreign() && control::same_voters(convener_->council(), voters()))
    co_return;
  ++core_.metrics.council_attempts;
  convener_->begin(core_.now_ns() > started_ns_ + core_.config.failure_deadline_ns());
  std::set<uint64_t> asked;
  const auto seal_others = [&]() -> Task<void> {
    for (;;) {
      const auto bases = convener_->to_seal();
      const auto next = std::find_if(bases.begin(), bases.end(), [&](const control::Council& base) {
        const bool may_answer =
            presence_.is_near(core_.now_ns(), base) || fault::at(fault::Point::kSealsUnreached);
        return may_answer && asked.insert(base.id).second;
      });
      if (next == bases.end()) co_return;
      co_await seal(*next);
    }
  };
  co_await seal_others();
  if (sealing_ || convener_->has_found() || !control::same_voters(convener_->council(), voters())) {
    sealing_ = true;
    co_await seal(convener_->council());
    co_await seal_others();  // what its voters accepted may follow others
    if (convener_->propose(core_.env.random_number() | 1, voters())) co_await accept();
  }
  if (convener_->end()) co_await install();
}

control::Council Quorum::without_self(control::Council council) const {
  std::erase_if(council.voters, [this](const auto& voter) { return is_self(voter); });
  return council;
}

Task<bool> Quorum::others_agree(control::Council base) {
  OCM_DASSERT(convener_.has_value() && control::majority(base) > 0);
  const size_t needed = control::majority(base) - 1;
  wire::Envelope request;
  control::to_wire(convener_->seal_request(base, false), *request.mutable_seal_council());
  size_t agreed = 0;
  const Answers answers = co_await ask_all(without_self(base), std::move(request), needed);
  for (const auto& [voter, answer] : answers)
    agreed += convener_->promised(base, voter, control::from_wire(answer.council_promise())) ? 1 : 0;
  co_return agreed >= needed;
}

Task<void> Quorum::seal(control::Council base) {
  const auto ask = [&](bool tell, size_t enough) -> Task<std::optional<control::MadeCouncil>> {
    wire::Envelope request;
    control::to_wire(convener_->seal_request(base, tell), *request.mutable_seal_council());
    const Answers answers = co_await ask_all(base, std::move(request), enough);
    std::optional<control::MadeCouncil> told;
    for (const auto& [voter, answer] : answers) {
      control::CouncilPromise promise = control::from_wire(answer.council_promise());
      std::optional<control::MadeCouncil> made_of = std::move(promise.made_of);
      if (!convener_->promised(base, voter, std::move(promise))) continue;
      if (made_of && made_of->council.id == base.id) told = std::move(made_of);
    }
    co_return told;
  };
  if (fault::at(fault::Point::kCouncilUnsealed)) {
    control::CouncilPromise unasked;
    unasked.agreed = true;
    for (const control::VoterInfo& voter : base.voters) convener_->promised(base, voter.name, unasked);
    co_return;
  }
  (void)co_await ask(false, control::majority(base));
  if (convener_->is_sealed(base)) co_return;
  std::optional<control::MadeCouncil> made_of = co_await ask(true, 1);
  if (!made_of) co_return;
  fault::reached(fault::State::kCouncilTaught);
  // The run that made it may have ended before all of its voters heard.
  co_await tell(base, std::move(*made_of));
  (void)co_await ask(false, control::majority(base));
}

Task<void> Quorum::accept() {
  while (const auto base = convener_->to_accept()) {
    if (fault::at(fault::Point::kCouncilUnsealed)) {
      for (const control::VoterInfo& voter : base->voters) convener_->accepted(*base, voter.name);
      continue;
    }
    wire::Envelope request;
    control::to_wire(convener_->accept_request(*base), *request.mutable_propose_council());
    const Answers answers = co_await ask_all(*base, std::move(request), control::majority(*base));
    for (const auto& [voter, answer] : answers) convener_->accepted(*base, voter);
    const auto next = convener_->to_accept();
    if (next && next->id == base->id) co_return;
  }
}

Task<void> Quorum::install() {
  OCM_DASSERT(convener_.has_value() && convening_);
  wire::Envelope request;
  control::to_wire(convener_->chosen(), *request.mutable_install_council());
  const control::Council next = convener_->chosen().council;
  // P4: nobody hears of it from here before others can go on with it.
  const control::Council others = without_self(next);
  const size_t own = others.voters.size() == next.voters.size() ? 0 : 1;
  OCM_DASSERT(own == 0 || others.voters.size() < next.voters.size());
  const size_t needed = control::majority(next) - own;
  Answers answers = co_await ask_all(others, request, needed);
  if (!convener_->has_chosen() || convener_->chosen().council.id != next.id) co_return;
  if (own != 0 && answers.size() >= needed) {
    Reply mine = answer(request);
    if (control::reply_status(mine.message).is_ok())
      answers.emplace_back(core_.name, std::move(mine.message));
  }
  if (convener_->chosen().follows.size() > 1) fault::reached(fault::State::kCouncilContinued);
  bool acts = false;
  for (const auto& [voter, answer] : answers) acts = convener_->installed(voter) || acts;
  if (!acts && core_.passes_on() && has_ended(next) && !fault::at(fault::Point::kGoneIsAwaited))
    (void)come_to(next);  // P6
  if (!acts) co_return;
  if (convener_->council().id != next.id) co_return;  // of an earlier run: it is continued next
  sealing_ = telling_ = false;
  std::string names;
  for (const control::VoterInfo& voter : next.voters) names += (names.empty() ? "" : " ") + voter.name;
  log::info("council", {{"number", next.number}, {"voters", names}});
  ask_round();
}

Task<void> Quorum::tell(control::Council council, control::MadeCouncil made_of) {
  wire::Envelope request;
  control::to_wire(made_of, *request.mutable_install_council());
  const Answers answers = co_await ask_all(council, std::move(request));
  if (convener_->council().id != council.id) co_return;
  telling_ = false;
  for (const auto& [voter, answer] : answers) convener_->heard(voter);
}

}  // namespace ocm::node
