// cache/courier: when it repeats, acknowledges and gives up, what a hostile peer can do, and a network that loses, doubles
// and reorders. Every schedule of a few messages is in tests/model/courier_model.cpp.
#include "cache/courier/courier.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace ocm::cache {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;
using Arrival = Courier::Outcome;

struct CourierTest : ::testing::Test {
  CourierLimits limits;
  Courier here{7, limits}, there{7, limits};
  std::vector<uint64_t> list;

  std::vector<uint64_t> again(uint64_t now_ns) {
    list.clear();
    (void)here.due(now_ns, list);
    return list;
  }
};

TEST_F(CourierTest, RepeatsLaterAndLaterUntilItIsAcknowledged) {
  const uint64_t one = here.send(0);
  EXPECT_EQ(here.due_ns(), limits.again_ns);
  EXPECT_TRUE(again(limits.again_ns - 1).empty());
  uint64_t now = 0;
  std::vector<uint64_t> waits;
  for (int i = 0; i < 7; ++i) {
    const uint64_t at = here.due_ns();
    EXPECT_EQ(again(at), std::vector<uint64_t>{one});
    waits.push_back((at - now) / kMillisecondNs);
    now = at;
  }
  EXPECT_EQ(waits, (std::vector<uint64_t>{20, 40, 80, 160, 320, 320, 320}));
  EXPECT_EQ(there.receive(here.header(one), now, list), Arrival::kNew);
  list.clear();
  EXPECT_EQ(here.receive(there.header(0), now, list), Arrival::kKnown);
  EXPECT_EQ(list, std::vector<uint64_t>{one});
  EXPECT_TRUE(again(~uint64_t{0}).empty());
}

TEST_F(CourierTest, AnAcknowledgementWaitsForAFrameThatLeavesAnyway) {
  ASSERT_EQ(there.receive(here.header(here.send(0)), 5, list), Arrival::kNew);
  EXPECT_EQ(there.due_ns(), 5 + limits.acknowledge_ns);
  EXPECT_FALSE(there.due(5, list));
  EXPECT_TRUE(there.due(5 + limits.acknowledge_ns, list));
  (void)there.header(there.send(6));
  EXPECT_FALSE(there.due(5 + limits.acknowledge_ns, list));
}

TEST_F(CourierTest, GivesUpWhereNothingIsAcknowledgedAndNotWhereSomethingIs) {
  EXPECT_FALSE(here.is_over(100 * limits.give_up_ns));  // nothing is under way
  const uint64_t begin = 100 * limits.give_up_ns;
  const uint64_t one = here.send(begin);
  (void)here.send(begin);
  EXPECT_FALSE(here.is_over(begin + limits.give_up_ns - 1));
  EXPECT_TRUE(here.is_over(begin + limits.give_up_ns));
  (void)there.receive(here.header(one), begin, list);
  (void)here.receive(there.header(0), begin + limits.give_up_ns / 2, list);
  EXPECT_FALSE(here.is_over(begin + limits.give_up_ns));
  EXPECT_LE(here.due_ns(), begin + limits.again_ns);
  EXPECT_TRUE(here.is_over(begin + limits.give_up_ns * 3 / 2));
}

TEST_F(CourierTest, TheWindowHoldsUntilTheFirstIsAcknowledged) {
  while (here.can_send()) (void)here.send(0);
  std::vector<uint64_t> acknowledged;
  for (uint64_t sequence = 2; sequence <= limits.window; ++sequence)
    ASSERT_EQ(there.receive(here.header(sequence), 0, list), Arrival::kNew);
  (void)here.receive(there.header(0), 0, acknowledged);
  EXPECT_EQ(acknowledged.size(), limits.window - 1);
  EXPECT_FALSE(here.can_send());
  ASSERT_EQ(there.receive(here.header(1), 0, list), Arrival::kNew);
  (void)here.receive(there.header(0), 0, acknowledged);
  EXPECT_EQ(acknowledged.size(), limits.window);
  EXPECT_TRUE(here.can_send());
  EXPECT_TRUE(here.is_valid() && there.is_valid());
}

TEST_F(CourierTest, WhatNoCorrectEndSendsChangesNothing) {
  for (int i = 0; i < 3; ++i) (void)here.send(0);
  const uint64_t most = ~uint64_t{0};
  const CourierHeader bad[] = {
      {7, 0, 0, 0},       // nothing is below 1
      {7, 0, 5, 0},       // acknowledges 4, which was not sent
      {7, 0, most, 0},    //
      {7, 0, 1, 1 << 2},  // the same by a bit
      {7, 0, 4, 1},       //
      {7, 0, 1, most},    //
      {7, 65, 1, 0},      // beyond the window
      {7, most, 1, 0},    //
      {7, 65, 4, 0},      // a good acknowledgement does not count either
  };
  for (const CourierHeader& one : bad) EXPECT_EQ(here.receive(one, 0, list), Arrival::kFault);
  EXPECT_EQ(here.receive({8, 1, 1, 0}, 0, list), Arrival::kOther);
  EXPECT_EQ(here.receive({6, 1, 4, 0}, 0, list), Arrival::kOther);
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(here.is_valid());
  EXPECT_EQ(here.receive({7, 64, 4, 0}, 0, list), Arrival::kNew);
  EXPECT_EQ(list, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(CourierTest, AnyHeaderLeavesAValidEnd) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    if (here.can_send() && random() % 3 == 0) (void)here.send(0);
    const auto small = [&] { return random() % 16 == 0 ? random() : random() % 140; };
    (void)here.receive({7, small(), small(), random() % 4 == 0 ? random() : random() % 8}, 0, list);
    ASSERT_TRUE(here.is_valid());
  }
}

/// Both ends send 5,000 messages through a network that loses a fifth, doubles a tenth and delays the rest by 0 to 30 ms.
TEST_F(CourierTest, EachMessageIsTakenOnceThroughABadNetwork) {
  constexpr uint64_t kMessages = 5000;
  std::mt19937_64 random(11);
  Courier* const ends[] = {&here, &there};
  std::multimap<uint64_t, std::pair<int, CourierHeader>> network;  // by when; to whom
  std::set<uint64_t> taken[2], kept[2];
  uint64_t sent[2] = {};
  uint64_t now = 0;
  const auto leave = [&](int from, uint64_t sequence) {
    const CourierHeader header = ends[from]->header(sequence);
    for (int copies = random() % 10 == 0 ? 2 : 1; copies > 0; --copies) {
      if (random() % 5 != 0)
        network.emplace(now + random() % (30 * kMillisecondNs), std::pair(1 - from, header));
    }
  };
  while (taken[0].size() < kMessages || taken[1].size() < kMessages || !kept[0].empty() || !kept[1].empty()) {
    for (int e = 0; e < 2; ++e) {
      ASSERT_FALSE(ends[e]->is_over(now));
      while (ends[e]->can_send() && sent[e] < kMessages) {
        ++sent[e];
        const uint64_t sequence = ends[e]->send(now);
        kept[e].insert(sequence);
        leave(e, sequence);
      }
      std::vector<uint64_t> due;
      const bool acknowledges = ends[e]->due(now, due);
      for (const uint64_t sequence : due) leave(e, sequence);
      if (acknowledges && due.empty()) leave(e, 0);
    }
    now = std::min({here.due_ns(), there.due_ns(), network.empty() ? ~uint64_t{0} : network.begin()->first});
    ASSERT_LT(now, 600'000 * kMillisecondNs);
    while (!network.empty() && network.begin()->first <= now) {
      const auto [to, header] = network.begin()->second;
      network.erase(network.begin());
      list.clear();
      const Arrival outcome = ends[to]->receive(header, now, list);
      ASSERT_NE(outcome, Arrival::kFault);
      if (outcome == Arrival::kNew) {
        ASSERT_TRUE(taken[to].insert(header.sequence).second);
      }
      for (const uint64_t sequence : list) {
        ASSERT_EQ(kept[to].erase(sequence), 1u);
        ASSERT_TRUE(taken[1 - to].contains(sequence));
      }
    }
  }
}

}  // namespace
}  // namespace ocm::cache
