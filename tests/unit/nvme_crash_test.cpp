// A durable pool whose machine crashes at each write and flush of what threads do with it: what is there afterwards was
// promised, or came later. Its rules are broken on purpose as well, and each time a crash must show it; so its files are
// compiled again, with mutations (src/base/mutation.h).
#define OCM_MODEL
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../src/memory/nvme/block.cpp"     // NOLINT
#include "../../src/memory/nvme/buffers.cpp"   // NOLINT
#include "../../src/memory/nvme/durable.cpp"   // NOLINT
#include "../../src/memory/nvme/geometry.cpp"  // NOLINT
#include "../../src/memory/nvme/pages.cpp"     // NOLINT
#include "../../src/memory/nvme/records.cpp"   // NOLINT
#include "../../src/memory/nvme/store.cpp"     // NOLINT
#include "nvme_disk.h"

namespace ocm {
namespace {
std::string_view mutation_that_is_on;
}
bool is_mutated(std::string_view name) { return name == mutation_that_is_on; }
}  // namespace ocm

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kSlotBytes = 4096;
constexpr uint64_t kDiskBytes = 34 * 4096;  // 14 slots, one of them spare, and 8 blocks of journal
const Identity kWhose{.pool = 7, .cluster = "ours", .partition = 9};

using Bytes = std::vector<std::byte>;
using test::Disk;

/// What something was, one after another, and what of that is promised, and may be there.
struct Range {
  size_t promised = 0, started = 0;
};
struct Known {
  std::vector<bool> named = {false};
  Range name;
  std::vector<std::vector<Bytes>> pages;  // of each what it was
  std::vector<Range> page;
};

class World {
 public:
  World(uint32_t seed, uint32_t threads, uint64_t pages)
      : seed_(seed), threads_(threads), pages_(pages), random_(seed) {}

  /// Empty: it held.
  std::string run(int rounds) {
    EXPECT_TRUE(Store::format(disk_, kWhose, kSlotBytes).is_ok());
    {
      std::lock_guard lock(disk_.mutex);
      disk_.on_step = [this](const test::Image& image) { crash_here(image); };
    }
    {
      test::DiskQueue queue(disk_);
      const auto pool = opened(disk_, queue);
      std::vector<std::thread> threads;
      for (uint32_t i = 1; i <= threads_; ++i) threads.emplace_back([&, i] { act(*pool, i, rounds); });
      for (std::thread& thread : threads) thread.join();
      EXPECT_TRUE(pool->is_valid());
    }
    std::lock_guard lock(disk_.mutex);
    return failure_;
  }
  size_t crashes() const { return crashes_; }

 private:
  static std::unique_ptr<DurablePool> opened(Disk& disk, Queue& queue) {
    auto store = Store::open(disk, kWhose.cluster);
    EXPECT_TRUE(store.is_ok()) << store.status().to_string();
    return std::move(DurablePool::open(queue, std::move(store).value(), std::chrono::milliseconds(3)))
        .value();
  }
  static ExtentId number(uint32_t which) { return {GlobalAddress(9, uint64_t{which} << 16), which}; }

  // ---- what threads do

  /// One with an extent of its own, and with the next when it was freed.
  void act(DurablePool& pool, uint32_t thread, int rounds) {
    std::mt19937 random(seed_ * 100 + thread);
    uint32_t which = 0;
    std::unique_ptr<Backing> backing;
    bool is_named = false;
    for (int round = 0; round < rounds; ++round) {
      if (backing == nullptr) {
        which = thread + 100 * static_cast<uint32_t>(round);
        {
          std::lock_guard lock(disk_.mutex);
          Known& known = known_[which];
          known.pages.assign(pages_, {Bytes(kSlotBytes)});
          known.page.assign(pages_, {});
        }
        auto made = pool.make(number(which), pages_ * kSlotBytes);
        ASSERT_TRUE(made.is_ok()) << made.status().to_string();
        backing = std::move(made).value();
        is_named = false;
      }
      const uint32_t choice = random() % 20;
      if (choice < 11) {
        write(*backing, which, random);
      } else if (choice < 18) {
        promise(pool, which);
      } else if (choice < 19) {
        is_named = !is_named;
        will_be_named(which, is_named);
        const Status status = is_named ? pool.named(number(which), "its name") : pool.unnamed(number(which));
        ASSERT_TRUE(status.is_ok()) << status.to_string();
      } else if (random() % 2 == 0) {
        backing.reset();
        will_be_named(which, false);
        if (is_named) {
          ASSERT_TRUE(pool.unnamed(number(which)).is_ok());
        }
        promise(pool, which);
      }
    }
  }
  void will_be_named(uint32_t which, bool is_named) {
    std::lock_guard lock(disk_.mutex);
    Known& known = known_[which];
    known.named.push_back(is_named);
    known.name.started = known.named.size() - 1;
  }
  void write(Backing& backing, uint32_t which, std::mt19937& random) {
    const bool whole = random() % 2 == 0;
    uint64_t offset = random() % (pages_ * kSlotBytes), length = 1 + random() % (2 * kSlotBytes);
    if (whole) offset = offset / kSlotBytes * kSlotBytes, length = kSlotBytes;
    length = std::min(length, pages_ * kSlotBytes - offset);
    Bytes bytes(length);
    for (std::byte& byte : bytes) byte = std::byte(random());
    {
      std::lock_guard lock(disk_.mutex);
      Known& known = known_[which];
      for (uint64_t page = offset / kSlotBytes; page * kSlotBytes < offset + length; ++page) {
        Bytes next = known.pages[page].back();
        for (uint64_t i = 0; i < kSlotBytes; ++i) {
          const uint64_t at = page * kSlotBytes + i;
          if (at >= offset && at < offset + length) next[i] = bytes[at - offset];
        }
        known.pages[page].push_back(std::move(next));
        known.page[page].started = known.pages[page].size() - 1;
      }
    }
    const Status status =
        wait_for_device([&](Staged::Done done) { backing.staged()->write(offset, bytes, std::move(done)); });
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  }
  /// Of its own extent, all of whose writes are over.
  void promise(DurablePool& pool, uint32_t which) {
    const Status status = wait_for_device([&](Staged::Done done) { pool.promise(std::move(done)); });
    ASSERT_TRUE(status.is_ok()) << status.to_string();
    std::lock_guard lock(disk_.mutex);
    Known& known = known_[which];
    known.name.promised = known.name.started;
    for (Range& page : known.page) page.promised = page.started;
  }

  // ---- what a crash leaves; the disk is still

  void crash_here(const test::Image& image) {
    for (int i = 0; i < 4 && failure_.empty(); ++i) {
      Disk disk(image.after_crash(random_));
      ++crashes_;
      if (crashes_ % 8 == 0) {
        look_through_pool(disk);
      } else {
        look_at_store(disk);
      }
    }
  }
  void look_at_store(Disk& disk) {
    auto opened = Store::open(disk, kWhose.cluster);
    if (!opened.is_ok()) return fail("it does not open: " + opened.status().to_string());
    const Store& store = *opened.value();
    const auto& extents = store.contents().extents();
    for (const auto& one : known_) {
      const ExtentId id = number(one.first);
      if (!has_right_name(one.second, extents.contains(id))) continue;
      for (uint64_t page = 0; page < pages_; ++page) {
        Bytes bytes(kSlotBytes);
        const PageAt* at = store.contents().find(id, page);
        if (at != nullptr) {
          EXPECT_TRUE(disk.read(store.geometry().slot_at(at->slot), bytes).is_ok());
          if (crc32c(0, bytes.data(), bytes.size()) != at->crc) return fail("a page has other bytes");
        }
        if (!is_right(one.second, page, bytes)) return;
      }
    }
  }
  void look_through_pool(Disk& disk) {
    test::DiskQueue queue(disk);
    auto store = Store::open(disk, kWhose.cluster);
    if (!store.is_ok()) return fail("it does not open: " + store.status().to_string());
    const auto pool = std::move(DurablePool::open(queue, std::move(store).value())).value();
    for (const auto& one : known_) {
      const auto backing = pool->backing_of(number(one.first));
      if (!has_right_name(one.second, backing.is_ok())) continue;
      Bytes bytes(pages_ * kSlotBytes);
      const Status status = wait_for_device(
          [&](Staged::Done done) { backing.value()->staged()->read(0, bytes, std::move(done)); });
      if (!status.is_ok()) return fail(status.to_string());
      for (uint64_t page = 0; page < pages_; ++page) {
        const auto begin = bytes.begin() + static_cast<ptrdiff_t>(page * kSlotBytes);
        if (!is_right(one.second, page, Bytes(begin, begin + kSlotBytes))) return;
      }
    }
  }
  /// True: it is there, and its pages are to be looked at.
  bool has_right_name(const Known& known, bool is_there) {
    const auto begin = known.named.begin() + static_cast<ptrdiff_t>(known.name.promised);
    if (std::find(begin, known.named.end(), is_there) == known.named.end())
      fail(is_there ? "an extent without a name is there" : "an extent with a name is not there");
    return is_there;
  }
  bool is_right(const Known& known, uint64_t page, const Bytes& bytes) {
    const auto& all = known.pages[page];
    const auto begin = all.begin() + static_cast<ptrdiff_t>(known.page[page].promised);
    if (std::find(begin, all.end(), bytes) != all.end()) return true;
    fail(std::find(all.begin(), begin, bytes) == begin ? "a page is what it never was"
                                                       : "a page is older than promised");
    return false;
  }
  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what + " (seed " + std::to_string(seed_) + ")";
  }

  const uint32_t seed_, threads_;
  const uint64_t pages_;
  Disk disk_{kDiskBytes};
  // With the disk's mutex.
  std::mt19937 random_;
  std::map<uint32_t, Known> known_;
  std::string failure_;
  size_t crashes_ = 0;
};

TEST(NvmeCrash, OfOneThreadLeavesWhatWasPromisedOrLater) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    World world(seed, 1, seed % 2 == 0 ? 13 : 3);  // 13: it is full
    EXPECT_EQ(world.run(40), "");
    EXPECT_GT(world.crashes(), 100u);
  }
}

TEST(NvmeCrash, OfManyThreadsLeavesWhatWasPromisedOrLater) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    World world(seed, 3, seed % 2 == 0 ? 4 : 2);
    EXPECT_EQ(world.run(20), "");
    EXPECT_GT(world.crashes(), 100u);
  }
}

class NvmeCrashMutation : public testing::TestWithParam<const char*> {};

TEST_P(NvmeCrashMutation, IsFound) {
  mutation_that_is_on = GetParam();
  std::string failure;
  for (uint32_t seed = 1; seed <= 20 && failure.empty(); ++seed) failure = World(seed, 3, 2).run(60);
  mutation_that_is_on = {};
  EXPECT_NE(failure, "");
}
INSTANTIATE_TEST_SUITE_P(Each, NvmeCrashMutation,
                         testing::Values("a-slot-is-free-before-the-promise",
                                         "the-slots-of-the-next-group-are-free",
                                         "journal-before-the-pages-are-flushed",
                                         "promise-before-the-journal-is-flushed",
                                         "promise-who-came-meanwhile"));

}  // namespace
}  // namespace ocm::memory::nvme
