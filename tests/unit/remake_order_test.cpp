// In which order parts are made again.
#include "control/remake_order.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

using Order = std::vector<size_t>;

TEST(RemakeOrder, WhatFailedComesLastAndWhatHasFewReplicasFirst) {
  EXPECT_EQ(remake_order({}), Order{});
  EXPECT_EQ(remake_order({{.not_before_ns = 9, .living = 1},
                          {.living = 2},
                          {.not_before_ns = 5, .living = 1},
                          {.living = 1}}),
            (Order{3, 1, 2, 0}));
}

TEST(RemakeOrder, WhoHasLittleNeedNotWaitForWhoHasMuch) {
  EXPECT_EQ(remake_order({{.living = 1, .uid = 7, .bytes = 1000},
                          {.living = 1, .uid = 7, .bytes = 900},
                          {.living = 1, .uid = 0, .bytes = 10},
                          {.living = 1, .uid = 0, .bytes = 10}}),
            (Order{2, 3, 1, 0}));
}

TEST(RemakeOrder, UsersWithManySmallPartsTakeTurns) {
  std::vector<ToRemake> parts;
  for (int i = 0; i < 4; ++i) parts.push_back({.living = 1, .uid = 7, .bytes = 10});
  parts.push_back({.living = 1, .uid = 8, .bytes = 25});
  EXPECT_EQ(remake_order(parts), (Order{0, 1, 4, 2, 3}));
}

}  // namespace
}  // namespace ocm::control
