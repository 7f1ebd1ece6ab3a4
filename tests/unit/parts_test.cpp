// control/parts: what may be joined, and which extents a part can lose.
#include "control/parts.h"

#include <gtest/gtest.h>

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
  return is_lost(allocation, [&](const wire::ExtentDescriptor& extent) { return extent.node() == node; });
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

}  // namespace
}  // namespace ocm::control
