// control/turns: of one user so many at once, in their order, and other users beside them.
#include "control/turns.h"

#include <gtest/gtest.h>

#include <vector>

#include "control/loop.h"

namespace ocm::control {
namespace {

struct Turning : testing::Test {
  Loop loop{0};
  std::unique_ptr<Turns> turns = std::make_unique<Turns>(loop, 2);
  std::vector<int> taken;
  std::vector<Turns::Turn> held;

  Task<void> take(uint32_t uid, int name, uint64_t give_up_ns = ~uint64_t{0}) {
    const auto turn = co_await turns->take(uid, give_up_ns);
    taken.push_back(turn ? name : -name);
    if (turn) held.push_back(turn);
  }
  void settle() {
    loop.context().restart();
    loop.context().poll();
  }
};

TEST_F(Turning, OneUserHasSoManyAtOnceAndOthersTheirs) {
  for (int i = 1; i <= 4; ++i) loop.spawn(take(7, i));
  loop.spawn(take(8, 9));
  settle();
  EXPECT_EQ(taken, (std::vector<int>{1, 2, 9}));
  EXPECT_EQ(turns->running(7), 2u);
  held.erase(held.begin());
  settle();
  EXPECT_EQ(taken, (std::vector<int>{1, 2, 9, 3}));
  EXPECT_EQ(turns->running(7), 2u) << "U1";
  held.clear();
  settle();
  EXPECT_EQ(taken.back(), 4);
  held.clear();
  EXPECT_EQ(turns->running(7), 0u);
  EXPECT_EQ(turns->running(8), 0u);
}

TEST_F(Turning, RootHasNoMore) {
  for (int i = 1; i <= 4; ++i) loop.spawn(take(0, i));
  settle();
  EXPECT_EQ(taken, (std::vector<int>{1, 2}));
}

TEST_F(Turning, WhoseTimeHasPassedLetsTheNextOneCome) {
  for (int i = 1; i <= 2; ++i) loop.spawn(take(7, i));
  loop.spawn(take(7, 3, 1));
  loop.spawn(take(7, 4));
  settle();
  held.erase(held.begin());
  settle();
  settle();
  EXPECT_EQ(taken, (std::vector<int>{1, 2, -3, 4}));
}

TEST_F(Turning, APlaceMayOutliveThem) {
  loop.spawn(take(7, 1));
  settle();
  turns.reset();
  held.clear();
}

}  // namespace
}  // namespace ocm::control
