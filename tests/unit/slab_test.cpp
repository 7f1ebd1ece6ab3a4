// client/slab: pieces are cut and given back without losing or doubling any.
#include "client/slab.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "os/interrupt.h"

namespace ocm::client {
namespace {

class FakeSource final : public SlabSource {
 public:
  uint64_t slab_bytes() override { return bytes; }
  Result<std::unique_ptr<Grant>> lend(uint64_t) override {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    if (failing) return Status(Code::kPoolFull);
    ++lent;
    return std::make_unique<Grant>();
  }
  void give_back(std::unique_ptr<Slab>) override { ++returned; }
  bool usable(const Slab&) override { return healthy; }

  uint64_t bytes = uint64_t{1} << 20;
  bool failing = false;
  bool healthy = true;
  std::function<void()> meanwhile;  // runs once, while a slab is lent
  std::atomic<int> lent{0}, returned{0};
};

TEST(Slabs, AHandlerThatRunsWhileASlabIsBorrowedTakesAndGives) {
  FakeSource source;
  Slabs slabs(source);
  const SlabPiece first = slabs.take(64).value();
  std::vector<SlabPiece> pieces;
  while (source.lent < 2) pieces.push_back(slabs.take(20000).value());  // another class
  source.meanwhile = [&] {
    slabs.give(first.slab, first.index);
    pieces.push_back(slabs.take(64).value());
    pieces.push_back(slabs.take(20000).value());  // the class whose slab this thread waits for
  };
  for (const int before = source.lent; source.lent == before;) pieces.push_back(slabs.take(20000).value());
  EXPECT_TRUE(slabs.is_valid());
  for (const SlabPiece& piece : pieces) slabs.give(piece.slab, piece.index);
  EXPECT_TRUE(slabs.is_valid());
}

TEST(Slabs, WhoWaitsForAnothersSlabIsInterrupted) {
  FakeSource source;
  Slabs slabs(source);
  std::atomic<bool> waits{false}, goes_on{false};
  source.meanwhile = [&] {
    waits = true;
    while (!goes_on) std::this_thread::yield();
  };
  std::thread other([&] { EXPECT_TRUE(slabs.take(64).is_ok()); });
  while (!waits) std::this_thread::yield();
  {
    std::atomic<int> asked{0};
    const os::InterruptedBy ends(
        [](int may_call, void* context) {
          EXPECT_EQ(may_call, 1) << "no lock is held";
          return ++*static_cast<std::atomic<int>*>(context) >= 2 ? 1 : 0;
        },
        &asked);
    EXPECT_EQ(slabs.take(64).status().code(), Code::kDeadline);
    EXPECT_EQ(asked, 2);
  }
  std::thread patient([&] { EXPECT_TRUE(slabs.take(64).is_ok()); });
  goes_on = true;
  other.join();
  patient.join();
  EXPECT_EQ(source.lent, 1) << "they share it";
  EXPECT_TRUE(slabs.is_valid());
}

TEST(SizeClass, IsTheSmallestThatFits) {
  for (uint64_t bytes = 1; bytes <= kPieceBytesMax; ++bytes) {
    const uint32_t index = size_class(bytes);
    ASSERT_GE(class_bytes(index), bytes);
    ASSERT_TRUE(index == 0 || class_bytes(index - 1) < bytes);
    ASSERT_EQ(class_bytes(index) % 64, 0u);
  }
}

TEST(Slabs, PiecesOfOneSlabAreApart) {
  FakeSource source;
  Slabs slabs(source);
  std::set<uint64_t> offsets;
  for (int i = 0; i < 1000; ++i) {
    const SlabPiece piece = slabs.take(200).value();
    EXPECT_TRUE(offsets.insert(piece.offset).second);
    EXPECT_EQ(piece.offset % 256, 0u);
    EXPECT_LE(piece.offset + 256, source.bytes);
  }
  EXPECT_EQ(source.lent, 1);
}

TEST(Slabs, AFullSlabIsFollowedByAnother) {
  FakeSource source;
  Slabs slabs(source);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(slabs.take(kPieceBytesMax).is_ok());
  EXPECT_EQ(source.lent, 1);
  ASSERT_TRUE(slabs.take(kPieceBytesMax).is_ok());
  EXPECT_EQ(source.lent, 2);
}

TEST(Slabs, WhatWasFreedLastIsGivenFirst) {
  FakeSource source;
  Slabs slabs(source);
  const SlabPiece first = slabs.take(64).value();
  (void)slabs.take(64).value();
  slabs.give(first.slab, first.index);
  EXPECT_EQ(slabs.take(64).value().offset, first.offset);
}

TEST(Slabs, TheEdgeCostsNoCalls) {
  FakeSource source;
  Slabs slabs(source);
  std::vector<SlabPiece> full;
  for (int i = 0; i < 32; ++i) full.push_back(slabs.take(kPieceBytesMax).value());
  for (int i = 0; i < 100; ++i) {
    const SlabPiece piece = slabs.take(kPieceBytesMax).value();
    slabs.give(piece.slab, piece.index);
  }
  EXPECT_EQ(source.lent, 2);
  EXPECT_EQ(source.returned, 0);
}

TEST(Slabs, EmptySlabsAreReturnedButOne) {
  FakeSource source;
  Slabs slabs(source);
  std::vector<SlabPiece> all;
  for (int i = 0; i < 32 * 10; ++i) all.push_back(slabs.take(kPieceBytesMax).value());
  for (const SlabPiece& piece : all) slabs.give(piece.slab, piece.index);
  EXPECT_EQ(source.lent, 10);
  EXPECT_EQ(source.returned, 9);
  EXPECT_EQ(slabs.count(), 1u);
}

TEST(Slabs, AFailedLoanIsTheCallersError) {
  FakeSource source;
  source.failing = true;
  Slabs slabs(source);
  EXPECT_EQ(slabs.take(64).status().code(), Code::kPoolFull);
  source.failing = false;
  EXPECT_TRUE(slabs.take(64).is_ok());
}

TEST(Slabs, AnUnusableSlabIsCutNoMore) {
  FakeSource source;
  Slabs slabs(source);
  const SlabPiece old = slabs.take(64).value();
  source.healthy = false;
  const SlabPiece fresh = slabs.take(64).value();
  EXPECT_NE(fresh.slab, old.slab);
  EXPECT_TRUE(slabs.is_valid());
  source.healthy = true;
  slabs.give(old.slab, old.index);  // its last piece: its node may only have been silent
  EXPECT_TRUE(slabs.is_valid());
  EXPECT_EQ(slabs.count(), 1u);
  EXPECT_EQ(source.returned, 1);
}

TEST(Slabs, AnUnusableEmptySlabGoesBackWithTheNextPiece) {
  FakeSource source;
  Slabs slabs(source);
  const SlabPiece old = slabs.take(64).value();
  slabs.give(old.slab, old.index);
  EXPECT_EQ(source.returned, 0) << "it is kept for the next";
  source.healthy = false;
  const SlabPiece fresh = slabs.take(64).value();
  EXPECT_EQ(slabs.count(), 1u);
  EXPECT_EQ(source.returned, 0) << "who allocates does not wait for a node that is silent";
  source.healthy = true;
  slabs.give(fresh.slab, fresh.index);
  EXPECT_EQ(source.returned, 1);
}

TEST(Slabs, RandomUseKeepsTheCount) {
  FakeSource source;
  Slabs slabs(source);
  std::mt19937 random(7);
  std::vector<SlabPiece> held;
  std::set<std::pair<Slab*, uint32_t>> out;
  for (int i = 0; i < 50'000; ++i) {
    if (held.empty() || random() % 100 < 52) {
      const SlabPiece piece = slabs.take(1 + random() % kPieceBytesMax).value();
      ASSERT_TRUE(out.emplace(piece.slab, piece.index).second);
      held.push_back(piece);
    } else {
      std::swap(held[random() % held.size()], held.back());
      out.erase({held.back().slab, held.back().index});
      slabs.give(held.back().slab, held.back().index);
      held.pop_back();
    }
    if (i % 500 == 0) {
      ASSERT_TRUE(slabs.is_valid());
    }
  }
  EXPECT_EQ(static_cast<size_t>(source.lent - source.returned), slabs.count());
}

TEST(Slabs, ThreadsShareAClass) {
  FakeSource source;
  Slabs slabs(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<SlabPiece> held;
      for (int i = 0; i < 5000; ++i) {
        held.push_back(slabs.take(128).value());
        if (held.size() > 50) {
          slabs.give(held.front().slab, held.front().index);
          held.erase(held.begin());
        }
      }
      for (const SlabPiece& piece : held) slabs.give(piece.slab, piece.index);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(slabs.count(), 1u);
  EXPECT_TRUE(slabs.is_valid());
}

}  // namespace
}  // namespace ocm::client
