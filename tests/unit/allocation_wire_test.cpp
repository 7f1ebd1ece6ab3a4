// What daemons know of allocations goes into messages and comes back whole; what is malformed is refused or has no effect.
#include "control/allocation_wire.h"

#include <gtest/gtest.h>

#include "control/home_requests_wire.h"
#include "filled.h"

namespace ocm::control {
namespace {

PlacedExtent placed(uint64_t address) {
  PlacedExtent out;
  out.id = {GlobalAddress(address), 7};
  out.bytes = 4096;
  out.capability = filled<Capability>('c');
  out.node = "n1";
  out.addresses = {{Fabric::kTcp, "10.0.0.1:1", "key"}, {Fabric::kShm, "here", ""}};
  out.slot = 3;
  out.unmapped = true;
  out.part = 1;
  out.epoch = 2;
  out.lost = true;
  out.vacant = true;
  return out;
}

Allocation full_allocation() {
  Allocation out;
  out.id = filled<AllocationId>('a');
  out.bytes_total = 8192;
  out.durable = out.coherent = true;
  out.layout = Layout::kSequence;
  out.chunk_bytes = 64;
  out.extents = {placed(4096), placed(8192)};
  out.access = Access::kRead;
  out.name = "x";
  out.owner_uid = 1000;
  out.mode = 0640;
  out.lost = true;
  out.part_bytes = {4096, 4096};
  out.replicated_parts = true;
  out.homes = {{"n1", {{Fabric::kTcp, "10.0.0.1:1", {}}}}};
  return out;
}

PartMoved full_part() {
  PartMoved out;
  out.was = {GlobalAddress(1), 2};
  out.now = {placed(4096), placed(8192)};
  out.epoch = 3;
  out.allocation = filled<AllocationId>('a');
  out.former = {{GlobalAddress(5), 6}};
  out.peers = {{GlobalAddress(7), 8}};
  out.replicas_wanted = 3;
  return out;
}

GivenReplica full_give() {
  GivenReplica out;
  out.replica = {GlobalAddress(9), 1};
  out.part = full_part();
  out.session = filled<SessionId>('s');
  out.owner_node = "n2";
  out.owner_incarnation = filled<Incarnation>('i');
  out.published = full_allocation();
  out.holds = {{filled<SessionId>('r'), "n3", filled<Incarnation>('j'), filled<HoldId>('h')}};
  out.instead_of = {"one", "other"};
  out.attempt = 77;
  return out;
}

/// The message, and the message of what was read from it.
template <class Message, class Value>
std::pair<std::string, std::string> there_and_back(const Value& value) {
  Message first, second;
  to_wire(value, first);
  if constexpr (requires { from_wire(first).is_ok(); })
    to_wire(from_wire(first).value(), second);
  else
    to_wire(from_wire(first), second);
  return {first.SerializeAsString(), second.SerializeAsString()};
}
template <class Message, class Value>
void expect_whole(const Value& value) {
  const auto [first, second] = there_and_back<Message>(value);
  EXPECT_EQ(first, second);
  EXPECT_FALSE(first.empty());
}

TEST(AllocationInMessages, ComesBackWhole) {
  expect_whole<wire::ExtentDescriptor>(placed(4096));
  expect_whole<wire::Allocation>(full_allocation());
  expect_whole<wire::PartMoved>(full_part());
  expect_whole<wire::GiveReplica>(full_give());
  expect_whole<wire::PlanPart>(PlannedPart{{GlobalAddress(9), 1},
                                           full_give(),
                                           {{GlobalAddress(1), 1}, {GlobalAddress(2), 1}},
                                           {{GlobalAddress(2), 1}}});
  wire::Allocation message;
  to_wire(full_allocation(), message);
  const Allocation read = from_wire(message).value();
  EXPECT_EQ(read.id, filled<AllocationId>('a'));
  EXPECT_EQ(read.access, Access::kRead);
  ASSERT_EQ(read.extents.size(), 2u);
  EXPECT_EQ(read.extents[1].id.address, GlobalAddress(8192));
  EXPECT_EQ(read.extents[1].addresses.size(), 2u);
  EXPECT_TRUE(read.extents[1].unmapped && read.extents[1].lost && read.extents[1].vacant);
  EXPECT_EQ(read.homes.at(0).addresses.at(0).address, "10.0.0.1:1");
}

TEST(AllocationInMessages, OfWhatIsMalformedIsRefusedOrOpensNothing) {
  wire::Allocation good;
  to_wire(full_allocation(), good);
  wire::Allocation bad = good;
  bad.set_layout(9);
  EXPECT_EQ(from_wire(bad).status().code(), Code::kInvalidArgument);
  bad = good;
  bad.set_kind(1000);
  EXPECT_EQ(from_wire(bad).status().code(), Code::kInvalidArgument);
  bad = good;
  bad.set_allocation_id("short");
  EXPECT_FALSE(from_wire(bad).value().has_id());
  bad = good;
  bad.set_access(2);
  EXPECT_FALSE(from_wire(bad).value().access.has_value());
  bad = good;
  bad.mutable_extents(0)->set_capability(std::string(17, 'c'));
  bad.mutable_extents(0)->mutable_addresses(0)->set_fabric(200);
  EXPECT_EQ(from_wire(bad).value().extents[0].capability, Capability());
  EXPECT_EQ(from_wire(bad).value().extents[0].addresses[0].fabric, static_cast<Fabric>(200))
      << "of a later version";
}

TEST(AllocationInMessages, AReplicaIsGivenToAnOwnerThatIsNamedWhole) {
  wire::GiveReplica good;
  to_wire(full_give(), good);
  for (const int fault : {0, 1, 2}) {
    wire::GiveReplica bad = good;
    if (fault == 0) bad.set_session_id("short");
    if (fault == 1) bad.set_owner_incarnation("");
    if (fault == 2) bad.set_owner_node("a b");
    EXPECT_TRUE(from_wire(bad).value().owner_node.empty()) << fault;
    EXPECT_EQ(from_wire(bad).value().session == SessionId(), fault == 0) << fault;
  }
  good.mutable_holds(0)->set_hold_id("short");
  EXPECT_TRUE(from_wire(good).value().holds.empty());
  good.mutable_published()->set_layout(9);
  EXPECT_FALSE(from_wire(good).is_ok());
}

TEST(RequestsToHomes, ComeBackWhole) {
  const ReserveRequest reserve{.session = filled<SessionId>('s'),
                               .owner_node = "n1",
                               .owner_incarnation = filled<Incarnation>('i'),
                               .allocation = filled<AllocationId>('a'),
                               .bytes_total = 4096,
                               .flags = 4,
                               .uid = 1000,
                               .replicated = true};
  expect_whole<wire::ReserveRequest>(reserve);
  expect_whole<wire::ReleaseRequest>(ReleaseRequest{.session = filled<SessionId>('s'),
                                                    .extent = {GlobalAddress(4096), 1},
                                                    .capability = filled<Capability>('c'),
                                                    .allocation = filled<AllocationId>('a'),
                                                    .more = {{GlobalAddress(8192), 2}},
                                                    .parts = {filled<AllocationId>('p')},
                                                    .holders_keep = true,
                                                    .instead_of = {"publish 1"}});
  expect_whole<wire::HoldRequest>(
      HoldRequest{{filled<SessionId>('r'), "n3", filled<Incarnation>('j'), filled<HoldId>('h')},
                  {{GlobalAddress(4096), 1}}});
  PublishRequest publish{.name = "x", .mode = 0600, .allocation = full_allocation()};
  publish.session = filled<SessionId>('s');
  publish.owner_node = "n1";
  publish.owner_incarnation = filled<Incarnation>('i');
  publish.order = 5;
  expect_whole<wire::PublishRequest>(publish);
  expect_whole<wire::PublishExtents>(NameChange{.allocation = full_allocation(),
                                                .undo = true,
                                                .session = filled<SessionId>('s'),
                                                .owner_node = "n1",
                                                .owner_incarnation = filled<Incarnation>('i'),
                                                .attempt = 9,
                                                .coordinator_run = 11});
  for (const bool remove : {true, false})
    expect_whole<wire::PublishExtents>(
        NameChange{.allocation = full_allocation(), .remove = remove, .former = !remove});
  SessionExtents held;
  const PlacedExtent extent = placed(4096);
  held.extents.push_back({filled<AllocationId>('a'), static_cast<const ExtentDescriptor&>(extent)});
  held.holds.push_back(filled<HoldId>('h'));
  expect_whole<wire::SessionExtents>(held);
}

TEST(RequestsToHomes, ANameIsTakenFromWhatALaterVersionMade) {
  wire::PublishExtents change;
  to_wire(NameChange{.allocation = full_allocation(), .attempt = 9}, change);
  change.mutable_allocation()->set_layout(9);
  EXPECT_EQ(from_wire(change).status().code(), Code::kInvalidArgument);
  change.set_remove(true);
  ASSERT_TRUE(from_wire(change).is_ok());
  EXPECT_EQ(from_wire(change).value().allocation.extents.size(), 2u);
}

TEST(RequestsToHomes, OfWhoDoesNotNameItsOwnerHaveNone) {
  PublishRequest request{.name = "x", .mode = 0, .allocation = full_allocation()};
  request.session = filled<SessionId>('s');
  request.owner_node = "n1";
  wire::PublishRequest message;
  to_wire(request, message);
  message.set_session_id("short");
  EXPECT_TRUE(from_wire(message).value().owner_node.empty());
}

TEST(RequestsToHomes, ThatNameNothingAreRefused) {
  wire::ReleaseRequest release;
  EXPECT_EQ(from_wire(release).status().code(), Code::kInvalidArgument);
  release.set_session_id(std::string(16, 's'));
  EXPECT_EQ(from_wire(release).status().code(), Code::kInvalidArgument);
  release.set_allocation_id(std::string(16, 'a'));
  EXPECT_TRUE(from_wire(release).is_ok());
  wire::HoldRequest hold;
  EXPECT_EQ(from_wire(hold).status().code(), Code::kInvalidArgument);
  hold.set_session_id(std::string(16, 's'));
  hold.set_hold_id(std::string(16, 'h'));
  EXPECT_EQ(from_wire(hold).status().code(), Code::kInvalidArgument) << "no daemon vouches for it";
  hold.set_end(true);
  EXPECT_TRUE(from_wire(hold).is_ok());
  wire::ReserveRequest reserve;
  EXPECT_TRUE(from_wire(reserve).owner_node.empty());
  reserve.set_kind(1u << 31);
  EXPECT_FALSE(is_kind(static_cast<uint64_t>(from_wire(reserve).kind)));
  wire::SessionExtents held;
  held.add_extents()->set_allocation_id(std::string(16, 'a'));
  held.add_hold_ids("short");
  EXPECT_TRUE(from_wire(held).extents.empty() && from_wire(held).holds.empty());
}

TEST(RequestsToHomes, AnExtentThatAHomeMadeIsItsOwn) {
  wire::Reserved reply;
  to_wire(placed(4096), *reply.mutable_extent());
  EXPECT_TRUE(made_extent(reply, "n1").is_ok());
  EXPECT_EQ(made_extent(reply, "n2").status().code(), Code::kProtocol);
  reply.mutable_extent()->set_kind(200);
  EXPECT_EQ(made_extent(reply, "n1").status().code(), Code::kProtocol);
  to_wire(placed(4096), *reply.mutable_extent());
  reply.mutable_extent()->set_capability("short");
  EXPECT_EQ(made_extent(reply, "n1").status().code(), Code::kProtocol);
}

}  // namespace
}  // namespace ocm::control
