// A durable pool over a device that fails, answers in any order, or changes bytes; and over a file. What a crash leaves of
// it is in nvme_crash_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/units.h"
#include "memory/nvme/durable.h"
#include "nvme_disk.h"
#include "temporary_folder.h"

namespace ocm::memory::nvme {
namespace {

using namespace std::chrono_literals;
using Op = Request::Op;

class NvmeDurable : public testing::Test {
 protected:
  static constexpr uint64_t kSlot = 8 * kKiB;
  static constexpr auto kNever = std::chrono::milliseconds(1h);

  static Identity identity() { return {.pool = 7, .cluster = "ours", .partition = 9}; }
  static ExtentId number(uint32_t which) { return {GlobalAddress(9, uint64_t{which} << 30), which}; }
  static std::vector<std::byte> filled(uint64_t bytes, int value) {
    return std::vector<std::byte>(bytes, std::byte(value));
  }

  void SetUp() override {
    ASSERT_TRUE(Store::format(*disk, identity(), kSlot).is_ok());
    open();
  }
  void open(std::chrono::milliseconds within = kNever) {
    auto store = Store::open(*disk, identity().cluster);
    ASSERT_TRUE(store.is_ok()) << store.status().to_string();
    geometry = store.value()->geometry();
    auto opened = DurablePool::open(*queue, std::move(store).value(), within);
    ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
    pool = std::move(opened).value();
  }
  void reopen() {
    close();
    open();
  }
  void close() {
    backings.clear();
    pool.reset();
  }
  /// The machine loses its power.
  void crash(bool with_what_was_not_flushed) {
    const Image image = disk->image();
    auto after = with_what_was_not_flushed ? disk->now() : image.kept;
    close();
    queue.reset();
    disk = std::make_unique<Disk>(std::move(after));
    queue = std::make_unique<DiskQueue>(*disk);
    open();
  }

  Backing& made(uint32_t which, uint64_t bytes) {
    auto out = pool->make(number(which), bytes);
    EXPECT_TRUE(out.is_ok()) << out.status().to_string();
    return *(backings[which] = std::move(out).value());
  }
  Backing& found(uint32_t which) {
    auto out = pool->backing_of(number(which));
    EXPECT_TRUE(out.is_ok()) << out.status().to_string();
    return *(backings[which] = std::move(out).value());
  }
  static Status put(Backing& backing, uint64_t offset, const std::vector<std::byte>& from) {
    return wait_for_device(
        [&](Staged::Done done) { backing.staged()->write(offset, from, std::move(done)); });
  }
  static Status get(Backing& backing, uint64_t offset, std::vector<std::byte>& into) {
    return wait_for_device([&](Staged::Done done) { backing.staged()->read(offset, into, std::move(done)); });
  }
  static std::vector<std::byte> all_of(Backing& backing) {
    std::vector<std::byte> out(backing.bytes());
    const Status status = get(backing, 0, out);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    return out;
  }
  static int at(Backing& backing, uint64_t offset) {
    std::vector<std::byte> byte(1);
    const Status status = get(backing, offset, byte);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    return static_cast<int>(byte[0]);
  }
  Status promised() {
    return wait_for_device([&](Staged::Done done) { pool->promise(std::move(done)); });
  }
  /// Where the pages begin with that byte.
  std::vector<uint64_t> slots_with(int value) const {
    const auto now = disk->now();
    std::vector<uint64_t> out;
    for (uint64_t slot = 0; slot < geometry.slots; ++slot) {
      if (now[geometry.slot_at(slot)] == std::byte(value)) out.push_back(geometry.slot_at(slot));
    }
    return out;
  }
  void fail_when(std::function<bool(Op, uint64_t)> fails) {
    std::lock_guard lock(disk->mutex);
    disk->fails = std::move(fails);
  }

  using Disk = test::Disk;
  using DiskQueue = test::DiskQueue;
  using Image = test::Image;
  std::unique_ptr<Disk> disk = std::make_unique<Disk>(kMiB);
  std::unique_ptr<DiskQueue> queue = std::make_unique<DiskQueue>(*disk);
  Geometry geometry;
  std::unique_ptr<DurablePool> pool;
  std::map<uint32_t, std::unique_ptr<Backing>> backings;
};

TEST_F(NvmeDurable, IsAsMemory) {
  Backing& backing = made(1, 5 * kSlot - 100);
  std::vector<std::byte> shadow(backing.bytes());
  std::mt19937 random(1);
  for (int step = 0; step < 300; ++step) {
    const uint64_t offset = random() % shadow.size();
    if (random() % 8 == 0) {
      const uint64_t word = offset / 8 * 8;
      if (word + 8 > shadow.size()) continue;
      const auto add = [](std::byte* bytes) { bytes[3] = std::byte(static_cast<int>(bytes[3]) + 1); };
      add(shadow.data() + word);
      ASSERT_TRUE(wait_for_device([&](Staged::Done done) {
                    backing.staged()->modify(word, add, std::move(done));
                  }).is_ok());
    } else if (random() % 3 == 0) {
      ASSERT_EQ(all_of(backing), shadow);
    } else {
      const uint64_t length = std::min(shadow.size() - offset, random() % (3 * kSlot));
      const auto bytes = filled(length, static_cast<int>(random() % 256));
      std::copy(bytes.begin(), bytes.end(), shadow.begin() + static_cast<ptrdiff_t>(offset));
      ASSERT_TRUE(put(backing, offset, bytes).is_ok());
    }
    if (random() % 20 == 0) {
      ASSERT_TRUE(promised().is_ok());
      ASSERT_TRUE(pool->is_valid());
    }
  }
  EXPECT_EQ(all_of(backing), shadow);
}

TEST_F(NvmeDurable, NamedExtentsAreThereAgainAndNoOthers) {
  std::map<uint32_t, std::vector<std::byte>> shadow;
  std::mt19937 random(2);
  for (uint32_t which = 1; which <= 5; ++which) {
    Backing& backing = made(which, which * kSlot + which);
    shadow[which].resize(backing.bytes());
    for (int i = 0; i < 3; ++i) {
      const uint64_t offset = random() % backing.bytes();
      const auto bytes = filled(random() % (backing.bytes() - offset), static_cast<int>(16 * which) + i);
      std::copy(bytes.begin(), bytes.end(), shadow[which].begin() + static_cast<ptrdiff_t>(offset));
      ASSERT_TRUE(put(backing, offset, bytes).is_ok());
    }
    if (which == 2) continue;
    ASSERT_TRUE(pool->named(number(which), "name " + std::to_string(which)).is_ok());
  }
  ASSERT_TRUE(pool->unnamed(number(3)).is_ok());
  backings.erase(4);
  ASSERT_TRUE(pool->unnamed(number(4)).is_ok());
  EXPECT_EQ(pool->unnamed(number(4)).code(), Code::kProtocol);
  EXPECT_EQ(pool->named(number(4), "x").code(), Code::kProtocol);
  ASSERT_TRUE(promised().is_ok());
  for (const bool by_crash : {true, false}) {
    if (by_crash) {
      crash(false);
    } else {
      reopen();
    }
    const auto extents = pool->extents();
    ASSERT_EQ(extents.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      const uint32_t which = i == 0 ? 1 : 5;
      EXPECT_EQ(extents[i].id, number(which));
      EXPECT_EQ(extents[i].description, "name " + std::to_string(which));
      EXPECT_EQ(extents[i].bytes, shadow[which].size());
      EXPECT_EQ(all_of(found(which)), shadow[which]);
    }
    EXPECT_EQ(pool->backing_of(number(2)).status().code(), Code::kNotFound);
    EXPECT_EQ(pool->state().pages, 2u + 6u) << "the others' pages are free again";
    EXPECT_TRUE(pool->is_valid());
  }
  ASSERT_TRUE(put(*backings[1], 0, filled(kSlot, 99)).is_ok());
  reopen();
  EXPECT_EQ(at(found(1), 0), 99) << "a clean end promises what there is";
  EXPECT_EQ(at(*backings[1], kSlot), static_cast<int>(shadow[1][kSlot]));
}

TEST_F(NvmeDurable, AWriteOfALastingExtentIsDoneWhenItIsPromised) {
  auto pages = pool->make(number(1), 3 * kSlot);
  ASSERT_TRUE(pages.is_ok());
  Backing& lasting = *(backings[1] = pool->lasting(number(1), std::move(pages).value()));
  ASSERT_NE(lasting.lasting(), nullptr);
  EXPECT_TRUE(lasting.ends_whole());
  ASSERT_TRUE(lasting.lasting()->keep("its name").is_ok());
  ASSERT_TRUE(put(lasting, kSlot / 2, filled(kSlot, 7)).is_ok());
  const Status changed = wait_for_device([&](Staged::Done done) {
    lasting.staged()->modify(
        2 * kSlot, [](std::byte* word) { *word = std::byte(9); }, std::move(done));
  });
  ASSERT_TRUE(changed.is_ok());
  crash(false);
  ASSERT_EQ(pool->extents().size(), 1u);
  Backing& after = found(1);
  EXPECT_EQ(at(after, 0), 0);
  EXPECT_EQ(at(after, kSlot / 2), 7);
  EXPECT_EQ(at(after, 2 * kSlot), 9);
}

TEST_F(NvmeDurable, AnExtentIsFreeWhenItHasNeitherANameNorABacking) {
  const auto pages = [this] { return pool->state().pages; };
  made(1, 2 * kSlot);
  const auto its = pool->lasting(number(2), pool->make(number(2), kSlot).value())->lasting();
  EXPECT_EQ(pages(), 2u) << "the second ended at once";
  backings.erase(1);
  EXPECT_EQ(pages(), 0u);
  auto kept = pool->lasting(number(3), pool->make(number(3), kSlot).value());
  const auto lasting = kept->lasting();
  ASSERT_TRUE(lasting->keep("a name").is_ok());
  kept.reset();
  EXPECT_EQ(pages(), 1u) << "it has a name";
  ASSERT_TRUE(lasting->forget().is_ok());
  EXPECT_EQ(pages(), 0u);
  EXPECT_EQ(lasting->keep("again").code(), Code::kProtocol);
  EXPECT_TRUE(pool->is_valid());
}

TEST_F(NvmeDurable, ThereIsRoomForSoManyPages) {
  EXPECT_EQ(pool->make(number(1), (geometry.pages() + 1) * kSlot).status().code(), Code::kNoMemory);
  made(2, geometry.pages() * kSlot);
  const Status full = pool->make(number(3), 1).status();
  EXPECT_EQ(full.code(), Code::kNoMemory);
  EXPECT_EQ(pool->make(number(3), uint64_t{1} << 60).status().code(), Code::kNoMemory);
  backings.clear();
  made(3, kSlot);
  EXPECT_EQ(pool->make(number(3), kSlot).status().code(), Code::kProtocol);
  EXPECT_EQ(pool->make(number(4), 0).status().code(), Code::kProtocol);
  EXPECT_TRUE(pool->is_valid());
}

TEST_F(NvmeDurable, CallersShareACommit) {
  Backing& backing = made(1, 4 * kSlot);
  ASSERT_TRUE(promised().is_ok());
  const uint64_t before = pool->state().commits, flushes = disk->flushes;
  disk->hold_flushes(true);
  std::atomic<int> kept{0};
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(put(backing, 0, filled(10, i)).is_ok());
    pool->promise([&](const Status& status) { kept += status.is_ok() ? 1 : 0; });
  }
  EXPECT_EQ(kept, 0);
  EXPECT_EQ(at(backing, 0), 19) << "reads see what is not promised yet";
  disk->hold_flushes(false);
  ASSERT_TRUE(promised().is_ok());
  EXPECT_EQ(kept, 20);
  EXPECT_LE(pool->state().commits - before, 3u);
  EXPECT_LE(disk->flushes - flushes, 6u);
  const uint64_t commits = pool->state().commits;
  ASSERT_TRUE(promised().is_ok());
  EXPECT_EQ(pool->state().commits, commits) << "nothing changed";
}

TEST_F(NvmeDurable, WithoutCallersItCommitsByItself) {
  close();
  open(5ms);
  ASSERT_TRUE(pool->named((made(1, kSlot), number(1)), "a").is_ok());
  ASSERT_TRUE(put(*backings[1], 0, filled(kSlot, 3)).is_ok());
  const auto is_on_device = [this] {
    Disk copy(disk->image().kept);
    const auto store = Store::open(copy, identity().cluster);
    return store.is_ok() && store.value()->contents().find(number(1), 0) != nullptr;
  };
  while (!is_on_device()) std::this_thread::sleep_for(1ms);
  crash(false);
  EXPECT_EQ(at(found(1), 0), 3);
}

TEST_F(NvmeDurable, AFullPoolWaitsForACommit) {
  Backing& backing = made(1, geometry.pages() * kSlot);
  ASSERT_TRUE(pool->named(number(1), "full").is_ok());
  for (int round = 1; round <= 5; ++round) {
    ASSERT_TRUE(put(backing, 0, filled(backing.bytes(), round)).is_ok());
    EXPECT_EQ(all_of(backing), filled(backing.bytes(), round));
  }
  EXPECT_GT(pool->state().commits, 4u);
  EXPECT_TRUE(pool->is_valid());
  // While the device flushes there are none.
  disk->hold_flushes(true);
  std::atomic<int> over{0};
  const auto bytes = filled(backing.bytes(), 9);
  backing.staged()->write(0, bytes, [&](const Status& status) { over = status.is_ok() ? 1 : 2; });
  while (pool->state().free_slots > 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(over, 0);
  disk->hold_flushes(false);
  while (over == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(over, 1);
  ASSERT_TRUE(promised().is_ok());
  crash(false);
  EXPECT_EQ(all_of(found(1)), bytes);
}

TEST_F(NvmeDurable, ItCommitsBeforeTheSlotsAreAllInUse) {
  Backing& backing = made(1, geometry.pages() * kSlot);
  ASSERT_TRUE(put(backing, 0, filled(backing.bytes(), 1)).is_ok());
  ASSERT_TRUE(promised().is_ok());
  const uint64_t before = pool->state().commits, spare = geometry.slots - geometry.pages();
  ASSERT_EQ(pool->state().free_slots, spare);
  ASSERT_GE(spare, DurablePool::kShortOf);
  const uint64_t left = spare / DurablePool::kShortOf - 1;
  ASSERT_TRUE(put(backing, 0, filled((spare - left) * kSlot, 2)).is_ok());
  while (pool->state().commits == before) std::this_thread::sleep_for(1ms);
}

/// Of what is freed nothing is free before the next commit.
TEST_F(NvmeDurable, WhatFollowsAFreedExtentWaitsToo) {
  for (int round = 1; round <= 4; ++round) {
    const auto which = static_cast<uint32_t>(round);
    Backing& backing = made(which, geometry.pages() * kSlot);
    ASSERT_TRUE(put(backing, 0, filled(backing.bytes(), round)).is_ok());
    EXPECT_EQ(at(backing, backing.bytes() - 1), round);
    backings.clear();
  }
  EXPECT_TRUE(pool->is_valid());
}

TEST_F(NvmeDurable, AWriteThatFailsGoesElsewhere) {
  Backing& backing = made(1, 2 * kSlot);
  ASSERT_TRUE(pool->named(number(1), "a").is_ok());
  int left = static_cast<int>(DurablePool::kTries);
  fail_when([&](Op op, uint64_t offset) {
    return op == Op::kWrite && offset >= geometry.slot_at(0) && left-- > 0;
  });
  ASSERT_TRUE(put(backing, 0, filled(kSlot, 5)).is_ok());
  EXPECT_EQ(pool->state().bad_slots, DurablePool::kTries);
  EXPECT_TRUE(pool->state().writable.is_ok());
  EXPECT_TRUE(pool->is_valid());
  ASSERT_TRUE(promised().is_ok());
  crash(false);
  EXPECT_EQ(at(found(1), 0), 5);
}

/// One page was promised, another was written: then what `fails` says fails, at the next write or promise.
class NvmeDurableFails : public NvmeDurable {
 protected:
  void stop(const std::function<bool(Op, uint64_t)>& fails) {
    Backing& backing = made(1, 3 * kSlot);
    ASSERT_TRUE(pool->named(number(1), "a").is_ok());
    ASSERT_TRUE(put(backing, 0, filled(2 * kSlot, 5)).is_ok());
    ASSERT_TRUE(promised().is_ok());
    ASSERT_TRUE(put(backing, kSlot, filled(kSlot, 6)).is_ok());
    fail_when(fails);
    const Status write = put(backing, 0, filled(kSlot, 7));
    const Status stopped = promised();
    EXPECT_EQ(stopped.code(), Code::kIo);
    EXPECT_NE(stopped.message().find("the test's device fails"), std::string_view::npos)
        << stopped.to_string();
    fail_when(nullptr);
    EXPECT_EQ(promised().code(), Code::kIo) << "not even what could be promised now";
    EXPECT_EQ(put(backing, 0, filled(1, 8)).code(), Code::kIo);
    EXPECT_EQ(pool->make(number(2), kSlot).status().code(), Code::kIo);
    EXPECT_EQ(pool->named(number(1), "b").code(), Code::kIo);
    EXPECT_EQ(pool->state().writable.code(), Code::kIo);
    EXPECT_EQ(at(backing, 0), write.is_ok() ? 7 : 5);
    EXPECT_EQ(at(backing, kSlot), 6) << "what it has can be read";
    EXPECT_EQ(at(backing, 2 * kSlot), 0);
    EXPECT_TRUE(pool->is_valid());
    crash(false);
    Backing& again = found(1);
    const int first = at(again, 0), second = at(again, kSlot);
    EXPECT_TRUE(first == 5 || (write.is_ok() && first == 7)) << first;
    EXPECT_TRUE(second == 5 || second == 6) << second;
    EXPECT_EQ(at(again, 2 * kSlot), 0);
  }
};
TEST_F(NvmeDurableFails, AtEachWriteOfAPage) {
  stop([this](Op op, uint64_t offset) { return op == Op::kWrite && offset >= geometry.slot_at(0); });
}
TEST_F(NvmeDurableFails, AtAWriteOfTheJournal) {
  stop([this](Op op, uint64_t offset) { return op == Op::kWrite && offset < geometry.slot_at(0); });
}
TEST_F(NvmeDurableFails, AtTheFirstFlush) {
  stop([](Op op, uint64_t) { return op == Op::kFlush; });
}
TEST_F(NvmeDurableFails, AtTheSecondFlush) {
  stop([flushes = 0](Op op, uint64_t) mutable { return op == Op::kFlush && ++flushes > 1; });
}

/// Who waits for a slot is told.
TEST_F(NvmeDurable, AFlushThatFailsEndsWaiting) {
  Backing& backing = made(1, geometry.pages() * kSlot);
  ASSERT_TRUE(put(backing, 0, filled(backing.bytes(), 1)).is_ok());
  fail_when([](Op op, uint64_t) { return op == Op::kFlush; });
  EXPECT_EQ(put(backing, 0, filled(backing.bytes(), 2)).code(), Code::kIo);
  for (uint64_t page = 0; page < geometry.pages(); ++page) {
    const int value = at(backing, page * kSlot);
    EXPECT_TRUE(value == 1 || value == 2);
  }
}

TEST_F(NvmeDurable, APageThatTheDeviceChangedIsLostAndNothingElse) {
  Backing& backing = made(1, 3 * kSlot);
  ASSERT_TRUE(pool->named(number(1), "a").is_ok());
  ASSERT_TRUE(put(backing, 0, filled(kSlot, 5)).is_ok());
  ASSERT_TRUE(put(backing, kSlot, filled(kSlot, 6)).is_ok());
  ASSERT_TRUE(promised().is_ok());
  const uint64_t bad = slots_with(5).at(0);
  disk->damage(bad + 77);
  for (int run = 0; run < 2; ++run) {
    Backing& now = run == 0 ? backing : found(1);
    std::vector<std::byte> byte(1), all(3 * kSlot);
    EXPECT_EQ(get(now, 0, byte).code(), Code::kLost);
    EXPECT_EQ(get(now, 0, all).code(), Code::kLost);
    EXPECT_EQ(put(now, 1, filled(1, 1)).code(), Code::kLost)
        << "a piece of it would be a page that never was";
    EXPECT_EQ(at(now, kSlot), 6);
    EXPECT_EQ(at(now, 2 * kSlot), 0);
    EXPECT_EQ(pool->state().lost_pages, 1u);
    if (run == 0) crash(true);
  }
  ASSERT_TRUE(put(*backings[1], 0, filled(kSlot, 7)).is_ok());
  EXPECT_EQ(at(*backings[1], 0), 7);
  // Its slot is not used again.
  for (uint64_t i = 0; i < 2 * geometry.slots; ++i) {
    ASSERT_TRUE(put(*backings[1], kSlot, filled(kSlot, 200)).is_ok());
    ASSERT_TRUE(promised().is_ok());
  }
  EXPECT_EQ(disk->now()[bad], std::byte{5});
  EXPECT_EQ(pool->state().bad_slots, 1u);
  EXPECT_TRUE(pool->is_valid());
  reopen();
  EXPECT_EQ(at(found(1), 0), 7);
}

TEST_F(NvmeDurable, AReadThatFailsOnceIsReadAgain) {
  Backing& backing = made(1, kSlot);
  ASSERT_TRUE(put(backing, 0, filled(kSlot, 5)).is_ok());
  fail_when([left = 1](Op op, uint64_t) mutable { return op == Op::kRead && left-- > 0; });
  EXPECT_EQ(at(backing, 9), 5);
  EXPECT_EQ(pool->state().bad_slots, 0u);
}

/// Nobody waits for a slot that will never be free.
TEST_F(NvmeDurable, WhereTooManySlotsAreBadAWriteFails) {
  Backing& backing = made(1, geometry.pages() * kSlot);
  ASSERT_TRUE(put(backing, 0, filled(backing.bytes(), 5)).is_ok());
  for (const uint64_t slot : slots_with(5)) disk->damage(slot + 1);
  std::vector<std::byte> all(backing.bytes());
  EXPECT_EQ(get(backing, 0, all).code(), Code::kLost);
  EXPECT_EQ(pool->state().bad_slots, geometry.pages());
  uint64_t written = 0;
  Status status;
  for (; written < geometry.pages(); ++written) {
    status = put(backing, written * kSlot, filled(kSlot, 6));
    if (!status.is_ok()) break;
  }
  EXPECT_EQ(written, geometry.slots - geometry.pages()) << "the spare ones";
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("bad"), std::string_view::npos) << status.to_string();
  EXPECT_EQ(at(backing, 0), 6);
  EXPECT_TRUE(promised().is_ok());
  EXPECT_TRUE(pool->is_valid());
}

TEST_F(NvmeDurable, ThreadsOnAFilePromiseWhatIsThereInTheNextRun) {
  constexpr uint32_t kThreads = 4;
  constexpr int kRounds = 40;
  const ocm::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pool";
  ASSERT_TRUE(FileDevice::create(path, 2 * kMiB).is_ok());
  for (int run = 0; run < 2; ++run) {
    const auto device = std::move(FileDevice::open(path)).value();
    const auto files = std::move(Queue::open(*device)).value();
    if (run == 0) {
      ASSERT_TRUE(Store::format(*device, identity(), kSlot).is_ok());
    }
    const auto durable =
        std::move(DurablePool::open(*files, std::move(Store::open(*device, identity().cluster)).value()))
            .value();
    if (run == 1) {
      ASSERT_EQ(durable->extents().size(), kThreads);
      for (uint32_t which = 1; which <= kThreads; ++which) {
        const auto backing = std::move(durable->backing_of(number(which))).value();
        ASSERT_EQ(all_of(*backing), filled(3000, static_cast<int>(which) * 50 + kRounds - 1));
      }
      break;
    }
    std::vector<std::thread> threads;
    for (uint32_t which = 1; which <= kThreads; ++which) {
      threads.emplace_back([&, which] {
        const auto backing = std::move(durable->make(number(which), 3000)).value();
        EXPECT_TRUE(durable->named(number(which), "a name").is_ok());
        for (int round = 0; round < kRounds; ++round) {
          EXPECT_TRUE(put(*backing, 0, filled(3000, static_cast<int>(which) * 50 + round)).is_ok());
          const Status status =
              wait_for_device([&](Staged::Done done) { durable->promise(std::move(done)); });
          EXPECT_TRUE(status.is_ok()) << status.to_string();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(durable->is_valid());
  }
}

}  // namespace
}  // namespace ocm::memory::nvme
