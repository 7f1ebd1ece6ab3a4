// Questions about replicas, and their answers, in messages.
//
// Threads: any. Pure.
#pragma once

#include "control.pb.h"
#include "control/replica_query.h"

namespace ocm::control {

/// What is owned by a session whose id, or an allocation's, is none is left out: nobody has such a one.
ReplicaQuery from_wire(const wire::ReplicaQuery& message);
/// `out` is empty.
void to_wire(const ReplicaQuery& query, wire::ReplicaQuery& out);

/// A replica without a node is left out; an incarnation of another length than 16 bytes is none.
ReplicaAnswer from_wire(const wire::ReplicaAnswer& message);
/// `out` is empty.
void to_wire(const ReplicaAnswer& answer, wire::ReplicaAnswer& out);

}  // namespace ocm::control
