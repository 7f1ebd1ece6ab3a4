// One voter of a council: what it grants, decides, promises and remembers.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "council_fixture.h"

namespace ocm::control {
namespace {

using namespace test;

TEST_F(One, SaysLostOnlyWhenItsVotesAreOver) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  EXPECT_EQ(v.lose(kWorldStart + 1, loss(in)).value().wait_ns(), kLease - 1);
  EXPECT_EQ(v.lose(kWorldStart + kLease, loss(in)).value().wait_ns(), 0u);
}

TEST_F(One, NamesTheLossWithEachLaterVote) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  ASSERT_TRUE(v.lose(kWorldStart + 1, loss(in)).is_ok());
  const auto later = grant(kWorldStart + 2, vote(in));
  ASSERT_EQ(later.dropped_size(), 1);
  EXPECT_EQ(later.dropped(0).address(), replica(kHome).address.bits());
  EXPECT_EQ(v.lose(kWorldStart + kLease, loss(in)).value().wait_ns(), 0u)
      << "votes after the note do not put it off";
  EXPECT_EQ(grant(kWorldStart + 3, vote(in, kSibling)).dropped_size(), 0);
}

TEST_F(One, NamesNoMoreWhatTheHomeFreedAndSaysLostAtOnce) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  ASSERT_TRUE(v.lose(kWorldStart + 1, loss(in)).is_ok());
  auto again = vote(in);
  *again.add_freed() = grant(kWorldStart + 2, vote(in)).dropped(0);
  EXPECT_EQ(grant(kWorldStart + 3, again).dropped_size(), 0);
  EXPECT_EQ(v.lose(kWorldStart + 4, loss(in)).value().wait_ns(), 0u) << "what is decided stays decided";
}

TEST_F(One, KnowsNothingOfAHomeThatTheCouncilNeverServed) {
  LossRequest prepare;
  prepare.part = {replica(kHome), replica(kSibling)};
  prepare.replica = replica(kSibling);
  EXPECT_EQ(v.lose(kWorldStart, to_wire(prepare, in.id())).status().code(), Code::kPeerLost);
}

TEST_F(One, DecidesOfARunThatIsOverThoughItNeverGaveItALease) {
  wire::LoseReplica request = loss(in);
  request.clear_lost();
  request.set_phase(1);
  request.mutable_ballot()->set_round(1);
  request.mutable_ballot()->set_by(1);
  const auto unknown = v.lose(kWorldStart, request);
  EXPECT_EQ(unknown.status().code(), Code::kPeerLost);
  *request.add_over() = request.replica();
  const auto known = v.lose(kWorldStart, request);
  ASSERT_TRUE(known.is_ok()) << known.status().to_string();
  EXPECT_TRUE(known.value().agreed());
}

TEST_F(One, RefusesWhatIsMalformed) {
  LossRequest request;
  request.phase = LossRequest::Phase::kLearn;
  const auto code = [&] { return v.lose(kWorldStart, to_wire(request, in.id())).status().code(); };
  EXPECT_EQ(code(), Code::kInvalidArgument);
  request.part = {replica(kSibling)};
  request.replica = replica(kSibling);
  EXPECT_EQ(code(), Code::kInvalidArgument) << "one replica";
  request.part = {replica(kSibling), replica(kSibling)};
  EXPECT_EQ(code(), Code::kInvalidArgument) << "twice the same";
  request.part = {replica(kHome), replica(kSibling)};
  request.lost = request.part;
  EXPECT_EQ(code(), Code::kInvalidArgument) << "all of them";
  request.lost = {replica(kSibling, 8192)};
  EXPECT_EQ(code(), Code::kInvalidArgument) << "one of another part";
  wire::LoseReplica unknown = loss(in);
  unknown.set_phase(4);
  EXPECT_EQ(v.lose(kWorldStart, unknown).status().code(), Code::kInvalidArgument);
}

TEST_F(One, VotesInItsCouncilOnly) {
  const auto other = council(2, {voter("a")});
  const auto out = grant(kWorldStart, vote(other.council()));
  EXPECT_FALSE(out.granted());
  EXPECT_EQ(out.council().id(), in.id());
  EXPECT_FALSE(v.lose(kWorldStart, loss(other.council())).is_ok());
}

TEST_F(One, DoesNotVoteOnceSealed) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  ASSERT_TRUE(v.lose(kWorldStart, loss(in)).is_ok());
  const auto state = v.seal(kWorldStart + 1, sealing(in, 2));
  ASSERT_TRUE(state.is_ok());
  EXPECT_EQ(state.value().state().votes(0).left_ns(), kLease - 1);
  EXPECT_EQ(state.value().state().parts_size(), 1);
  EXPECT_FALSE(grant(kWorldStart + 2, vote(in)).granted());
  EXPECT_FALSE(v.lose(kWorldStart + 2, loss(in)).is_ok());
  EXPECT_TRUE(v.is_valid());
}

TEST_F(One, TellsTheNextRunOfTheCoordinatorWhatItAccepted) {
  ASSERT_TRUE(v.seal(kWorldStart, sealing(in, 2, 1)).value().agreed());
  ASSERT_TRUE(v.accept(proposing(in, council(2, {voter("a")}), 2, 1)).is_ok());
  const auto promise = v.seal(kWorldStart, sealing(in, 3, 2)).value();
  EXPECT_TRUE(promise.agreed());
  EXPECT_EQ(promise.accepted_at().round(), 2u);
  EXPECT_EQ(promise.accepted().council().number(), 2u);
  EXPECT_EQ(v.accept(proposing(in, council(2, {voter("a")}), 2, 1)).code(), Code::kPeerLost)
      << "below the promise";
  const auto refused = v.seal(kWorldStart, sealing(in, 2, 9)).value();
  EXPECT_FALSE(refused.agreed());
  EXPECT_EQ(refused.promised().round(), 3u);
  EXPECT_EQ(v.accept(proposing(in, council(4, {}), 4, 2)).code(), Code::kProtocol);
  EXPECT_FALSE(
      v.accept(proposing(council(9, {voter("a")}).council(), council(2, {voter("a")}), 9, 2)).is_ok());
}

TEST_F(One, TellsWhatItsCouncilWasMadeOf) {
  auto next = council(2, {voter("a")});
  next.mutable_state()->add_votes()->set_partition(kSibling);
  ASSERT_TRUE(v.install(kWorldStart, next).is_ok());
  auto request = sealing(next.council(), 3);
  request.set_tell(true);
  const auto promise = v.seal(kWorldStart, request).value();
  EXPECT_EQ(promise.made_of().council().id(), next.council().id());
  EXPECT_EQ(promise.made_of().state().votes(0).partition(), kSibling);
}

TEST_F(One, TakesOverWhatTheSealedOnesKnew) {
  Voter fresh("d", std::string(16, 'a'), kLease);
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  ASSERT_TRUE(v.lose(kWorldStart, loss(in)).is_ok());
  auto next = council(2, {voter("d")});
  *next.mutable_state() = v.seal(kWorldStart + 1, sealing(in, 2)).value().state();
  ASSERT_TRUE(fresh.install(kWorldStart + 5, next).is_ok());
  EXPECT_GE(fresh.lose(kWorldStart + 5, loss(next.council())).value().wait_ns(), kLease - 5);
  wire::LeaseGranted out;
  fresh.grant(kWorldStart + 6, vote(next.council()), out);
  EXPECT_EQ(out.dropped_size(), 1);
}

/// By the next run of the daemon, Q9.
std::optional<Voter> remembered(const Voter& former, const std::string& name = "a") {
  return Voter::remembered(kWorldStart, name, former.memory(), kLease);
}

TEST_F(One, IsRememberedWithWhatItPromisedAndAccepted) {
  ASSERT_TRUE(v.seal(kWorldStart, sealing(in, 3, 1)).value().agreed());
  ASSERT_TRUE(v.accept(proposing(in, council(3, {voter("b")}), 3, 1)).is_ok());
  auto former = remembered(v);
  ASSERT_TRUE(former);
  EXPECT_EQ(former->incarnation(), voter("a").incarnation());
  EXPECT_FALSE(former->seal(kWorldStart, sealing(in, 2, 9)).value().agreed()) << "it promised more";
  auto request = sealing(in, 4, 2);
  request.set_tell(true);
  const auto promise = former->seal(kWorldStart, request).value();
  EXPECT_TRUE(promise.agreed());
  EXPECT_EQ(promise.accepted_at().round(), 3u);
  EXPECT_EQ(promise.accepted().council().voters(0).name(), "b");
  EXPECT_EQ(promise.made_of().council().id(), in.id());
  EXPECT_TRUE(former->accept(proposing(in, council(4, {voter("c")}), 4, 2)).is_ok());
}

TEST_F(One, IsRememberedWithWhatItDecidedAboutReplicas) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  const auto blank = v.memory_key();
  ASSERT_TRUE(v.lose(kWorldStart, loss(in)).is_ok());
  EXPECT_NE(v.memory_key(), blank);
  const auto decided = v.memory_key();
  EXPECT_EQ(grant(kWorldStart + 1, vote(in)).dropped_size(), 1);
  EXPECT_EQ(v.memory_key(), decided) << "a vote is none of it";
  auto former = remembered(v);
  ASSERT_TRUE(former);
  const auto promise = former->seal(kWorldStart + kLease, sealing(in, 2)).value();
  ASSERT_TRUE(promise.agreed());
  ASSERT_EQ(promise.state().parts_size(), 1);
  EXPECT_EQ(promise.state().parts(0).lost_size(), 1);
  ASSERT_EQ(promise.state().votes_size(), 2) << "R3: homes that had a lease";
  for (const auto& vote : promise.state().votes()) EXPECT_EQ(vote.left_ns(), 0u) << "and have none any more";
  auto freed = vote(in);
  *freed.add_freed() = promise.state().parts(0).lost(0);
  (void)grant(kWorldStart + 2, freed);
  EXPECT_NE(v.memory_key(), decided);
}

TEST_F(One, WhatChangedLeadsFromOneMemoryToTheNext) {
  std::mt19937 random(1);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  wire::VoterMemory before = v.memory();
  auto key = v.memory_key();
  std::vector<wire::VoterChange> changes;
  size_t forgotten = 0;
  const auto follow = [&](int step) {
    const auto change = v.memory_since(key);
    ASSERT_TRUE(change) << step;
    forgotten += static_cast<size_t>(change->forgotten_size());
    changes.push_back(*change);
    key = v.memory_key();
    wire::VoterMemory after = before;
    apply_changes(after, changes);
    ASSERT_EQ(after.SerializeAsString(), v.memory().SerializeAsString()) << step;
    if (below(8) != 0) return;
    before = std::move(after);
    changes.clear();
  };
  (void)grant(kWorldStart, vote(in));
  follow(-1);
  for (int step = 0; step < 400; ++step) {
    const uint64_t offset = uint64_t{1 + below(20)} << 12, now = kWorldStart + below(kLease / 2);
    LossRequest request;
    request.part = {replica(kHome, offset), replica(kSibling, offset)};
    request.replica = request.part[below(2)];
    request.phase = below(3) == 0 ? LossRequest::Phase::kAccept : LossRequest::Phase::kLearn;
    request.ballot = {1 + below(5), 1};
    request.promised_at_ns = now;
    if (request.phase == LossRequest::Phase::kLearn) request.lost = {request.replica};
    (void)v.lose(now, to_wire(request, in.id()));
    auto freed = vote(in, below(2) == 0 ? kHome : kSibling);
    for (int i = below(4); i > 0; --i) {
      wire::ExtentRef& one = below(2) == 0 ? *freed.add_freed() : *freed.add_gone();
      const ExtentId id = replica(freed.partition(), uint64_t{1 + below(20)} << 12);
      one.set_address(id.address.bits());
      one.set_generation(id.generation);
    }
    if (below(20) == 0) freed.set_leaving(below(50));
    (void)grant(now, freed);
    follow(step);
  }
  EXPECT_GT(forgotten, 10u);
  ASSERT_TRUE(v.seal(kWorldStart + kLease, sealing(in, 3, 1)).value().agreed());
  follow(1000);
  ASSERT_TRUE(v.accept(proposing(in, council(3, {voter("b")}), 3, 1)).is_ok());
  follow(1001);
  auto next = council(4, {voter("a"), voter("b"), voter("c")});
  ASSERT_TRUE(v.install(kWorldStart + kLease, next).is_ok());
  EXPECT_FALSE(v.memory_since(key)) << "another council";
}

TEST_F(One, IsNotRememberedByAnother) {
  EXPECT_FALSE(remembered(v, "b"));
  auto memory = v.memory();
  memory.set_incarnation(std::string(16, 'z'));
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease)) << "a run that does not vote in it";
  memory = v.memory();
  memory.mutable_accepted_at()->set_round(3);
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease)) << "accepted, and not what";
  memory = v.memory();
  memory.mutable_made_of()->mutable_council()->clear_voters();
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease));
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", {}, kLease));
}

TEST_F(One, IsRememberedWithoutACouncilToInstallWhatWasChosenWithIt) {
  const Voter blank("a", voter("a").incarnation(), kLease);
  auto former = remembered(blank);
  ASSERT_TRUE(former);
  EXPECT_FALSE(former->seal(kWorldStart, sealing(in, 2)).is_ok());
  EXPECT_TRUE(former->is_valid());
  EXPECT_TRUE(former->install(kWorldStart, first).is_ok());
  EXPECT_TRUE(former->seal(kWorldStart, sealing(in, 2)).value().agreed());
  v.home_came_to(council(3, {voter("b")}).council());  // it left, Q7
  auto left = remembered(v);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->council().id(), 0u);
  EXPECT_EQ(left->install(kWorldStart, first).code(), Code::kPeerLost) << "Q8";
}

TEST_F(One, ALossThatOnlyItNotedWaitsForTheVotesOfOthers) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted());
  ASSERT_TRUE(v.lose(kWorldStart, loss(in)).is_ok());
  auto next = council(2, {voter("a")});  // made of what b and c knew: they voted later, and noted nothing
  auto& others = *next.mutable_state()->add_votes();
  others.set_partition(kHome);
  others.set_left_ns(kLease);
  ASSERT_TRUE(v.install(kWorldStart + kLease / 2, next).is_ok());
  EXPECT_EQ(v.lose(kWorldStart + kLease, loss(next.council())).value().wait_ns(), kLease / 2);
}

TEST_F(One, LeavesOutPartsThatNoVoterKnew) {
  const auto ref = [](wire::ExtentRef& out, ExtentId id) {
    out.set_address(id.address.bits());
    out.set_generation(id.generation);
  };
  const auto part = [&](wire::VoterState& state, const std::vector<ExtentId>& replicas) {
    auto& added = *state.add_parts();
    for (const ExtentId& id : replicas) ref(*added.add_replicas(), id);
  };
  auto next = council(2, {voter("a")});
  part(*next.mutable_state(), {replica(kHome), replica(kSibling)});
  part(*next.mutable_state(), {replica(kSibling), replica(9)});           // a replica of two parts
  part(*next.mutable_state(), {replica(9, 8192), replica(kHome, 8192)});  // not in order
  part(*next.mutable_state(), {replica(10), replica(11)});
  auto& lost = *next.mutable_state()->mutable_parts(3);
  ref(*lost.add_lost(), replica(12));  // none of it
  lost.add_freed(false);
  ASSERT_TRUE(v.install(kWorldStart, next).is_ok());
  EXPECT_TRUE(v.ledger().is_valid());
  EXPECT_EQ(v.ledger().parts(), 1u);
}

TEST_F(One, LeavesACouncilThatItsHomeHasLeft) {
  v.home_came_to(in);
  v.home_came_to(council(1, {voter("b")}).council());
  v.home_came_to(council(2, {voter("b")}, {2}).council());
  EXPECT_EQ(v.council().id(), in.id()) << "its own, not newer, of another chain";
  v.home_came_to(council(2, {voter("b"), voter("c"), voter("d")}).council());
  EXPECT_EQ(v.council().id(), in.id()) << "whatever follows that will continue this one, too";
  v.home_came_to(council(2, {voter("b")}).council());
  EXPECT_EQ(v.council().id(), 0u);
  EXPECT_TRUE(v.is_valid());
  EXPECT_FALSE(v.install(kWorldStart, first).is_ok()) << "Q8: it has forgotten what it promised there";
  EXPECT_TRUE(v.install(kWorldStart, council(3, {voter("a")}, {2})).is_ok());
}

TEST_F(One, RefusesACouncilThatDoesNotContinueItsOwn) {
  EXPECT_FALSE(v.install(kWorldStart, council(2, {voter("a")}, {2})).is_ok());
  EXPECT_FALSE(v.install(kWorldStart, council(1, {voter("a")}, {1, 2})).is_ok()) << "not newer";
  EXPECT_FALSE(v.install(kWorldStart, council(2, {voter("a", 'b')})).is_ok()) << "another run of this daemon";
  EXPECT_TRUE(v.install(kWorldStart, council(2, {voter("a")}, {1, 2})).is_ok());
}

}  // namespace
}  // namespace ocm::control
