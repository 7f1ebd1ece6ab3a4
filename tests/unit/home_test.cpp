// A home by itself: what ends with a session, and what holds keep, in whatever order it is told.
#include "node/home.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/units.h"
#include "control/loop.h"

namespace ocm::node {
namespace {

using control::HoldId;
using control::Incarnation;

constexpr uint64_t kExtentBytes = 4096;

template <class Id>
Id id(char c) {
  Id out;
  out.bytes.fill(static_cast<std::byte>(c));
  return out;
}
const Incarnation kFirst = id<Incarnation>('1'), kSecond = id<Incarnation>('2');
const AllocationId kAllocation = id<AllocationId>('a');

Config config() {
  Config out;
  out.name = "home";
  out.offer(Kind::kDram, 128 * kMiB);
  out.orphan_grace_ms = out.failure_deadline_ms = 0;
  return out;
}

class HomeTest : public ::testing::Test {
 protected:
  explicit HomeTest(const Config& with = config()) : core{with, loop} {}
  void SetUp() override {
    core.name = core.config.name;
    core.partition = 7;
    core.token = std::move(os::Secret::copy(os::bytes_of("token"))).value();
    auto made = Home::make(core);
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    home = std::move(made).value();
    core.lease_until_ns->store(UINT64_MAX);
  }
  void TearDown() override {
    EXPECT_TRUE(home->is_valid());
    EXPECT_TRUE(home->directory().is_valid());
  }

  Result<ExtentDescriptor> reserve(const Incarnation& by, Layout layout = Layout::kSingle) {
    const control::ReserveRequest request{.session = session,
                                          .owner_node = "owner",
                                          .owner_incarnation = by,
                                          .allocation = allocation_id,
                                          .bytes_total = kExtentBytes,
                                          .replicated = layout == Layout::kReplicated};
    Result<ExtentDescriptor> out = Status(Code::kInternal, "it did not end at once");
    const auto run = [&]() -> control::Task<void> {
      control::PoolInfo pool;
      out = co_await home->reserve(request, pool);
    };
    loop.spawn(run());
    loop.drain();
    return out;
  }
  Status publish(const std::vector<ExtentDescriptor>& extents) {
    control::NameChange request;
    control::Allocation& allocation = request.allocation;
    allocation.id = allocation_id;
    allocation.name = id_field(allocation_id);
    allocation.bytes_total = kExtentBytes * extents.size();
    allocation.layout = Layout::kSequence;
    for (const auto& extent : extents) {
      allocation.part_bytes.push_back(kExtentBytes);
      allocation.extents.emplace_back(extent).part = static_cast<uint32_t>(allocation.extents.size());
    }
    return home->publish(request);
  }
  /// How many of them the home has no more; all of them if it refuses.
  size_t hold(char reader, const std::vector<ExtentDescriptor>& extents) {
    control::HoldRequest request{.by = {session_of(reader), "reader", kFirst, id<HoldId>(reader)},
                                 .extents = {}};
    for (const auto& extent : extents) request.extents.push_back(extent.id);
    const auto missing = home->hold(request);
    EXPECT_TRUE(missing.is_ok()) << missing.status().to_string();
    return missing.is_ok() ? missing.value().size() : extents.size();
  }
  void end_hold(char reader) { home->end_hold(session_of(reader), id<HoldId>(reader)); }
  static SessionId session_of(char reader) { return with_uid(id<SessionId>(reader), 1000); }
  /// What a program of this host has mapped.
  std::weak_ptr<memory::Extent> pages(const ExtentDescriptor& extent) {
    const auto found = home->find(extent, Access::kReadWrite);
    EXPECT_TRUE(found.is_ok()) << found.status().to_string();
    return found.value();
  }
  control::Loop loop{0};
  Core core;
  std::unique_ptr<Home> home;
  SessionId session = with_uid(id<SessionId>('s'), 1000);
  AllocationId allocation_id = kAllocation;
};

/// Whatever runs of it had what was freed, in whatever order.
TEST_F(HomeTest, ADaemonThatIsBackIsCountedIfAnythingWasFreedOfItsNode) {
  ASSERT_TRUE(reserve(kSecond).is_ok());
  session = with_uid(id<SessionId>('o'), 1000);
  ASSERT_TRUE(reserve(kFirst).is_ok());
  home->owner_node("owner", kSecond);
  EXPECT_EQ(home->orphans_freed(), 0u);
  home->owner_node("owner", std::nullopt);
  auto orphans = home->tick(core.now_ns());
  ASSERT_EQ(orphans.size(), 2u);
  if (orphans.front().incarnation == kFirst) std::swap(orphans.front(), orphans.back());
  for (const Home::Orphan& one : orphans) home->answered(one, Home::Answer::kNone);
  EXPECT_EQ(home->extents(), 0u);
  EXPECT_EQ(home->orphans_freed(), 0u) << "nobody is back";
  for (int times = 0; times < 2; ++times) home->owner_node("owner", kSecond);
  EXPECT_EQ(home->orphans_freed(), 1u);
}

TEST_F(HomeTest, AFormerRunsLateWordEndsNoSessionThatWentOn) {
  const ExtentDescriptor extent = reserve(kFirst).value();
  ASSERT_EQ(home->resume(session, "owner", kSecond).extents.size(), 1u);
  home->end_session(session, kFirst);
  EXPECT_TRUE(home->has(extent.id));
  EXPECT_EQ(home->owned().extents, 1u);
  EXPECT_EQ(reserve(kFirst).status().code(), Code::kCancelled) << "what that run asks for later";
  EXPECT_TRUE(reserve(kSecond).is_ok()) << "the session itself is as before";
  home->end_session(session, kSecond);
  EXPECT_FALSE(home->has(extent.id));
  EXPECT_EQ(home->owned().extents, 0u);
}

TEST_F(HomeTest, AnEndThatComesBeforeTheResumptionOfItsOwnRunIsFinal) {
  const ExtentDescriptor extent = reserve(kFirst).value();
  home->end_session(session, kSecond);
  EXPECT_TRUE(home->has(extent.id)) << "the run that vouches for it has not said so";
  EXPECT_EQ(home->resume(session, "owner", kSecond).extents.size(), 0u);
  EXPECT_EQ(home->vouching(session)->incarnation, kFirst);
}

TEST_F(HomeTest, AFrozenReplicaIsStillOne) {
  const ExtentId replica = reserve(kFirst, Layout::kReplicated).value().id;
  const std::vector<ExtentId> only{replica};
  ASSERT_EQ(home->directory().replicas(), only);
  ASSERT_TRUE(home->freeze(replica).is_ok());
  EXPECT_EQ(home->directory().replicas(), only) << "a stop would take it, and who starts over must free it";
  EXPECT_EQ(home->directory().open(replica).status().code(), Code::kRevoked) << "but it answers nobody";
  home->thaw(replica);
  EXPECT_EQ(home->directory().replicas(), only);
  EXPECT_TRUE(home->directory().open(replica).is_ok());
  ASSERT_TRUE(home->freeze(replica).is_ok());
  home->drop(replica);
  EXPECT_TRUE(home->directory().replicas().empty());
}

/// As a home does that starts over: every replica goes, one after another, and holds come in between.
TEST_F(HomeTest, HoldsThatComeWhileReplicasAreDroppedKeepWhatIsThere) {
  std::vector<ExtentDescriptor> extents;
  std::vector<std::weak_ptr<memory::Extent>> kept;
  for (int i = 0; i < 3; ++i) {
    extents.push_back(reserve(kFirst, Layout::kReplicated).value());
    kept.push_back(pages(extents.back()));
    std::memset(kept.back().lock()->backing->data().value(), 'x', kExtentBytes);
  }
  ASSERT_TRUE(publish(extents).is_ok());
  const auto reads = [&](size_t which) {
    const auto extent = kept[which].lock();
    return extent != nullptr && *extent->backing->data().value() == std::byte{'x'};
  };
  EXPECT_EQ(hold('1', extents), 0u);
  home->drop(extents[0].id);
  EXPECT_EQ(hold('2', extents), 1u);
  home->drop(extents[1].id);
  home->drop(extents[2].id);
  EXPECT_EQ(hold('3', extents), 3u);
  for (const auto& extent : extents)
    EXPECT_EQ(home->find(extent, Access::kRead).status().code(), Code::kRevoked) << "it answers nobody";
  EXPECT_TRUE(reads(0) && reads(1) && reads(2)) << "who has pointers reads what was there";
  EXPECT_TRUE(home->is_valid());
  EXPECT_EQ(home->owned().bytes, 3 * kExtentBytes);
  end_hold('3');
  end_hold('1');
  EXPECT_FALSE(reads(0)) << "the first hold was its last";
  EXPECT_TRUE(reads(1) && reads(2));
  EXPECT_EQ(home->owned().bytes, 2 * kExtentBytes);
  end_hold('2');
  EXPECT_FALSE(reads(1) || reads(2));
  EXPECT_EQ(home->owned().extents, 0u);
}

TEST_F(HomeTest, AVoteThatNoVoterGivesChangesNothing) {
  const ExtentId here = reserve(kFirst, Layout::kReplicated).value().id;
  const ExtentId sibling{GlobalAddress(9, 4096), 1}, stranger{GlobalAddress(10, 4096), 1};
  EXPECT_TRUE(home->note_lost(here, {sibling}, {sibling}, std::nullopt)) << "of a part that it is not of";
  EXPECT_TRUE(home->note_lost(here, {here, sibling}, {here}, std::nullopt)) << "its own loss is not told so";
  EXPECT_TRUE(home->note_lost(here, {here, sibling}, {stranger}, std::nullopt)) << "nor one that no part has";
  EXPECT_TRUE(home->note_lost(here, {}, {here, sibling}, std::nullopt));
  EXPECT_TRUE(home->lost_of(here).empty());
  EXPECT_TRUE(home->is_valid());
  EXPECT_TRUE(home->note_lost(here, {here, sibling}, {sibling}, std::nullopt));
  EXPECT_EQ(home->lost_of(here), std::vector{sibling}) << "the real one is heard";
}

/// One program may have had all the extents of a node: others are answered while they are freed.
TEST_F(HomeTest, WhatAnEndedSessionHadIsGoneAtOnceAndFreedInTurns) {
  constexpr size_t kCount = 1000;
  std::vector<ExtentDescriptor> extents;
  for (size_t i = 0; i < kCount; ++i) extents.push_back(reserve(kFirst).value());
  const uint64_t used_bytes = home->pool(Kind::kDram).bytes_used;
  home->end_session(session, kFirst);
  EXPECT_GT(home->extents(), kCount / 2);
  EXPECT_TRUE(home->is_valid());
  for (const ExtentDescriptor& extent : extents) {
    ASSERT_EQ(home->find(extent, Access::kRead).status().code(), Code::kRevoked);
    ASSERT_EQ(home->title(extent.id), nullptr);
  }
  EXPECT_GT(home->pool(Kind::kDram).bytes_reclaiming, used_bytes / 2) << "who places extents counts on it";
  EXPECT_TRUE(home->resume(session, "owner", kSecond).extents.empty());
  EXPECT_FALSE(publish({extents.back()}).is_ok());
  home->drop(extents.back().id);
  EXPECT_TRUE(home->is_valid());
  loop.drain();
  EXPECT_EQ(home->extents(), 0u);
  EXPECT_EQ(home->owned().extents, 0u);
}

struct HomeWithQuotaTest : HomeTest {
  static constexpr size_t kMost = 512;
  static Config with_quota() {
    Config out = config();
    out.failure_deadline_ms = 3000;
    out.user_bytes = kMost * kExtentBytes;
    return out;
  }
  HomeWithQuotaTest() : HomeTest(with_quota()) {}
};

TEST_F(HomeWithQuotaTest, AnAllocationWaitsForWhatAnEndedSessionHad) {
  for (size_t i = 0; i < kMost; ++i) ASSERT_TRUE(reserve(kFirst).is_ok());
  EXPECT_EQ(reserve(kFirst).status().code(), Code::kQuota);
  home->end_session(session, kFirst);
  EXPECT_GT(home->extents(), 0u);
  session = with_uid(id<SessionId>('t'), 1000);
  for (size_t i = 0; i < kMost; ++i) ASSERT_TRUE(reserve(kFirst).is_ok());
}

/// A home that starts over drops all of its replicas on the thread that its heartbeats come from.
TEST_F(HomeTest, ADropCostsTheSameHoweverMuchIsPublished) {
  const auto cpu_ns = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  };
  const auto cost_of_20 = [&](char name, size_t published) {
    allocation_id = id<AllocationId>(name);
    std::vector<ExtentDescriptor> extents;
    for (size_t i = 0; i < published; ++i) extents.push_back(reserve(kFirst, Layout::kReplicated).value());
    EXPECT_TRUE(publish(extents).is_ok());
    uint64_t least = UINT64_MAX;
    for (size_t at = 0; at < 400; at += 20) {  // the least of many short ones: others use the machine, too
      const uint64_t began = cpu_ns();
      for (size_t i = at; i < at + 20; ++i) home->drop(extents[i].id);
      least = std::min(least, cpu_ns() - began);
    }
    return least;
  };
  const uint64_t of_few = cost_of_20('f', 500), of_many = cost_of_20('m', 8000);
  EXPECT_LT(of_many, 5 * of_few) << "a walk over all that is published would cost 16 times as much";
}

}  // namespace
}  // namespace ocm::node
