// What one voter tells of losses and forgets: R8, R10 and R13 of control/loss.h. The protocol as a whole is in tests/model and
// tests/simulation.
#include "control/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ocm::control {
namespace {

constexpr uint64_t kLeaseNs = 1'000'000'000;
const ExtentId kA{GlobalAddress(1, 0), 1}, kB{GlobalAddress(2, 0), 1};

LossRequest request(LossRequest::Phase phase, uint64_t promised_at_ns = 0) {
  LossRequest out;
  out.phase = phase;
  out.part = {kA, kB};
  out.replica = kB;
  out.ballot = {1, 7};
  out.promised_at_ns = promised_at_ns;
  return out;
}

std::optional<ExtentId> told_to(LossLedger& ledger, uint64_t now_ns, uint32_t partition) {
  const auto vote = ledger.grant(now_ns, partition, {}, {});
  return vote.watched.empty() ? std::nullopt : vote.watched.front().in_doubt;
}

TEST(LossLedger, TellsTheOtherHomesOfALossThatWasAcceptedAndNotLearned) {
  LossLedger ledger(kLeaseNs);
  uint64_t now_ns = 10 * kLeaseNs;
  for (const uint32_t home : {1u, 2u}) (void)ledger.grant(now_ns, home, {}, {});
  ASSERT_TRUE(ledger.answer(now_ns, request(LossRequest::Phase::kPrepare)).value().agreed);
  EXPECT_EQ(told_to(ledger, now_ns + 3 * kLeaseNs, 1), std::nullopt) << "nothing was accepted";
  now_ns += 3 * kLeaseNs;
  ASSERT_TRUE(ledger.answer(now_ns, request(LossRequest::Phase::kPrepare)).value().agreed);
  ASSERT_TRUE(ledger.answer(now_ns, request(LossRequest::Phase::kAccept, now_ns)).value().agreed);
  EXPECT_EQ(told_to(ledger, now_ns + 2 * kLeaseNs, 1), std::nullopt) << "its asker may go on";
  now_ns += 2 * kLeaseNs + 1;
  EXPECT_EQ(told_to(ledger, now_ns, 1), kB);
  EXPECT_EQ(told_to(ledger, now_ns, 2), std::nullopt) << "its own home has no say";
  LossRequest learn = request(LossRequest::Phase::kLearn);
  learn.lost = {kB};
  ASSERT_TRUE(ledger.answer(now_ns, learn).is_ok());
  EXPECT_EQ(told_to(ledger, now_ns + 3 * kLeaseNs, 1), std::nullopt);
}

TEST(LossLedger, TellsOfAnAcceptedLossThatASealedVoterHad) {
  LossLedger former(kLeaseNs), ledger(kLeaseNs);
  const uint64_t now_ns = 10 * kLeaseNs;
  for (const uint32_t home : {1u, 2u}) (void)former.grant(now_ns, home, {}, {});
  ASSERT_TRUE(former.answer(now_ns, request(LossRequest::Phase::kPrepare)).value().agreed);
  ASSERT_TRUE(former.answer(now_ns, request(LossRequest::Phase::kAccept, now_ns)).value().agreed);
  ledger.install(now_ns, former.state(now_ns));
  EXPECT_EQ(told_to(ledger, now_ns + 2 * kLeaseNs, 1), std::nullopt) << "its asker may go on";
  EXPECT_EQ(told_to(ledger, now_ns + 2 * kLeaseNs + 1, 1), kB);
  EXPECT_EQ(told_to(ledger, now_ns + 2 * kLeaseNs + 1, 2), std::nullopt);
}

/// R14: with a part of its own for each number.
Code learns(LossLedger& ledger, uint32_t part, uint32_t uid) {
  LossRequest learn = request(LossRequest::Phase::kLearn);
  learn.part = {{GlobalAddress(1, uint64_t{part} << 12), 1}, {GlobalAddress(2, uint64_t{part} << 12), 1}};
  learn.replica = learn.part.back();
  learn.lost = {learn.replica};
  learn.uid = uid;
  return ledger.answer(10 * kLeaseNs, learn).status().code();
}

TEST(LossLedger, TellsAHomeOfAllThatItHasInTurnAndOfAllThatItIsToFreeAtOnce) {
  constexpr uint32_t kParts = 3 * LossLedger::kWatchedMax + 7;
  LossLedger ledger(kLeaseNs);
  for (const uint32_t home : {1u, 2u, 3u}) (void)ledger.grant(10 * kLeaseNs, home, {}, {});
  for (uint32_t part = 1; part <= kParts; ++part) ASSERT_EQ(learns(ledger, part, 0), Code::kOk);
  std::set<ExtentId> told;
  for (size_t vote = 0, before = 0; vote < 4; ++vote, before = told.size()) {
    const auto granted = ledger.grant(11 * kLeaseNs, 1, {}, {});
    EXPECT_EQ(granted.watched.size(), LossLedger::kWatchedMax);
    for (const auto& watched : granted.watched) told.insert(watched.replica);
    EXPECT_EQ(told.size(), std::min<size_t>(before + LossLedger::kWatchedMax, kParts));
  }
  auto dropped = ledger.grant(11 * kLeaseNs, 2, {}, {}).dropped;
  EXPECT_EQ(dropped.size(), kParts);
  dropped.resize(5);
  EXPECT_EQ(ledger.grant(11 * kLeaseNs, 2, dropped, {}).dropped.size(), kParts - 5) << "it freed those";
  EXPECT_TRUE(ledger.grant(11 * kLeaseNs, 2, {}, {}).watched.empty()) << "all of its own are lost";
  for (const uint32_t home : {3u, GlobalAddress::kPartitionMax}) {
    const auto none = ledger.grant(11 * kLeaseNs, home, {}, {});
    EXPECT_TRUE(none.dropped.empty() && none.watched.empty());
  }
  EXPECT_TRUE(ledger.is_valid());
}

TEST(LossLedger, OneUserHasHalfOfThePartsAndAllUsersThreeQuarters) {
  constexpr uint32_t kMax = LossLedger::kPartsMax;
  LossLedger ledger(kLeaseNs);
  for (const uint32_t home : {1u, 2u}) (void)ledger.grant(10 * kLeaseNs, home, {}, {});
  uint32_t part = 0;
  while (part < kMax / 2) ASSERT_EQ(learns(ledger, part++, 1001), Code::kOk);
  EXPECT_EQ(learns(ledger, part, 1001), Code::kLimit);
  EXPECT_EQ(learns(ledger, part - 1, 1001), Code::kOk) << "what is known is decided on";
  while (part < kMax / 4 * 3) ASSERT_EQ(learns(ledger, part++, 1002), Code::kOk);
  EXPECT_EQ(learns(ledger, part, 1002), Code::kLimit) << "all users";
  LossLedger next(kLeaseNs);
  next.install(10 * kLeaseNs, ledger.state(10 * kLeaseNs));
  EXPECT_EQ(learns(next, part, 1003), Code::kLimit) << "the next council knows whose they are";
  while (part < kMax) ASSERT_EQ(learns(next, part++, 0), Code::kOk);
  EXPECT_EQ(learns(next, part, 0), Code::kLimit);
  EXPECT_TRUE(next.is_valid());
  const ExtentId freed[] = {{GlobalAddress(1, 0), 1}, {GlobalAddress(2, 0), 1}};
  (void)next.grant(10 * kLeaseNs, 1, {}, std::span(freed).first(1));
  (void)next.grant(10 * kLeaseNs, 2, {}, std::span(freed).last(1));
  EXPECT_TRUE(next.is_valid());
  EXPECT_EQ(learns(next, 0, 1001), Code::kOk) << "what is forgotten makes room";
}

/// R13: no other voter of the new council promised up to its ballot.
TEST(LossLedger, ForgetsWhatItAloneAcceptedWhenTheCouncilChanges) {
  LossLedger sealed(kLeaseNs), ledger(kLeaseNs);
  const uint64_t now_ns = 10 * kLeaseNs;
  for (LossLedger* voter : {&sealed, &ledger}) {
    for (const uint32_t home : {1u, 2u}) (void)voter->grant(now_ns, home, {}, {});
    ASSERT_TRUE(voter->answer(now_ns, request(LossRequest::Phase::kPrepare)).value().agreed);
  }
  const LossState before = sealed.state(now_ns);
  ASSERT_TRUE(ledger.answer(now_ns, request(LossRequest::Phase::kAccept, now_ns)).value().agreed);
  LossRequest prepare = request(LossRequest::Phase::kPrepare);
  prepare.ballot = {2, 3};
  EXPECT_EQ(ledger.answer(now_ns, prepare).value().accepted, kB);
  ledger.install(now_ns, before);
  prepare.ballot = {3, 3};
  const LossAnswer answer = ledger.answer(now_ns, prepare).value();
  EXPECT_TRUE(answer.agreed);
  EXPECT_EQ(answer.accepted_at.round, 0u);
  EXPECT_TRUE(ledger.is_valid());
}

/// R8: also where the council has changed since.
TEST(LossLedger, ForgetsAPartWhenTheRunOfTheLostReplicasHomeIsOver) {
  LossLedger former(kLeaseNs);
  const uint64_t now_ns = 10 * kLeaseNs;
  for (const uint32_t home : {1u, 2u})
    (void)former.grant(now_ns, home, {}, {}, {}, false, "n" + std::to_string(home));
  LossRequest learn = request(LossRequest::Phase::kLearn);
  learn.lost = {kB};
  ASSERT_TRUE(former.answer(now_ns, learn).is_ok());
  LossLedger ledger(kLeaseNs);
  ledger.install(now_ns, former.state(now_ns));
  EXPECT_TRUE(ledger.awaited(now_ns).empty()) << "they have just asked, so they go on";
  const uint64_t later_ns = now_ns + kLeaseNs;
  EXPECT_EQ(ledger.awaited(later_ns), (std::map<uint32_t, std::string>{{1, "n1"}, {2, "n2"}}));
  const std::vector<ExtentId> none, gone{kA};
  (void)ledger.grant(now_ns, 1, none, gone);  // the part was made again, or freed
  EXPECT_EQ(ledger.awaited(later_ns), (std::map<uint32_t, std::string>{{2, "n2"}}));
  ledger.run_is_over(3);
  EXPECT_EQ(ledger.parts(), 1u);
  ledger.run_is_over(2);
  EXPECT_EQ(ledger.parts(), 0u);
  EXPECT_TRUE(ledger.awaited(later_ns).empty());
  EXPECT_TRUE(ledger.is_valid());
  // It was not, and comes back: its replicas may be old. The next council knows it, too.
  LossLedger next(kLeaseNs);
  next.install(now_ns, ledger.state(now_ns));
  for (LossLedger* voter : {&ledger, &next}) {
    EXPECT_TRUE(voter->grant(now_ns, 2, none, none).over);
    EXPECT_LE(voter->vote_until_ns(2), now_ns + kLeaseNs) << "no new vote";
    EXPECT_TRUE(voter->grant(now_ns + 2 * kLeaseNs, 2, none, none).over);
    EXPECT_LT(voter->vote_until_ns(2), now_ns + 2 * kLeaseNs);
    const auto freed_before = [&](uint32_t generation) {
      return voter->grant(now_ns + 2 * kLeaseNs, 2, none, none, {}, false, "n2", generation);
    };
    EXPECT_TRUE(freed_before(kB.generation).over) << "not the one that was forgotten";
    EXPECT_FALSE(freed_before(kB.generation + 1).over);
    EXPECT_FALSE(voter->grant(now_ns + 2 * kLeaseNs, 2, none, none).over);
    EXPECT_FALSE(voter->grant(now_ns, 1, none, none).over);
  }
}

/// R8: what one voter takes for over is not told anew where another learns it later, after the home freed all.
TEST(LossLedger, ARunThatIsTakenForOverFreesOnce) {
  const uint64_t now_ns = 10 * kLeaseNs, later_ns = now_ns + 2 * kLeaseNs;
  LossLedger ledger(kLeaseNs), other(kLeaseNs);
  for (LossLedger* voter : {&ledger, &other}) {
    for (const uint32_t home : {1u, 2u})
      (void)voter->grant(now_ns, home, {}, {}, {}, false, "n" + std::to_string(home));
    LossRequest learn = request(LossRequest::Phase::kLearn);
    learn.lost = {kB};
    ASSERT_TRUE(voter->answer(now_ns, learn).is_ok());
    voter->run_is_over(2);
  }
  const std::vector<ExtentId> none;
  EXPECT_FALSE(ledger.grant(later_ns, 2, none, none, {}, false, "n2", kB.generation + 1).over);
  LossState both = ledger.state(later_ns);
  merge(both, other.state(later_ns));
  LossLedger next(kLeaseNs);
  next.install(later_ns, both);
  EXPECT_FALSE(next.grant(later_ns, 2, none, none, {}, false, "n2", kB.generation + 1).over);
}

LossAnswer promise(Ballot accepted_at = {}, ExtentId accepted = {}) {
  LossAnswer out;
  out.agreed = true;
  out.accepted_at = accepted_at;
  out.accepted = accepted;
  return out;
}

/// A council that was founded anew never heard of the part, nor of the home whose replica was lost before.
TEST(LossAsker, ConfirmsWhatAFormerCouncilDecided) {
  LossLedger ledger(kLeaseNs);
  uint64_t now_ns = 50'000;
  (void)ledger.grant(now_ns, kB.address.partition(), {}, {});
  LossAsker unknown({kA, kB}, kA, 3);
  EXPECT_EQ(ledger.answer(now_ns, unknown.request("v")).status().code(), Code::kPeerLost) << "R3";
  auto confirming = LossAsker::confirming({kA, kB}, {kA}, kA, 5);
  EXPECT_EQ(confirming.request("v").phase, LossRequest::Phase::kLearn) << "there is nothing left to decide";
  const auto ask = [&] {
    auto answer = ledger.answer(now_ns, confirming.request("v"));
    EXPECT_TRUE(answer.is_ok()) << answer.status().to_string();
    confirming.answered(1, {{"v", std::move(answer).value()}});
  };
  ask();
  EXPECT_EQ(confirming.outcome(), LossAsker::Outcome::kAsking)
      << "the home may have a lease of the council before";
  EXPECT_GT(confirming.wait_ns(), 0u);
  now_ns += kLeaseNs + 1;
  ask();
  EXPECT_EQ(confirming.outcome(), LossAsker::Outcome::kLost);
  auto unread = LossAsker::confirming({kA, kB}, {kA}, kA, 9);  // R7
  unread.knows({.over = {}, .is_unread = true});
  LossAnswer waits = promise();
  waits.lost = {kA};
  waits.wait_ns = kLeaseNs;
  unread.answered(2, {{"a", waits}});
  EXPECT_EQ(unread.outcome(), LossAsker::Outcome::kAsking) << "a majority is to learn it";
  unread.answered(2, {{"a", waits}, {"b", waits}});
  EXPECT_EQ(unread.outcome(), LossAsker::Outcome::kLost);
  // What is asked for and was never decided is decided first, after what is.
  const auto last = LossAsker::confirming({kA, kB}, {kA}, kB, 7);
  EXPECT_EQ(last.request("v").phase, LossRequest::Phase::kLearn) << "R2: the last one is not";
}

TEST(LossAsker, FinishesWhatWasAcceptedAndNothingElse) {
  const auto finishing = [] { return LossAsker::finishing({kA, kB}, {}, kB, 3); };
  LossAsker nothing =
      finishing();  // one voter of three accepted it, and the others promise: it never was decided
  nothing.answered(2, {{"a", promise({1, 7}, kB)}, {"b", promise()}, {"c", promise()}});
  EXPECT_EQ(nothing.outcome(), LossAsker::Outcome::kOvertaken);
  LossAsker maybe = finishing();  // of three, the third may have accepted it as well
  maybe.answered(2, {{"a", promise({1, 7}, kB)}, {"b", promise()}});
  EXPECT_EQ(maybe.outcome(), LossAsker::Outcome::kAsking);
  EXPECT_EQ(maybe.request("a").phase, LossRequest::Phase::kAccept);
  EXPECT_EQ(maybe.request("a").replica, kB);
  LossAsker other = finishing();
  other.answered(2, {{"a", promise({1, 7}, kA)}, {"b", promise({1, 7}, kA)}});
  EXPECT_EQ(other.outcome(), LossAsker::Outcome::kOvertaken);
  LossAsker decided = finishing();  // the instance is over, and was decided otherwise
  LossAnswer known = promise();
  known.lost = {kA};
  decided.answered(2, {{"a", known}, {"b", promise()}});
  EXPECT_EQ(decided.outcome(), LossAsker::Outcome::kOvertaken);
}

}  // namespace
}  // namespace ocm::control
