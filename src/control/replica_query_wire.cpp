#include "control/replica_query_wire.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/convert.h"

namespace ocm::control {

ReplicaQuery from_wire(const wire::ReplicaQuery& message) {
  ReplicaQuery out;
  out.partition = message.partition();
  out.replicas = wire::ids_in(message.replicas());
  out.witness = message.witness();
  for (const wire::ReplicaQuery::Owned& one : message.owned()) {
    ReplicaQuery::Owned owned;
    if (!wire::read_id(one.session_id(), owned.session)) continue;
    if (!wire::read_id(one.allocation_id(), owned.allocation)) continue;
    owned.replicas = wire::ids_in(one.replicas());
    out.owned.push_back(std::move(owned));
  }
  return out;
}

void to_wire(const ReplicaQuery& query, wire::ReplicaQuery& out) {
  OCM_DASSERT(out.replicas().empty() && out.owned().empty());
  out.set_partition(query.partition);
  wire::add_refs(query.replicas, *out.mutable_replicas());
  out.set_witness(query.witness);
  for (const ReplicaQuery::Owned& one : query.owned) {
    wire::ReplicaQuery::Owned& told = *out.add_owned();
    told.set_session_id(wire::id_field(one.session));
    told.set_allocation_id(wire::id_field(one.allocation));
    wire::add_refs(one.replicas, *told.mutable_replicas());
  }
}

ReplicaAnswer from_wire(const wire::ReplicaAnswer& message) {
  ReplicaAnswer out;
  for (const wire::ReplicaAnswer::Part& told : message.parts()) {
    ReplicaAnswer::Part& part = out.parts.emplace_back(ReplicaAnswer::Part{wire::id_of(told.here()), {}});
    for (int i = 0; i < std::min(told.others_size(), told.nodes_size()); ++i)
      part.others.push_back({wire::id_of(told.others(i)), told.nodes(i)});
  }
  out.incomplete = message.incomplete();
  out.living = wire::ids_in(message.living());
  if (Incarnation run; wire::read_id(message.incarnation(), run)) out.incarnation = run;
  out.unsure = wire::ids_in(message.unsure());
  return out;
}

void to_wire(const ReplicaAnswer& answer, wire::ReplicaAnswer& out) {
  OCM_DASSERT(out.parts().empty() && out.living().empty() && out.unsure().empty());
  for (const ReplicaAnswer::Part& part : answer.parts) {
    wire::ReplicaAnswer::Part& told = *out.add_parts();
    wire::set_ref(part.here, *told.mutable_here());
    for (const ReplicaAnswer::Sibling& other : part.others) {
      wire::set_ref(other.id, *told.add_others());
      told.add_nodes(other.node);
    }
  }
  out.set_incomplete(answer.incomplete);
  wire::add_refs(answer.living, *out.mutable_living());
  if (answer.incarnation) out.set_incarnation(wire::id_field(*answer.incarnation));
  wire::add_refs(answer.unsure, *out.mutable_unsure());
}

}  // namespace ocm::control
