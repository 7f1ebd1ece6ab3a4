// control/*_wire: messages from anywhere become values. What was read once is said as it was read, and what decides by it
// keeps its invariants.
#include "base/assert.h"
#include "control.pb.h"
#include "control/membership.h"
#include "control/replica_query_wire.h"
#include "control/rooms.h"
#include "control/stats_wire.h"
#include "control/view_wire.h"
#include "fuzz.h"

using namespace ocm;

namespace {

/// A value and its message are each other's.
template <class Message>
void check(const Message& message) {
  const auto value = control::from_wire(message);
  Message first, second;
  to_wire(value, first);
  to_wire(control::from_wire(first), second);
  OCM_ASSERT(first.SerializeAsString() == second.SerializeAsString());
}

void join(const wire::NodeView& message) {
  control::Membership table({}, 7);
  const auto heard = table.heard(1, control::from_wire(message));
  OCM_ASSERT(table.is_valid() && table.nodes() == (heard.is_ok() ? 1 : 0));
}

void take(const wire::ClusterView& message) {
  const control::View view = control::from_wire(message);
  control::Rooms rooms;
  rooms.take(view);
  OCM_ASSERT(rooms.all().size() == view.nodes.size());
  control::Membership table({}, 7);
  table.start_from(1, view, view.coordinator);
  OCM_ASSERT(table.is_valid());
  for (const control::NodeInfo& node : table.view(2).nodes) OCM_ASSERT(rooms.find(node.name).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wire::Envelope message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  switch (message.body_case()) {
    case wire::Envelope::kHeartbeat:
      check(message.heartbeat().self());
      join(message.heartbeat().self());
      break;
    case wire::Envelope::kClusterView:
      check(message.cluster_view());
      take(message.cluster_view());
      break;
    case wire::Envelope::kReserved: check(message.reserved().pool()); break;
    case wire::Envelope::kStatsReply: check(message.stats_reply()); break;
    case wire::Envelope::kStopCheckReply: check(message.stop_check_reply()); break;
    case wire::Envelope::kReplicaQuery: check(message.replica_query()); break;
    case wire::Envelope::kReplicaAnswer: check(message.replica_answer()); break;
    default: break;
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  const auto add = [&](const wire::Envelope& message) { out.push_back(message.SerializeAsString()); };
  const std::string id(16, 'i');
  wire::NodeView node;
  node.set_name("a");
  node.set_partition(7);
  node.set_state(1);
  node.set_incarnation(id);
  node.set_control_address("a:1");
  node.add_addresses()->set_fabric(1);
  node.add_addresses()->set_fabric(257);
  node.add_pools()->set_bytes_total(1 << 20);
  node.add_pools()->set_kind(256);
  node.add_remembered()->set_incarnation(id);
  wire::Envelope beat, view, reserved, stats, stop, query, answer;
  *beat.mutable_heartbeat()->mutable_self() = node;
  add(beat);
  beat.mutable_heartbeat()->mutable_self()->set_incarnation("short");
  add(beat);
  for (int i = 0; i < 3; ++i) {
    node.set_name(std::string(1, static_cast<char>('a' + i)));
    node.set_partition(7 + static_cast<uint32_t>(i));
    *view.mutable_cluster_view()->add_nodes() = node;
  }
  view.mutable_cluster_view()->set_coordinator("b");
  view.mutable_cluster_view()->mutable_council()->set_id(1);
  add(view);
  *view.mutable_cluster_view()->add_nodes() = node;  // a name twice
  add(view);
  reserved.mutable_reserved()->mutable_pool()->set_kind(~0u);
  add(reserved);
  stats.mutable_stats_reply()->add_fabrics()->set_fabric(~0u);
  stats.mutable_stats_reply()->add_sessions()->set_program("p");
  *stats.mutable_stats_reply()->mutable_pools() = node.pools();
  add(stats);
  stop.mutable_stop_check_reply()->add_names()->set_name("n");
  stop.mutable_stop_check_reply()->set_last_parts(~0ull);
  stop.mutable_stop_check_reply()->set_unknown_parts(1);
  add(stop);
  auto* owned = query.mutable_replica_query()->add_owned();
  owned->set_session_id(id);
  owned->set_allocation_id(id);
  owned->add_replicas()->set_generation(3);
  query.mutable_replica_query()->add_replicas()->set_address(~0ull);
  add(query);
  owned->set_session_id("short");
  add(query);
  auto* part = answer.mutable_replica_answer()->add_parts();
  part->mutable_here()->set_address(1);
  part->add_others()->set_address(2);
  part->add_others()->set_address(3);
  part->add_nodes("b");
  answer.mutable_replica_answer()->set_incarnation(id);
  add(answer);
  return out;
}
