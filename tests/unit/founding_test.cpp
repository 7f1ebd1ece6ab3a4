// control/founding: when the first seed founds a cluster.
#include "control/founding.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kBeat = 500, kDeadline = 3000, kStart = 10'000;

Founding of(size_t others) { return {others, kBeat, kDeadline, kStart}; }

TEST(Founding, AloneAtOnceAfterTwoHeartbeats) {
  Founding alone = of(0);
  EXPECT_FALSE(alone.may_found(kStart + 2 * kBeat - 1));
  EXPECT_TRUE(alone.may_found(kStart + 2 * kBeat));
}

TEST(Founding, WaitsForAllSeedsForTwoHeartbeats) {
  Founding f = of(2);
  uint64_t now = kStart;
  f.answered(now, "b", false);
  f.answered(now, "c", false);
  for (; now < kStart + 2 * kBeat; now += kBeat) {
    f.answered(now, "b", false);
    f.answered(now, "c", false);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
  EXPECT_TRUE(f.may_found(now));
}

TEST(Founding, WaitsForAFailureDeadlineWhereAMajorityAnswers) {
  Founding f = of(2);
  uint64_t now = kStart;
  for (; now < kStart + kDeadline; now += kBeat) {
    f.answered(now, "b", false);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
  f.answered(now, "b", false);
  EXPECT_TRUE(f.may_found(now));
}

TEST(Founding, NeverWithoutAMajority) {
  Founding f = of(2);
  for (uint64_t now = kStart; now < kStart + 10 * kDeadline; now += kBeat) EXPECT_FALSE(f.may_found(now));
}

TEST(Founding, NeverWhereSomebodyKnowsACouncil) {
  Founding f = of(2);
  for (uint64_t now = kStart; now < kStart + 10 * kDeadline; now += kBeat) {
    f.answered(now, "b", false);
    f.answered(now, "c", true);
    EXPECT_FALSE(f.may_found(now)) << now;
  }
}

TEST(Founding, AMajorityThatWasSilentForAMomentBeginsAnew) {
  Founding f = of(2);
  for (uint64_t now = kStart; now < kStart + kDeadline - kBeat; now += kBeat) {
    f.answered(now, "b", false);
    (void)f.may_found(now);
  }
  EXPECT_FALSE(f.may_found(kStart + 2 * kDeadline)) << "nobody answered meanwhile";
  f.answered(kStart + 2 * kDeadline + 1, "b", false);
  EXPECT_FALSE(f.may_found(kStart + 2 * kDeadline + 1));
}

}  // namespace
}  // namespace ocm::control
