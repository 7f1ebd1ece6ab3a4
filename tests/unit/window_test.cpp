// client: what a transfer is cut into, and the places of what is under way.
#include "client/window.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ocm::client {
namespace {

TEST(Cutter, CutsFollowEachOtherAndEmptyRunsAreLeftOut) {
  std::array<std::byte, 64> to{}, from{};
  Cutter cutter;
  cutter.take(Runs::rows({End{nullptr, 0, to.data()}, End{nullptr, 0, from.data()}, 8}, 16, 8, 3));
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(cutter.begin()) << "the second time from the first run on";
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(cutter.has_more());
      const Cut cut = cutter.next(nullptr, nullptr, false);
      EXPECT_EQ(cut.target.pointer, to.data() + 16 * i);
      EXPECT_EQ(cut.source.pointer, from.data() + 8 * i);
      EXPECT_EQ(cut.bytes, 8u);
      EXPECT_EQ(cutter.bytes_left(), 0u);
    }
    EXPECT_FALSE(cutter.has_more());
    EXPECT_TRUE(cutter.exhausted());
  }
  const std::array<Segment, 3> segments{Segment{0, to.data(), 0}, Segment{0, to.data(), 5},
                                        Segment{0, to.data(), 0}};
  Cutter sparse;
  sparse.take(Runs::vectored(nullptr, false, segments.data(), segments.size(), true));
  ASSERT_TRUE(sparse.begin());
  ASSERT_TRUE(sparse.has_more());
  EXPECT_EQ(sparse.next(nullptr, nullptr, false).bytes, 5u);
  EXPECT_FALSE(sparse.has_more());
}

TEST(Cutter, NoRunIsNothing) {
  Cutter cutter;
  cutter.take(Runs::vectored(nullptr, true, nullptr, 0, false));
  EXPECT_FALSE(cutter.begin());
  EXPECT_FALSE(cutter.has_more());
  EXPECT_EQ(cutter.count(0), 0u);
}

class Places : public testing::TestWithParam<bool> {};

TEST_P(Places, AreReapedInTheOrderInWhichTheyWereTaken) {
  Window window;
  if (GetParam()) {
    ASSERT_TRUE(window.grow());
  }
  const uint32_t room = GetParam() ? Window::kMany : Window::kFew;
  EXPECT_EQ(window.room(), room);
  uint64_t posted = 0, reaped = 0;
  for (int turn = 0; turn < 3; ++turn) {
    while (window.room() > 0) {
      Cut cut;
      cut.bytes = ++posted;
      Leg& leg = window.fresh(cut);
      EXPECT_FALSE(leg.op.done()) << "as new, whatever was there";
      EXPECT_EQ(leg.op.code, Code::kOk);
      window.add();
      EXPECT_EQ(&window.last(), &leg);
      EXPECT_TRUE(window.is_valid());
    }
    EXPECT_EQ(window.in_flight(), room);
    for (uint32_t left = turn; window.in_flight() > left;) {
      window.first().op.finish(Code::kPeerLost);
      EXPECT_EQ(window.reap().cut.bytes, ++reaped);
      EXPECT_TRUE(window.is_valid());
    }
  }
  EXPECT_EQ(window.in_flight(), 2u);
  for (uint32_t i = window.tail(); i != window.head(); ++i) EXPECT_EQ(window[i].cut.bytes, ++reaped);
}
INSTANTIATE_TEST_SUITE_P(Few, Places, testing::Bool());

}  // namespace
}  // namespace ocm::client
