// cache/replacement: two queues of frames against a model that is slow and plain, and what the rules are for.
#include "cache/replacement/two_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace ocm::cache {
namespace {

/// The rules, on lists that begin with the top.
struct Slow {
  struct Page {
    bool sole = false, offered = false, fifo = false, to_top = false;
    int pins = 0;
  };
  std::map<Frame, Page> pages;
  std::vector<Frame> lru, fifo;
  uint32_t frames = 0;
  Refresh refresh = Refresh::kLru;

  std::vector<Frame>& queue(Frame f) { return pages.at(f).fifo ? fifo : lru; }
  void out(Frame f) { std::erase(queue(f), f); }
  void top(Frame f, bool in_fifo) {
    Page& page = pages.at(f);
    if (page.pins == 0) out(f);
    page.fifo = in_fifo;
    page.to_top = true;
    if (page.pins == 0) queue(f).insert(queue(f).begin(), f);
  }
  void add(Frame f, bool aged) {
    pages[f] = {};
    pages[f].offered = aged;
    top(f, aged);
  }
  void remove(Frame f) {
    out(f);
    pages.erase(f);
  }
  void touch(Frame f) {
    pages.at(f).offered = false;
    top(f, pages.at(f).fifo && refresh == Refresh::kFifo);
  }
  void supply(Frame f) {
    if (pages.at(f).fifo) top(f, true);
  }
  void pin(Frame f) {
    if (pages.at(f).pins++ > 0) return;
    out(f);
    pages.at(f).to_top = false;
  }
  void unpin(Frame f) {
    if (--pages.at(f).pins > 0) return;
    queue(f).insert(pages.at(f).to_top ? queue(f).begin() : queue(f).end(), f);
  }
  TwoQueue::Victim next(std::vector<Frame>& aged) {
    while (!lru.empty() && fifo.size() <= frames / 2) {
      const Frame f = lru.back();
      if (!pages.at(f).sole) return {f, false};
      top(f, true);
      aged.push_back(f);
    }
    if (fifo.empty()) return {};
    const Page& page = pages.at(fifo.back());
    return {fifo.back(), page.sole && !page.offered};
  }
};

TEST(TwoQueue, DoesWhatTheRulesSay) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    uint32_t frames = 1 + below(12);
    const Refresh refresh = below(2) == 0 ? Refresh::kLru : Refresh::kFifo;
    TwoQueue queue(frames, refresh);
    Slow slow{{}, {}, {}, frames, refresh};
    uint32_t most = frames;
    for (int i = 0; i < 2000; ++i) {
      const Frame f = below(most);
      const bool here = slow.pages.contains(f);
      switch (below(10)) {
        case 0:
        case 1:
        case 2:
          if (!here) {
            const bool aged = below(4) == 0;
            aged ? queue.add_aged(f) : queue.add(f);
            slow.add(f, aged);
          }
          break;
        case 3:
          if (here) queue.touch(f), slow.touch(f);
          break;
        case 4:
          if (here) queue.supply(f), slow.supply(f);
          break;
        case 5:
          if (here) queue.set_sole(f, slow.pages[f].sole = below(2) == 0);
          break;
        case 6:
          if (here) queue.pin(f), slow.pin(f);
          break;
        case 7:
          if (here && slow.pages[f].pins > 0) queue.unpin(f), slow.unpin(f);
          break;
        case 8:
          if (below(20) == 0) {
            frames = 1 + below(16);
            most = std::max(most, frames);
            queue.resize(frames), slow.frames = frames;
          } else if (here && below(4) == 0) {
            queue.remove(f), slow.remove(f);
          }
          break;
        default: {
          std::vector<Frame> aged, expected;
          const auto victim = queue.next(aged), wanted = slow.next(expected);
          ASSERT_EQ(victim.frame, wanted.frame) << "seed " << seed << ", step " << i;
          ASSERT_EQ(victim.offer, wanted.offer) << "seed " << seed << ", step " << i;
          ASSERT_EQ(aged, expected) << "seed " << seed << ", step " << i;
          if (victim.frame != kNoFrame) queue.remove(victim.frame), slow.remove(victim.frame);
        }
      }
      ASSERT_TRUE(queue.is_valid()) << "seed " << seed << ", step " << i;
      ASSERT_EQ(queue.lru_size(), slow.lru.size());
      ASSERT_EQ(queue.fifo_size(), slow.fifo.size());
    }
  }
}

struct Queue : ::testing::Test {
  /// Those that leave, in order.
  std::vector<Frame> drain() {
    std::vector<Frame> out;
    for (auto one = queue.next(aged); one.frame != kNoFrame; one = queue.next(aged)) {
      queue.remove(one.frame);
      out.push_back(one.frame);
    }
    return out;
  }
  void fill(uint32_t count) {
    for (Frame f = 0; f < count; ++f) queue.add(f);
  }
  TwoQueue queue{8};
  std::vector<Frame> aged;
};

TEST_F(Queue, WhatOthersHaveTooGoesBeforeWhatIsSoleHere) {
  fill(4);
  queue.set_sole(0, true);
  queue.set_sole(2, true);
  EXPECT_EQ(drain(), (std::vector<Frame>{1, 3, 0, 2}));
  EXPECT_EQ(aged, (std::vector<Frame>{0, 2}));
}

TEST_F(Queue, ATouchedPageOutlivesThoseThatAreNot) {
  fill(4);
  queue.touch(0);
  EXPECT_EQ(drain(), (std::vector<Frame>{1, 2, 3, 0}));
}

TEST_F(Queue, AgedPagesTakeHalfOfTheFramesAtMost) {
  fill(8);
  for (Frame f = 0; f < 8; ++f) queue.set_sole(f, true);
  EXPECT_EQ(queue.next(aged).frame, 0u);
  EXPECT_EQ(queue.fifo_size(), 5u);  // one more than half, which is why its bottom goes
  EXPECT_EQ(aged, (std::vector<Frame>{0, 1, 2, 3, 4}));
}

TEST_F(Queue, ASolePageIsOfferedOnceUnlessAProgramTouchesIt) {
  queue.add_aged(0);
  queue.set_sole(0, true);
  EXPECT_FALSE(queue.next(aged).offer);  // it has travelled
  queue.touch(0);
  EXPECT_EQ(queue.next(aged).frame, 0u);
  EXPECT_TRUE(queue.next(aged).offer);
}

TEST_F(Queue, WhatIsPinnedIsPassedOverAndReturnsToTheBottom) {
  fill(3);
  queue.pin(0);
  queue.pin(0);
  EXPECT_EQ(queue.next(aged).frame, 1u);
  queue.unpin(0);
  EXPECT_EQ(queue.next(aged).frame, 1u);
  queue.unpin(0);
  EXPECT_EQ(queue.next(aged).frame, 0u);
  queue.pin(0);
  queue.touch(0);
  queue.unpin(0);
  EXPECT_EQ(drain(), (std::vector<Frame>{1, 2, 0}));
}

TEST_F(Queue, WhenAllArePinnedNoneGoes) {
  fill(2);
  queue.pin(0);
  queue.pin(1);
  EXPECT_EQ(queue.next(aged).frame, kNoFrame);
}

TEST_F(Queue, WhoUsesAnEmptyFrameIsAtFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  queue.add(1);
  EXPECT_DEATH(queue.add(1), "");
  EXPECT_DEATH(queue.touch(2), "");
  EXPECT_DEATH(queue.unpin(1), "");
  EXPECT_DEATH(queue.add(8), "");
}

}  // namespace
}  // namespace ocm::cache
