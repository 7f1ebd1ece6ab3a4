// cache/replacement: how a cache's budget changes, and what may be dirty.
#include "cache/replacement/budget.h"

#include <gtest/gtest.h>

namespace ocm::cache {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(Budget, GrowsAtOnceAndShrinksInSteps) {
  Budget budget(1000);
  EXPECT_EQ(budget.frames(0), 1000u);
  budget.resize(2000, 5 * kMs);
  EXPECT_EQ(budget.frames(5 * kMs), 2000u);
  budget.resize(500, 100 * kMs);
  EXPECT_EQ(budget.frames(100 * kMs), 2000u);
  EXPECT_EQ(budget.frames(110 * kMs), 1960u);
  EXPECT_EQ(budget.frames(115 * kMs), 1960u);
  EXPECT_EQ(budget.frames(850 * kMs), 500u);
  EXPECT_EQ(budget.frames(~uint64_t{0}), 500u);
}

TEST(Budget, AFewPagesShrinkToo) {
  Budget budget(8);
  budget.resize(0, 0);
  EXPECT_EQ(budget.frames(10 * kMs), 7u);
  EXPECT_EQ(budget.frames(100 * kMs), Budget::kFewest);
  EXPECT_TRUE(budget.is_valid());
  EXPECT_EQ(Budget(1).frames(0), Budget::kFewest);
}

TEST(Budget, ShrinkingThatIsTakenBackEndsWhereItIs) {
  Budget budget(1000);
  budget.resize(100, 0);
  budget.resize(900, 100 * kMs);  // 800 by then
  EXPECT_EQ(budget.frames(100 * kMs), 900u);
  budget.resize(10, 100 * kMs);
  EXPECT_EQ(budget.frames(110 * kMs), 882u);
  EXPECT_EQ(budget.frames(90 * kMs), 900u);  // a clock that was read before
}

TEST(Budget, CleaningBeginsAtAQuarterAndStopsBelowAnEighth) {
  Budget budget(80);
  EXPECT_FALSE(budget.cleans(19, 0));
  EXPECT_TRUE(budget.cleans(20, 0));
  EXPECT_TRUE(budget.cleans(10, 0));
  EXPECT_FALSE(budget.cleans(9, 0));
  EXPECT_FALSE(budget.cleans(19, 0));
  EXPECT_FALSE(Budget(4).cleans(0, 0));
  EXPECT_TRUE(Budget(4).cleans(1, 0));
  EXPECT_FALSE(budget.writers_wait(39, 0));
  EXPECT_TRUE(budget.writers_wait(40, 0));
}

TEST(Budget, APrefetchLeavesRoomWhileDirtyPagesWait) {
  Budget budget(100);
  EXPECT_EQ(budget.room(0, 0), 100u);
  EXPECT_EQ(budget.room(100, 0), 0u);
  EXPECT_EQ(budget.room(130, 0), 0u);
  ASSERT_TRUE(budget.cleans(30, 0));
  EXPECT_EQ(budget.room(80, 0), 10u);
  EXPECT_EQ(budget.room(90, 0), 0u);
  EXPECT_EQ(budget.room(95, 0), 0u);
}

}  // namespace
}  // namespace ocm::cache
