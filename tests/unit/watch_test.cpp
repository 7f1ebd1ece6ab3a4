// control/watch.h in its limits; its schedules: tests/model/watch_model.cpp.
#include "control/watch.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

ExtentId extent(uint32_t number) { return {GlobalAddress(1, 4096 * uint64_t{number}), 1}; }
const Watchers::Watcher kOne{"n1", Incarnation{{std::byte{1}}}, 1000};
const Watchers::Watcher kOther{"n2", Incarnation{{std::byte{2}}}, 1000};

WatchAsked begin(uint64_t number, uint32_t first, uint32_t count) {
  WatchAsked out;
  out.number = number;
  for (uint32_t i = 0; i < count; ++i) out.begin.push_back(extent(first + i));
  return out;
}
bool lives(ExtentId) { return false; }

TEST(Watch, OneUserOfManyNodesWatchesSoManyExtentsOfAHome) {
  Watchers watchers;
  EXPECT_TRUE(watchers.take(kOne, begin(1, 0, 6), 10, lives).refused.empty());
  EXPECT_EQ(watchers.take(kOther, begin(1, 6, 6), 10, lives).refused.size(), 2u) << "V4";
  EXPECT_EQ(watchers.watched_of(1000), 10u);
  const Watchers::Watcher another{"n2", kOther.incarnation, 1001};
  EXPECT_TRUE(watchers.take(another, begin(1, 0, 10), 10, lives).refused.empty()) << "it has its own share";
  EXPECT_TRUE(watchers.is_valid());
}

TEST(Watch, WhatIsUntoldCountsUntilItIsHeard) {
  Watchers watchers;
  (void)watchers.take(kOne, begin(1, 0, 4), 4, lives);
  EXPECT_EQ(watchers.over(extent(0)), std::vector{kOne});
  EXPECT_TRUE(watchers.over(extent(1)).empty()) << "it has something to hear already";
  EXPECT_EQ(watchers.take(kOne, begin(2, 9, 1), 4, lives).refused.size(), 1u);
  watchers.heard(kOne, watchers.untold(kOne, 1));
  EXPECT_TRUE(watchers.take(kOne, begin(3, 9, 1), 4, lives).refused.empty());
  EXPECT_EQ(watchers.untold(kOne, 9).size(), 1u);
  EXPECT_TRUE(watchers.is_valid());
}

TEST(Watch, AnotherRunOfADaemonEndsWhatTheOneBeforeWatched) {
  Watchers watchers;
  (void)watchers.take(kOne, begin(1, 0, 4), 4, lives);
  (void)watchers.over(extent(0));
  watchers.other_run("n1", kOne.incarnation);
  EXPECT_EQ(watchers.watched_of(1000), 4u) << "it is the same run";
  watchers.other_run("n1", kOther.incarnation);
  EXPECT_EQ(watchers.watched_of(1000), 0u);
  EXPECT_TRUE(watchers.over(extent(1)).empty());
  EXPECT_TRUE(watchers.is_valid());
}

TEST(Watch, WhatIsWantedAndDroppedBeforeItIsAskedForIsNotAskedFor) {
  Watching watching;
  watching.want(extent(1));
  watching.drop(extent(1));
  EXPECT_FALSE(watching.is_due());
  EXPECT_TRUE(watching.is_empty());
}

TEST(Watch, ARequestHasSoManyExtentsAtMost) {
  Watching watching;
  for (uint32_t i = 0; i < 5; ++i) watching.want(extent(i));
  EXPECT_EQ(watching.ask(1, 2).begin.size(), 2u);
  EXPECT_FALSE(watching.is_due()) << "one at a time";
  EXPECT_TRUE(watching.answered({}).over.empty());
  EXPECT_EQ(watching.ask(2, 9).begin.size(), 3u);
  EXPECT_EQ(watching.answered({{extent(4)}, {extent(3)}}).refused, std::vector{extent(3)});
  EXPECT_FALSE(watching.wants(extent(3)) || watching.wants(extent(4)));
  EXPECT_EQ(watching.all_over().size(), 3u);
}

}  // namespace
}  // namespace ocm::control
