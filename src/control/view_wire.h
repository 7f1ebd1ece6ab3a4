// Views in messages. What comes from outside is read here once, and says what it said: whether a node may be what it claims
// is for Membership::heard().
//
// Threads: any. Pure.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "control.pb.h"
#include "control/view.h"
#include "wire/convert.h"

namespace ocm::control {

using wire::enum_from;

PoolInfo from_wire(const wire::PoolView& message);
void to_wire(const PoolInfo& pool, wire::PoolView& out);

/// Of a NodeView or Stats.
template <class Message>
CopyProgress copies_from(const Message& message) {
  return {.replicas_waiting = message.replicas_waiting(),
          .replica_bytes = message.replica_bytes(),
          .replica_bytes_copied = message.replica_bytes_copied(),
          .replicas_left = message.replicas_left(),
          .replicas_wanted = message.replicas_wanted()};
}
template <class Message>
void copies_to(const CopyProgress& copies, Message& out) {
  out.set_replicas_waiting(copies.replicas_waiting);
  out.set_replica_bytes(copies.replica_bytes);
  out.set_replica_bytes_copied(copies.replica_bytes_copied);
  out.set_replicas_left(copies.replicas_left);
  out.set_replicas_wanted(copies.replicas_wanted);
}

/// An incarnation of another length than 16 bytes is none.
NodeInfo from_wire(const wire::NodeView& message);
/// `out` is empty.
void to_wire(const NodeInfo& node, wire::NodeView& out);

/// The council that travels with it is no part of it.
View from_wire(const wire::ClusterView& message);
/// `out` is empty.
void to_wire(const View& view, wire::ClusterView& out);

}  // namespace ocm::control
