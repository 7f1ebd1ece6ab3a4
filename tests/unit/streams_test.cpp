// cache/replacement: what sequential readers bring in ahead, and what others do not.
#include "cache/replacement/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/units.h"

namespace ocm::cache {
namespace {

constexpr uint64_t kPage = 64 * kKiB, kPages = 1000, kMost = Streams::kWindowBytes / kPage;
constexpr uint64_t kRoom = 1 << 20;

/// A cache that drops nothing by itself: which pages it has, and whether they were used.
struct Reader {
  explicit Reader(uint64_t pages = kPages) : streams(kPage, pages), count(pages) {}
  /// How many pages were brought in ahead now.
  uint64_t read(uint64_t page) {
    const bool missed = !here.contains(page);
    misses += missed;
    const bool first = missed || !here[page];
    here[page] = true;
    if (!first) return 0;
    const Streams::Run run = streams.used(page, missed, kRoom);
    EXPECT_LE(run.first + run.count, count);
    for (uint64_t i = 0; i < run.count; ++i) {
      again += here.contains(run.first + i);
      here.try_emplace(run.first + i, false);
    }
    EXPECT_TRUE(streams.is_valid());
    return run.count;
  }
  Streams streams;
  uint64_t count, misses = 0, again = 0;
  std::map<uint64_t, bool> here;
};

TEST(Streams, AReaderMissesTwicePagesAndThenNone) {
  Reader one;
  for (uint64_t page = 0; page < kPages; ++page) one.read(page);
  EXPECT_EQ(one.misses, 2u);
  EXPECT_EQ(one.again, 0u);  // S1
  EXPECT_EQ(one.here.size(), kPages);
}

TEST(Streams, TheWindowDoublesToItsMost) {
  Reader one;
  std::vector<uint64_t> asked;
  for (uint64_t page = 0; page < kPages; ++page) {
    if (const uint64_t count = one.read(page); count != 0) asked.push_back(count);
  }
  ASSERT_GE(asked.size(), 6u);
  EXPECT_EQ(asked[0], Streams::kFirstPages);
  EXPECT_TRUE(std::is_sorted(asked.begin(), asked.begin() + 6));
  EXPECT_LE(*std::max_element(asked.begin(), asked.end()), kMost);
  EXPECT_GE(*std::max_element(asked.begin(), asked.end()), kMost / 2);
}

TEST(Streams, AsManyReadersAsThereAreStreamsHaveOneEach) {
  Reader all(Streams::kMost * 100);
  for (uint64_t i = 0; i < 100; ++i) {
    for (uint64_t reader = 0; reader < Streams::kMost; ++reader) all.read(reader * 100 + i);
  }
  // The last reader but one ends in the first page of the next.
  EXPECT_LE(all.misses, 2 * Streams::kMost);
}

TEST(Streams, MissesHereAndThereBringNothingAndEndNoStream) {
  std::mt19937_64 random(1);
  Reader one(1 << 20);
  uint64_t ahead = 0, stray = 0;
  for (uint64_t page = 0; page < 1000; ++page) {
    one.read(page);
    for (int i = 0; page > 2 && i < 30; ++i) {
      const uint64_t other = 4096 + 2 * (random() % 500'000);
      stray += !one.here.contains(other);
      ahead += one.read(other);
    }
  }
  EXPECT_EQ(one.misses, 2 + stray);
  EXPECT_EQ(ahead, 0u);
}

TEST(Streams, TheSamePageAgainIsNoReader) {
  Streams streams(kPage, kPages);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(streams.used(7, true, kRoom), Streams::Run{});
  EXPECT_EQ(streams.used(8, true, kRoom), (Streams::Run{9, 2}));
}

TEST(Streams, APageThatWasDroppedUnusedHalvesTheWindowAndIsAskedForAgain) {
  Streams streams(kPage, kPages);
  uint64_t end = 0;
  for (uint64_t page = 0; page < 300; ++page) {
    const Streams::Run run = streams.used(page, page < 2, kRoom);
    if (run.count != 0) end = run.first + run.count;
  }
  ASSERT_GT(end, 340u);
  const uint64_t dropped = 310;
  streams.dropped_unused(dropped);
  uint64_t page = 300;
  Streams::Run run;
  while ((run = streams.used(page, false, kRoom)).count == 0) ++page;
  EXPECT_EQ(run.first, dropped);
  EXPECT_LE(run.count, kMost / 2);
  for (uint64_t i = 0; i < 50; ++i) streams.dropped_unused(run.first);  // ever again: not below the first
  EXPECT_TRUE(streams.is_valid());
}

TEST(Streams, ItStopsAtTheEndOfTheExtentAndWhereThereIsNoRoom) {
  Streams streams(kPage, 5);
  EXPECT_EQ(streams.used(0, true, kRoom), Streams::Run{});
  EXPECT_EQ(streams.used(1, true, 1), (Streams::Run{2, 1}));
  EXPECT_EQ(streams.used(2, false, 0).count, 0u);
  EXPECT_EQ(streams.used(3, true, kRoom), (Streams::Run{4, 1}));
  EXPECT_EQ(streams.used(4, false, kRoom).count, 0u);
  EXPECT_TRUE(streams.is_valid());
}

TEST(Streams, WhateverIsReadStaysInBounds) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t pages = 1 + random() % 200;
    Streams streams(uint64_t{4096} << (random() % 11), pages);
    uint64_t at = 0;
    for (int i = 0; i < 3000; ++i) {
      at = random() % 4 == 0 ? random() % pages : std::min(at + 1, pages - 1);
      if (random() % 8 == 0) streams.dropped_unused(random() % pages);
      const uint64_t room = random() % 40;
      const Streams::Run run = streams.used(at, random() % 2 == 0, room);
      ASSERT_LE(run.count, room);
      ASSERT_LE(run.first + run.count, pages);
      ASSERT_TRUE(run.count == 0 || run.first > at);
      ASSERT_TRUE(streams.is_valid()) << seed;
    }
  }
}

}  // namespace
}  // namespace ocm::cache
