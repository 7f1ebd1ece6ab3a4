// client: what a session shows to its daemon's next run, and when it says that this was all: what is not shown by then is freed.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "client/allocation.h"
#include "client/session.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using test::ScriptedDaemon;

class Resumed : public testing::Test {
 protected:
  void SetUp() override {
    daemon.on_restore = [this](int dialled, const wire::SessionRestore& request, wire::Envelope& reply) {
      const int run = resumed_as(dialled);
      if (request.shown_size() > 0 && run == late_run) {
        gave_up.get_future().wait();
        reply.set_code(static_cast<int32_t>(late_answer));
        return;
      }
      const std::lock_guard lock(mutex);
      for (const wire::SessionRestore::Shown& one : request.shown()) shown.push_back({run, one});
      if (request.complete()) completed.push_back(run);
    };
    daemon.allocation = ScriptedDaemon::replicated({daemon.place(1, memory)});
    daemon.allocation.set_receipt("a receipt");
    SessionOptions options;
    options.dial = [this]() -> Result<os::Fd> {
      if (gone) return Status(Code::kNoDaemon);
      return daemon.dial();
    };
    options.program = "test";
    options.deadline_ns = 50'000'000;
    ASSERT_TRUE(comes_true([&] {  // a busy machine may take longer than that deadline
      Result<std::unique_ptr<Session>> opened = Session::open(options);
      if (opened.is_ok()) session = std::move(opened.value());
      return session != nullptr;
    }));
    AllocationOptions wanted;
    wanted.layout = Layout::kReplicated;
    ASSERT_TRUE(allocation.create(*session, ScriptedDaemon::kBytes, wanted).is_ok());
  }
  void TearDown() override {
    EXPECT_TRUE(session->is_valid());
    EXPECT_TRUE(allocation.is_valid());
    if (allocation.session() != nullptr) {
      EXPECT_TRUE(allocation.free().is_ok());
    }
    session.reset();
  }
  template <class Condition>
  static bool comes_true(const Condition& condition) {
    for (int i = 0; i < 10'000; ++i) {
      if (condition()) return true;
      const timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
    return condition();
  }
  /// Counts the runs that took the session up: on a busy machine a greeting may be given up, and the session dials again.
  int resumed_as(int dialled) {
    const std::lock_guard lock(mutex);
    if (dialled != std::exchange(dialled_last, dialled)) ++resumed;
    return resumed;
  }
  /// The session speaks to the next run.
  void restart() {
    const uint64_t before = session->daemon_now()->run();
    daemon.restart();
    ASSERT_TRUE(comes_true([&] { return session->daemon_now()->run() != before; }));
  }
  std::vector<int> runs_told_complete() {
    const std::lock_guard lock(mutex);
    return completed;
  }
  std::vector<std::pair<int, wire::SessionRestore::Shown>> all_shown() {
    const std::lock_guard lock(mutex);
    return shown;
  }

  ScriptedDaemon daemon;
  ScriptedDaemon::Memory memory = daemon.make_memory();
  std::atomic<bool> gone{false};  // who dials meets nobody
  int late_run = 0;               // answers what it is shown once the session has given up
  Code late_answer = Code::kQueueFull;
  std::promise<void> gave_up;
  std::mutex mutex;  // guards the rest but what the test alone uses
  int dialled_last = 0, resumed = 0;
  std::vector<std::pair<int, wire::SessionRestore::Shown>> shown;
  std::vector<int> completed;
  std::unique_ptr<Session> session;
  Allocation allocation;
};

TEST_F(Resumed, WhatTheNextRunWasShownIsAll) {
  restart();
  ASSERT_TRUE(comes_true([this] { return !runs_told_complete().empty(); }));
  EXPECT_EQ(runs_told_complete(), std::vector<int>{1});
  ASSERT_EQ(all_shown().size(), 1u);
  EXPECT_EQ(all_shown()[0].second.receipt(), "a receipt");
  EXPECT_EQ(all_shown()[0].second.handles(), 1u);
}

TEST_F(Resumed, ReceiptsThatWereRefusedLateAreNotShown) {
  late_run = 1;
  restart();
  gave_up.set_value();
  Allocation another;  // asked of the same run, after the late answer
  AllocationOptions wanted;
  wanted.layout = Layout::kReplicated;
  ASSERT_TRUE(another.create(*session, ScriptedDaemon::kBytes, wanted).is_ok());
  ASSERT_TRUE(another.free().is_ok());
  const timespec longer_than_the_watcher_waits{0, 300'000'000};
  ::nanosleep(&longer_than_the_watcher_waits, nullptr);
  EXPECT_EQ(runs_told_complete(), std::vector<int>{}) << "the run would free what it was not shown";

  restart();  // and the one after it is shown all
  ASSERT_TRUE(comes_true([this] { return !runs_told_complete().empty(); }));
  EXPECT_EQ(runs_told_complete(), std::vector<int>{2});
  ASSERT_EQ(all_shown().size(), 1u);
  EXPECT_EQ(all_shown()[0].first, 2);
  EXPECT_EQ(all_shown()[0].second.handles(), 1u);
}

TEST_F(Resumed, AHandleThatEndedMeanwhileIsToldToTheRunAfterTheOneThatRefused) {
  Allocation second;  // another handle of it
  ASSERT_TRUE(second.attach(*session, "name", Access::kReadWrite, false).is_ok());
  late_run = 1;
  gone = true;
  daemon.restart();
  ASSERT_TRUE(comes_true([this] { return session->daemon_now()->is_over(); }));
  ASSERT_TRUE(second.free().is_ok());
  gone = false;
  ASSERT_TRUE(comes_true([this] { return !session->daemon_now()->is_over(); }));
  gave_up.set_value();
  restart();
  ASSERT_TRUE(comes_true([this] { return !runs_told_complete().empty(); }));
  EXPECT_EQ(runs_told_complete(), std::vector<int>{2});
  const auto at_the_end = all_shown();
  ASSERT_EQ(at_the_end.size(), 1u);
  EXPECT_EQ(at_the_end[0].first, 2);
  EXPECT_EQ(static_cast<int>(at_the_end[0].second.handles()) - at_the_end[0].second.freed_size(), 1);
}

}  // namespace
}  // namespace ocm::client
