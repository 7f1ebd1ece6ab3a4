// control/parts: what may be joined, and which extents a part can lose.
#include "control/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace ocm::control {
namespace {

wire::Allocation part(uint64_t bytes, std::vector<std::string> nodes, Layout layout = Layout::kSingle) {
  static uint64_t address = 4096;
  wire::Allocation out;
  out.set_bytes_total(bytes);
  out.set_layout(static_cast<uint32_t>(layout));
  for (const std::string& node : nodes) {
    auto& extent = *out.add_extents();
    extent.set_node(node);
    extent.set_bytes(bytes);
    extent.set_address(address += 4096);
    extent.set_generation(1);
    extent.add_addresses()->set_address(node + ":1");
  }
  return out;
}
wire::Allocation replicas(uint64_t bytes) { return part(bytes, {"a", "b"}, Layout::kReplicated); }

Result<wire::Allocation> join_all(const std::vector<wire::Allocation>& parts) {
  std::vector<const wire::Allocation*> pointers;
  for (const auto& one : parts) pointers.push_back(&one);
  return join(pointers);
}
ExtentId id_of(const wire::ExtentDescriptor& extent) {
  return {GlobalAddress(extent.address()), extent.generation()};
}
bool is_lost_without(const wire::Allocation& allocation, const std::string& node) {
  return is_lost(allocation, [&](const auto& extent, bool) { return extent.node() == node; });
}

TEST(Parts, JoinedKeepTheirOrderAndLengths) {
  const auto joined = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})});
  ASSERT_TRUE(joined.is_ok());
  const wire::Allocation& sequence = joined.value();
  EXPECT_EQ(sequence.bytes_total(), 35u);
  ASSERT_EQ(sequence.extents_size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sequence.extents(i).part(), static_cast<uint32_t>(i));
  EXPECT_EQ(sequence.part_bytes(1), 20u);
  EXPECT_TRUE(check_parts(sequence).is_ok());
}

TEST(Parts, AnExtentWithoutReplicasGetsAnotherAtItsPlaceAlone) {
  wire::Allocation striped = part(10, {"a", "b", "c"}, Layout::kStriped);
  const wire::Allocation before = striped;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(part_of(striped, id_of(striped.extents(i))), std::vector{id_of(striped.extents(i))});
  wire::PartMoved moved;
  moved.mutable_was()->set_address(striped.extents(1).address());
  moved.mutable_was()->set_generation(striped.extents(1).generation());
  *moved.add_now() = part(10, {"d"}).extents(0);
  moved.set_epoch(1);
  ASSERT_TRUE(relocate(striped, moved));
  EXPECT_EQ(striped.extents(1).node(), "d");
  EXPECT_EQ(striped.extents(1).addresses(0).address(), "d:1");
  EXPECT_EQ(striped.extents(1).epoch(), 1u);
  for (const int i : {0, 2}) EXPECT_EQ(id_of(striped.extents(i)), id_of(before.extents(i)));
  EXPECT_FALSE(relocate(striped, moved)) << "it has left that place";
  // A record of before learns it from this one, and this one nothing from that (L1).
  wire::Allocation late = before;
  EXPECT_FALSE(take_newer(striped, before));
  EXPECT_TRUE(take_newer(late, striped));
  EXPECT_EQ(id_of(late.extents(1)), id_of(striped.extents(1)));
  EXPECT_FALSE(take_newer(late, striped));
}

TEST(Parts, APartOfASequenceWithoutReplicasMovesAndItsHomeIsKnown) {
  wire::Allocation sequence = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})}).value();
  wire::PartMoved moved;
  moved.mutable_was()->set_address(sequence.extents(1).address());
  moved.mutable_was()->set_generation(sequence.extents(1).generation());
  *moved.add_now() = part(20, {"c"}).extents(0);
  ASSERT_TRUE(relocate(sequence, moved));
  EXPECT_EQ(sequence.extents(1).node(), "c");
  EXPECT_EQ(sequence.extents(1).part(), 1u);
  EXPECT_EQ(sequence.extents(1).addresses_size(), 0);
  EXPECT_EQ(sequence.homes(sequence.homes_size() - 1).node(), "c");
  EXPECT_TRUE(check_parts(sequence).is_ok());
}

TEST(Parts, AddressesStandOnceForEachHome) {
  const auto joined = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})});
  ASSERT_TRUE(joined.is_ok());
  ASSERT_EQ(joined.value().homes_size(), 2);
  EXPECT_EQ(joined.value().homes(1).node(), "b");
  EXPECT_EQ(joined.value().homes(1).addresses(0).address(), "b:1");
  for (const auto& extent : joined.value().extents()) EXPECT_EQ(extent.addresses_size(), 0);
}

TEST(Parts, OnlyLikePartsAreJoined) {
  EXPECT_EQ(join_all({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_all({part(10, {"a"}), replicas(10)}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_all({part(10, {"a", "b"}, Layout::kStriped)}).status().code(), Code::kUnsupported);
  EXPECT_EQ(join_all({join_all({part(10, {"a"})}).value()}).status().code(), Code::kUnsupported);
  EXPECT_TRUE(join_all({replicas(10), part(7, {"b"}, Layout::kReplicated)}).is_ok());
}

TEST(Parts, TooManyOrTooLongAreRefused) {
  EXPECT_EQ(join_all(std::vector<wire::Allocation>(kSequenceExtentsMax + 1, part(1, {"a"}))).status().code(),
            Code::kTooLarge);
  EXPECT_TRUE(join_all(std::vector<wire::Allocation>(kSequenceExtentsMax, part(1, {"a"}))).is_ok());
  EXPECT_EQ(join_all({part(~uint64_t{0}, {"a"}), part(2, {"a"})}).status().code(), Code::kTooLarge);
}

TEST(Parts, MalformedSequencesAreRefused) {
  const wire::Allocation good = join_all({part(10, {"a"}), part(20, {"b"})}).value();
  const std::vector<std::function<void(wire::Allocation&)>> faults = {
      [](wire::Allocation& a) { a.set_layout(9); },
      [](wire::Allocation& a) { a.set_bytes_total(31); },
      [](wire::Allocation& a) { a.add_part_bytes(1); },
      [](wire::Allocation& a) { a.set_part_bytes(0, 0); },
      [](wire::Allocation& a) { a.set_part_bytes(0, ~uint64_t{0}); },
      [](wire::Allocation& a) { a.mutable_extents(0)->set_part(1); },
      [](wire::Allocation& a) { a.mutable_extents(1)->set_part(2); },
      [](wire::Allocation& a) { a.mutable_extents(1)->set_part(0); },
      [](wire::Allocation& a) { a.mutable_extents(1)->set_bytes(19); },
      [](wire::Allocation& a) { a.mutable_extents()->DeleteSubrange(1, 1); },
      [](wire::Allocation& a) { a.clear_extents(); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    wire::Allocation bad = good;
    faults[i](bad);
    EXPECT_FALSE(check_parts(bad).is_ok()) << i;
  }
}

wire::Allocation stripes() { return part(10, {"a", "b"}, Layout::kStriped); }

TEST(Parts, ALostReplicaStillNamesItsPart) {
  wire::Allocation sequence = join_all({replicas(10), replicas(20)}).value();
  const ExtentId first = id_of(sequence.extents(2)), second = id_of(sequence.extents(3));
  const std::vector<ExtentId> part = part_of(sequence, first);
  EXPECT_EQ(part, (std::vector<ExtentId>{std::min(first, second), std::max(first, second)}));
  EXPECT_TRUE(mark_lost(sequence, first));
  EXPECT_FALSE(mark_lost(sequence, first)) << "it is noted already";
  EXPECT_EQ(part_of(sequence, second), part);
  EXPECT_FALSE(mark_lost(sequence, ExtentId{GlobalAddress(1), 1}));
  EXPECT_TRUE(part_of(sequence, ExtentId{GlobalAddress(1), 1}).empty());
  EXPECT_TRUE(check_parts(sequence).is_ok());
  wire::Allocation striped = stripes();
  EXPECT_FALSE(mark_lost(striped, id_of(striped.extents(0)))) << "it has no replicas";
}

TEST(Parts, LostIsWhatHasAPartWithoutALivingExtent) {
  wire::Allocation sequence = join_all({replicas(10), replicas(20)}).value();
  EXPECT_FALSE(is_lost_without(sequence, "a"));
  ASSERT_TRUE(mark_lost(sequence, id_of(sequence.extents(3))));  // of the second part only "a" is left
  EXPECT_TRUE(is_lost_without(sequence, "a"));
  EXPECT_FALSE(is_lost_without(sequence, "b"));
  EXPECT_TRUE(is_lost_without(join_all({part(10, {"a"}), part(20, {"b"})}).value(), "b"));
  EXPECT_TRUE(is_lost_without(part(10, {"a", "b"}, Layout::kStriped), "b"));
  EXPECT_FALSE(is_lost_without(replicas(10), "b"));
}

wire::PartMoved remade_of(const wire::ExtentDescriptor& last, const std::vector<std::string>& nodes,
                          uint32_t times) {
  wire::PartMoved out;
  out.mutable_was()->set_address(last.address());
  out.mutable_was()->set_generation(last.generation());
  const wire::Allocation made = part(last.bytes(), nodes, Layout::kReplicated);
  for (const auto& extent : made.extents()) {
    *out.add_now() = extent;
    out.mutable_now(out.now_size() - 1)->set_capability(std::string(16, 'c'));
  }
  out.set_epoch(times);
  return out;
}

TEST(Parts, APartThatWasMadeAgainTakesThePlacesOfTheFormerOne) {
  wire::Allocation a = replicas(10);
  ASSERT_TRUE(mark_lost(a, id_of(a.extents(0))));
  const wire::Allocation before = a;
  const wire::PartMoved again = remade_of(a.extents(1), {"b", "c"}, 1);
  ASSERT_TRUE(relocate(a, again));
  ASSERT_EQ(a.extents_size(), 2);
  EXPECT_EQ(a.extents(1).address(), again.now(0).address()) << "the same bytes stay at their place";
  EXPECT_EQ(a.extents(0).address(), again.now(1).address());
  EXPECT_EQ(a.extents(0).node(), "c");
  EXPECT_FALSE(a.extents(0).lost());
  EXPECT_EQ(a.extents(0).epoch(), 1u);
  EXPECT_EQ(part_of(a, id_of(a.extents(0))).size(), 2u);
  EXPECT_TRUE(part_of(a, id_of(before.extents(1))).empty());
  EXPECT_FALSE(relocate(a, again)) << "it is not of the former part any more";
}

TEST(Parts, APlaceWithoutASpareIsVacantAndOfNoPart) {
  wire::Allocation a = part(10, {"a", "b", "c"}, Layout::kReplicated);
  for (const int lost : {0, 2}) ASSERT_TRUE(mark_lost(a, id_of(a.extents(lost))));
  ASSERT_TRUE(relocate(a, remade_of(a.extents(1), {"b", "d"}, 1)));
  ASSERT_EQ(a.extents_size(), 3);
  EXPECT_TRUE(a.extents(2).vacant());
  EXPECT_EQ(part_of(a, id_of(a.extents(0))).size(), 2u) << "a vacant place votes nowhere";
  EXPECT_TRUE(part_of(a, id_of(a.extents(2))).empty());
  EXPECT_FALSE(is_lost_without(a, "b"));
}

TEST(Parts, AVacantPlaceGetsAReplicaWhenThereIsRoom) {
  wire::Allocation a = part(10, {"a", "b", "c"}, Layout::kReplicated);
  for (const int lost : {0, 2}) ASSERT_TRUE(mark_lost(a, id_of(a.extents(lost))));
  ASSERT_TRUE(relocate(a, remade_of(a.extents(1), {"b", "d"}, 1)));
  ASSERT_TRUE(relocate(a, remade_of(a.extents(1), {"b", "d", "e"}, 2)));
  EXPECT_EQ(part_of(a, id_of(a.extents(0))).size(), 3u);
  for (const auto& extent : a.extents()) EXPECT_FALSE(extent.vacant() || extent.lost()) << extent.node();
}

TEST(Parts, WhatWasGivenUpMayGoOnInThePartThatFollows) {
  const auto at = [](uint64_t partition) { return ExtentId{GlobalAddress(partition << 40 | 4096), 1}; };
  const ExtentId leads = at(1), b = at(2), c = at(3);
  wire::PartMoved now;
  for (const uint64_t partition : {1, 4}) now.add_now()->set_address(partition << 40 | 8192);
  now.set_epoch(1);
  EXPECT_FALSE(may_go_on(now, b, 0)) << "made again once, without it";
  EXPECT_TRUE(may_go_on(now, b, 1)) << "it had been made again so often already: that is the part it was of";
  now.set_epoch(2);
  EXPECT_TRUE(may_go_on(now, b, 0)) << "made again twice: nobody knows what the first one left out";
  now.set_epoch(1);
  now.add_peers()->set_address(b.address.bits());
  now.mutable_peers(0)->set_generation(b.generation);
  EXPECT_TRUE(may_go_on(now, b, 0)) << "it followed";
  EXPECT_FALSE(may_go_on(now, c, 0));
  EXPECT_TRUE(may_go_on(now, leads, 0));
}

TEST(Parts, ReadersGetTheDerivedCapabilityOfANewReplica) {
  wire::Allocation a = replicas(10);
  a.set_access(static_cast<uint32_t>(Access::kRead));
  const wire::PartMoved again = remade_of(a.extents(1), {"b", "c"}, 1);
  ASSERT_TRUE(relocate(a, again));
  for (const auto& extent : a.extents()) {
    EXPECT_EQ(extent.capability().size(), 16u);
    EXPECT_NE(extent.capability(), std::string(16, 'c'));
  }
}

TEST(Parts, ARecordHasTheHighestAccessThatWasGranted) {
  const auto granted = [](wire::Allocation a, Access access, char capability) {
    a.set_access(static_cast<uint32_t>(access));
    for (auto& extent : *a.mutable_extents()) extent.set_capability(std::string(16, capability));
    return a;
  };
  const auto all_have = [](const wire::Allocation& a, char capability) {
    return std::all_of(a.extents().begin(), a.extents().end(), [&](const auto& extent) {
      return extent.capability() == std::string(16, capability);
    });
  };
  wire::Allocation former = replicas(10);
  former.set_allocation_id(std::string(16, 'i'));
  wire::Allocation later = former;
  ASSERT_TRUE(relocate(later, remade_of(later.extents(1), {"b", "c"}, 1)));
  const wire::Allocation reads = granted(later, Access::kRead, 'r');

  wire::Allocation record = reads;
  EXPECT_TRUE(take_grant(record, granted(later, Access::kReadWrite, 'w')));
  EXPECT_EQ(record.access(), static_cast<uint32_t>(Access::kReadWrite));
  EXPECT_TRUE(all_have(record, 'w'));
  EXPECT_TRUE(take_grant(record, reads)) << "a later reader takes nothing away";
  EXPECT_TRUE(all_have(record, 'w'));

  record = granted(former, Access::kRead, 'r');
  EXPECT_TRUE(take_grant(record, reads));
  EXPECT_EQ(record.extents(0).address(), later.extents(0).address());
  EXPECT_TRUE(all_have(record, 'r')) << "a reader's capability is taken as it is";

  record = reads;  // what it knows later is without a writer's capabilities
  EXPECT_FALSE(take_grant(record, granted(former, Access::kReadWrite, 'w')));
  EXPECT_EQ(record.extents(0).address(), former.extents(0).address());
  EXPECT_TRUE(all_have(record, 'w'));
  EXPECT_FALSE(take_grant(record, reads));
  EXPECT_TRUE(all_have(record, 'w'));
}

TEST(Parts, OnePartOfASequenceIsMadeAgain) {
  const auto joined = join_all({replicas(10), replicas(20)});
  ASSERT_TRUE(joined.is_ok());
  wire::Allocation a = joined.value();
  ASSERT_TRUE(relocate(a, remade_of(a.extents(3), {"b", "c"}, 1)));
  EXPECT_TRUE(check_parts(a).is_ok());
  EXPECT_EQ(a.extents(0).address(), joined.value().extents(0).address());
  EXPECT_EQ(a.extents(2).node(), "c");
  EXPECT_EQ(a.extents(2).addresses_size(), 0);
  ASSERT_EQ(a.homes_size(), 3) << "where the new one is";
  EXPECT_EQ(a.homes(2).node(), "c");
}

TEST(Parts, TheLaterOfTwoRecordsIsTaken) {
  wire::Allocation older = replicas(10);
  older.set_allocation_id(std::string(16, 'i'));
  wire::Allocation newer = older;
  ASSERT_TRUE(mark_lost(newer, id_of(newer.extents(0))));
  ASSERT_TRUE(take_newer(older, newer));
  EXPECT_TRUE(older.extents(0).lost());
  ASSERT_TRUE(relocate(newer, remade_of(newer.extents(1), {"b", "c"}, 1)));
  wire::Allocation same = newer;
  EXPECT_FALSE(take_newer(same, older)) << "what is older changes nothing";
  ASSERT_TRUE(take_newer(older, newer));
  EXPECT_EQ(older.SerializeAsString(), newer.SerializeAsString());
  wire::Allocation other = newer;
  other.set_allocation_id(std::string(16, 'j'));
  EXPECT_FALSE(take_newer(older, other));
}

}  // namespace
}  // namespace ocm::control
