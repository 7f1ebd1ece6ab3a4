// The coordinator's table and a member's side of it, on given time.
#include "control/membership.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 100 * kSecond;

wire::NodeView node(const std::string& name, uint32_t partition, char incarnation = 'a') {
  wire::NodeView out;
  out.set_name(name);
  out.set_partition(partition);
  out.set_incarnation(std::string(16, incarnation));
  out.set_control_address(name + ":1");
  return out;
}

Membership table() { return Membership({}, 7); }

uint32_t state_of(const Membership& m, const std::string& name, uint64_t now) {
  wire::ClusterView view;
  m.fill(view, now);
  for (const auto& n : view.nodes()) {
    if (n.name() == name) return n.state();
  }
  return 0;
}

TEST(Membership, FirstHeartbeatJoins) {
  Membership m = table();
  const auto heard = m.heard(kStart, node("a", 5));
  ASSERT_TRUE(heard.is_ok());
  EXPECT_TRUE(heard.value().joined);
  EXPECT_EQ(state_of(m, "a", kStart), 1u);
}

TEST(Membership, NodesOfOneClusterHaveOneFailureDeadline) {
  Membership m = table();
  wire::NodeView other = node("b", 5);
  other.set_failure_deadline_ms(15'000);
  const Status refused = m.heard(kStart, other).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  for (const char* told : {"b", "15000 ms", "3000 ms", "failure_deadline_ms"})
    EXPECT_NE(refused.message().find(told), std::string_view::npos) << refused.message();
  other.set_failure_deadline_ms(3'000);
  EXPECT_TRUE(m.heard(kStart, other).is_ok());
}

TEST(Membership, SeedsAndACoordinatorDoNotMix) {
  for (const bool passes_on : {false, true}) {
    Membership m({.passes_on = passes_on}, 7);
    wire::NodeView view = node("b", 5);
    view.set_failure_deadline_ms(3'000);
    view.set_passes_on(!passes_on);
    const Status refused = m.heard(kStart, view).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find("seeds"), std::string_view::npos) << refused.message();
    view.set_passes_on(passes_on);
    EXPECT_TRUE(m.heard(kStart, view).is_ok());
  }
}

TEST(Membership, SilenceMakesSuspectThenDead) {
  Membership m = table();
  ASSERT_TRUE(m.heard(kStart, node("a", 5)).is_ok());
  EXPECT_TRUE(m.tick(kStart + 2 * kSecond).empty());
  EXPECT_EQ(state_of(m, "a", kStart), 2u);
  EXPECT_EQ(m.tick(kStart + 3 * kSecond), std::vector<std::string>{"a"});
  EXPECT_EQ(state_of(m, "a", kStart), 3u);
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
  wire::NodeView other = node("a", 6, 'b');
  other.set_control_address("elsewhere:1");
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
  EXPECT_EQ(m.heard(kStart, node("bad name", 5)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.heard(kStart, node("", 5)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.heard(kStart, node("a", 0)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(m.heard(kStart, node("a", 1u << 24)).status().code(), Code::kInvalidArgument);
  wire::NodeView view = node("a", 5);
  view.set_incarnation("short");
  EXPECT_EQ(m.heard(kStart, view).status().code(), Code::kInvalidArgument);
}

TEST(Member, ANewCoordinatorRunWantsEverything) {
  Member member(3 * kSecond);
  wire::ClusterView view;
  view.set_cluster_id(7);
  EXPECT_TRUE(member.replied(kStart, view));
  EXPECT_FALSE(member.replied(kStart + 1, view));
  view.set_cluster_id(8);
  EXPECT_TRUE(member.replied(kStart + 2, view));
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
  wire::ClusterView view;
  before.fill(view, kStart);
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
