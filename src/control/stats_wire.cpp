#include "control/stats_wire.h"

#include "base/assert.h"
#include "control/view_wire.h"

namespace ocm::control {
namespace {

FabricStats fabric_from(const wire::FabricStats& message) {
  FabricStats out;
  out.fabric = enum_from<Fabric>(message.fabric());
  out.put_bytes = message.put_bytes();
  out.get_bytes = message.get_bytes();
  out.put_ops = message.put_ops();
  out.get_ops = message.get_ops();
  out.atomic_ops = message.atomic_ops();
  out.errors = message.errors();
  out.connections = message.connections();
  out.connections_total = message.connections_total();
  out.refused = message.refused();
  out.served = message.served();
  out.why_not = message.why_not();
  return out;
}

void fabric_to(const FabricStats& fabric, wire::FabricStats& out) {
  out.set_fabric(static_cast<uint32_t>(fabric.fabric));
  out.set_put_bytes(fabric.put_bytes);
  out.set_get_bytes(fabric.get_bytes);
  out.set_put_ops(fabric.put_ops);
  out.set_get_ops(fabric.get_ops);
  out.set_atomic_ops(fabric.atomic_ops);
  out.set_errors(fabric.errors);
  out.set_connections(fabric.connections);
  out.set_connections_total(fabric.connections_total);
  out.set_refused(fabric.refused);
  out.set_served(fabric.served);
  out.set_why_not(fabric.why_not);
}

SessionStats session_from(const wire::SessionStats& message) {
  SessionStats out;
  out.session = message.session();
  out.program = message.program();
  out.pid = message.pid();
  out.uid = message.uid();
  out.bytes_held = message.bytes_held();
  out.allocations = message.allocations();
  out.put_bytes = message.put_bytes();
  out.get_bytes = message.get_bytes();
  return out;
}

void session_to(const SessionStats& session, wire::SessionStats& out) {
  out.set_session(session.session);
  out.set_program(session.program);
  out.set_pid(session.pid);
  out.set_uid(session.uid);
  out.set_bytes_held(session.bytes_held);
  out.set_allocations(session.allocations);
  out.set_put_bytes(session.put_bytes);
  out.set_get_bytes(session.get_bytes);
}

CacheStats cache_from(const wire::CacheStats& message) {
  CacheStats out;
#define OCM_CACHE_STATS_GET(name) out.name = message.name();
  OCM_CACHE_STATS(OCM_CACHE_STATS_GET)
#undef OCM_CACHE_STATS_GET
  return out;
}

void cache_to(const CacheStats& cache, wire::CacheStats& out) {
#define OCM_CACHE_STATS_SET(name) out.set_##name(cache.name);
  OCM_CACHE_STATS(OCM_CACHE_STATS_SET)
#undef OCM_CACHE_STATS_SET
}

}  // namespace

Stats from_wire(const wire::Stats& message) {
  Stats out;
  out.node = message.node();
  out.at_ns = message.at_ns();
  out.extents = message.extents();
  out.extents_sharing_file = message.extents_sharing_file();
  out.session_count = message.session_count();
  out.copies = copies_from(message);
  if (message.has_cache()) out.cache = cache_from(message.cache());
  for (const wire::FabricStats& one : message.fabrics()) out.fabrics.push_back(fabric_from(one));
  for (const wire::SessionStats& one : message.sessions()) out.sessions.push_back(session_from(one));
  for (const wire::PoolView& one : message.pools()) out.pools.push_back(from_wire(one));
  return out;
}

void to_wire(const Stats& stats, wire::Stats& out) {
  OCM_DASSERT(out.fabrics().empty() && out.sessions().empty() && out.pools().empty());
  out.set_node(stats.node);
  out.set_at_ns(stats.at_ns);
  out.set_extents(stats.extents);
  out.set_extents_sharing_file(stats.extents_sharing_file);
  out.set_session_count(stats.session_count);
  copies_to(stats.copies, out);
  if (stats.cache.has_value()) cache_to(*stats.cache, *out.mutable_cache());
  for (const FabricStats& one : stats.fabrics) fabric_to(one, *out.add_fabrics());
  for (const SessionStats& one : stats.sessions) session_to(one, *out.add_sessions());
  for (const PoolInfo& one : stats.pools) to_wire(one, *out.add_pools());
}

StopCheck from_wire(const wire::StopCheck& message) {
  StopCheck out;
  out.node = message.node();
  out.coordinator = message.coordinator();
  out.hands_over = message.hands_over();
  out.stopping = message.stopping();
  out.sessions = message.sessions();
  out.last_parts = message.last_parts();
  out.last_bytes = message.last_bytes();
  out.unknown_parts = message.unknown_parts();
  out.unknown_bytes = message.unknown_bytes();
  out.single_extents = message.single_extents();
  out.single_bytes = message.single_bytes();
  out.names_count = message.names_count();
  out.waits_for = message.waits_for();
  out.unheard.assign(message.unheard().begin(), message.unheard().end());
  for (const wire::StopCheck::Name& one : message.names())
    out.names.push_back({one.name(), one.parts(), one.bytes()});
  return out;
}

void to_wire(const StopCheck& found, wire::StopCheck& out) {
  out.set_node(found.node);
  out.set_coordinator(found.coordinator);
  out.set_hands_over(found.hands_over);
  out.set_stopping(found.stopping);
  out.set_sessions(found.sessions);
  out.set_last_parts(found.last_parts);
  out.set_last_bytes(found.last_bytes);
  out.set_unknown_parts(found.unknown_parts);
  out.set_unknown_bytes(found.unknown_bytes);
  out.set_single_extents(found.single_extents);
  out.set_single_bytes(found.single_bytes);
  out.set_names_count(found.names_count);
  out.set_waits_for(found.waits_for);
  for (const std::string& node : found.unheard) out.add_unheard(node);
  for (const StopCheck::Name& one : found.names) {
    wire::StopCheck::Name& told = *out.add_names();
    told.set_name(one.name);
    told.set_parts(one.parts);
    told.set_bytes(one.bytes);
  }
}

}  // namespace ocm::control
