// control/parts: what may be joined, and which extents a part can lose.
#include "control/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "control/allocation_wire.h"
#include "filled.h"

namespace ocm::control {
namespace {

std::string as_message(const Allocation& allocation) {
  wire::Allocation out;
  to_wire(allocation, out);
  return out.SerializeAsString();
}

Allocation part(uint64_t bytes, std::vector<std::string> nodes, Layout layout = Layout::kSingle) {
  static uint64_t address = 4096;
  Allocation out;
  out.bytes_total = bytes;
  out.layout = layout;
  for (const std::string& node : nodes) {
    auto& extent = out.extents.emplace_back();
    extent.node = node;
    extent.bytes = bytes;
    extent.id = {GlobalAddress(address += 4096), 1};
    extent.addresses.push_back({Fabric::kTcp, node + ":1", {}});
  }
  return out;
}
Allocation replicas(uint64_t bytes) { return part(bytes, {"a", "b"}, Layout::kReplicated); }

Result<Allocation> join_all(const std::vector<Allocation>& parts) {
  std::vector<const Allocation*> pointers;
  for (const auto& one : parts) pointers.push_back(&one);
  return join(pointers);
}
bool is_lost_without(const Allocation& allocation, const std::string& node) {
  return is_lost(allocation, [&](const auto& extent, bool) { return extent.node == node; });
}

TEST(Parts, JoinedKeepTheirOrderAndLengths) {
  const auto joined = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})});
  ASSERT_TRUE(joined.is_ok());
  const Allocation& sequence = joined.value();
  EXPECT_EQ(sequence.bytes_total, 35u);
  ASSERT_EQ(sequence.extents.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sequence.extents[i].part, static_cast<uint32_t>(i));
  EXPECT_EQ(sequence.part_bytes[1], 20u);
  EXPECT_TRUE(check_parts(sequence).is_ok());
}

TEST(Parts, AnExtentWithoutReplicasGetsAnotherAtItsPlaceAlone) {
  Allocation striped = part(10, {"a", "b", "c"}, Layout::kStriped);
  const Allocation before = striped;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(part_of(striped, striped.extents[i].id), std::vector{striped.extents[i].id});
  PartMoved moved;
  moved.was = striped.extents[1].id;
  moved.now.push_back(part(10, {"d"}).extents[0]);
  moved.epoch = 1;
  ASSERT_TRUE(relocate(striped, moved));
  EXPECT_EQ(striped.extents[1].node, "d");
  EXPECT_EQ(striped.extents[1].addresses[0].address, "d:1");
  EXPECT_EQ(striped.extents[1].epoch, 1u);
  for (const int i : {0, 2}) EXPECT_EQ(striped.extents[i].id, before.extents[i].id);
  EXPECT_FALSE(relocate(striped, moved)) << "it has left that place";
  // A record of before learns it from this one, and this one nothing from that (L1).
  Allocation late = before;
  EXPECT_FALSE(take_newer(striped, before));
  EXPECT_TRUE(take_newer(late, striped));
  EXPECT_EQ(late.extents[1].id, striped.extents[1].id);
  EXPECT_FALSE(take_newer(late, striped));
}

TEST(Parts, APartOfASequenceWithoutReplicasMovesAndItsHomeIsKnown) {
  Allocation sequence = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})}).value();
  PartMoved moved;
  moved.was = sequence.extents[1].id;
  moved.now.push_back(part(20, {"c"}).extents[0]);
  ASSERT_TRUE(relocate(sequence, moved));
  EXPECT_EQ(sequence.extents[1].node, "c");
  EXPECT_EQ(sequence.extents[1].part, 1u);
  EXPECT_EQ(sequence.extents[1].addresses.size(), 0u);
  EXPECT_EQ(sequence.homes[sequence.homes.size() - 1].node, "c");
  EXPECT_TRUE(check_parts(sequence).is_ok());
}

TEST(Parts, AddressesStandOnceForEachHome) {
  const auto joined = join_all({part(10, {"a"}), part(20, {"b"}), part(5, {"a"})});
  ASSERT_TRUE(joined.is_ok());
  ASSERT_EQ(joined.value().homes.size(), 2u);
  EXPECT_EQ(joined.value().homes[1].node, "b");
  EXPECT_EQ(joined.value().homes[1].addresses[0].address, "b:1");
  for (const auto& extent : joined.value().extents) EXPECT_EQ(extent.addresses.size(), 0u);
}

TEST(Parts, OnlyLikePartsAreJoined) {
  EXPECT_EQ(join_all({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_all({part(10, {"a"}), replicas(10)}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_all({part(10, {"a", "b"}, Layout::kStriped)}).status().code(), Code::kUnsupported);
  EXPECT_EQ(join_all({join_all({part(10, {"a"})}).value()}).status().code(), Code::kUnsupported);
  EXPECT_TRUE(join_all({replicas(10), part(7, {"b"}, Layout::kReplicated)}).is_ok());
}

TEST(Parts, TooManyOrTooLongAreRefused) {
  EXPECT_EQ(join_all(std::vector<Allocation>(kSequenceExtentsMax + 1, part(1, {"a"}))).status().code(),
            Code::kTooLarge);
  EXPECT_TRUE(join_all(std::vector<Allocation>(kSequenceExtentsMax, part(1, {"a"}))).is_ok());
  EXPECT_EQ(join_all({part(~uint64_t{0}, {"a"}), part(2, {"a"})}).status().code(), Code::kTooLarge);
}

TEST(Parts, MalformedSequencesAreRefused) {
  const Allocation good = join_all({part(10, {"a"}), part(20, {"b"})}).value();
  const std::vector<std::function<void(Allocation&)>> faults = {
      [](Allocation& a) { a.bytes_total = 31; },    [](Allocation& a) { a.part_bytes.push_back(1); },
      [](Allocation& a) { a.part_bytes[0] = 0; },   [](Allocation& a) { a.part_bytes[0] = ~uint64_t{0}; },
      [](Allocation& a) { a.extents[0].part = 1; }, [](Allocation& a) { a.extents[1].part = 2; },
      [](Allocation& a) { a.extents[1].part = 0; }, [](Allocation& a) { a.extents[1].bytes = 19; },
      [](Allocation& a) { a.extents.pop_back(); },  [](Allocation& a) { a.extents.clear(); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    Allocation bad = good;
    faults[i](bad);
    EXPECT_FALSE(check_parts(bad).is_ok()) << i;
  }
}

Allocation stripes() { return part(10, {"a", "b"}, Layout::kStriped); }

TEST(Parts, ALostReplicaStillNamesItsPart) {
  Allocation sequence = join_all({replicas(10), replicas(20)}).value();
  const ExtentId first = sequence.extents[2].id, second = sequence.extents[3].id;
  const std::vector<ExtentId> part = part_of(sequence, first);
  EXPECT_EQ(part, (std::vector<ExtentId>{std::min(first, second), std::max(first, second)}));
  EXPECT_TRUE(mark_lost(sequence, first));
  EXPECT_FALSE(mark_lost(sequence, first)) << "it is noted already";
  EXPECT_EQ(part_of(sequence, second), part);
  EXPECT_FALSE(mark_lost(sequence, ExtentId{GlobalAddress(1), 1}));
  EXPECT_TRUE(part_of(sequence, ExtentId{GlobalAddress(1), 1}).empty());
  EXPECT_TRUE(check_parts(sequence).is_ok());
  Allocation striped = stripes();
  EXPECT_FALSE(mark_lost(striped, striped.extents[0].id)) << "it has no replicas";
}

TEST(Parts, LostIsWhatHasAPartWithoutALivingExtent) {
  Allocation sequence = join_all({replicas(10), replicas(20)}).value();
  EXPECT_FALSE(is_lost_without(sequence, "a"));
  ASSERT_TRUE(mark_lost(sequence, sequence.extents[3].id));  // of the second part only "a" is left
  EXPECT_TRUE(is_lost_without(sequence, "a"));
  EXPECT_FALSE(is_lost_without(sequence, "b"));
  EXPECT_TRUE(is_lost_without(join_all({part(10, {"a"}), part(20, {"b"})}).value(), "b"));
  EXPECT_TRUE(is_lost_without(part(10, {"a", "b"}, Layout::kStriped), "b"));
  EXPECT_FALSE(is_lost_without(replicas(10), "b"));
}

PartMoved remade_of(const PlacedExtent& last, const std::vector<std::string>& nodes, uint32_t times) {
  PartMoved out;
  out.was = last.id;
  const Allocation made = part(last.bytes, nodes, Layout::kReplicated);
  for (const auto& extent : made.extents) {
    out.now.push_back(extent);
    out.now.back().capability = filled<Capability>('c');
  }
  out.epoch = times;
  return out;
}

TEST(Parts, APartThatWasMadeAgainTakesThePlacesOfTheFormerOne) {
  Allocation a = replicas(10);
  ASSERT_TRUE(mark_lost(a, a.extents[0].id));
  const Allocation before = a;
  const PartMoved again = remade_of(a.extents[1], {"b", "c"}, 1);
  ASSERT_TRUE(relocate(a, again));
  ASSERT_EQ(a.extents.size(), 2u);
  EXPECT_EQ(a.extents[1].id.address, again.now[0].id.address) << "the same bytes stay at their place";
  EXPECT_EQ(a.extents[0].id.address, again.now[1].id.address);
  EXPECT_EQ(a.extents[0].node, "c");
  EXPECT_FALSE(a.extents[0].lost);
  EXPECT_EQ(a.extents[0].epoch, 1u);
  EXPECT_EQ(part_of(a, a.extents[0].id).size(), 2u);
  EXPECT_TRUE(part_of(a, before.extents[1].id).empty());
  EXPECT_FALSE(relocate(a, again)) << "it is not of the former part any more";
}

TEST(Parts, APlaceWithoutASpareIsVacantAndOfNoPart) {
  Allocation a = part(10, {"a", "b", "c"}, Layout::kReplicated);
  for (const int lost : {0, 2}) ASSERT_TRUE(mark_lost(a, a.extents[lost].id));
  ASSERT_TRUE(relocate(a, remade_of(a.extents[1], {"b", "d"}, 1)));
  ASSERT_EQ(a.extents.size(), 3u);
  EXPECT_TRUE(a.extents[2].vacant);
  EXPECT_EQ(part_of(a, a.extents[0].id).size(), 2u) << "a vacant place votes nowhere";
  EXPECT_TRUE(part_of(a, a.extents[2].id).empty());
  EXPECT_FALSE(is_lost_without(a, "b"));
}

TEST(Parts, AVacantPlaceGetsAReplicaWhenThereIsRoom) {
  Allocation a = part(10, {"a", "b", "c"}, Layout::kReplicated);
  for (const int lost : {0, 2}) ASSERT_TRUE(mark_lost(a, a.extents[lost].id));
  ASSERT_TRUE(relocate(a, remade_of(a.extents[1], {"b", "d"}, 1)));
  ASSERT_TRUE(relocate(a, remade_of(a.extents[1], {"b", "d", "e"}, 2)));
  EXPECT_EQ(part_of(a, a.extents[0].id).size(), 3u);
  for (const auto& extent : a.extents) EXPECT_FALSE(extent.vacant || extent.lost) << extent.node;
}

TEST(Parts, WhatWasGivenUpMayGoOnInThePartThatFollows) {
  const auto at = [](uint64_t partition) { return ExtentId{GlobalAddress(partition << 40 | 4096), 1}; };
  const ExtentId leads = at(1), b = at(2), c = at(3);
  PartMoved now;
  for (const uint64_t partition : {1, 4})
    now.now.emplace_back().id.address = GlobalAddress(partition << 40 | 8192);
  now.epoch = 1;
  EXPECT_FALSE(may_go_on(now, b, 0)) << "made again once, without it";
  EXPECT_TRUE(may_go_on(now, b, 1)) << "it had been made again so often already: that is the part it was of";
  now.epoch = 2;
  EXPECT_TRUE(may_go_on(now, b, 0)) << "made again twice: nobody knows what the first one left out";
  now.epoch = 1;
  now.peers.push_back(b);
  EXPECT_TRUE(may_go_on(now, b, 0)) << "it followed";
  EXPECT_FALSE(may_go_on(now, c, 0));
  EXPECT_TRUE(may_go_on(now, leads, 0));
}

TEST(Parts, ReadersGetTheDerivedCapabilityOfANewReplica) {
  Allocation a = replicas(10);
  a.access = Access::kRead;
  const PartMoved again = remade_of(a.extents[1], {"b", "c"}, 1);
  ASSERT_TRUE(relocate(a, again));
  for (const auto& extent : a.extents) {
    EXPECT_NE(extent.capability, Capability());
    EXPECT_NE(extent.capability, filled<Capability>('c'));
  }
}

TEST(Parts, ARecordHasTheHighestAccessThatWasGranted) {
  const auto granted = [](Allocation a, Access access, char capability) {
    a.access = access;
    for (auto& extent : a.extents) extent.capability = filled<Capability>(capability);
    return a;
  };
  const auto all_have = [](const Allocation& a, char capability) {
    return std::all_of(a.extents.begin(), a.extents.end(), [&](const auto& extent) {
      return extent.capability == filled<Capability>(capability);
    });
  };
  Allocation former = replicas(10);
  former.id = filled<AllocationId>('i');
  Allocation later = former;
  ASSERT_TRUE(relocate(later, remade_of(later.extents[1], {"b", "c"}, 1)));
  const Allocation reads = granted(later, Access::kRead, 'r');

  Allocation record = reads;
  EXPECT_TRUE(take_grant(record, granted(later, Access::kReadWrite, 'w')));
  EXPECT_EQ(record.access, Access::kReadWrite);
  EXPECT_TRUE(all_have(record, 'w'));
  EXPECT_TRUE(take_grant(record, reads)) << "a later reader takes nothing away";
  EXPECT_TRUE(all_have(record, 'w'));

  record = granted(former, Access::kRead, 'r');
  EXPECT_TRUE(take_grant(record, reads));
  EXPECT_EQ(record.extents[0].id.address, later.extents[0].id.address);
  EXPECT_TRUE(all_have(record, 'r')) << "a reader's capability is taken as it is";

  record = reads;  // what it knows later is without a writer's capabilities
  EXPECT_FALSE(take_grant(record, granted(former, Access::kReadWrite, 'w')));
  EXPECT_EQ(record.extents[0].id.address, former.extents[0].id.address);
  EXPECT_TRUE(all_have(record, 'w'));
  EXPECT_FALSE(take_grant(record, reads));
  EXPECT_TRUE(all_have(record, 'w'));
}

TEST(Parts, OnePartOfASequenceIsMadeAgain) {
  const auto joined = join_all({replicas(10), replicas(20)});
  ASSERT_TRUE(joined.is_ok());
  Allocation a = joined.value();
  ASSERT_TRUE(relocate(a, remade_of(a.extents[3], {"b", "c"}, 1)));
  EXPECT_TRUE(check_parts(a).is_ok());
  EXPECT_EQ(a.extents[0].id.address, joined.value().extents[0].id.address);
  EXPECT_EQ(a.extents[2].node, "c");
  EXPECT_EQ(a.extents[2].addresses.size(), 0u);
  ASSERT_EQ(a.homes.size(), 3u) << "where the new one is";
  EXPECT_EQ(a.homes[2].node, "c");
}

TEST(Parts, TheLaterOfTwoRecordsIsTaken) {
  Allocation older = replicas(10);
  older.id = filled<AllocationId>('i');
  Allocation newer = older;
  ASSERT_TRUE(mark_lost(newer, newer.extents[0].id));
  ASSERT_TRUE(take_newer(older, newer));
  EXPECT_TRUE(older.extents[0].lost);
  ASSERT_TRUE(relocate(newer, remade_of(newer.extents[1], {"b", "c"}, 1)));
  Allocation same = newer;
  EXPECT_FALSE(take_newer(same, older)) << "what is older changes nothing";
  ASSERT_TRUE(take_newer(older, newer));
  EXPECT_EQ(as_message(older), as_message(newer));
  Allocation other = newer;
  other.id = filled<AllocationId>('j');
  EXPECT_FALSE(take_newer(older, other));
}

}  // namespace
}  // namespace ocm::control
