// Which replicas are asked to be given up next.
#include "control/give_up_order.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

using Order = std::vector<size_t>;

std::vector<ToGiveUp> many(size_t count, ToGiveUp one) { return std::vector<ToGiveUp>(count, one); }

std::vector<ToGiveUp> operator+(std::vector<ToGiveUp> a, const std::vector<ToGiveUp>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(GiveUpOrder, UsersTakeTurns) {
  EXPECT_EQ(next_to_give_up({}, {}), Order{});
  EXPECT_EQ(next_to_give_up({{7}, {7}, {7}, {8}, {7}, {9}, {8}}, {}), (Order{0, 3, 5, 1, 6, 2, 4}));
  EXPECT_EQ(next_to_give_up({{7}, {8}}, {{7}, {7}, {8}}), (Order{1, 0}));
}

TEST(GiveUpOrder, OneUserHasSomeOfThePlaces) {
  EXPECT_EQ(next_to_give_up(many(100, {7}), {}).size(), kGivenUpOfUserMax);
  EXPECT_EQ(next_to_give_up(many(100, {7}), many(kGivenUpOfUserMax - 1, {7})), Order{0});
  EXPECT_EQ(next_to_give_up(many(100, {7}) + many(1, {8}), many(kGivenUpOfUserMax, {7})), Order{100});
}

TEST(GiveUpOrder, SoManyAtOnceAtMost) {
  std::vector<ToGiveUp> waiting;
  for (uint32_t uid = 0; uid < 2 * kGivenUpAtOnceMax; ++uid) waiting.push_back({uid});
  EXPECT_EQ(next_to_give_up(waiting, {}).size(), kGivenUpAtOnceMax);
  EXPECT_EQ(next_to_give_up(waiting, many(kGivenUpAtOnceMax, {500})), Order{});
}

TEST(GiveUpOrder, WhatHasNoHopeKeepsNobodyWaiting) {
  const ToGiveUp hopeless{7, true};
  EXPECT_EQ(next_to_give_up({hopeless, {7}, {8}}, {}), (Order{1, 2, 0}));
  EXPECT_EQ(next_to_give_up({hopeless, {7}}, many(kGivenUpAtOnceMax, hopeless)), Order{1});
  EXPECT_EQ(next_to_give_up({hopeless, {7}}, many(kGivenUpAtOnceMax, {9})), Order{0});
  EXPECT_EQ(next_to_give_up(many(100, hopeless) + many(1, {8, true}), many(kGivenUpOfUserMax, hopeless)),
            Order{100});
}

}  // namespace
}  // namespace ocm::control
