// A pool whose bytes end with the daemon, over a device that answers late, in any order, wrongly or not at all; and over a
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <latch>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/units.h"
#include "memory/nvme/block.h"
#include "memory/nvme/scratch.h"
#include "temporary_folder.h"

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kPage = 8 * kKiB;

/// A device in memory: requests lie until one is let through, whichever.
class LateQueue final : public Queue {
 public:
  explicit LateQueue(uint64_t bytes) : held(bytes) {}
  ~LateQueue() override { EXPECT_TRUE(waiting.empty()); }
  void submit(Request request) override {
    EXPECT_EQ(request.length, kPage);
    EXPECT_LE(request.offset + request.length, held.size());
    most_waiting = std::max(most_waiting, waiting.size() + 1);
    waiting.push_back(std::move(request));
  }
  const char* way() const override { return "late"; }

  void let_through(size_t which) {
    Request request = std::move(waiting[which]);
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(which));
    ++carried_out;
    std::byte* there = held.data() + request.offset;
    const bool writes = request.op == Request::Op::kWrite;
    const bool fails = fail_next > 0 || broken.contains(request.offset) || (writes && all_writes_fail);
    if (fail_next > 0) --fail_next;
    if (writes && !fails) std::memcpy(there, request.bytes, request.length);
    if (writes && fails && tears) std::memcpy(there, request.bytes, request.length / 2);
    if (!writes) std::memcpy(request.bytes, there, request.length);
    request.done(fails ? Status(Code::kIo, "the test's device fails") : Status());
  }
  void let_all_through() {
    while (!waiting.empty()) let_through(0);
  }

  std::vector<std::byte> held;
  std::vector<Request> waiting;
  size_t most_waiting = 0;
  uint64_t carried_out = 0;
  int fail_next = 0;
  bool all_writes_fail = false;
  bool tears = true;          // a write that fails is carried out in half
  std::set<uint64_t> broken;  // offsets that fail
};

/// Another thread carries a request out, and hears of it, before submit() returns.
class HastyQueue final : public Queue {
 public:
  explicit HastyQueue(uint64_t bytes) : held_(bytes) {}
  void submit(Request request) override {
    std::thread([&] {
      std::byte* there = held_.data() + request.offset;
      if (request.op == Request::Op::kWrite) std::memcpy(there, request.bytes, request.length);
      if (request.op == Request::Op::kRead) std::memcpy(request.bytes, there, request.length);
      const auto done = std::move(request.done);
      done(Status());
    }).join();
  }
  const char* way() const override { return "hasty"; }

 private:
  std::vector<std::byte> held_;
};

class NvmeScratch : public testing::Test {
 protected:
  static constexpr uint32_t kSlots = 64;

  std::unique_ptr<Backing> made(uint64_t bytes) { return std::move(pool.make(bytes)).value(); }
  Status put(Backing& backing, uint64_t offset, const std::vector<std::byte>& from) {
    Status status(Code::kInternal);
    backing.staged()->write(offset, from, [&](Status told) { status = std::move(told); });
    queue.let_all_through();
    return status;
  }
  Status get(Backing& backing, uint64_t offset, std::vector<std::byte>& into) {
    Status status(Code::kInternal);
    backing.staged()->read(offset, into, [&](Status told) { status = std::move(told); });
    queue.let_all_through();
    return status;
  }
  static std::vector<std::byte> of(uint64_t bytes, int value) {
    return std::vector<std::byte>(bytes, std::byte(value));
  }
  /// What is at `offset`.
  int at(Backing& backing, uint64_t offset) {
    std::vector<std::byte> byte(1);
    EXPECT_TRUE(get(backing, offset, byte).is_ok());
    return static_cast<int>(byte[0]);
  }
  /// Where the page lies that was written last.
  uint64_t only_slot_with(int value) {
    for (uint64_t at = kFirst; at < queue.held.size(); at += kPage) {
      if (queue.held[at] == std::byte(value)) return at;
    }
    ADD_FAILURE();
    return 0;
  }

  static constexpr uint64_t kFirst = 4 * kBlockBytes;
  LateQueue queue{kFirst + kSlots * kPage};
  ScratchPool pool{queue, kFirst, kSlots, kPage};
};

TEST_F(NvmeScratch, WhatWasNeverWrittenIsZerosAndCostsNothing) {
  const auto backing = made(10 * kPage + 5);
  EXPECT_EQ(backing->bytes(), 10 * kPage + 5);
  std::vector<std::byte> all(10 * kPage + 5, std::byte{1});
  EXPECT_TRUE(get(*backing, 0, all).is_ok());
  EXPECT_EQ(all, of(all.size(), 0));
  EXPECT_EQ(queue.carried_out, 0u);
  EXPECT_EQ(pool.state().free_slots, kSlots);
  EXPECT_EQ(backing->data().status().code(), Code::kUnsupported);
  EXPECT_EQ(backing->share(Access::kRead).status().code(), Code::kUnsupported);
}

/// The piece is over, and gone, while the thread that sent its write is not back yet.
TEST(NvmeScratchPool, AnotherThreadMayEndAPieceAtOnce) {
  HastyQueue queue(8 * kPage);
  ScratchPool pool(queue, 0, 8, kPage);
  const auto backing = std::move(pool.make(2 * kPage)).value();
  const std::vector<std::byte> whole(2 * kPage, std::byte{1}), piece(10, std::byte{2});
  std::vector<std::byte> all(2 * kPage);
  int ended = 0;
  const auto told = [&](const Status& status) { ended += status.is_ok() ? 1 : 0; };
  backing->staged()->write(0, whole, told);
  backing->staged()->write(kPage - 5, piece, told);  // each of its pages is read first
  backing->staged()->read(0, all, told);
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(std::count(all.begin(), all.end(), std::byte{2}), 10);
}

/// Any pieces, several under way at once, answered in any order: as if each had been made at once.
TEST_F(NvmeScratch, PiecesInAnyOrderAreAsInMemory) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const uint64_t bytes = (1 + random() % 9) * kPage - random() % kPage;
    const auto backing = made(bytes);
    std::vector<std::byte> shadow(bytes);
    struct Under {
      std::vector<std::byte> bytes, expected;
      bool done = false;
    };
    std::vector<std::unique_ptr<Under>> all;
    for (int step = 0; step < 120; ++step) {
      if (random() % 2 == 0 && !queue.waiting.empty()) {
        queue.let_through(random() % queue.waiting.size());
        continue;
      }
      auto under = std::make_unique<Under>();
      Under* raw = under.get();
      const uint64_t offset = random() % bytes;
      const uint64_t most = random() % 2 == 0 ? 50 : bytes;
      const uint64_t length = std::min(bytes - offset, random() % most);
      under->bytes.resize(length);
      const auto over = [raw](const Status& status) {
        EXPECT_TRUE(status.is_ok());
        EXPECT_FALSE(raw->done);
        raw->done = true;
      };
      if (random() % 2 == 0) {
        for (std::byte& byte : under->bytes) byte = std::byte(random());
        std::copy(under->bytes.begin(), under->bytes.end(), shadow.begin() + static_cast<ptrdiff_t>(offset));
        under->expected = under->bytes;
        backing->staged()->write(offset, under->bytes, over);
      } else {
        const auto from = shadow.begin() + static_cast<ptrdiff_t>(offset);
        under->expected.assign(from, from + static_cast<ptrdiff_t>(length));
        backing->staged()->read(offset, under->bytes, over);
      }
      all.push_back(std::move(under));
    }
    while (!queue.waiting.empty()) queue.let_through(random() % queue.waiting.size());
    for (const auto& under : all) {
      ASSERT_TRUE(under->done) << "seed " << seed;
      ASSERT_EQ(under->bytes, under->expected) << "seed " << seed;
    }
    std::vector<std::byte> end(bytes);
    ASSERT_TRUE(get(*backing, 0, end).is_ok());
    ASSERT_EQ(end, shadow) << "seed " << seed;
  }
  EXPECT_EQ(pool.state().free_slots, kSlots) << "each extent gave its slots back";
  EXPECT_TRUE(pool.is_valid());
}

TEST_F(NvmeScratch, AllOfItsSlotsCanBeUsedAgainAndAgain) {
  for (int round = 1; round <= 3; ++round) {
    const auto backing = made(kSlots * kPage);
    EXPECT_TRUE(put(*backing, 0, of(kSlots * kPage, round)).is_ok());
    EXPECT_EQ(pool.state().free_slots, 0u);
    EXPECT_EQ(at(*backing, kSlots * kPage - 1), round);
  }
  EXPECT_EQ(pool.state().free_slots, kSlots);
}

TEST_F(NvmeScratch, MoreThanThereAreBuffersWaits) {
  LateQueue wide(4096 * kPage);
  ScratchPool large(wide, 0, 4096, kPage);
  const auto backing = std::move(large.make(4096 * kPage)).value();
  const std::vector<std::byte> bytes = of(4096 * kPage, 3);
  bool done = false;
  backing->staged()->write(0, bytes, [&](const Status& status) { done = status.is_ok(); });
  EXPECT_EQ(wide.waiting.size(), large.buffers());
  wide.let_all_through();
  EXPECT_TRUE(done);
  EXPECT_EQ(wide.most_waiting, large.buffers());
}

TEST_F(NvmeScratch, AReadThatFailsOnceIsReadAgain) {
  const auto backing = made(kPage);
  ASSERT_TRUE(put(*backing, 0, of(kPage, 5)).is_ok());
  queue.fail_next = 1;
  EXPECT_EQ(at(*backing, 9), 5);
  EXPECT_EQ(pool.state().bad_slots, 0u);
}

TEST_F(NvmeScratch, APageThatTheDeviceChangedIsLostAndNothingElse) {
  const auto backing = made(3 * kPage);
  ASSERT_TRUE(put(*backing, 0, of(kPage, 5)).is_ok());
  ASSERT_TRUE(put(*backing, kPage, of(kPage, 6)).is_ok());
  queue.held[only_slot_with(5) + kPage - 1] ^= std::byte{1};
  std::vector<std::byte> byte(1);
  const Status status = get(*backing, 0, byte);
  EXPECT_EQ(status.code(), Code::kLost);
  EXPECT_NE(status.message().find("page 0"), std::string_view::npos) << status.message();
  EXPECT_EQ(put(*backing, 1, of(1, 1)).code(), Code::kLost) << "a piece of it would be a page that never was";
  EXPECT_EQ(at(*backing, kPage), 6);
  EXPECT_EQ(at(*backing, 2 * kPage), 0);
  std::vector<std::byte> both(2 * kPage);
  EXPECT_EQ(get(*backing, 0, both).code(), Code::kLost);
  EXPECT_EQ(pool.state().lost_pages, 1u);
  EXPECT_EQ(pool.state().bad_slots, 1u);
  // Who writes all of it has it again, elsewhere.
  EXPECT_TRUE(put(*backing, 0, of(kPage, 7)).is_ok());
  EXPECT_EQ(at(*backing, 0), 7);
}

TEST_F(NvmeScratch, AWriteThatFailsGoesElsewhere) {
  const auto backing = made(2 * kPage);
  ASSERT_TRUE(put(*backing, 0, of(kPage, 5)).is_ok());
  queue.broken = {only_slot_with(5)};
  EXPECT_TRUE(put(*backing, 0, of(kPage, 6)).is_ok());
  EXPECT_EQ(at(*backing, 0), 6);
  queue.fail_next = static_cast<int>(ScratchPool::kTries);
  EXPECT_TRUE(put(*backing, kPage, of(kPage, 8)).is_ok());
  EXPECT_EQ(at(*backing, kPage), 8);
  EXPECT_EQ(pool.state().bad_slots, 1 + ScratchPool::kTries);
  EXPECT_TRUE(pool.state().writable.is_ok());
}

TEST_F(NvmeScratch, ADeviceThatTakesNoMoreIsReadOnly) {
  const auto backing = made(4 * kPage);
  ASSERT_TRUE(put(*backing, 0, of(kPage, 5)).is_ok());
  ASSERT_TRUE(put(*backing, kPage, of(kPage, 6)).is_ok());
  queue.all_writes_fail = true;
  EXPECT_EQ(put(*backing, 0, of(kPage, 7)).code(), Code::kIo);
  queue.all_writes_fail = false;
  const Status refused = put(*backing, kPage, of(kPage, 8));
  EXPECT_EQ(refused.code(), Code::kIo);
  EXPECT_NE(refused.message().find("the test's device fails"), std::string_view::npos) << refused.message();
  EXPECT_EQ(pool.make(kPage).status().code(), Code::kIo);
  EXPECT_EQ(at(*backing, kPage), 6) << "what it has can be read";
  EXPECT_EQ(at(*backing, 2 * kPage), 0);
  std::vector<std::byte> byte(1);
  EXPECT_EQ(get(*backing, 0, byte).code(), Code::kLost)
      << "nobody knows what is left of the page: never old bytes";
}

TEST_F(NvmeScratch, AWriteThatFailsBeforeItBeginsLeavesThePageAsItWas) {
  const auto backing = made(2 * kPage);
  ASSERT_TRUE(put(*backing, 0, of(kPage, 5)).is_ok());
  queue.all_writes_fail = true;
  queue.tears = false;
  EXPECT_EQ(put(*backing, 100, of(1, 7)).code(), Code::kIo);
  EXPECT_EQ(put(*backing, kPage, of(kPage, 7)).code(), Code::kIo);
  EXPECT_EQ(at(*backing, 0), 5);
  EXPECT_EQ(at(*backing, 100), 5);
  EXPECT_EQ(at(*backing, kPage), 0) << "never written";
  EXPECT_EQ(pool.state().lost_pages, 0);
  EXPECT_EQ(pool.state().bad_slots, ScratchPool::kTries) << "the page is in its own slot as before";
  EXPECT_TRUE(pool.is_valid());
}

/// Thousands of calls wait for a buffer when the pool stops: each is told, on a stack that does not grow.
TEST_F(NvmeScratch, WhoWaitsIsToldThatItStops) {
  LateQueue wide(20'000 * kPage);
  ScratchPool large(wide, 0, 20'000, kPage);
  const auto backing = std::move(large.make(20'000 * kPage)).value();
  const std::vector<std::byte> bytes = of(20'000 * kPage, 3);
  wide.all_writes_fail = true;
  Status status;
  backing->staged()->write(0, bytes, [&](Status told) { status = std::move(told); });
  int same_page = 0;
  for (int i = 0; i < 5'000; ++i)
    backing->staged()->write(0, {bytes.data(), kPage}, [&](const Status&) { ++same_page; });
  wide.let_all_through();
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(same_page, 5'000);
}

TEST_F(NvmeScratch, ThreadsOnAFileAreAloneInTheirPieces) {
  constexpr int kThreads = 4, kRounds = 100;
  constexpr uint64_t kPieceBytes = 3000;  // three and a bit to a page
  const ocm::test::TemporaryFolder folder;
  ASSERT_TRUE(FileDevice::create(folder.path() + "/pool", kSlots * kPage).is_ok());
  const auto device = std::move(FileDevice::open(folder.path() + "/pool")).value();
  const auto files = std::move(Queue::open(*device)).value();
  ScratchPool real(*files, 0, kSlots, kPage);
  const auto backing = std::move(real.make(kThreads * kPieceBytes)).value();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::byte> bytes(kPieceBytes), back(kPieceBytes);
      for (int round = 0; round < kRounds; ++round) {
        std::fill(bytes.begin(), bytes.end(), std::byte(thread * 50 + round));
        const auto wait = [&](auto start) {
          std::latch over(1);
          start([&](const Status& status) {
            EXPECT_TRUE(status.is_ok()) << status.to_string();
            over.count_down();
          });
          over.wait();
        };
        const uint64_t offset = static_cast<uint64_t>(thread) * kPieceBytes;
        wait([&](auto done) { backing->staged()->write(offset, bytes, done); });
        wait([&](auto done) { backing->staged()->read(offset, back, done); });
        ASSERT_EQ(back, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ocm::memory::nvme
