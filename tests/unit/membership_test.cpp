// The coordinator's table and a member's side of it, on given time.
#include "control/membership.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 100 * kSecond;

NodeInfo node(const std::string& name, uint32_t partition, char incarnation = 'a') {
  NodeInfo out;
  out.name = name;
  out.partition = partition;
  out.incarnation.emplace().bytes.fill(static_cast<std::byte>(incarnation));
  out.control_address = name + ":1";
  return out;
}

Membership table() { return Membership({}, 7); }

NodeState state_of(const Membership& m, const std::string& name, uint64_t now) {
  for (const NodeInfo& n : m.view(now).nodes) {
    if (n.name == name) return n.state;
  }
  return {};
}

TEST(Membership, FirstHeartbeatJoins) {
  Membership m = table();
  const auto heard = m.heard(kStart, node("a", 5));
  ASSERT_TRUE(heard.is_ok());
  EXPECT_TRUE(heard.value().joined);
  EXPECT_EQ(state_of(m, "a", kStart), NodeState::kAlive);
}

TEST(Membership, NodesOfOneClusterHaveOneFailureDeadline) {
  Membership m = table();
  NodeInfo other = node("b", 5);
  other.failure_deadline_ms = 15'000;
  const Status refused = m.heard(kStart, other).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  for (const char* told : {"b", "15000 ms", "3000 ms", "failure_deadline_ms"})
    EXPECT_NE(refused.message().find(told), std::string_view::npos) << refused.message();
  other.failure_deadline_ms = 3'000;
  EXPECT_TRUE(m.heard(kStart, other).is_ok());
}

constexpr uint64_t kOneDeadline = 3 * kSecond;

NodeInfo node_with(uint64_t features, const std::string& name, uint32_t partition) {
  NodeInfo out = node(name, partition);
  out.features = features;
  return out;
}
/// Every node of it is heard at that moment.
void tick_with(Membership& m, uint64_t now, const std::vector<NodeInfo>& heard) {
  for (const NodeInfo& one : heard) ASSERT_TRUE(m.heard(now, one).is_ok());
  (void)m.tick(now);
}

TEST(Membership, WhatAllNodesHaveIsKnownOnceAllCanHaveBeenHeard) {
  Membership m = table();
  tick_with(m, kStart, {node_with(6, "a", 5)});
  tick_with(m, kStart + kOneDeadline - 1, {node_with(6, "a", 5)});
  EXPECT_EQ(m.features_all(), 0u) << "M4: one that lacks it may be there and not heard yet";
  tick_with(m, kStart + kOneDeadline, {node_with(6, "a", 5), node_with(3, "b", 6)});
  EXPECT_EQ(m.features_all(), 2u);
  EXPECT_EQ(m.view(kStart + kOneDeadline).features_all, 2u);
}

TEST(Membership, WhatAllHaveGoesOnlyUp) {
  Membership m = table();
  tick_with(m, kStart, {node_with(1, "a", 5), node_with(0, "b", 6)});
  tick_with(m, kStart + kOneDeadline, {node_with(1, "a", 5), node_with(0, "b", 6)});
  EXPECT_EQ(m.features_all(), 0u);
  tick_with(m, kStart + 2 * kOneDeadline, {node_with(1, "a", 5)});  // b is dead: all that live have it
  EXPECT_EQ(m.features_all(), 1u);
  const Status refused = m.heard(kStart + 3 * kOneDeadline, node_with(0, "b", 6)).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("update its daemon"), std::string_view::npos) << refused.message();
  EXPECT_TRUE(m.heard(kStart + 3 * kOneDeadline, node_with(3, "b", 6)).is_ok());
}

TEST(Membership, WhatAllHaveOutlivesTheCoordinator) {
  Membership told = table();
  told.know_features(4);
  (void)told.tick(kStart);
  EXPECT_EQ(told.features_all(), 4u) << "a node knew it";
  EXPECT_FALSE(told.heard(kStart, node_with(0, "a", 5)).is_ok());
  Membership next({}, 8);
  next.start_from(kStart, told.view(kStart), "");
  EXPECT_EQ(next.features_all(), 4u) << "the view had it";
}

TEST(Membership, SeedsAndACoordinatorDoNotMix) {
  for (const bool passes_on : {false, true}) {
    Membership m({.passes_on = passes_on}, 7);
    NodeInfo view = node("b", 5);
    view.failure_deadline_ms = 3'000;
    view.passes_on = !passes_on;
    const Status refused = m.heard(kStart, view).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find("seeds"), std::string_view::npos) << refused.message();
    view.passes_on = passes_on;
    EXPECT_TRUE(m.heard(kStart, view).is_ok());
  }
}

TEST(Membership, SilenceMakesSuspectThenDead) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  EXPECT_TRUE(m.tick(kStart + 2 * kSecond).empty());
  EXPECT_EQ(state_of(m, "a", kStart), NodeState::kSuspect);
  EXPECT_EQ(m.tick(kStart + 3 * kSecond), std::vector<std::string>{"a"});
  EXPECT_EQ(state_of(m, "a", kStart), NodeState::kDead);
  EXPECT_TRUE(m.tick(kStart + 4 * kSecond).empty());
}

TEST(Membership, ADeadNodeReturnsWithItsPartition) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  m.tick(kStart + 3 * kSecond);
  const auto heard = m.heard(kStart + 4 * kSecond, node("a", 5));
  ASSERT_TRUE(heard.is_ok());
  EXPECT_TRUE(heard.value().returned);
  EXPECT_FALSE(heard.value().restarted);
  EXPECT_TRUE(m.may_live("a", 5));
}

TEST(Membership, APartitionOfAnotherNodeIsRefused) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  EXPECT_EQ(m.heard(kStart, node("b", 5)).status().code(), Code::kExists);
  EXPECT_TRUE(m.is_valid());
}

TEST(Membership, ANewIncarnationEndsTheOldPartition) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  const auto heard = m.heard(kStart + 1, node("a", 6, 'b'));
  ASSERT_TRUE(heard.is_ok());
  EXPECT_TRUE(heard.value().restarted);
  EXPECT_FALSE(m.may_live("a", 5));
  EXPECT_TRUE(m.may_live("a", 6));
  EXPECT_TRUE(m.is_valid());
}

TEST(Membership, TwoLivingNodesCannotShareAName) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  NodeInfo other = node("a", 6, 'b');
  other.control_address = "elsewhere:1";
  EXPECT_EQ(m.heard(kStart + 1, other).status().code(), Code::kExists);
  m.tick(kStart + 3 * kSecond);
  EXPECT_TRUE(m.heard(kStart + 3 * kSecond, other).is_ok());
}

TEST(Membership, EpochGrowsWithEveryChangeOnly) {
  Membership m = table();
  const uint64_t before = m.epoch();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  const uint64_t joined = m.epoch();
  EXPECT_GT(joined, before);
  ASSERT_TRUE(m.heard(kStart + 1, node("a", 5)).is_ok());
  EXPECT_EQ(m.epoch(), joined);
  m.goodbye("a");
  EXPECT_GT(m.epoch(), joined);
}

TEST(Membership, MalformedViewsAreRefused) {
  Membership m = table();
  const Status bad = m.heard(kStart, node("bad name", 5)).status();
  EXPECT_EQ(bad.code(), Code::kInvalidArgument);
  EXPECT_NE(bad.message().find("contains ' '"), std::string_view::npos) << bad.message();
  EXPECT_EQ(m.heard(kStart, node("", 5)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.heard(kStart, node("a", 0)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.heard(kStart, node("a", 1u << 24)).status().code(), Code::kInvalidArgument);
  NodeInfo view = node("a", 5);
  view.incarnation.reset();
  EXPECT_EQ(m.heard(kStart, view).status().code(), Code::kInvalidArgument);
  view = node("a", 5);
  view.addresses.resize(9);
  EXPECT_EQ(m.heard(kStart, view).status().code(), Code::kInvalidArgument);
  view = node("a", 5);
  view.pools.resize(kKindsMax + 1);
  EXPECT_EQ(m.heard(kStart, view).status().code(), Code::kInvalidArgument);
  view = node("a", 5);
  view.host_id.assign(129, 'x');
  EXPECT_EQ(m.heard(kStart, view).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.nodes(), 0u);
}

TEST(Membership, AStateOfALaterVersionIsAlive) {
  Membership m = table();
  NodeInfo told = node("a", 5);
  told.state = static_cast<NodeState>(9);
  ASSERT_TRUE(m.heard(kStart, told).is_ok());
  EXPECT_EQ(state_of(m, "a", kStart), NodeState::kAlive);
  View view = m.view(kStart);
  view.nodes[0].state = static_cast<NodeState>(9);
  Membership next = table();
  next.start_from(kStart, view, "");
  EXPECT_EQ(state_of(next, "a", kStart), NodeState::kAlive);
}

TEST(Membership, ShowsAgesAndItsOwnStates) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  m.goodbye("a");
  const View view = m.view(kStart + kSecond);
  ASSERT_EQ(view.nodes.size(), 1u);
  EXPECT_EQ(view.nodes[0].heartbeat_age_ns, kSecond);
  EXPECT_EQ(view.nodes[0].state, NodeState::kDraining);
  EXPECT_EQ(view.epoch, m.epoch());
  EXPECT_EQ(view.run, 7u);
  EXPECT_EQ(m.find("a")->state, NodeState::kDraining);
  size_t nodes = 0;
  m.each(kStart + kSecond, [&](const NodeInfo& node, uint64_t age_ns) {
    ++nodes;
    EXPECT_EQ(node.state, NodeState::kDraining);
    EXPECT_EQ(age_ns, kSecond);
  });
  EXPECT_EQ(nodes, 1u);
}

TEST(Member, ANewCoordinatorRunWantsEverything) {
  Member member(3 * kSecond);
  EXPECT_TRUE(member.replied(kStart, 7));
  EXPECT_FALSE(member.replied(kStart + 1, 7));
  EXPECT_TRUE(member.replied(kStart + 2, 8));
}

TEST(Member, TakesNothingFromARunThatItLeft) {
  Member member(3 * kSecond);
  EXPECT_FALSE(member.is_former(0)) << "nobody said who";
  EXPECT_TRUE(member.follow(7));
  EXPECT_FALSE(member.follow(7));
  EXPECT_FALSE(member.is_former(7));
  EXPECT_TRUE(member.follow(8));
  EXPECT_TRUE(member.is_former(7));
  EXPECT_FALSE(member.is_former(8));
  EXPECT_TRUE(member.follow(0)) << "it has none";
  EXPECT_TRUE(member.is_former(8));
  EXPECT_FALSE(member.is_former(0));
  for (uint64_t run = 100; run < 300; ++run) (void)member.follow(run);
  EXPECT_TRUE(member.is_former(298));
  EXPECT_FALSE(member.is_former(7)) << "so many are remembered";
}

TEST(Membership, StartsFromTheViewOfTheCoordinatorBefore) {
  Membership before = table();
  for (const auto& [name, partition] : {std::pair("a", 5u), std::pair("b", 6u), std::pair("c", 7u)})
    ASSERT_TRUE(before.heard(kStart, node(name, partition)).is_ok());
  const View view = before.view(kStart);
  Membership m = table();
  const uint64_t now = 900 * kSecond;  // another clock
  m.start_from(now, view, "a");
  EXPECT_GT(m.epoch(), before.epoch());
  EXPECT_EQ(m.nodes(), 3u);
  EXPECT_TRUE(m.may_live("b", 6));
  EXPECT_TRUE(m.tick(now + kSecond).empty());
  EXPECT_EQ(m.tick(now + 3 * kSecond / 2 + 1), std::vector<std::string>{"a"})
      << "who was silent for so long already";
  ASSERT_TRUE(m.heard(now + 2 * kSecond, node("b", 6)).is_ok());
  EXPECT_EQ(m.tick(now + 3 * kSecond + 1), std::vector<std::string>{"c"})
      << "nobody earlier than a deadline later";
  EXPECT_TRUE(m.may_live("b", 6));
  EXPECT_TRUE(m.is_valid());
}

}  // namespace
}  // namespace ocm::control
