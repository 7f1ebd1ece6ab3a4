#include "control/home_requests_wire.h"

#include <algorithm>

#include "base/assert.h"
#include "base/limits.h"
#include "control/allocation_wire.h"
#include "control/membership.h"

namespace ocm::control {

using wire::add_refs;
using wire::id_field;
using wire::id_from;
using wire::read_id;

void to_wire(const ReserveRequest& request, wire::ReserveRequest& out) {
  OCM_DASSERT(check_node_name(request.owner_node).is_ok());
  OCM_DASSERT(request.session != SessionId() && request.allocation != AllocationId());
  out.set_session_id(id_field(request.session));
  out.set_owner_node(request.owner_node);
  out.set_owner_incarnation(id_field(request.owner_incarnation));
  out.set_allocation_id(id_field(request.allocation));
  out.set_bytes_total(request.bytes_total);
  out.set_kind(static_cast<uint32_t>(request.kind));
  out.set_flags(request.flags);
  out.set_uid(request.uid);
  out.set_layout(static_cast<uint32_t>(request.replicated ? Layout::kReplicated : Layout::kSingle));
}

ReserveRequest from_wire(const wire::ReserveRequest& message) {
  ReserveRequest out;
  const bool has_owner = read_id(message.session_id(), out.session) &&
                         read_id(message.allocation_id(), out.allocation) &&
                         read_id(message.owner_incarnation(), out.owner_incarnation) &&
                         check_node_name(message.owner_node()).is_ok();
  if (has_owner) out.owner_node = message.owner_node();
  out.bytes_total = message.bytes_total();
  out.kind = static_cast<Kind>(std::min<uint32_t>(message.kind(), UINT8_MAX));
  out.flags = message.flags();
  out.uid = message.uid();
  out.replicated = message.layout() == static_cast<uint32_t>(Layout::kReplicated);
  return out;
}

Result<ExtentDescriptor> made_extent(const wire::Reserved& reply, const std::string& node) {
  const wire::ExtentDescriptor& extent = reply.extent();
  if (extent.node() != node || !is_kind(extent.kind()) || extent.capability().size() != sizeof(Capability))
    return Status::of_node(Code::kProtocol, node, " answered with a malformed extent");
  return wire::descriptor_from(extent);
}

void to_wire(const ReleaseRequest& request, wire::ReleaseRequest& out) {
  OCM_DASSERT(out.more().empty() && out.parts().empty() && out.instead_of().empty());
  OCM_DASSERT(request.extent != ExtentId() || request.allocation != AllocationId());
  if (request.session != SessionId()) out.set_session_id(id_field(request.session));
  wire::set_ref(request.extent, out);
  if (request.extent != ExtentId()) out.set_capability(id_field(request.capability));
  if (request.allocation != AllocationId()) out.set_allocation_id(id_field(request.allocation));
  add_refs(request.more, *out.mutable_more());
  for (const AllocationId& part : request.parts) out.add_parts(id_field(part));
  out.set_holders_keep(request.holders_keep);
  out.mutable_instead_of()->Add(request.instead_of.begin(), request.instead_of.end());
}

Result<ReleaseRequest> from_wire(const wire::ReleaseRequest& message) {
  ReleaseRequest out;
  const bool named = read_id(message.session_id(), out.session);
  const bool of_allocation = read_id(message.allocation_id(), out.allocation);
  if (message.address() == 0 && (!named || !of_allocation))
    return Status(Code::kInvalidArgument,
                  "the release names neither an extent nor an allocation of a session");
  out.extent = wire::id_of(message);
  (void)read_id(message.capability(), out.capability);
  out.more = wire::ids_in(message.more());
  for (const std::string& field : message.parts()) {
    if (AllocationId part; read_id(field, part)) out.parts.push_back(part);
  }
  out.holders_keep = message.holders_keep();
  out.instead_of.assign(message.instead_of().begin(), message.instead_of().end());
  return out;
}

void to_wire(const HoldRequest& request, wire::HoldRequest& out) {
  OCM_DASSERT(out.extents().empty() && check_node_name(request.by.node).is_ok());
  out.set_session_id(id_field(request.by.session));
  out.set_owner_node(request.by.node);
  out.set_owner_incarnation(id_field(request.by.incarnation));
  out.set_hold_id(id_field(request.by.hold));
  add_refs(request.extents, *out.mutable_extents());
}

Result<HoldRequest> from_wire(const wire::HoldRequest& message) {
  HoldRequest out;
  if (!read_id(message.session_id(), out.by.session) || !read_id(message.hold_id(), out.by.hold))
    return Status(Code::kInvalidArgument, "the hold has no id or no session");
  if (message.end()) return out;
  if (!read_id(message.owner_incarnation(), out.by.incarnation) ||
      !check_node_name(message.owner_node()).is_ok())
    return Status(Code::kInvalidArgument, "the hold does not name the daemon of its session");
  if (static_cast<size_t>(message.extents_size()) > kSequenceExtentsMax)
    return Status(Code::kTooLarge, "the hold names " + std::to_string(message.extents_size()) +
                                       " extents; an allocation can have " +
                                       std::to_string(kSequenceExtentsMax));
  out.by.node = message.owner_node();
  out.extents = wire::ids_in(message.extents());
  return out;
}

void end_to_wire(const SessionId& session, const HoldId& hold, wire::HoldRequest& out) {
  out.set_session_id(id_field(session));
  out.set_hold_id(id_field(hold));
  out.set_end(true);
}

void to_wire(const SessionExtents& held, wire::SessionExtents& out) {
  OCM_DASSERT(out.extents().empty() && out.hold_ids().empty());
  for (const SessionExtents::Owned& one : held.extents) {
    wire::SessionExtents::Owned& told = *out.add_extents();
    told.set_allocation_id(id_field(one.allocation));
    wire::descriptor_to(one.extent, *told.mutable_extent());
  }
  for (const HoldId& hold : held.holds) out.add_hold_ids(id_field(hold));
}

SessionExtents from_wire(const wire::SessionExtents& message) {
  SessionExtents out;
  for (const wire::SessionExtents::Owned& one : message.extents()) {
    SessionExtents::Owned owned;
    if (!read_id(one.allocation_id(), owned.allocation) ||
        one.extent().capability().size() != sizeof(Capability) || !is_kind(one.extent().kind()))
      continue;
    owned.extent = wire::descriptor_from(one.extent());
    out.extents.push_back(std::move(owned));
  }
  for (const std::string& field : message.hold_ids()) {
    if (HoldId hold; read_id(field, hold)) out.holds.push_back(hold);
  }
  OCM_DASSERT(out.extents.size() <= static_cast<size_t>(message.extents_size()));
  return out;
}

void to_wire(const PublishRequest& request, wire::PublishRequest& out) {
  OCM_DASSERT(request.allocation.has_id());
  out.set_name(request.name);
  out.set_mode(request.mode);
  out.set_allocation_id(id_field(request.allocation.id));
  to_wire(request.allocation, *out.mutable_allocation());
  out.set_session_id(id_field(request.session));
  out.set_owner_node(request.owner_node);
  out.set_owner_incarnation(id_field(request.owner_incarnation));
  out.set_order(request.order);
}

Result<PublishRequest> from_wire(const wire::PublishRequest& message) {
  PublishRequest out;
  out.name = message.name();
  out.mode = message.mode();
  OCM_TRY_ASSIGN(out.allocation, from_wire(message.allocation()));
  if (read_id(message.session_id(), out.session) &&
      read_id(message.owner_incarnation(), out.owner_incarnation))
    out.owner_node = message.owner_node();
  out.order = message.order();
  return out;
}

void to_wire(const NameChange& change, wire::PublishExtents& out) {
  OCM_DASSERT(!(change.remove && change.undo) && !(change.former && (change.remove || change.undo)));
  to_wire(change.allocation, *out.mutable_allocation());
  out.set_remove(change.remove);
  out.set_undo(change.undo);
  if (!change.owner_node.empty()) {
    out.set_session_id(id_field(change.session));
    out.set_owner_node(change.owner_node);
    out.set_owner_incarnation(id_field(change.owner_incarnation));
  }
  out.set_attempt(change.attempt);
  out.set_former(change.former);
  out.set_coordinator_run(change.coordinator_run);
}

Result<NameChange> from_wire(const wire::PublishExtents& message) {
  NameChange out;
  out.remove = message.remove();
  out.undo = message.undo();
  out.former = message.former();
  if (out.remove || out.undo || out.former) {
    out.allocation = extents_of(message.allocation());
  } else {
    OCM_TRY_ASSIGN(out.allocation, from_wire(message.allocation()));
  }
  if (read_id(message.session_id(), out.session) &&
      read_id(message.owner_incarnation(), out.owner_incarnation))
    out.owner_node = message.owner_node();
  out.attempt = message.attempt();
  out.coordinator_run = message.coordinator_run();
  return out;
}

}  // namespace ocm::control
