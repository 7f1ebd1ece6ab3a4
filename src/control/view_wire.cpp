#include "control/view_wire.h"

#include "base/assert.h"
#include "control/council_wire.h"

namespace ocm::control {

PoolInfo from_wire(const wire::PoolView& message) {
  return {.kind = enum_from<Kind>(message.kind()),
          .bytes_total = message.bytes_total(),
          .bytes_used = message.bytes_used(),
          .bytes_reclaiming = message.bytes_reclaiming(),
          .bytes_ready = message.bytes_ready(),
          .lasts = message.lasts(),
          .coherent = message.coherent()};
}

void to_wire(const PoolInfo& pool, wire::PoolView& out) {
  out.set_kind(static_cast<uint32_t>(pool.kind));
  out.set_bytes_total(pool.bytes_total);
  out.set_bytes_used(pool.bytes_used);
  out.set_bytes_reclaiming(pool.bytes_reclaiming);
  out.set_bytes_ready(pool.bytes_ready);
  out.set_lasts(pool.lasts);
  out.set_coherent(pool.coherent);
}

NodeInfo from_wire(const wire::NodeView& message) {
  NodeInfo out;
  out.name = message.name();
  out.partition = message.partition();
  out.state = static_cast<NodeState>(message.state());
  if (Incarnation run; wire::read_id(message.incarnation(), run)) out.incarnation = run;
  out.control_address = message.control_address();
  out.addresses = wire::addresses_from(message.addresses());
  out.pools.reserve(static_cast<size_t>(message.pools_size()));
  for (const wire::PoolView& pool : message.pools()) out.pools.push_back(from_wire(pool));
  out.sessions = message.sessions();
  out.extents = message.extents();
  out.heartbeat_age_ns = message.heartbeat_age_ns();
  out.http_address = message.http_address();
  out.version = message.version();
  out.host_id = message.host_id();
  out.copies = copies_from(message);
  out.failure_deadline_ms = message.failure_deadline_ms();
  out.passes_on = message.passes_on();
  out.replicas_freed_before = message.replicas_freed_before();
  out.remembered = remembered_from(message.remembered());
  out.orphans_freed = message.orphans_freed();
  out.features = message.features();
  return out;
}

void to_wire(const NodeInfo& node, wire::NodeView& out) {
  OCM_DASSERT(out.pools().empty() && out.remembered().empty());  // what repeats is added
  out.set_name(node.name);
  out.set_partition(node.partition);
  out.set_state(static_cast<uint32_t>(node.state));
  if (node.incarnation) out.set_incarnation(wire::id_field(*node.incarnation));
  out.set_control_address(node.control_address);
  wire::addresses_to(node.addresses, *out.mutable_addresses());
  for (const PoolInfo& pool : node.pools) to_wire(pool, *out.add_pools());
  out.set_sessions(node.sessions);
  out.set_extents(node.extents);
  out.set_heartbeat_age_ns(node.heartbeat_age_ns);
  out.set_http_address(node.http_address);
  out.set_version(node.version);
  out.set_host_id(node.host_id);
  copies_to(node.copies, out);
  out.set_failure_deadline_ms(node.failure_deadline_ms);
  out.set_passes_on(node.passes_on);
  out.set_replicas_freed_before(node.replicas_freed_before);
  for (const RememberedRun& run : node.remembered) to_wire(run, *out.add_remembered());
  out.set_orphans_freed(node.orphans_freed);
  out.set_features(node.features);
}

View from_wire(const wire::ClusterView& message) {
  View out;
  out.epoch = message.epoch();
  out.coordinator = message.coordinator();
  out.self = message.self();
  out.nodes.reserve(static_cast<size_t>(message.nodes_size()));
  for (const wire::NodeView& node : message.nodes()) out.nodes.push_back(from_wire(node));
  out.run = message.cluster_id();
  out.features_all = message.features_all();
  return out;
}

void to_wire(const View& view, wire::ClusterView& out) {
  OCM_DASSERT(out.nodes().empty());
  out.set_epoch(view.epoch);
  out.set_coordinator(view.coordinator);
  out.set_self(view.self);
  for (const NodeInfo& node : view.nodes) to_wire(node, *out.add_nodes());
  out.set_cluster_id(view.run);
  out.set_features_all(view.features_all);
}

}  // namespace ocm::control
