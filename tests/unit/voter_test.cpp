// One voter of a council: what it grants, decides, promises and remembers.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "control/voting_wire.h"
#include "council_fixture.h"

namespace ocm::control {
namespace {

using namespace test;

TEST_F(One, SaysLostOnlyWhenItsVotesAreOver) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  EXPECT_EQ(v.lose(kWorldStart + 1, in.id, loss()).value().wait_ns, kLease - 1);
  EXPECT_EQ(v.lose(kWorldStart + kLease, in.id, loss()).value().wait_ns, 0u);
}

TEST_F(One, NamesTheLossWithEachLaterVote) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  ASSERT_TRUE(v.lose(kWorldStart + 1, in.id, loss()).is_ok());
  const auto later = grant(kWorldStart + 2, vote(in));
  ASSERT_EQ(later.dropped.size(), 1u);
  EXPECT_EQ(later.dropped[0], replica(kHome));
  EXPECT_EQ(v.lose(kWorldStart + kLease, in.id, loss()).value().wait_ns, 0u)
      << "votes after the note do not put it off";
  EXPECT_EQ(grant(kWorldStart + 3, vote(in, kSibling)).dropped.size(), 0u);
}

TEST_F(One, NamesNoMoreWhatTheHomeFreedAndSaysLostAtOnce) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  ASSERT_TRUE(v.lose(kWorldStart + 1, in.id, loss()).is_ok());
  auto again = vote(in);
  again.freed.push_back(grant(kWorldStart + 2, vote(in)).dropped[0]);
  EXPECT_EQ(grant(kWorldStart + 3, again).dropped.size(), 0u);
  EXPECT_EQ(v.lose(kWorldStart + 4, in.id, loss()).value().wait_ns, 0u) << "what is decided stays decided";
}

TEST_F(One, KnowsNothingOfAHomeThatTheCouncilNeverServed) {
  LossRequest prepare;
  prepare.part = {replica(kHome), replica(kSibling)};
  prepare.replica = replica(kSibling);
  EXPECT_EQ(v.lose(kWorldStart, in.id, prepare).status().code(), Code::kPeerLost);
}

TEST_F(One, DecidesOfARunThatIsOverThoughItNeverGaveItALease) {
  LossRequest request = loss();
  request.lost.clear();
  request.phase = LossRequest::Phase::kPrepare;
  request.ballot = {1, 1};
  const auto unknown = v.lose(kWorldStart, in.id, request);
  EXPECT_EQ(unknown.status().code(), Code::kPeerLost);
  request.over.push_back(request.replica);
  const auto known = v.lose(kWorldStart, in.id, request);
  ASSERT_TRUE(known.is_ok()) << known.status().to_string();
  EXPECT_TRUE(known.value().agreed);
}

TEST_F(One, RefusesWhatIsMalformed) {
  LossRequest request;
  request.phase = LossRequest::Phase::kLearn;
  const auto code = [&] { return v.lose(kWorldStart, in.id, request).status().code(); };
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
  wire::LoseReplica unknown;
  to_wire(loss(), in.id, unknown);
  unknown.set_phase(4);
  EXPECT_EQ(from_wire(unknown).status().code(), Code::kInvalidArgument);
}

TEST_F(One, VotesInItsCouncilOnly) {
  const auto other = council(2, {voter("a")});
  const auto out = grant(kWorldStart, vote(other.council));
  EXPECT_FALSE(out.granted);
  EXPECT_EQ(out.council.value().id, in.id);
  EXPECT_FALSE(v.lose(kWorldStart, other.council.id, loss()).is_ok());
}

TEST_F(One, DoesNotVoteOnceSealed) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  ASSERT_TRUE(v.lose(kWorldStart, in.id, loss()).is_ok());
  const auto state = v.seal(kWorldStart + 1, sealing(in, 2));
  ASSERT_TRUE(state.is_ok());
  EXPECT_EQ(state.value().state.losses.votes_ns.at(kHome), kLease - 1);
  EXPECT_EQ(state.value().state.losses.parts.size(), 1u);
  EXPECT_FALSE(grant(kWorldStart + 2, vote(in)).granted);
  EXPECT_FALSE(v.lose(kWorldStart + 2, in.id, loss()).is_ok());
  EXPECT_TRUE(v.is_valid());
}

TEST_F(One, TellsTheNextRunOfTheCoordinatorWhatItAccepted) {
  ASSERT_TRUE(v.seal(kWorldStart, sealing(in, 2, 1)).value().agreed);
  ASSERT_TRUE(v.accept(proposing(in, council(2, {voter("a")}), 2, 1)).is_ok());
  const auto promise = v.seal(kWorldStart, sealing(in, 3, 2)).value();
  EXPECT_TRUE(promise.agreed);
  EXPECT_EQ(promise.accepted_at.round, 2u);
  EXPECT_EQ(promise.accepted.value().council.number, 2u);
  EXPECT_EQ(v.accept(proposing(in, council(2, {voter("a")}), 2, 1)).code(), Code::kPeerLost)
      << "below the promise";
  const auto refused = v.seal(kWorldStart, sealing(in, 2, 9)).value();
  EXPECT_FALSE(refused.agreed);
  EXPECT_EQ(refused.promised.round, 3u);
  EXPECT_EQ(v.accept(proposing(in, council(4, {}), 4, 2)).code(), Code::kProtocol);
  EXPECT_FALSE(v.accept(proposing(council(9, {voter("a")}).council, council(2, {voter("a")}), 9, 2)).is_ok());
}

TEST_F(One, TellsWhatItsCouncilWasMadeOf) {
  auto next = council(2, {voter("a")});
  next.state.losses.votes_ns[kSibling] = 0;
  ASSERT_TRUE(v.install(kWorldStart, next).is_ok());
  auto request = sealing(next.council, 3);
  request.tell = true;
  const auto promise = v.seal(kWorldStart, request).value();
  EXPECT_EQ(promise.made_of.value().council.id, next.council.id);
  EXPECT_EQ(promise.made_of->state.losses.votes_ns.begin()->first, kSibling);
}

TEST_F(One, TakesOverWhatTheSealedOnesKnew) {
  Voter fresh("d", run_of('a'), kLease);
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  ASSERT_TRUE(v.lose(kWorldStart, in.id, loss()).is_ok());
  auto next = council(2, {voter("d")});
  next.state = v.seal(kWorldStart + 1, sealing(in, 2)).value().state;
  ASSERT_TRUE(fresh.install(kWorldStart + 5, next).is_ok());
  EXPECT_GE(fresh.lose(kWorldStart + 5, next.council.id, loss()).value().wait_ns, kLease - 5);
  EXPECT_EQ(fresh.grant(kWorldStart + 6, vote(next.council)).dropped.size(), 1u);
}

/// As it is saved, and read again.
VoterMemory saved(const VoterMemory& memory) {
  wire::VoterMemory bytes;
  to_wire(memory, bytes);
  return from_wire(bytes).value();
}
/// By the next run of the daemon, Q9.
std::optional<Voter> remembered(const Voter& former, const std::string& name = "a") {
  return Voter::remembered(kWorldStart, name, saved(former.memory()), kLease);
}

TEST_F(One, IsRememberedWithWhatItPromisedAndAccepted) {
  ASSERT_TRUE(v.seal(kWorldStart, sealing(in, 3, 1)).value().agreed);
  ASSERT_TRUE(v.accept(proposing(in, council(3, {voter("b")}), 3, 1)).is_ok());
  auto former = remembered(v);
  ASSERT_TRUE(former);
  EXPECT_EQ(former->incarnation(), voter("a").incarnation);
  EXPECT_FALSE(former->seal(kWorldStart, sealing(in, 2, 9)).value().agreed) << "it promised more";
  auto request = sealing(in, 4, 2);
  request.tell = true;
  const auto promise = former->seal(kWorldStart, request).value();
  EXPECT_TRUE(promise.agreed);
  EXPECT_EQ(promise.accepted_at.round, 3u);
  EXPECT_EQ(promise.accepted.value().council.voters[0].name, "b");
  EXPECT_EQ(promise.made_of.value().council.id, in.id);
  EXPECT_TRUE(former->accept(proposing(in, council(4, {voter("c")}), 4, 2)).is_ok());
}

TEST_F(One, IsRememberedWithWhatItDecidedAboutReplicas) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  const auto blank = v.memory_key();
  ASSERT_TRUE(v.lose(kWorldStart, in.id, loss()).is_ok());
  EXPECT_NE(v.memory_key(), blank);
  const auto decided = v.memory_key();
  EXPECT_EQ(grant(kWorldStart + 1, vote(in)).dropped.size(), 1u);
  EXPECT_EQ(v.memory_key(), decided) << "a vote is none of it";
  auto former = remembered(v);
  ASSERT_TRUE(former);
  const auto promise = former->seal(kWorldStart + kLease, sealing(in, 2)).value();
  ASSERT_TRUE(promise.agreed);
  const LossState& known = promise.state.losses;
  ASSERT_EQ(known.parts.size(), 1u);
  ASSERT_EQ(known.parts.begin()->second.lost.size(), 1u);
  ASSERT_EQ(known.votes_ns.size(), 2u) << "R3: homes that had a lease";
  for (const auto& [home, left_ns] : known.votes_ns) EXPECT_EQ(left_ns, 0u) << "and have none any more";
  auto freed = vote(in);
  freed.freed.push_back(known.parts.begin()->second.lost[0].id);
  (void)grant(kWorldStart + 2, freed);
  EXPECT_NE(v.memory_key(), decided);
}

TEST_F(One, WhatChangedLeadsFromOneMemoryToTheNext) {
  std::mt19937 random(1);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  const auto bytes_of = [](const VoterMemory& memory) {
    wire::VoterMemory out;
    to_wire(memory, out);
    return out.SerializeAsString();
  };
  VoterMemory before = v.memory();
  auto key = v.memory_key();
  std::vector<VoterChange> changes;
  size_t forgotten = 0;
  const auto follow = [&](int step) {
    const auto change = v.memory_since(key);
    ASSERT_TRUE(change) << step;
    forgotten += change->losses.forgotten.size();
    wire::VoterChange appended;
    to_wire(*change, appended);
    changes.push_back(from_wire(appended));
    key = v.memory_key();
    VoterMemory after = before;
    apply_changes(after, changes);
    ASSERT_EQ(bytes_of(after), bytes_of(v.memory())) << step;
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
    (void)v.lose(now, in.id, request);
    auto freed = vote(in, below(2) == 0 ? kHome : kSibling);
    for (int i = below(4); i > 0; --i) {
      std::vector<ExtentId>& told = below(2) == 0 ? freed.freed : freed.gone;
      told.push_back(replica(freed.partition, uint64_t{1 + below(20)} << 12));
    }
    if (below(20) == 0) freed.end.leaving = below(50);
    (void)grant(now, freed);
    follow(step);
  }
  EXPECT_GT(forgotten, 10u);
  ASSERT_TRUE(v.seal(kWorldStart + kLease, sealing(in, 3, 1)).value().agreed);
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
  memory.incarnation = run_of('z');
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease)) << "a run that does not vote in it";
  memory = v.memory();
  memory.accepted_at.round = 3;
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease)) << "accepted, and not what";
  memory = v.memory();
  memory.made_of.value().council.voters.clear();
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", memory, kLease));
  EXPECT_FALSE(Voter::remembered(kWorldStart, "a", {}, kLease));
}

TEST_F(One, IsRememberedWithoutACouncilToInstallWhatWasChosenWithIt) {
  const Voter blank("a", voter("a").incarnation, kLease);
  auto former = remembered(blank);
  ASSERT_TRUE(former);
  EXPECT_FALSE(former->seal(kWorldStart, sealing(in, 2)).is_ok());
  EXPECT_TRUE(former->is_valid());
  EXPECT_TRUE(former->install(kWorldStart, first).is_ok());
  EXPECT_TRUE(former->seal(kWorldStart, sealing(in, 2)).value().agreed);
  v.home_came_to(council(3, {voter("b")}).council);  // it left, Q7
  auto left = remembered(v);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->council().id, 0u);
  EXPECT_EQ(left->install(kWorldStart, first).code(), Code::kPeerLost) << "Q8";
}

TEST_F(One, ALossThatOnlyItNotedWaitsForTheVotesOfOthers) {
  ASSERT_TRUE(grant(kWorldStart, vote(in)).granted);
  ASSERT_TRUE(v.lose(kWorldStart, in.id, loss()).is_ok());
  auto next = council(2, {voter("a")});  // made of what b and c knew: they voted later, and noted nothing
  next.state.losses.votes_ns[kHome] = kLease;
  ASSERT_TRUE(v.install(kWorldStart + kLease / 2, next).is_ok());
  EXPECT_EQ(v.lose(kWorldStart + kLease, next.council.id, loss()).value().wait_ns, kLease / 2);
}

TEST_F(One, LeavesOutPartsThatNoVoterKnew) {
  auto next = council(2, {voter("a")});
  const auto add = [&](const std::vector<ExtentId>& replicas) -> LossState::Part& {
    LossState::Part& added = next.state.losses.parts[replicas.front()];
    added.replicas = replicas;
    return added;
  };
  add({replica(kHome), replica(kSibling)});
  add({replica(kSibling), replica(9)});                                  // a replica of two parts
  add({replica(9, 8192), replica(kHome, 8192)});                         // not in order
  add({replica(10), replica(11)}).lost.push_back({replica(12), false});  // none of it
  ASSERT_TRUE(v.install(kWorldStart, next).is_ok());
  EXPECT_TRUE(v.ledger().is_valid());
  EXPECT_EQ(v.ledger().parts(), 1u);
}

TEST_F(One, LeavesACouncilThatItsHomeHasLeft) {
  v.home_came_to(in);
  v.home_came_to(council(1, {voter("b")}).council);
  v.home_came_to(council(2, {voter("b")}, {2}).council);
  EXPECT_EQ(v.council().id, in.id) << "its own, not newer, of another chain";
  v.home_came_to(council(2, {voter("b"), voter("c"), voter("d")}).council);
  EXPECT_EQ(v.council().id, in.id) << "whatever follows that will continue this one, too";
  v.home_came_to(council(2, {voter("b")}).council);
  EXPECT_EQ(v.council().id, 0u);
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
