// client: what a daemon writes of nodes into the session page is known to whoever waits for one.
#include "client/nodes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace ocm::client {
namespace {

using fabric::shm::NodeWord;
using fabric::shm::SessionPage;
using Kind = NodeWord::Kind;

/// Writes as a daemon does (Sessions::tell).
class Told : public testing::Test {
 protected:
  void begin(SessionPage& of) { of.nodes_version.store(++version); }
  void end(SessionPage& of, const std::vector<NodeWord>& told) {
    for (size_t i = 0; i < told.size(); ++i) of.nodes[i].store(told[i].word());
    of.nodes_count.store(told.size());
    of.nodes_version.store(++version);
  }
  void tell(SessionPage& of, const std::vector<NodeWord>& told) {
    begin(of);
    end(of, told);
  }

  void TearDown() override { EXPECT_TRUE(nodes.is_valid()); }

  uint64_t version = 1000;
  const std::unique_ptr<SessionPage> page = std::make_unique<SessionPage>();
  Nodes nodes;
};

TEST_F(Told, NothingIsThatAllNodesLive) {
  EXPECT_TRUE(nodes.all_live(*page));
  EXPECT_FALSE(nodes.is_dead(*page, 0));
}

TEST_F(Told, OfANodeCountsUntilSomethingElseIs) {
  tell(*page, {{Kind::kDead, 7}, {Kind::kDraining, 8}});
  EXPECT_FALSE(nodes.all_live(*page));
  EXPECT_TRUE(nodes.is_dead(*page, 7));
  EXPECT_TRUE(nodes.is_leaving(*page, 7));
  EXPECT_FALSE(nodes.is_dead(*page, 8));
  EXPECT_TRUE(nodes.is_leaving(*page, 8));
  EXPECT_FALSE(nodes.is_leaving(*page, 9));
  tell(*page, {});
  EXPECT_TRUE(nodes.all_live(*page));
  EXPECT_FALSE(nodes.is_dead(*page, 7));
}

TEST_F(Told, HalfOfItIsNotTaken) {
  tell(*page, {{Kind::kDead, 7}});
  ASSERT_TRUE(nodes.is_dead(*page, 7));
  begin(*page);
  page->nodes[0].store(NodeWord{Kind::kDead, 8}.word());
  EXPECT_TRUE(nodes.is_dead(*page, 7));
  EXPECT_FALSE(nodes.is_dead(*page, 8));
  end(*page, {{Kind::kDead, 8}});
  EXPECT_FALSE(nodes.is_dead(*page, 7));
  EXPECT_TRUE(nodes.is_dead(*page, 8));
}

TEST_F(Told, ByTheNextRunOfTheDaemonTakesThePlaceOfAll) {
  tell(*page, {{Kind::kDead, 7}});
  ASSERT_TRUE(nodes.is_dead(*page, 7));
  const auto next = std::make_unique<SessionPage>();
  version = 5000;
  tell(*next, {{Kind::kDead, 9}});
  EXPECT_FALSE(nodes.is_dead(*next, 7));
  EXPECT_TRUE(nodes.is_dead(*next, 9));
}

TEST_F(Told, MoreThanThereIsRoomForReadsNothingBeyondThePage) {
  tell(*page, std::vector<NodeWord>(SessionPage::kNodes, {Kind::kDead, 7}));
  page->nodes_count.store(UINT64_MAX);
  EXPECT_TRUE(nodes.is_dead(*page, 7));
  EXPECT_FALSE(nodes.is_dead(*page, 8));
}

TEST_F(Told, WhileOthersReadIsNeverMixed) {
  constexpr uint32_t kLooks = 20'000;
  std::atomic<bool> over{false};
  std::thread daemon([&] {
    for (uint32_t i = 0; !over; ++i) {
      begin(*page);
      std::atomic_thread_fence(std::memory_order_release);
      end(*page, {{Kind::kDead, 2 * (i % 2)}, {Kind::kDead, 2 * (i % 2) + 1}});  // 0 and 1, or 2 and 3
    }
  });
  Nodes other;
  uint32_t mixed = 0;
  for (uint32_t look = 0; look < kLooks; ++look) {
    // Whoever reads last sees a whole list; between two questions it may be another one.
    const uint64_t before = page->nodes_version.load();
    const bool zero = other.is_dead(*page, 0), one = other.is_dead(*page, 1), two = other.is_dead(*page, 2);
    const bool same_list = before != 0 && before % 2 == 0 && page->nodes_version.load() == before;
    if (same_list && (zero != one || zero == two)) ++mixed;
  }
  over = true;
  daemon.join();
  EXPECT_EQ(mixed, 0u);
}

}  // namespace
}  // namespace ocm::client
