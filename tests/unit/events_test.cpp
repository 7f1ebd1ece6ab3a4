// client: what a daemon tells unasked is known soon, and what was missed is asked for.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <thread>

#include "client/session.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using fabric::shm::Event;
using test::ScriptedDaemon;

constexpr uint32_t kRing = fabric::shm::SessionPage::kEvents;
constexpr uint64_t kSecondNs = 1'000'000'000;

class Events : public testing::Test {
 protected:
  void open(bool tells = true) {
    if (tells) daemon.events = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    daemon.failure_deadline_ns = 8 * kSecondNs;
    SessionOptions options;
    options.dial = daemon.dial_once();
    options.program = "test";
    options.deadline_ns = 100 * kSecondNs;
    session = Session::open(std::move(options)).value();
  }
  void TearDown() override { session.reset(); }

  void tell(Event::Kind kind, uint32_t partition) {
    daemon.write_event({kind, partition});
    daemon.wake();
  }
  template <class Condition>
  static bool becomes(Condition condition) {
    for (int i = 0; i < 10'000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }
  bool is_dead(uint32_t partition) const { return session->nodes().is_dead(partition); }
  void add_to_view(uint32_t partition, uint32_t state) {
    wire::NodeView& node = *daemon.view.add_nodes();
    node.set_partition(partition);
    node.set_state(state);
  }

  ScriptedDaemon daemon;
  std::unique_ptr<Session> session;
};

TEST_F(Events, OfADeadNodeShortenThePatienceWithItAlone) {
  open();
  EXPECT_TRUE(daemon.asked_for_events);
  EXPECT_EQ(session->patience_ns(7), 100 * kSecondNs);
  tell(Event::Kind::kDead, 7);
  ASSERT_TRUE(becomes([&] { return is_dead(7); }));
  EXPECT_EQ(session->patience_ns(7), kSecondNs);  // an eighth of the failure deadline
  EXPECT_EQ(session->patience_ns(8), 100 * kSecondNs);
  tell(Event::Kind::kAlive, 7);
  EXPECT_TRUE(becomes([&] { return session->patience_ns(7) == 100 * kSecondNs; }));
}

TEST_F(Events, OfADrainingNodeSayThatItIsLeavingAndNotThatItIsDead) {
  open();
  tell(Event::Kind::kDraining, 7);
  ASSERT_TRUE(becomes([&] { return session->nodes().is_leaving(7); }));
  EXPECT_FALSE(is_dead(7));
  EXPECT_EQ(session->patience_ns(7), 100 * kSecondNs);
}

TEST_F(Events, AreAllTakenWhereTheRingIsAlmostFull) {
  open();
  for (uint32_t i = 1; i < kRing - 1; ++i) daemon.write_event({Event::Kind::kDead, i});
  tell(Event::Kind::kDead, kRing - 1);
  ASSERT_TRUE(becomes([&] { return is_dead(kRing - 1); }));
  EXPECT_TRUE(is_dead(1));
  EXPECT_EQ(daemon.asked_for_view, 0);
}

TEST_F(Events, ThatWereMissedAreAskedFor) {
  add_to_view(3, 3);
  add_to_view(4, 4);
  add_to_view(5, 1);
  open();
  tell(Event::Kind::kDead, 5);
  ASSERT_TRUE(becomes([&] { return is_dead(5); }));
  for (uint32_t i = 0; i < 3 * kRing; ++i) daemon.write_event({Event::Kind::kDead, 1000 + i});
  daemon.wake();
  ASSERT_TRUE(becomes([&] { return is_dead(3); }));
  EXPECT_EQ(daemon.asked_for_view, 1);
  EXPECT_TRUE(session->nodes().is_leaving(4));
  EXPECT_FALSE(is_dead(4));
  EXPECT_TRUE(becomes([&] { return !is_dead(5); }));
  EXPECT_FALSE(is_dead(1000 + 3 * kRing - 1));  // in the ring, but the view is newer
}

TEST_F(Events, AreNotNeeded) {
  open(/*tells=*/false);
  EXPECT_EQ(session->patience_ns(7), 100 * kSecondNs);
}

}  // namespace
}  // namespace ocm::client
