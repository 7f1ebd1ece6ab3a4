// control/rooms: what the nodes of a view have room for, and what homes said of it since.
#include "control/rooms.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

PoolInfo pool(uint64_t total, uint64_t used, uint64_t reclaiming = 0) {
  return {.bytes_total = total, .bytes_used = used, .bytes_reclaiming = reclaiming};
}

void add_node(View& view, const std::string& name, NodeState state, uint64_t total, uint64_t used,
              uint64_t reclaiming = 0) {
  NodeInfo& node = view.nodes.emplace_back();
  node.name = name;
  node.state = state;
  node.addresses.push_back({static_cast<Fabric>(1), {}, {}});
  node.pools.push_back(pool(total, used, reclaiming));
}

TEST(Rooms, AreThoseOfTheViewInItsOrder) {
  View view;
  add_node(view, "b", NodeState::kAlive, 100, 30, 10);
  add_node(view, "a", NodeState::kDead, 50, 0);
  Rooms rooms;
  rooms.take(view);
  ASSERT_EQ(rooms.all().size(), 2u);
  EXPECT_EQ(rooms.all()[0].name, "b");
  EXPECT_TRUE(rooms.all()[0].usable);
  EXPECT_EQ(rooms.all()[0].fabrics, 2u);
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 20u) << "what comes back is room";
  EXPECT_FALSE(rooms.all()[1].usable);
  EXPECT_EQ(rooms.find("a"), 1u);
  EXPECT_FALSE(rooms.find("c"));
  EXPECT_TRUE(rooms.is_valid());
  view.nodes.erase(view.nodes.begin());
  rooms.take(view);
  EXPECT_EQ(rooms.find("a"), 0u);
  EXPECT_FALSE(rooms.find("b"));
  EXPECT_TRUE(rooms.is_valid());
}

TEST(Rooms, KnowWhatHomesSaidSince) {
  View view;
  add_node(view, "a", NodeState::kAlive, 100, 0);
  Rooms rooms;
  rooms.take(view);
  rooms.note_pool("a", pool(100, 60, 50));
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 10u);
  rooms.note_pool("a", pool(100, 60, 50), true);
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 60u) << "it waited for them in vain";
  rooms.note_freed("a", Kind::kDram, 20);
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 40u);
  rooms.note_freed("a", Kind::kDram, 1000);
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 0u);
  rooms.note_pool("a", pool(0, 7));
  EXPECT_EQ(rooms.all()[0].bytes_total[0], 100u) << "a refusal without figures";
  rooms.note_pool("gone", pool(100, 1));
  rooms.note_freed("gone", Kind::kDram, 1);
  rooms.note_freed("a", static_cast<Kind>(1u << 20), 1);  // of another daemon's record
  PoolInfo unknown = pool(5, 5);
  unknown.kind = static_cast<Kind>(99);
  rooms.note_pool("a", unknown);
  EXPECT_EQ(rooms.all()[0].bytes_total[0], 100u);
}

TEST(Rooms, OverlookWhatALaterVersionHas) {
  View view;
  add_node(view, "a", static_cast<NodeState>(9), 100, 0);
  view.nodes[0].addresses.push_back({static_cast<Fabric>(200), {}, {}});
  view.nodes[0].addresses.push_back({static_cast<Fabric>(31), {}, {}});
  view.nodes[0].pools.push_back(pool(7, 7));
  view.nodes[0].pools.back().kind = static_cast<Kind>(0xff);
  Rooms rooms;
  rooms.take(view);
  EXPECT_FALSE(rooms.all()[0].usable) << "nobody knows whether it takes extents";
  EXPECT_EQ(rooms.all()[0].fabrics, 2u | 1u << 31) << "a bit for each number that has one";
  EXPECT_EQ(rooms.all()[0].bytes_total[0], 100u);
  EXPECT_EQ(rooms.all()[0].bytes_used[0], 0u);
}

}  // namespace
}  // namespace ocm::control
