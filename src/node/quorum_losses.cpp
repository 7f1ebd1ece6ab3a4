// What this node asks the voters about replicas: to have one given up, or a part ended, what is in doubt, and whether its
// own home may end (control/loss.h).
#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/voting_wire.h"
#include "node/quorum.h"

namespace ocm::node {

using control::Task;
using Outcome = control::LossAsker::Outcome;

bool Quorum::note(const Watched& watched) {
  return home_.note_lost(watched.replica, watched.part, watched.lost, watched.ended);
}

void Quorum::settle_doubt(Watched watched) {
  OCM_DASSERT(watched.in_doubt.has_value());
  const ExtentId replica = *watched.in_doubt;
  constexpr size_t kAtOnceMax = 64;
  if (fault::at(fault::Point::kDoubtStays)) return;
  if (settling_.size() >= kAtOnceMax || !settling_.insert(replica).second) return;
  OCM_DASSERT(settling_.size() <= kAtOnceMax);
  auto asker = std::make_shared<control::LossAsker>(control::LossAsker::finishing(
      std::move(watched.part), std::move(watched.lost), replica, core_.env.random_number() | 1));
  const auto settle = [](Quorum& self, std::shared_ptr<control::LossAsker> of, ExtentId which) -> Task<void> {
    const uint64_t deadline_ns = self.core_.config.failure_deadline_ns();
    (void)co_await self.decide(*of, self.core_.now_ns() + 3 * deadline_ns, true);
    if (of->outcome() == Outcome::kLost) fault::reached(fault::State::kDoubtSettled);
    co_await self.core_.env.sleep_ns(deadline_ns);  // what stays in doubt is told again with each vote
    OCM_DASSERT(self.settling_.contains(which));
    self.settling_.erase(which);
  };
  core_.env.spawn(settle(*this, std::move(asker), replica));
}

void Quorum::run_is_over(uint32_t partition) {
  voter_->run_is_over(partition);
  memory_.keep(*voter_);
}

bool Quorum::votes_alone_for_now() const {
  if (fault::at(fault::Point::kNeverStands)) return false;
  const control::Council& council = newest();
  if (!core_.passes_on() || council.voters.size() != 1 || !is_mine(council)) return false;
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  const uint64_t since_ns = voter_of_ == council.id ? voter_since_ns_ : core_.now_ns();
  const bool is_first = since_ns < started_ns_ + deadline_ns;  // which it made for itself as it began
  const bool is_young = core_.now_ns() < since_ns + 2 * deadline_ns;
  return (is_young && !is_first) || control::voters_for(living_) > 1;
}

Task<bool> Quorum::begin_end() {
  const control::Council council = newest();
  if (core_.now_ns() < end_again_ns_) co_return false;
  // Of attempts that follow one another. A look before and after each takes up to two deadlines.
  if (core_.now_ns() > end_tried_ns_ + 8 * core_.config.failure_deadline_ns()) unheard_since_ns_ = 0;
  end_tried_ns_ = core_.now_ns();
  ++end_.leaving;
  OCM_DASSERT(end_.is_near());  // R11 of control/loss.h
  control::LeaseVote request;
  request.council = council.id;
  request.partition = core_.partition;
  request.end = end_;
  request.tell_all = true;
  wire::Envelope message;
  control::to_wire(request, *message.mutable_lease_vote());
  const Answers answers = co_await ask_all(council, std::move(message));
  struct Doubted {
    size_t voters = 0;
    std::vector<ExtentId> part;
  };
  size_t heard = 0;
  std::map<ExtentId, Doubted> doubted;
  for (const auto& [voter, answer] : answers) {
    control::LeaseGrant vote = control::from_wire(answer.lease_granted());
    if (!vote.granted) continue;
    ++heard;
    for (Watched& watched : vote.watched) {
      if (!note(watched) || !watched.in_doubt) continue;
      Doubted& one = doubted[watched.replica];
      ++one.voters;
      one.part = std::move(watched.part);
    }
  }
  if (council.id == 0 || heard < control::majority(council)) co_return false;
  // Who was not heard may accept a loss that nobody finds: the council changes soon where it is gone.
  OCM_DASSERT(heard <= council.voters.size());
  const size_t unheard = council.voters.size() - heard;
  if (unheard == 0)
    unheard_since_ns_ = 0;
  else if (unheard_since_ns_ == 0)
    unheard_since_ns_ = core_.now_ns();
  if (unheard != 0 && core_.now_ns() < unheard_since_ns_ + 3 * core_.config.failure_deadline_ns())
    co_return false;
  const auto may_be_lost = [&](const auto& one) {
    return one.second.voters + unheard >= control::majority(council);
  };
  if (std::any_of(doubted.begin(), doubted.end(), may_be_lost)) co_return false;
  const uint64_t give_up_ns = core_.now_ns() + core_.config.failure_deadline_ns();
  for (auto& [replica, one] : doubted) {
    if (fault::at(fault::Point::kDoubtLeft)) break;
    const Status given_up = co_await lose(std::move(one.part), replica, give_up_ns, 0);
    if (given_up.is_ok()) continue;
    // Each attempt makes the loss in doubt look new: nobody would settle it otherwise (R10).
    end_again_ns_ = core_.now_ns() + 3 * core_.config.failure_deadline_ns();
    co_return false;
  }
  co_return true;
}

void Quorum::take_back_end() {
  OCM_DASSERT(end_.stays <= end_.leaving);
  end_.stays = end_.leaving;
  ask_round();
}

Task<Status> Quorum::lose(std::vector<ExtentId> part, ExtentId replica, uint64_t give_up_ns, uint32_t uid,
                          control::LossKnown known) {
  control::LossAsker asker(std::move(part), replica, core_.env.random_number() | 1);
  asker.is_for(is_privileged(uid) ? 0 : uid);
  asker.knows(std::move(known));
  co_return co_await outcome_of(asker, give_up_ns, Code::kLimit);
}

Task<Status> Quorum::confirm_lost(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                                  uint64_t give_up_ns) {
  auto asker = control::LossAsker::confirming(std::move(part), std::move(lost), replica,
                                              core_.env.random_number() | 1);
  co_return co_await outcome_of(asker, give_up_ns);
}

Task<Status> Quorum::settle(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId replica,
                            ExtentId follows, uint64_t give_up_ns) {
  auto asker =
      control::LossAsker::settling(std::move(part), std::move(lost), replica, core_.env.random_number() | 1);
  const Status known = co_await outcome_of(asker, give_up_ns);
  const bool is_other = known.code() == Code::kRevoked && asker.ended() != follows;
  co_return is_other ? Status(Code::kCancelled, "the part ended in favour of another one") : known;
}

Task<Status> Quorum::outcome_of(control::LossAsker& asker, uint64_t give_up_ns, Code no_room) {
  const bool had_room = co_await decide(asker, give_up_ns, true);
  switch (asker.outcome()) {
    case Outcome::kLost: co_return Status();
    case Outcome::kLast:
      co_return Status(Code::kLost,
                       "it is the last replica: the cluster gave up the others, which another "
                       "writer could not reach");
    case Outcome::kEnded:
      co_return Status(Code::kRevoked, "the part was made again and goes on under other ids");
    default:
      if (!had_room)
        co_return Status(no_room,
                         "the voters remember as many parts with lost replicas as they may, or as a user may "
                         "have: start the nodes again that were lost, so that they can forget some");
      if (is_cut_off())
        co_return Status(Code::kDeadline, "this node was itself cut off from the voters: try again");
      co_return Status(Code::kDeadline,
                       "the voters that are reached are no majority, or the node may still serve");
  }
}

Task<Status> Quorum::end(std::vector<ExtentId> part, std::vector<ExtentId> lost, ExtentId successor,
                         uint64_t give_up_ns) {
  auto asker =
      control::LossAsker::ending(std::move(part), std::move(lost), successor, core_.env.random_number() | 1);
  (void)co_await decide(asker, give_up_ns, false);
  if (asker.outcome() == Outcome::kAsking) co_return Status(Code::kDeadline);
  const bool mine = asker.outcome() == Outcome::kEnded && asker.ended() == successor;
  co_return mine ? Status() : Status(Code::kCancelled, "another decision about the part was faster");
}

Task<bool> Quorum::is_witnessed(const control::LossAsker& asker) {
  std::vector<ExtentId> siblings = asker.siblings();
  if (siblings.empty() || !witness_ || fault::at(fault::Point::kNoWitness)) co_return true;
  co_return co_await witness_(std::move(siblings));
}

Task<bool> Quorum::decide(control::LossAsker& asker, uint64_t give_up_ns, bool gives_up) {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  uint64_t asked_council = 0, unwitnessed_ns = deadline_ns / 8;
  while (core_.now_ns() < give_up_ns) {
    // What could not be reached meanwhile may well be reached now.
    if (gives_up && is_cut_off()) co_return true;
    const control::Council council = newest();
    if (council.id != asked_council) asker.restart();
    asked_council = council.id;
    const bool witnessed = co_await is_witnessed(asker);
    if (!witnessed) {
      fault::reached(fault::State::kNoWitness);
      asker.not_witnessed();
      // Each time all voters promise once more: the homes of many parts may be gone for good.
      co_await core_.env.sleep_ns(unwitnessed_ns);
      unwitnessed_ns = std::min(2 * unwitnessed_ns, deadline_ns / 2);
      continue;
    }
    const auto request = [&](const std::string& voter) {
      wire::Envelope out;
      control::to_wire(asker.request(voter), council.id, *out.mutable_lose_replica());
      return out;
    };
    const uint64_t asked_ns = core_.now_ns();
    // Of one that cannot be reached a majority needs nothing; but after a refusal another one may be better (R4).
    const size_t enough = asker.was_refused() ? SIZE_MAX : control::majority(council);
    const Answers replies = co_await ask_all(council, request, enough, [](const wire::Envelope& reply) {
      return reply.replica_losing().agreed() && !reply.replica_losing().no_room();
    });
    // A daemon that stood still reads answers that were true before (M12 of control/remake.h).
    if (asker.settles() && core_.now_ns() > asked_ns + patience_ns()) continue;
    control::LossAsker::Answers answers;
    OCM_DASSERT(replies.size() <= council.voters.size());
    size_t without_room = 0;
    for (const auto& [voter, reply] : replies) {
      if (reply.replica_losing().no_room())
        ++without_room;
      else
        answers.emplace_back(voter, control::from_wire(reply.replica_losing()));
    }
    if (council.voters.size() - without_room < control::majority(council)) co_return false;
    asker.answered(fault::at(fault::Point::kLostByOne) ? 1 : control::majority(council), answers);
    if (asker.outcome() != Outcome::kAsking) co_return true;
    // Attempts that were refused wait at random, so that one of two writers comes through.
    uint64_t pause_ns = 0;
    const uint64_t rest_ns = deadline_ns / 16;
    if (asker.was_refused()) pause_ns = rest_ns / 2 + core_.env.random_number() % rest_ns;
    if (asker.wait_ns() != 0) pause_ns = std::min(rest_ns, asker.wait_ns());
    if (pause_ns != 0 || council.id == 0 || answers.empty())
      co_await core_.env.sleep_ns(std::max<uint64_t>(pause_ns, 1'000'000));
  }
  co_return true;
}

}  // namespace ocm::node
