// control/view_wire, stats_wire and replica_query_wire: values and the messages that carry them.
#include <gtest/gtest.h>

#include "control/membership.h"
#include "control/replica_query_wire.h"
#include "control/rooms.h"
#include "control/stats_wire.h"
#include "control/view_wire.h"

namespace ocm::control {
namespace {

template <class Id>
Id id_full_of(char byte) {
  Id out;
  out.bytes.fill(static_cast<std::byte>(byte));
  return out;
}
Incarnation run_named(char byte) { return id_full_of<Incarnation>(byte); }

/// Every field another value.
NodeInfo full_node() {
  NodeInfo out;
  out.name = "a";
  out.partition = 5;
  out.state = NodeState::kDraining;
  out.incarnation = run_named('a');
  out.control_address = "a:1";
  out.addresses = {{Fabric::kTcp, "a:2", "k"}, {Fabric::kFake, std::string("\0\xff", 2), {}}};
  out.pools = {{Kind::kDram, 100, 60, 50, 7}, {Kind::kNvme, 8, 4, 2, 1}};
  out.sessions = 6;
  out.extents = 7;
  out.heartbeat_age_ns = 8;
  out.http_address = "a:3";
  out.version = "1.2.3";
  out.host_id = "host";
  out.copies = {9, 10, 11, 12, 13};
  out.failure_deadline_ms = 3000;
  out.passes_on = true;
  out.replicas_freed_before = 14;
  out.remembered = {{run_named('b'), 15}, {run_named('c'), 0}};
  out.orphans_freed = 16;
  out.features = 17;
  return out;
}

wire::NodeView message_of(const NodeInfo& node) {
  wire::NodeView out;
  to_wire(node, out);
  return out;
}

void expect_full(const NodeInfo& node) {
  const NodeInfo full = full_node();
  EXPECT_EQ(node.name, full.name);
  EXPECT_EQ(node.partition, full.partition);
  EXPECT_EQ(node.state, full.state);
  EXPECT_EQ(node.incarnation, full.incarnation);
  EXPECT_EQ(node.control_address, full.control_address);
  ASSERT_EQ(node.addresses.size(), full.addresses.size());
  for (size_t i = 0; i < full.addresses.size(); ++i) {
    EXPECT_EQ(node.addresses[i].fabric, full.addresses[i].fabric);
    EXPECT_EQ(node.addresses[i].address, full.addresses[i].address);
    EXPECT_EQ(node.addresses[i].key, full.addresses[i].key);
  }
  EXPECT_EQ(node.pools, full.pools);
  EXPECT_EQ(node.sessions, full.sessions);
  EXPECT_EQ(node.extents, full.extents);
  EXPECT_EQ(node.heartbeat_age_ns, full.heartbeat_age_ns);
  EXPECT_EQ(node.http_address, full.http_address);
  EXPECT_EQ(node.version, full.version);
  EXPECT_EQ(node.host_id, full.host_id);
  EXPECT_EQ(node.copies, full.copies);
  EXPECT_EQ(node.failure_deadline_ms, full.failure_deadline_ms);
  EXPECT_EQ(node.passes_on, full.passes_on);
  EXPECT_EQ(node.replicas_freed_before, full.replicas_freed_before);
  EXPECT_EQ(node.features, full.features);
  EXPECT_EQ(node.remembered, full.remembered);
  EXPECT_EQ(node.orphans_freed, full.orphans_freed);
}

TEST(ViewWire, ANodeComesAsItWent) { expect_full(from_wire(message_of(full_node()))); }

TEST(ViewWire, AViewComesAsItWent) {
  View view;
  view.epoch = 1;
  view.coordinator = "a";
  view.self = "b";
  view.nodes = {full_node(), NodeInfo{}};
  view.run = 2;
  wire::ClusterView message;
  to_wire(view, message);
  EXPECT_FALSE(message.has_council());
  const View back = from_wire(message);
  EXPECT_EQ(back.epoch, 1u);
  EXPECT_EQ(back.coordinator, "a");
  EXPECT_EQ(back.self, "b");
  EXPECT_EQ(back.run, 2u);
  ASSERT_EQ(back.nodes.size(), 2u);
  expect_full(back.nodes[0]);
  EXPECT_EQ(message.nodes(1).ByteSizeLong(), 0u) << "what has nothing says nothing";
  EXPECT_FALSE(back.nodes[1].incarnation);
}

TEST(ViewWire, AnIncarnationOfAnotherLengthIsNone) {
  wire::NodeView message = message_of(full_node());
  for (const size_t length : {0, 1, 15, 17, 1000}) {
    message.set_incarnation(std::string(length, 'a'));
    const NodeInfo node = from_wire(message);
    EXPECT_FALSE(node.incarnation) << length;
    EXPECT_NE(node.incarnation, run_named('a'));
    Membership table({.passes_on = true}, 7);
    EXPECT_EQ(table.heard(1, node).status().code(), Code::kInvalidArgument);
    View view;
    view.nodes.push_back(node);
    table.start_from(1, view, "");
    EXPECT_EQ(table.nodes(), 0u);
  }
}

TEST(ViewWire, FormerRunsThatAreNoneAreLeftOut) {
  wire::NodeView message = message_of(full_node());
  message.add_remembered()->set_incarnation("short");
  message.add_remembered()->set_council(99);
  EXPECT_EQ(from_wire(message).remembered, full_node().remembered);
}

TEST(ViewWire, WhatALaterVersionHasIsHandedOn) {
  wire::NodeView message = message_of(full_node());
  message.set_state(77);
  message.add_pools()->set_kind(15);
  message.add_addresses()->set_fabric(31);
  const NodeInfo node = from_wire(message);
  EXPECT_STREQ(node_state_name(node.state), "?");
  EXPECT_EQ(node.pools.size(), 3u);
  EXPECT_EQ(node.addresses.size(), 3u);
  const wire::NodeView on = message_of(node);
  EXPECT_EQ(on.state(), 77u);
  EXPECT_EQ(on.pools(2).kind(), 15u);
  EXPECT_EQ(on.addresses(2).fabric(), 31u);
  EXPECT_EQ(on.SerializeAsString(), message.SerializeAsString());
}

TEST(ViewWire, NumbersOfNoVersionAreNobodysElse) {
  wire::NodeView message = message_of(full_node());
  message.clear_pools();
  message.clear_addresses();
  for (const uint32_t number : {255u, 256u, 257u, 512u, 0x01000100u, ~0u}) {
    wire::PoolView& pool = *message.add_pools();
    pool.set_kind(number);
    pool.set_bytes_total(1);
    message.add_addresses()->set_fabric(number);
  }
  View view;
  view.nodes.push_back(from_wire(message));
  EXPECT_EQ(view.nodes[0].pools.size(), 6u) << "they are counted where there are too many";
  EXPECT_EQ(view.nodes[0].addresses.size(), 6u);
  for (const PoolInfo& pool : view.nodes[0].pools) EXPECT_FALSE(is_kind(static_cast<uint64_t>(pool.kind)));
  Rooms rooms;
  rooms.take(view);
  EXPECT_EQ(rooms.all()[0].fabrics, 0u);
  for (const uint64_t bytes : rooms.all()[0].bytes_total) EXPECT_EQ(bytes, 0u);
}

TEST(ViewWire, TooManyPoolsOrAddressesAreRefused) {
  Membership table({.passes_on = true}, 7);
  wire::NodeView message = message_of(full_node());
  while (message.addresses_size() < 8) message.add_addresses()->set_fabric(1000);
  while (message.pools_size() < static_cast<int>(kKindsMax)) message.add_pools()->set_kind(1000);
  EXPECT_TRUE(table.heard(1, from_wire(message)).is_ok());
  message.add_addresses();
  EXPECT_EQ(table.heard(1, from_wire(message)).status().code(), Code::kInvalidArgument);
  message.mutable_addresses()->RemoveLast();
  message.add_pools();
  EXPECT_EQ(table.heard(1, from_wire(message)).status().code(), Code::kInvalidArgument);
}

Stats full_stats() {
  Stats out;
  out.node = "a";
  out.at_ns = 1;
  out.fabrics = {{Fabric::kTcp, true, "no", 1, 2, 3, 4, 5, 6, 7, 8, 9}, {}};
  out.sessions = {{"0123abcd", "p", 1, 2, 3, 4, 5, 6}};
  out.pools = {{Kind::kDram, 100, 60, 50, 7}};
  out.extents = 2;
  out.extents_sharing_file = 3;
  out.session_count = 4;
  out.copies = {5, 6, 7, 8, 9};
  return out;
}

TEST(StatsWire, ComeAsTheyWent) {
  wire::Stats message;
  to_wire(full_stats(), message);
  EXPECT_EQ(from_wire(message), full_stats());
}

TEST(StatsWire, AFabricOrKindOfNoVersionIsNobodysElse) {
  wire::Stats message;
  message.add_fabrics()->set_fabric(256 + static_cast<uint32_t>(Fabric::kTcp));
  message.add_pools()->set_kind(256 + static_cast<uint32_t>(Kind::kDram));
  const Stats stats = from_wire(message);
  EXPECT_STREQ(fabric_name(stats.fabrics[0].fabric), "?");
  EXPECT_STREQ(kind_name(stats.pools[0].kind), "?");
}

TEST(StopCheckWire, ComesAsItWent) {
  StopCheck found{"a", true, true, true, 1, 2, 3, 4, 5, {"b", "c"}, 6, 7, 8, {{"x", 9, 10}, {"y", 11, 12}},
                  "w"};
  wire::StopCheck message;
  to_wire(found, message);
  EXPECT_EQ(from_wire(message), found);
  EXPECT_FALSE(found.takes_nothing());
  found.last_parts = 0;
  EXPECT_FALSE(found.takes_nothing());
  found.unknown_parts = 0;
  EXPECT_TRUE(found.takes_nothing());
}

ExtentId replica_numbered(uint32_t generation) { return {GlobalAddress(7, 4096), generation}; }

TEST(ReplicaQueryWire, ComesAsItWent) {
  ReplicaQuery query;
  query.partition = 7;
  query.replicas = {replica_numbered(1), replica_numbered(2)};
  query.witness = true;
  query.owned = {
      {id_full_of<SessionId>('s'), id_full_of<AllocationId>('a'), {replica_numbered(3), replica_numbered(4)}},
      {id_full_of<SessionId>('t'), id_full_of<AllocationId>('b'), {}}};
  wire::ReplicaQuery message;
  to_wire(query, message);
  EXPECT_EQ(from_wire(message), query);
  for (const size_t length : {0, 15, 17}) {
    message.mutable_owned(0)->set_session_id(std::string(length, 's'));
    message.mutable_owned(1)->set_allocation_id(std::string(length, 'b'));
    EXPECT_TRUE(from_wire(message).owned.empty()) << "nobody has such a session or allocation";
  }
}

TEST(ReplicaQueryWire, AnAnswerComesAsItWent) {
  ReplicaAnswer answer;
  answer.parts = {{replica_numbered(1), {{replica_numbered(2), "b"}, {replica_numbered(3), "c"}}},
                  {replica_numbered(4), {}}};
  answer.incomplete = true;
  answer.living = {replica_numbered(5)};
  answer.incarnation = run_named('a');
  answer.unsure = {replica_numbered(6), replica_numbered(7)};
  wire::ReplicaAnswer message;
  to_wire(answer, message);
  EXPECT_EQ(from_wire(message), answer);
  message.mutable_parts(0)->add_others();
  message.mutable_parts(1)->add_nodes("d");
  EXPECT_EQ(from_wire(message), answer) << "a replica without a node, and a node without one";
  for (const size_t length : {0, 15, 17}) {
    message.set_incarnation(std::string(length, 'a'));
    EXPECT_FALSE(from_wire(message).incarnation);
  }
}

}  // namespace
}  // namespace ocm::control
