#include "control/allocation_wire.h"

#include "base/assert.h"
#include "control/membership.h"

namespace ocm::control {
namespace {

using wire::add_refs;
using wire::id_field;
using wire::id_from;

/// In their order.
void read_extents(const google::protobuf::RepeatedPtrField<wire::ExtentDescriptor>& messages,
                  std::vector<PlacedExtent>& out) {
  out.reserve(static_cast<size_t>(messages.size()));
  for (const wire::ExtentDescriptor& one : messages) out.push_back(from_wire(one));
}

std::optional<Access> access_from(uint32_t number) {
  if (number == static_cast<uint32_t>(Access::kRead)) return Access::kRead;
  if (number == static_cast<uint32_t>(Access::kReadWrite)) return Access::kReadWrite;
  return std::nullopt;
}

}  // namespace

void to_wire(const PlacedExtent& extent, wire::ExtentDescriptor& out) {
  wire::descriptor_to(extent, out);
  out.set_part(extent.part);
  out.set_epoch(extent.epoch);
  out.set_lost(extent.lost);
  out.set_vacant(extent.vacant);
}

PlacedExtent from_wire(const wire::ExtentDescriptor& message) {
  PlacedExtent out(wire::descriptor_from(message));
  out.part = message.part();
  out.epoch = message.epoch();
  out.lost = message.lost();
  out.vacant = message.vacant();
  return out;
}

static_assert(static_cast<uint32_t>(Access::kRead) == 1 && static_cast<uint32_t>(Access::kReadWrite) == 3);
static_assert(static_cast<uint32_t>(Layout::kSequence) == 3, "the last that a message may say");

// Each writes into an empty message: what repeats is added to it.

void to_wire(const Allocation& allocation, wire::Allocation& out) {
  OCM_DASSERT(out.extents().empty() && out.homes().empty() && out.part_bytes().empty());
  if (allocation.has_id()) out.set_allocation_id(id_field(allocation.id));
  out.set_bytes_total(allocation.bytes_total);
  out.set_kind(static_cast<uint32_t>(allocation.kind));
  out.set_durable(allocation.durable);
  out.set_coherent(allocation.coherent);
  out.set_layout(static_cast<uint32_t>(allocation.layout));
  out.set_chunk_bytes(allocation.chunk_bytes);
  for (const PlacedExtent& extent : allocation.extents) to_wire(extent, *out.add_extents());
  if (allocation.access) out.set_access(static_cast<uint32_t>(*allocation.access));
  out.set_name(allocation.name);
  out.set_owner_uid(allocation.owner_uid);
  out.set_mode(allocation.mode);
  out.set_lost(allocation.lost);
  out.mutable_part_bytes()->Add(allocation.part_bytes.begin(), allocation.part_bytes.end());
  out.set_replicated_parts(allocation.replicated_parts);
  for (const HomeAddresses& home : allocation.homes) {
    wire::HomeAddresses& told = *out.add_homes();
    told.set_node(home.node);
    wire::addresses_to(home.addresses, *told.mutable_addresses());
  }
}

Result<Allocation> from_wire(const wire::Allocation& message) {
  if (message.kind() > UINT8_MAX) return Status(Code::kInvalidArgument, "unknown kind");
  if (message.layout() > static_cast<uint32_t>(Layout::kSequence))
    return Status(Code::kInvalidArgument, "unknown layout");
  return extents_of(message);
}

Allocation extents_of(const wire::Allocation& message) {
  Allocation out;
  out.id = id_from<AllocationId>(message.allocation_id());
  out.bytes_total = message.bytes_total();
  out.kind = wire::enum_from<Kind>(message.kind());
  out.durable = message.durable();
  out.coherent = message.coherent();
  out.layout = wire::enum_from<Layout>(message.layout());
  out.chunk_bytes = message.chunk_bytes();
  read_extents(message.extents(), out.extents);
  out.access = access_from(message.access());
  out.name = message.name();
  out.owner_uid = message.owner_uid();
  out.mode = message.mode();
  out.lost = message.lost();
  out.part_bytes.assign(message.part_bytes().begin(), message.part_bytes().end());
  out.replicated_parts = message.replicated_parts();
  for (const wire::HomeAddresses& home : message.homes())
    out.homes.push_back({home.node(), wire::addresses_from(home.addresses())});
  return out;
}

void to_wire(const NameList& list, wire::NameList& out) {
  OCM_DASSERT(out.allocations().empty() && list.entries.size() <= kNamesListedMax);
  for (const NameList::Entry& entry : list.entries) {
    wire::Allocation& told = *out.add_allocations();
    told.set_name(entry.name);
    told.set_bytes_total(entry.bytes_total);
    told.set_kind(static_cast<uint32_t>(entry.kind));
    told.set_durable(entry.durable);
    told.set_coherent(entry.coherent);
    told.set_layout(static_cast<uint32_t>(entry.layout));
    told.set_chunk_bytes(entry.chunk_bytes);
    told.set_owner_uid(entry.owner_uid);
    told.set_mode(entry.mode);
    told.set_extents_count(entry.extents);
    told.set_lost(entry.lost);
    told.set_lost_count(entry.lost_extents);
  }
  out.set_more(list.more);
}

void to_wire(const PartMoved& part, wire::PartMoved& out) {
  OCM_DASSERT(out.now().empty() && out.former().empty() && out.peers().empty());
  wire::set_ref(part.was, *out.mutable_was());
  for (const PlacedExtent& extent : part.now) to_wire(extent, *out.add_now());
  out.set_epoch(part.epoch);
  if (part.allocation != AllocationId()) out.set_allocation_id(id_field(part.allocation));
  add_refs(part.former, *out.mutable_former());
  add_refs(part.peers, *out.mutable_peers());
  out.set_replicas_wanted(part.replicas_wanted);
}

PartMoved from_wire(const wire::PartMoved& message) {
  PartMoved out;
  out.was = wire::id_of(message.was());
  read_extents(message.now(), out.now);
  out.epoch = message.epoch();
  out.allocation = id_from<AllocationId>(message.allocation_id());
  out.former = wire::ids_in(message.former());
  out.peers = wire::ids_in(message.peers());
  out.replicas_wanted = message.replicas_wanted();
  return out;
}

void to_wire(const GivenReplica& give, wire::GiveReplica& out) {
  OCM_DASSERT(out.holds().empty() && out.instead_of().empty());
  wire::set_ref(give.replica, *out.mutable_replica());
  to_wire(give.part, *out.mutable_part());
  if (give.session != SessionId()) {
    out.set_session_id(id_field(give.session));
    out.set_owner_node(give.owner_node);
    out.set_owner_incarnation(id_field(give.owner_incarnation));
  }
  if (give.published) to_wire(*give.published, *out.mutable_published());
  for (const Ownership::HeldBy& by : give.holds) {
    wire::HoldRequest& hold = *out.add_holds();
    hold.set_session_id(id_field(by.session));
    hold.set_owner_node(by.node);
    hold.set_owner_incarnation(id_field(by.incarnation));
    hold.set_hold_id(id_field(by.hold));
  }
  out.mutable_instead_of()->Add(give.instead_of.begin(), give.instead_of.end());
  out.set_attempt(give.attempt);
}

Result<GivenReplica> from_wire(const wire::GiveReplica& message) {
  GivenReplica out;
  out.replica = wire::id_of(message.replica());
  out.part = from_wire(message.part());
  SessionId session;
  Incarnation incarnation;
  if (wire::read_id(message.session_id(), session)) out.session = session;
  if (out.session != SessionId() && wire::read_id(message.owner_incarnation(), incarnation) &&
      check_node_name(message.owner_node()).is_ok()) {
    out.owner_node = message.owner_node();
    out.owner_incarnation = incarnation;
  }
  if (message.has_published()) {
    OCM_TRY_ASSIGN(out.published, from_wire(message.published()));
  }
  for (const wire::HoldRequest& hold : message.holds()) {
    Ownership::HeldBy by{{}, hold.owner_node(), {}, {}};
    if (wire::read_id(hold.session_id(), by.session) && wire::read_id(hold.hold_id(), by.hold) &&
        wire::read_id(hold.owner_incarnation(), by.incarnation) && check_node_name(by.node).is_ok())
      out.holds.push_back(std::move(by));
  }
  out.instead_of.assign(message.instead_of().begin(), message.instead_of().end());
  out.attempt = message.attempt();
  return out;
}

std::string to_bytes(const GivenReplica& give) {
  wire::GiveReplica message;
  to_wire(give, message);
  return message.SerializeAsString();
}

Result<GivenReplica> given_from(std::string_view bytes) {
  wire::GiveReplica message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Status(Code::kProtocol, "the record of an extent is malformed");
  return from_wire(message);
}

void to_wire(const PlannedPart& plan, wire::PlanPart& out) {
  OCM_DASSERT(out.of().empty() && out.lost().empty());
  OCM_DASSERT(plan.lost.size() <= plan.of.size());
  wire::set_ref(plan.replica, *out.mutable_replica());
  to_wire(plan.give, *out.mutable_give());
  add_refs(plan.of, *out.mutable_of());
  add_refs(plan.lost, *out.mutable_lost());
}

Result<PlannedPart> from_wire(const wire::PlanPart& message) {
  PlannedPart out;
  out.replica = wire::id_of(message.replica());
  OCM_TRY_ASSIGN(out.give, from_wire(message.give()));
  out.of = wire::ids_in(message.of());
  out.lost = wire::ids_in(message.lost());
  return out;
}

}  // namespace ocm::control
