// How often a user may do what costs others.
#include "control/user_rate.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kPeriodNs = 1000;
constexpr uint64_t kStartNs = 1'000'000'000;

uint64_t taken(UserRate& rate, uint32_t uid, uint64_t now_ns) {
  uint64_t count = 0;
  while (count < 10 * UserRate::kBurst && rate.take(uid, now_ns)) ++count;
  return count;
}

TEST(UserRate, ABurstAndThenOneInEachPeriod) {
  UserRate rate(kPeriodNs);
  EXPECT_EQ(taken(rate, 1, kStartNs), UserRate::kBurst);
  EXPECT_EQ(taken(rate, 1, kStartNs + kPeriodNs - 1), 0u);
  EXPECT_EQ(taken(rate, 1, kStartNs + kPeriodNs), 1u);
  EXPECT_EQ(taken(rate, 1, kStartNs + 4 * kPeriodNs), 3u);
  EXPECT_EQ(taken(rate, 1, kStartNs + 1'000'000 * kPeriodNs), UserRate::kBurst);
}

TEST(UserRate, UsersTakeNothingFromEachOther) {
  UserRate rate(kPeriodNs);
  EXPECT_EQ(taken(rate, 1, kStartNs), UserRate::kBurst);
  for (uint32_t uid = 2; uid < 1000; ++uid) EXPECT_TRUE(rate.take(uid, kStartNs));
  EXPECT_FALSE(rate.take(1, kStartNs));
}

}  // namespace
}  // namespace ocm::control
