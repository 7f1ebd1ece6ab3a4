// client/word_wait.h: words that the session's mover looks at, while nobody sleeps in a call for them.
#include "client/word_wait.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client/allocation.h"
#include "client/session.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using test::ScriptedDaemon;

constexpr uint64_t kSoonNs = 60'000'000'000;

/// As a handle has it: it leaves before it is destroyed.
struct Left : WordWait {
  Left(Allocation& allocation, uint64_t offset, uint64_t value, os::Deadline deadline, uint64_t* seen)
      : WordWait(allocation, offset, value, deadline, seen),
        words(allocation.session()->under_way().words()) {}
  ~Left() { words.leave(*this); }
  WordWaits& words;
};

struct Words : testing::Test {
  enum Slot : uint32_t { kBefore = 1, kAfter };

  void SetUp() override {
    SessionOptions options;
    options.dial = daemon.dial_once();
    options.program = "test";
    session = Session::open(std::move(options)).value();
    daemon.allocation = single(daemon.place(kBefore, before));
    AllocationOptions wanted;
    wanted.flags = kDedicated;
    ASSERT_TRUE(allocation.create(*session, ScriptedDaemon::kBytes, wanted).is_ok());
  }
  void TearDown() override {
    if (allocation.session() != nullptr) {
      EXPECT_TRUE(allocation.free().is_ok());
    }
    session.reset();
  }
  static wire::Allocation single(const wire::ExtentDescriptor& extent) {
    wire::Allocation out = ScriptedDaemon::replicated({extent});
    out.set_layout(static_cast<uint32_t>(Layout::kSingle));
    return out;
  }
  /// As a put of another program does: nobody is told.
  static void store(ScriptedDaemon::Memory& memory, uint64_t at, uint64_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(memory.mapping.data() + at), value, __ATOMIC_RELEASE);
  }
  WordWaits& words() { return session->under_way().words(); }
  Status wait(WordWait& one) { return words().wait(one, os::Deadline::after_ns(kSoonNs)); }

  ScriptedDaemon daemon;
  ScriptedDaemon::Memory before = daemon.make_memory(), after = daemon.make_memory();
  std::unique_ptr<Session> session;
  Allocation allocation;
  uint64_t seen = 0;
};

TEST_F(Words, OneThatIsThereIsDoneAtOnce) {
  store(before, 8, 7);
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  EXPECT_TRUE(one.done());
  EXPECT_TRUE(one.status().is_ok());
  EXPECT_EQ(seen, 7u);
  EXPECT_TRUE(words().is_empty());
}

TEST_F(Words, APlainStoreEndsTheWaitAndTellsAnEventLoop) {
  const os::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  words().signal(one, event.get());
  store(before, 8, 4);
  EXPECT_FALSE(one.done());
  store(before, 8, 6);
  pollfd told{event.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 60'000), 1) << "no call of the program's in between";
  EXPECT_TRUE(one.done());
  EXPECT_EQ(seen, 6u);
}

TEST_F(Words, EachOfManyHasItsEnd) {
  constexpr uint64_t kMany = 300;
  std::vector<std::unique_ptr<Left>> all;
  for (uint64_t i = 0; i < kMany; ++i) {
    all.push_back(std::make_unique<Left>(allocation, 8 * i, i + 1, os::Deadline::never(), nullptr));
    ASSERT_TRUE(words().enter(*all.back()).is_ok());
  }
  for (uint64_t i = kMany; i-- > 0;) store(before, 8 * i, i + 1);
  for (const auto& one : all) EXPECT_TRUE(wait(*one).is_ok());
  EXPECT_TRUE(words().is_empty());
}

TEST_F(Words, EndsAtItsDeadline) {
  Left one(allocation, 8, 5, os::Deadline::after_ns(20'000'000), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  EXPECT_EQ(wait(one).code(), Code::kDeadline);
  EXPECT_TRUE(one.done());
}

TEST_F(Words, ACancelledOneWritesNothingAnyMore) {
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  words().cancel(one);
  EXPECT_EQ(wait(one).code(), Code::kCancelled);
  store(before, 8, 9);
  Left later(allocation, 8, 5, os::Deadline::never(), nullptr);
  ASSERT_TRUE(words().enter(later).is_ok());
  EXPECT_EQ(seen, 0u);
}

TEST_F(Words, EndsWithItsAllocationAndNoFenceWaitsForIt) {
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  EXPECT_TRUE(session->under_way().drain(nullptr));
  EXPECT_TRUE(session->under_way().drain(&allocation));
  EXPECT_FALSE(one.done());
  EXPECT_TRUE(allocation.free().is_ok());
  EXPECT_EQ(one.status().code(), Code::kRevoked);
}

TEST_F(Words, IsFollowedToWhereItsPartGoesOn) {
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  const wire::ExtentDescriptor moved = daemon.place(kAfter, after, 1);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = single(moved);
  };
  daemon.freeze(kBefore);
  store(after, 8, 5);
  EXPECT_TRUE(wait(one).is_ok()) << one.status().to_string();
  EXPECT_EQ(seen, 5u);
}

TEST_F(Words, EndsWhenItsPartIsGone) {
  Left one(allocation, 8, 5, os::Deadline::never(), &seen);
  ASSERT_TRUE(words().enter(one).is_ok());
  daemon.on_resolve = [](const wire::ResolveRequest&, wire::Envelope& reply) {
    reply.set_code(static_cast<int>(Code::kRevoked));
  };
  daemon.freeze(kBefore);
  EXPECT_EQ(wait(one).code(), Code::kRevoked);
}

TEST_F(Words, ManyThreadsEnterAndLeaveWhileTheMoverLooks) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t value = 1; !stop.load(); ++value) store(before, 8, value);
  });
  std::vector<std::thread> all;
  for (uint64_t t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        uint64_t word = 0;
        Left one(allocation, 8 + 8 * (i % 2), i % 3 == 0 ? 1 : 1000 * i, os::Deadline::never(), &word);
        ASSERT_TRUE(words().enter(one).is_ok());
        if (t % 2 == 0) words().cancel(one);
        words().leave(one);
        ASSERT_TRUE(one.done());
      }
    });
  }
  for (std::thread& one : all) one.join();
  stop.store(true);
  writer.join();
  EXPECT_TRUE(words().is_empty());
}

}  // namespace
}  // namespace ocm::client
