// control/founding: when the first seed founds a cluster.
#include "control/founding.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kBeat = 500, kDeadline = 3000, kBegin = 10'000;

Founding of(size_t others) { return {others, kBeat, kDeadline, kBegin}; }

TEST(Founding, AloneAtOnceAfterTwoHeartbeats) {
  Founding alone = of(0);
  EXPECT_FALSE(alone.may_found(kBegin + 2 * kBeat - 1));
  EXPECT_TRUE(alone.may_found(kBegin + 2 * kBeat));
}

TEST(Founding, WaitsForAllSeedsForTwoHeartbeats) {
  Founding f = of(2);
  uint64_t now = kBegin;
  f.answered(now, "b", false);
  f.answered(now, "c", false);
  for (; now < kBegin + 2 * kBeat; now += kBeat) {
    f.answered(now, "b", false);
    f.answered(now, "c", false);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
  EXPECT_TRUE(f.may_found(now));
}

TEST(Founding, WaitsForAFailureDeadlineWhereAMajorityAnswers) {
  Founding f = of(2);
  uint64_t now = kBegin;
  for (; now < kBegin + kDeadline; now += kBeat) {
    f.answered(now, "b", false);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
  f.answered(now, "b", false);
  EXPECT_TRUE(f.may_found(now));
}

TEST(Founding, NeverWithoutAMajority) {
  Founding f = of(2);
  for (uint64_t now = kBegin; now < kBegin + 10 * kDeadline; now += kBeat) EXPECT_FALSE(f.may_found(now));
}

TEST(Founding, NeverWhereSomebodyKnowsACouncil) {
  Founding f = of(2);
  for (uint64_t now = kBegin; now < kBegin + 10 * kDeadline; now += kBeat) {
    f.answered(now, "b", false);
    f.answered(now, "c", true);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
}

TEST(Founding, WaitsForVotersOfAFormerCouncil) {
  const auto founds_after = [](bool answers) {
    Founding f = of(2);
    f.awaits(kBegin, "v");
    for (uint64_t now = kBegin;; now += kBeat) {
      for (const char* seed : {"b", "c"}) f.answered(now, seed, false);
      if (answers) f.answered(now, "v", false);
      if (f.may_found(now)) return now - kBegin;
    }
  };
  EXPECT_EQ(founds_after(true), 2 * kBeat);
  EXPECT_EQ(founds_after(false), 2 * kDeadline);
}

TEST(Founding, NeverWhereAVoterOfAFormerCouncilKnowsOne) {
  Founding f = of(2);
  for (uint64_t now = kBegin; now < kBegin + 10 * kDeadline; now += kBeat) {
    for (const char* seed : {"b", "c"}) f.answered(now, seed, false);
    f.awaits(now, "v");
    f.answered(now, "v", true);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
}

TEST(Founding, AVoterIsNoSeed) {
  Founding f = of(2);
  f.awaits(kBegin, "v");
  for (uint64_t now = kBegin; now < kBegin + 10 * kDeadline; now += kBeat) {
    f.answered(now, "v", false);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
}

TEST(Founding, ByHandOnlyWhereNoMajorityAnswers) {
  using enum VoterSeen;
  EXPECT_TRUE(may_found_by_hand({}));
  EXPECT_FALSE(may_found_by_hand({kAnswers}));
  EXPECT_TRUE(may_found_by_hand({kRestarted}));
  EXPECT_TRUE(may_found_by_hand({kAnswers, kSilent, kRestarted}));
  EXPECT_FALSE(may_found_by_hand({kAnswers, kSilent, kAnswers}));
  EXPECT_FALSE(may_found_by_hand({kAnswers, kAnswers, kAnswers, kSilent, kSilent}));
  EXPECT_TRUE(may_found_by_hand({kAnswers, kAnswers, kRestarted, kSilent, kSilent}));
}

TEST(Founding, AMajorityThatWasSilentForAMomentBeginsAnew) {
  Founding f = of(2);
  for (uint64_t now = kBegin; now < kBegin + kDeadline - kBeat; now += kBeat) {
    f.answered(now, "b", false);
    (void)f.may_found(now);
  }
  EXPECT_FALSE(f.may_found(kBegin + 2 * kDeadline)) << "nobody answered meanwhile";
  f.answered(kBegin + 2 * kDeadline + 1, "b", false);
  EXPECT_FALSE(f.may_found(kBegin + 2 * kDeadline + 1));
}

}  // namespace
}  // namespace ocm::control
