// control/seat: one voter's votes for the seat of the coordinator, and what their holder counts. How they work together
// is for the model (tests/model/seat_model.cpp).
#include "control/seat.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kSeatLease = 1000;

Incarnation holder(char of) {
  Incarnation out;
  out.bytes.fill(static_cast<std::byte>(of));
  return out;
}

TEST(SeatVotes, GoToAnotherRunWhenTheLastOneIsOver) {
  SeatVotes votes(kSeatLease);
  votes.install(5000, {});
  EXPECT_TRUE(votes.grant(5000, holder('a')));
  EXPECT_TRUE(votes.grant(5400, holder('a'))) << "its holder renews it";
  EXPECT_FALSE(votes.grant(6399, holder('b')));
  EXPECT_TRUE(votes.is_valid());
  EXPECT_TRUE(votes.grant(6400, holder('b')));
  EXPECT_FALSE(votes.grant(6500, holder('a')));
  EXPECT_TRUE(votes.is_valid());
}

TEST(SeatVotes, AreHandedToTheVotersOfTheNextCouncil) {
  SeatVotes first(kSeatLease), next(kSeatLease);
  first.install(5000, {});
  ASSERT_TRUE(first.grant(5000, holder('a')));
  auto left = first.left_ns(5700);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[holder('a')], 300u);
  EXPECT_TRUE(first.left_ns(6000).empty());
  merge(left, {{holder('a'), 400}, {holder('c'), 100}});
  next.install(90'000, left);  // the clocks of two nodes have nothing in common
  EXPECT_FALSE(next.grant(90'399, holder('b')));
  EXPECT_TRUE(next.grant(90'400, holder('b')));
}

TEST(SeatVotes, NobodyHandsOnMoreThanALease) {
  SeatVotes votes(kSeatLease);
  votes.install(5000, {{holder('a'), 1'000'000}});
  EXPECT_TRUE(votes.grant(6000, holder('b')));
}

TEST(SeatVotes, EndACouncilForItsHolderOrWhenItWasSilent) {
  SeatVotes votes(kSeatLease);
  votes.install(5000, {});
  EXPECT_TRUE(votes.allows_end(5000, holder('b'))) << "nobody holds the seat";
  ASSERT_TRUE(votes.grant(5000, holder('a')));
  EXPECT_TRUE(votes.allows_end(5100, holder('a')));
  EXPECT_FALSE(votes.allows_end(5499, holder('b')));
  EXPECT_TRUE(votes.allows_end(5500, holder('b')));
}

TEST(SeatVotes, CandidatesStandUpOneAfterTheOther) {
  SeatVotes votes(kSeatLease);
  votes.install(5000, {});
  EXPECT_EQ(votes.candidate_at_ns(0, 0), 5500u) << "a new council's coordinator has the time to ask";
  ASSERT_TRUE(votes.grant(5100, holder('a')));
  EXPECT_EQ(votes.candidate_at_ns(0, 0), 6100u);
  EXPECT_EQ(votes.candidate_at_ns(1, 0), 6350u);
  EXPECT_EQ(votes.candidate_at_ns(1, 70), 6420u);
  EXPECT_EQ(votes.candidate_at_ns(0, 70), 6100u) << "nobody is before the first";
  votes.release(5200, holder('a'));
  EXPECT_EQ(votes.candidate_at_ns(0, 70), 5200u) << "the seat is free";
}

TEST(SeatVotes, LeaveACandidateTheTimeToFinishOnce) {
  SeatVotes votes(kSeatLease);
  votes.install(5000, {});
  votes.promised(5400);
  EXPECT_EQ(votes.candidate_at_ns(0, 0), 5650u);
  EXPECT_EQ(votes.candidate_at_ns(1, 70), 5970u);
  votes.promised(5600);
  EXPECT_EQ(votes.candidate_at_ns(0, 0), 5650u) << "one that is never done holds up nobody";
  votes.install(9000, {});
  votes.promised(9400);
  EXPECT_EQ(votes.candidate_at_ns(0, 0), 9650u);
}

TEST(HeldVotes, RunWhileAMajorityDoes) {
  HeldVotes held(kSeatLease);
  held.granted("a", 100, 2);
  EXPECT_EQ(held.until_ns(), 0u);
  held.granted("b", 300, 2);
  EXPECT_EQ(held.until_ns(), 100 + kSeatLease - kSeatLease / 20);
  held.granted("a", 50, 2);
  EXPECT_EQ(held.until_ns(), 100 + kSeatLease - kSeatLease / 20) << "a late answer to an older request";
  held.granted("c", 400, 2);
  EXPECT_EQ(held.until_ns(), 300 + kSeatLease - kSeatLease / 20);
  held.change_voters();
  held.granted("d", 900, 2);
  EXPECT_EQ(held.until_ns(), 300 + kSeatLease - kSeatLease / 20)
      << "it runs on, and needs a majority of the new ones";
  held.drop();
  EXPECT_EQ(held.until_ns(), 0u);
}

}  // namespace
}  // namespace ocm::control
