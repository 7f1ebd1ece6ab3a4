// control/rooms: what the nodes of a view have room for, and what homes said of it since.
#include "control/rooms.h"

#include <gtest/gtest.h>

#include "control/membership.h"

namespace ocm::control {
namespace {

void add_node(wire::ClusterView& view, const std::string& name, NodeState state, uint64_t total,
              uint64_t used, uint64_t reclaiming = 0) {
  auto& node = *view.add_nodes();
  node.set_name(name);
  node.set_state(static_cast<uint32_t>(state));
  node.add_addresses()->set_fabric(1);
  auto& pool = *node.add_pools();
  pool.set_kind(0);
  pool.set_bytes_total(total);
  pool.set_bytes_used(used);
  pool.set_bytes_reclaiming(reclaiming);
}

wire::PoolView pool(uint64_t total, uint64_t used, uint64_t reclaiming = 0) {
  wire::PoolView out;
  out.set_bytes_total(total);
  out.set_bytes_used(used);
  out.set_bytes_reclaiming(reclaiming);
  return out;
}

TEST(Rooms, AreThoseOfTheViewInItsOrder) {
  wire::ClusterView view;
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
  view.mutable_nodes()->DeleteSubrange(0, 1);
  rooms.take(view);
  EXPECT_EQ(rooms.find("a"), 0u);
  EXPECT_FALSE(rooms.find("b"));
  EXPECT_TRUE(rooms.is_valid());
}

TEST(Rooms, KnowWhatHomesSaidSince) {
  wire::ClusterView view;
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
  wire::PoolView unknown = pool(5, 5);
  unknown.set_kind(99);
  rooms.note_pool("a", unknown);
  EXPECT_EQ(rooms.all()[0].bytes_total[0], 100u);
}

}  // namespace
}  // namespace ocm::control
