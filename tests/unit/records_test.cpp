// What a session holds is found by the extents that it is made of.
#include "node/records.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "control/parts.h"

namespace ocm::node {
namespace {

AllocationId nth(uint64_t number) {
  AllocationId out{};
  std::memcpy(out.bytes.data(), &number, sizeof number);
  return out;
}
ExtentId extent(uint64_t address) { return {GlobalAddress(address), 1}; }
void set(control::PlacedExtent& out, uint64_t address) {
  out.id = extent(address);
  out.bytes = 4096;
}
/// Of two replicas, at `address` and the next; 0 bytes: only reported.
HeldAllocation held(uint64_t address, uint64_t bytes = 4096) {
  HeldAllocation out;
  out.allocation.bytes_total = bytes;
  out.allocation.layout = Layout::kReplicated;
  for (uint64_t i = 0; i < 2; ++i) set(out.allocation.extents.emplace_back(), address + i);
  return out;
}
/// The part that was led from `was` goes on at two others.
control::PartMoved moved(uint64_t was, uint64_t now) {
  control::PartMoved out;
  out.was = extent(was);
  for (uint64_t i = 0; i < 2; ++i) set(out.now.emplace_back(), now + i);
  out.epoch = 1;
  return out;
}
std::vector<ExtentId> extents_of(const Records& records, uint64_t number) {
  return control::ids_in(records.at(nth(number)).allocation.extents);
}

TEST(Records, APartThatGoesOnElsewhereIsFoundThereToo) {
  Records records;
  records.put(nth(1), held(100));
  records.put(nth(2), held(200));
  EXPECT_TRUE(records.relocate(moved(300, 400)).empty());
  ASSERT_EQ(records.relocate(moved(101, 300)).size(), 1u);
  EXPECT_EQ(extents_of(records, 1), (std::vector{extent(301), extent(300)}));
  EXPECT_TRUE(records.is_valid());
  EXPECT_TRUE(records.relocate(moved(100, 500)).empty()) << "it is there no more";
  ASSERT_EQ(records.relocate(moved(300, 500)).size(), 1u);
  EXPECT_EQ(extents_of(records, 2), (std::vector{extent(200), extent(201)}));
  records.mark_lost(extent(501));
  EXPECT_TRUE(records.at(nth(1)).allocation.extents[0].lost);
  EXPECT_FALSE(records.at(nth(1)).allocation.extents[1].lost);
  EXPECT_TRUE(records.is_valid());
}

TEST(Records, SeveralMayHaveAnExtent) {
  Records records;  // the parts of a sequence, and the sequence
  records.put(nth(1), held(100));
  records.put(nth(2), held(100));
  EXPECT_EQ(records.relocate(moved(100, 300)).size(), 2u);
  records.mark_lost(extent(300));
  for (const uint64_t number : {1, 2}) EXPECT_TRUE(records.at(nth(number)).allocation.extents[0].lost);
  records.erase(nth(1));
  EXPECT_TRUE(records.is_valid());
  EXPECT_EQ(records.relocate(moved(300, 400)).size(), 1u);
}

/// Remembers which records were told of, and where their parts go on.
class Told final : public Records::Observer {
 public:
  void comes(const control::PlacedExtent&) override {}
  void goes(const ExtentId&) override {}
  void moved(const AllocationId& id, const ExtentId& to) override { all.emplace_back(id, to); }
  void ended(const AllocationId&) override {}
  std::vector<std::pair<AllocationId, ExtentId>> all;
};

TEST(Records, WhoHasAPartThatGoesOnElsewhereIsToldOnce) {
  Records records;
  records.put(nth(1), held(100));
  records.put(nth(2), held(200));
  const auto told = std::make_shared<Told>();
  records.observe(told);
  for (int i = 0; i < 2; ++i) (void)records.relocate(moved(100, 300));
  ASSERT_EQ(told->all.size(), 1u);
  EXPECT_EQ(told->all[0], std::pair(nth(1), extent(300)));
  control::Allocation granted = held(200).allocation;
  EXPECT_TRUE(records.take_grant(records.find(nth(2)), granted));
  EXPECT_EQ(told->all.size(), 1u) << "it is where it was";
  EXPECT_TRUE(control::relocate(granted, moved(201, 400)));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(records.take_grant(records.find(nth(2)), granted));
  (void)records.relocate(moved(201, 400));
  ASSERT_EQ(told->all.size(), 2u) << "it was attached once more, before this daemon heard of it";
  EXPECT_EQ(told->all[1].first, nth(2));
}

TEST(Records, WhatIsReplacedTakenOrReportedLeavesNothing) {
  Records records;
  records.put(nth(1), held(100));
  records.put(nth(1), held(200));
  EXPECT_TRUE(records.relocate(moved(100, 300)).empty());
  control::Allocation granted = held(200).allocation;
  granted.access = Access::kReadWrite;
  set(granted.extents[0], 300);
  granted.extents[0].epoch = 1;
  EXPECT_TRUE(records.take_grant(records.find(nth(1)), granted));
  EXPECT_TRUE(records.is_valid());
  records.reported(nth(2)) = held(400, 0);
  EXPECT_TRUE(records.is_valid());
  EXPECT_TRUE(records.relocate(moved(400, 500)).empty()) << "nobody knows what it is a part of";
  records.put(nth(2), held(400));
  EXPECT_EQ(records.relocate(moved(400, 500)).size(), 1u);
  EXPECT_EQ(records.take(records.find(nth(2))).allocation.extents.size(), 2u);
  EXPECT_TRUE(records.is_valid());
  records.clear();
  EXPECT_TRUE(records.empty() && records.is_valid());
}

TEST(Records, OthersCostAPartNothing) {
  const auto processor_time = [](uint64_t others) {
    Records records;
    for (uint64_t i = 0; i < others; ++i) records.put(nth(i + 2), held(1000 + 2 * i));
    records.put(nth(1), held(100));
    const std::clock_t begun = std::clock();
    for (uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(records.relocate(moved(100 + 2 * i, 102 + 2 * i)).size(), 1u);
      records.mark_lost(extent(103 + 2 * i));
    }
    return std::clock() - begun;
  };
  EXPECT_LT(processor_time(30'000), 50 * processor_time(0) + CLOCKS_PER_SEC / 100);
}

}  // namespace
}  // namespace ocm::node
