// In which order parts are made again.
#include "control/remake_order.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

using Order = std::vector<size_t>;

Order order_of(const std::vector<ToRemake>& parts) { return RemakeTurns().order(parts); }

TEST(RemakeOrder, OfAUserWhatFailedComesLastAndWhatHasFewReplicasFirst) {
  EXPECT_EQ(order_of({}), Order{});
  EXPECT_EQ(order_of({{.not_before_ns = 9, .living = 1},
                      {.living = 2},
                      {.not_before_ns = 5, .living = 1},
                      {.living = 1}}),
            (Order{3, 1, 2, 0}));
}

TEST(RemakeOrder, WhoHasLittleNeedNotWaitForWhoHasMuch) {
  EXPECT_EQ(order_of({{.living = 1, .uid = 7, .bytes = 1'000'000'000},
                      {.living = 1, .uid = 7, .bytes = 900'000'000},
                      {.living = 1, .uid = 0, .bytes = 10},
                      {.living = 1, .uid = 0, .bytes = 10}}),
            (Order{2, 3, 1, 0}));
}

TEST(RemakeOrder, WhatFailedOfOneUserNeedNotWaitForAnother) {
  EXPECT_EQ(order_of({{.living = 1, .uid = 7, .bytes = 4'000'000'000},
                      {.not_before_ns = 5, .living = 1, .uid = 8, .bytes = 100'000'000}}),
            (Order{1, 0}));
}

TEST(RemakeOrder, WhatHasFewReplicasAndFailsKeepsNoOtherUserWaiting) {
  std::vector<ToRemake> parts;
  for (int i = 0; i < 4; ++i) parts.push_back({.not_before_ns = 5, .living = 1, .uid = 7, .bytes = 64});
  parts.push_back({.living = 2, .uid = 8, .bytes = 50'000'000});
  RemakeTurns turns;
  EXPECT_EQ(turns.order(parts), (Order{0, 1, 2, 3, 4}));
  turns.spent(7, 250'000'000);  // the first one was tried again
  EXPECT_EQ(turns.order(parts), (Order{4, 0, 1, 2, 3}));
}

TEST(RemakeOrder, OnlyWhatIsSmallOvertakes) {
  EXPECT_TRUE(may_overtake(0, 0));
  EXPECT_TRUE(may_overtake(512, 1024));
  EXPECT_FALSE(may_overtake(513, 1024));
  EXPECT_FALSE(may_overtake(1, 1));
}

TEST(RemakeOrder, UsersWithManySmallPartsTakeTurns) {
  std::vector<ToRemake> parts;
  for (int i = 0; i < 4; ++i) parts.push_back({.living = 1, .uid = 7, .bytes = 10});
  parts.push_back({.living = 1, .uid = 8, .bytes = 1'500'000});
  EXPECT_EQ(order_of(parts), (Order{0, 1, 4, 2, 3}));
}

TEST(RemakeOrder, UsersShareTheTimeAndNotTheBytes) {
  const std::vector<ToRemake> parts = {{.living = 1, .uid = 7, .bytes = 64},
                                       {.living = 1, .uid = 7, .bytes = 64},
                                       {.living = 1, .uid = 8, .bytes = 50'000'000}};
  RemakeTurns turns;
  EXPECT_EQ(turns.order(parts), (Order{0, 1, 2}));
  turns.spent(7, 250'000'000);  // the first one was waited for
  EXPECT_EQ(turns.order(parts), (Order{2, 0, 1}));
}

TEST(RemakeOrder, WhoComesAnewHasAsMuchAsWhoHasLeast) {
  RemakeTurns turns;
  turns.spent(7, 3'600'000'000'000);
  turns.spent(9, 3'600'300'000'000);
  EXPECT_EQ(turns.order({{.living = 1, .uid = 9, .bytes = 64},
                         {.living = 1, .uid = 8, .bytes = 10'000'000},
                         {.living = 1, .uid = 7, .bytes = 20'000'000}}),
            (Order{1, 2, 0}));
  // Whose parts were all made again is forgotten with what was spent on him.
  (void)turns.order({{.living = 1, .uid = 8}});
  EXPECT_EQ(turns.order({{.living = 1, .uid = 9, .bytes = 64}, {.living = 1, .uid = 8, .bytes = 128}}),
            (Order{0, 1}));
}

}  // namespace
}  // namespace ocm::control
