// Which nodes get an allocation.
#include "control/placement.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace ocm::control {
namespace {

NodeRoom room(const std::string& name, uint64_t total, uint64_t used = 0) {
  NodeRoom out;
  out.name = name;
  out.bytes_total[0] = total;
  out.bytes_used[0] = used;
  return out;
}

const std::vector<NodeRoom> kThree = {room("a", kGiB), room("b", 2 * kGiB), room("c", 4 * kGiB)};

PlaceRequest request(uint64_t bytes, Layout layout = Layout::kSingle) {
  PlaceRequest out;
  out.bytes_total = bytes;
  out.layout = layout;
  return out;
}

uint64_t sum(const Plan& plan) {
  uint64_t out = 0;
  for (const Share& s : plan.shares) out += s.bytes;
  return out;
}

TEST(Placement, SingleGoesToTheOwnNodeIfItFits) {
  const auto plan = place(request(kMiB), kThree, "a");
  ASSERT_TRUE(plan.is_ok());
  ASSERT_EQ(plan.value().shares.size(), 1u);
  EXPECT_EQ(plan.value().shares[0].node, 0u);
}

TEST(Placement, SingleGoesToTheEmptiestNodeOtherwise) {
  const auto plan = place(request(kGiB + 1), kThree, "a");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().shares[0].node, 2u);
}

TEST(Placement, RemoteAvoidsTheOwnNodeAndLocalInsistsOnIt) {
  PlaceRequest r = request(kMiB);
  r.flags = kFlagRemote;
  EXPECT_EQ(place(r, kThree, "c").value().shares[0].node, 1u);
  r = request(2 * kGiB);
  r.flags = kFlagLocal;
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kPoolFull);
  r.flags = kFlagLocal | kFlagRemote;
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kInvalidArgument);
}

TEST(Placement, DurableGoesWhereItLasts) {
  std::vector<NodeRoom> rooms = kThree;
  PlaceRequest r = request(kMiB);
  r.flags = kFlagDurable;
  const Status nowhere = place(r, rooms, "a").status();
  EXPECT_EQ(nowhere.code(), Code::kUnsupported);
  EXPECT_NE(nowhere.message().find("ocm pool create"), std::string::npos) << nowhere.message();
  rooms[1].lasts[0] = true;
  EXPECT_EQ(place(r, rooms, "a").value().shares[0].node, 1u);
  r.bytes_total = 3 * kGiB;
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kPoolFull) << "the largest does not keep it";
  r.bytes_total = kMiB;
  r.nodes = {"c"};
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kUnsupported);
  r.nodes = {"b"};
  EXPECT_TRUE(place(r, rooms, "a").is_ok());
  r = request(2 * kMiB, Layout::kStriped);
  r.flags = kFlagDurable;
  r.extents = 2;
  const auto striped = place(r, rooms, "a");
  ASSERT_TRUE(striped.is_ok());
  for (const Share& share : striped.value().shares) EXPECT_EQ(share.node, 1u);
}

TEST(Placement, CoherentGoesWhereDaemonsKnowIt) {
  std::vector<NodeRoom> rooms = kThree;
  PlaceRequest r = request(kMiB);
  r.flags = kFlagCoherent;
  const Status nowhere = place(r, rooms, "a").status();
  EXPECT_EQ(nowhere.code(), Code::kUnsupported);
  EXPECT_NE(nowhere.message().find("no node has coherent memory of kind dram"), std::string::npos)
      << nowhere.message();
  rooms[1].coherent[0] = true;
  EXPECT_EQ(place(r, rooms, "a").value().shares[0].node, 1u);
  r.nodes = {"c"};
  const Status older = place(r, rooms, "a").status();
  EXPECT_EQ(older.code(), Code::kUnsupported);
  EXPECT_NE(older.message().find("has no coherent memory"), std::string::npos) << older.message();
  EXPECT_EQ(older.node(), "c");
  r.kind_coherent = true;
  EXPECT_TRUE(place(r, rooms, "a").is_ok()) << "older ones have the kind, and it is so there, too";
}

TEST(Placement, CoherentIsNeitherDurableNorReplicated) {
  PlaceRequest r = request(kMiB);
  r.flags = kFlagCoherent | kFlagDurable;
  const Status durable = place(r, kThree, "a").status();
  EXPECT_EQ(durable.code(), Code::kUnsupported);
  EXPECT_NE(durable.message().find("leave COHERENT out"), std::string::npos) << durable.message();
  r = request(kMiB, Layout::kReplicated);
  r.flags = kFlagCoherent;
  const Status replicated = place(r, kThree, "a").status();
  EXPECT_EQ(replicated.code(), Code::kUnsupported);
  EXPECT_NE(replicated.message().find("single or striped"), std::string::npos) << replicated.message();
}

TEST(Placement, FullSaysWhatIsFreeAndWhere) {
  const auto plan = place(request(8 * kGiB), kThree, "a");
  ASSERT_EQ(plan.status().code(), Code::kPoolFull);
  const std::string text(plan.status().message());
  EXPECT_NE(text.find("a 1.00 GiB of 1.00 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("c 4.00 GiB of 4.00 GiB"), std::string::npos) << text;
}

TEST(Placement, DeadNodesGetNothing) {
  std::vector<NodeRoom> rooms = kThree;
  rooms[2].usable = false;
  EXPECT_EQ(place(request(3 * kGiB), rooms, "a").status().code(), Code::kPoolFull);
  PlaceRequest r = request(kMiB);
  r.nodes = {"c"};
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kPeerLost);
}

TEST(Placement, ExcludedNodesGetNothing) {
  const std::vector<size_t> excluded = {0, 2};
  EXPECT_EQ(place(request(kMiB), kThree, "a", excluded).value().shares[0].node, 1u);
}

TEST(Placement, UnknownNodeIsNamed) {
  PlaceRequest r = request(kMiB);
  r.nodes = {"z"};
  const auto plan = place(r, kThree, "a");
  EXPECT_EQ(plan.status().code(), Code::kUnknownNode);
  EXPECT_NE(plan.status().message().find('z'), std::string::npos);
}

TEST(Placement, StripedTakesEveryNodeWithRoom) {
  const auto plan = place(request(12 * kMiB, Layout::kStriped), kThree, "a");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().shares.size(), 3u);
  EXPECT_EQ(sum(plan.value()), 12 * kMiB);
}

TEST(Placement, StripedLeavesOutNodesWithoutRoomForTheirShare) {
  const auto plan = place(request(3 * kGiB + 3 * kMiB, Layout::kStriped), kThree, "a");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().shares.size(), 2u);
}

TEST(Placement, StripedByCountMayUseANodeTwice) {
  PlaceRequest r = request(8 * kMiB, Layout::kStriped);
  r.extents = 4;
  const std::vector<NodeRoom> one = {room("a", kGiB)};
  const auto plan = place(r, one, "a");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().shares.size(), 4u);
}

TEST(Placement, NamedNodesGetEqualSharesInTheirOrder) {
  PlaceRequest r = request(64 * kMiB);
  r.nodes = {"c", "a"};
  const auto plan = place(r, kThree, "b");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().layout, Layout::kStriped);
  ASSERT_EQ(plan.value().shares.size(), 2u);
  EXPECT_EQ(plan.value().shares[0].node, 2u);
  EXPECT_EQ(plan.value().shares[0].bytes, 32 * kMiB);
  EXPECT_EQ(plan.value().shares[1].bytes, 32 * kMiB);
}

TEST(Placement, SmallStripesShrinkTheChunk) {
  PlaceRequest r = request(1000);
  r.nodes = {"a", "b"};
  const auto plan = place(r, kThree, "c");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(plan.value().chunk_bytes % kChunkBytesUnit, 0u);
  ASSERT_EQ(plan.value().shares.size(), 2u);
  EXPECT_EQ(sum(plan.value()), 1000u);
}

TEST(Placement, AChunkMayBeLongerThanAllBytes) {
  PlaceRequest r = request(1000);
  r.nodes = {"a", "b"};
  r.chunk_bytes = ~uint64_t{0} / kChunkBytesUnit * kChunkBytesUnit;
  const auto plan = place(r, kThree, "c");
  ASSERT_TRUE(plan.is_ok());
  EXPECT_EQ(sum(plan.value()), 1000u);
}

TEST(Placement, ReplicasAreOnDistinctNodesTheOwnFirst) {
  const auto plan = place(request(kMiB, Layout::kReplicated), kThree, "a");
  ASSERT_TRUE(plan.is_ok());
  ASSERT_EQ(plan.value().shares.size(), 2u);
  EXPECT_EQ(plan.value().shares[0].node, 0u);
  EXPECT_NE(plan.value().shares[1].node, 0u);
  PlaceRequest r = request(kMiB, Layout::kReplicated);
  r.extents = 4;
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kPoolFull);
  r = request(kMiB, Layout::kReplicated);
  r.nodes = {"a", "a"};
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kInvalidArgument);
}

TEST(Placement, OtherKindsAreNamedInTheirRefusal) {
  PlaceRequest r = request(kMiB);
  r.kind = Kind::kGpu;
  r.kind_built = false;
  const auto plan = place(r, kThree, "a");
  EXPECT_EQ(plan.status().code(), Code::kUnsupported);
  EXPECT_NE(plan.status().message().find("gpu"), std::string::npos);
}

TEST(Placement, AKindGoesWhereThereIsRoomOfIt) {
  std::vector<NodeRoom> rooms(kThree.begin(), kThree.end());
  rooms[1].bytes_total[static_cast<size_t>(Kind::kGpu)] = 8 * kMiB;
  PlaceRequest r = request(kMiB);
  r.kind = Kind::kGpu;
  const auto plan = place(r, rooms, "a");
  ASSERT_TRUE(plan.is_ok()) << plan.status().to_string();
  EXPECT_EQ(plan.value().shares.front().node, 1u);
  r.bytes_total = 9 * kMiB;
  const Status full = place(r, rooms, "a").status();
  EXPECT_EQ(full.code(), Code::kPoolFull);
  EXPECT_NE(full.message().find("gpu"), std::string::npos) << full.to_string();
}

TEST(Placement, ExtremeRequestsAreRefused) {
  EXPECT_EQ(place(request(0), kThree, "a").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(place(request(~uint64_t{0}), kThree, "a").status().code(), Code::kTooLarge);
  PlaceRequest r = request(kMiB, Layout::kStriped);
  r.extents = kExtentsMax + 1;
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kTooLarge);
  r = request(kMiB, Layout::kStriped);
  r.chunk_bytes = 100;
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kInvalidArgument);
  r.chunk_bytes = ~uint64_t{63};
  EXPECT_TRUE(place(r, kThree, "a").is_ok());  // one chunk
}

TEST(Placement, StripeBytesCoverTheWhole) {
  for (const uint64_t bytes : {1ull, 63ull, 64ull, 65ull, 1000ull, 1ull << 20, (1ull << 20) + 7}) {
    for (uint32_t extents = 1; extents < 9; ++extents) {
      uint64_t total = 0;
      for (uint32_t i = 0; i < extents; ++i) total += stripe_bytes(bytes, 64, extents, i);
      EXPECT_EQ(total, bytes);
    }
  }
}

TEST(Placement, AFabricNarrowsTheNodesToThoseThatServeIt) {
  std::vector<NodeRoom> rooms = kThree;
  rooms[1].fabrics = 1u << static_cast<unsigned>(Fabric::kUcx);
  PlaceRequest r = request(kMiB);
  r.fabric = Fabric::kUcx;
  EXPECT_EQ(place(r, rooms, "a").value().shares[0].node, 1u);
  EXPECT_EQ(place(r, kThree, "a").status().code(), Code::kUnsupported);
  r.nodes = {"c"};
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kUnsupported);
}

TEST(Placement, AFabricThatNoAllowedNodeServesIsNotWhatIsFull) {
  std::vector<NodeRoom> rooms = kThree;
  rooms[1].fabrics = 1u << static_cast<unsigned>(Fabric::kUcx);
  PlaceRequest r = request(kMiB);
  r.fabric = Fabric::kUcx;
  r.flags = kFlagRemote;
  EXPECT_EQ(place(r, rooms, "b").status().code(), Code::kUnsupported);  // only the own node serves it
  r.flags = kFlagLocal;
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kUnsupported);  // only another one
  EXPECT_EQ(place(r, rooms, "b").value().shares[0].node, 1u);
  r = request(8 * kGiB);
  r.fabric = Fabric::kUcx;
  EXPECT_EQ(place(r, rooms, "a").status().code(), Code::kPoolFull);  // it is served there
}

TEST(Placement, AFabricOfTheOwnNodeReachesNoOther) {
  PlaceRequest r = request(kMiB, Layout::kStriped);
  r.fabric = Fabric::kShm;
  r.own_node_only = true;
  const auto plan = place(r, kThree, "b");
  ASSERT_TRUE(plan.is_ok());
  for (const Share& share : plan.value().shares) EXPECT_EQ(share.node, 1u);
  r.flags = kFlagRemote;
  EXPECT_EQ(place(r, kThree, "b").status().code(), Code::kUnsupported);
  r.flags = 0;
  r.nodes = {"a"};
  EXPECT_EQ(place(r, kThree, "b").status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ocm::control
