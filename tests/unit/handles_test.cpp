// capi/handles.h: a handle that was freed, forged or given twice is recognised.
#include "capi/handles.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace ocm::capi {
namespace {

using Table = HandleTable<std::atomic<int>, 5>;

class Handles : public ::testing::Test {
 protected:
  uint64_t make(int value) {
    const Table::Reserved reserved = table.reserve();
    EXPECT_NE(reserved.object, nullptr);
    *reserved.object = value;
    return table.publish(reserved.index);
  }
  bool end(uint64_t handle) {
    if (table.retire(handle) == nullptr) return false;
    table.release(Table::index_of(handle));
    return true;
  }
  void TearDown() override { EXPECT_TRUE(table.is_valid()); }

  // Its slots are never given back, as those of the library; here they stay reachable for who looks for leaks.
  static std::vector<std::unique_ptr<Table>>& tables() {
    static auto& all = *new std::vector<std::unique_ptr<Table>>;
    return all;
  }
  Table& table = *tables().emplace_back(std::make_unique<Table>());
};

TEST_F(Handles, LiveOnesAreFoundAndFreedOnesAreRevoked) {
  const uint64_t first = make(1), second = make(2);
  ASSERT_NE(table.find(first), nullptr);
  EXPECT_EQ(*table.find(first), 1);
  EXPECT_EQ(*table.find(second), 2);
  EXPECT_TRUE(end(first));
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.why(first), Code::kRevoked);
  EXPECT_FALSE(end(first)) << "N2";
  const uint64_t again = make(3);  // in the same slot
  EXPECT_EQ(Table::index_of(again), Table::index_of(first));
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(*table.find(again), 3);
}

TEST_F(Handles, WhatWasNeverGivenIsInvalid) {
  const uint64_t handle = make(1);
  const uint64_t other_type = (handle & ~(uint64_t{15} << 60)) | uint64_t{6} << 60;
  for (const uint64_t forged :
       {uint64_t{0}, ~uint64_t{0}, other_type, handle + 100'000, handle + (uint64_t{1} << 28)}) {
    EXPECT_EQ(table.find(forged), nullptr) << forged;
    EXPECT_EQ(table.retire(forged), nullptr) << forged;
    EXPECT_EQ(table.why(forged), Code::kInvalidArgument) << forged;
  }
}

TEST_F(Handles, ASlotThatIsReservedIsNotFoundYet) {
  const Table::Reserved reserved = table.reserve();
  int live = 0;
  table.for_each([&](uint64_t, std::atomic<int>&) { ++live; });
  EXPECT_EQ(live, 0);
  table.release(reserved.index);
}

TEST_F(Handles, AChildKnowsNoneOfItsParents) {
  const uint64_t handle = make(1);
  const pid_t child = ::fork();
  if (child == 0) {
    table.reset_in_child();
    const bool forgotten = table.find(handle) == nullptr;
    const uint64_t own = make(2);
    const bool apart = table.find(handle) == nullptr && table.why(handle) == Code::kInvalidArgument;
    ::_exit(forgotten && apart && *table.find(own) == 2 && table.is_valid() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*table.find(handle), 1);
}

TEST_F(Handles, ManyThreadsFreeEachOnce) {
  constexpr int kRounds = 2000, kThreads = 4;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t handle = make(round);
    std::atomic<int> winners{0}, ready{0};
    if (round % 100 != 0) {  // threads cost more than what they do
      EXPECT_TRUE(end(handle));
      continue;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ++ready;
        while (ready.load() < kThreads) std::this_thread::yield();
        winners += table.retire(handle) != nullptr ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(winners, 1) << "N2";
    table.release(Table::index_of(handle));
  }
}

TEST_F(Handles, MoreThanOneChunkOfThem) {
  std::vector<uint64_t> handles;
  for (int i = 0; i < 3000; ++i) handles.push_back(make(i));
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(*table.find(handles[static_cast<size_t>(i)]), i);
  EXPECT_TRUE(table.is_valid());
  for (const uint64_t handle : handles) EXPECT_TRUE(end(handle));
}

}  // namespace
}  // namespace ocm::capi
