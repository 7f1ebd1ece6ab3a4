// control/env.h: a coroutine waits for a signal, up to a deadline.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "control/loop.h"

namespace ocm::control {
namespace {

constexpr uint64_t kNever = 3600'000'000'000;  // from now; no test waits for it

struct SignalTest : testing::Test {
  std::unique_ptr<Loop> loop = std::make_unique<Loop>(0);
  std::unique_ptr<Signal> signal = std::make_unique<Signal>(*loop);
  std::string went_on;

  Task<void> wait(char name, uint64_t deadline_ns) {
    co_await signal->wait_until(deadline_ns);
    went_on += name;
  }
  void settle() { loop->drain(); }
};

TEST_F(SignalTest, AllThatWaitGoOnAtOnce) {
  loop->spawn(wait('a', loop->now_ns() + kNever));
  loop->spawn(wait('b', loop->now_ns() + kNever));
  settle();
  EXPECT_EQ(went_on, "");
  signal->notify();
  settle();
  EXPECT_EQ(went_on, "ab");
  signal->notify();
  settle();
  EXPECT_EQ(went_on, "ab") << "nobody waits any more";
}

TEST_F(SignalTest, WhoseDeadlineIsOverGoesOnAlone) {
  loop->spawn(wait('a', loop->now_ns() + kNever));
  loop->spawn(wait('b', loop->now_ns() + 1'000'000));
  loop->spawn(wait('c', loop->now_ns()));
  while (went_on.size() < 2) settle();
  EXPECT_EQ(went_on, "cb");
  signal->notify();
  settle();
  EXPECT_EQ(went_on, "cba");
}

TEST_F(SignalTest, ItsEndIsALastNotify) {
  loop->spawn(wait('a', loop->now_ns() + kNever));
  settle();
  signal.reset();
  settle();
  EXPECT_EQ(went_on, "a");
}

TEST_F(SignalTest, WhoEndsWithTheLoopIsNotWoken) {
  loop->spawn(wait('a', loop->now_ns() + kNever));
  settle();
  Signal* const outlives = signal.release();
  loop.reset();
  outlives->notify();  // refers to nothing of what has ended
  EXPECT_EQ(went_on, "");
  signal.reset(outlives);
}

}  // namespace
}  // namespace ocm::control
