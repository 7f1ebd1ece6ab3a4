// memory/dram/ready_files: a file of a length that was used is there, with its pages, before the next is asked for.
#include "memory/dram/ready_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/units.h"
#include "memory/dram/dram_backend.h"
#include "memory/extent_table.h"
#include "os/fd_reserve.h"
#include "os/memory.h"

namespace ocm::memory {
namespace {

Result<os::Fd> file_of(uint64_t bytes) { return os::make_memfd("ready", bytes, {}); }
uint64_t pages_of(const os::Fd& fd) {
  struct stat file {};
  return ::fstat(fd.get(), &file) == 0 ? static_cast<uint64_t>(file.st_blocks) * 512 : 0;
}
/// Whether it becomes true; what is checked happens in another thread.
template <class Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class ReadyFilesTest : public ::testing::Test {
 protected:
  void start(uint64_t most_bytes, uint64_t keep_ns = ~uint64_t{0} / 2) {
    files.emplace(ReadyFiles::Options{.most_bytes = most_bytes,
                                      .keep_ns = keep_ns,
                                      .look_ns = 1'000'000,
                                      .make = file_of,
                                      .memory = [this] {
                                        return os::MachineMemory{kGiB, available_bytes};
                                      }});
  }
  /// The second of its length, at least.
  void use(uint64_t bytes) {
    files->want(bytes);
    files->want(bytes);
  }
  bool holds(uint64_t bytes) {
    return becomes([&] { return files->ready_bytes() == bytes && files->is_valid(); });
  }
  /// Ready, not only begun.
  ReadyFiles::File taken(uint64_t bytes) {
    ReadyFiles::File file;
    (void)becomes([&] {
      file = files->take(bytes);
      return file.fd.is_open();
    });
    return file;
  }

  std::atomic<uint64_t> available_bytes{kGiB};
  std::optional<ReadyFiles> files;
};

/// No more of a resource than now, in this process.
class Limit {
 public:
  Limit(__rlimit_resource which, rlim_t most) : which_(which) {
    EXPECT_EQ(::getrlimit(which_, &before_), 0);
    const rlimit limit{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(which_, &limit), 0);
  }
  ~Limit() { EXPECT_EQ(::setrlimit(which_, &before_), 0); }

 private:
  const __rlimit_resource which_;
  rlimit before_{};
};

TEST_F(ReadyFilesTest, WithoutAThreadNothingIsReady) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where it can map nothing";
#endif
  start(8 * kMiB);
  {
    const Limit none(RLIMIT_AS, 0);  // a thread has a stack
    use(kMiB);
  }
  EXPECT_EQ(files->ready_bytes(), 0u);
  EXPECT_TRUE(files->is_valid());
  files->want(kMiB);
  EXPECT_TRUE(taken(kMiB).fd.is_open()) << "later";
}

TEST(ReadyExtents, TakeNoDescriptorThatIsKeptForMore) {
  DramConfig config;
  config.ready_bytes = 64 * kMiB;
  DramBackend backend(config);
  const Limit few(RLIMIT_NOFILE, 256);
  std::vector<std::unique_ptr<Backing>> extents;
  for (;;) {
    auto made = backend.make(256 * kKiB, {});
    if (!made.is_ok()) {
      EXPECT_EQ(made.status().code(), Code::kNoFds);
      break;
    }
    extents.push_back(std::move(*made));
  }
  extents.resize(extents.size() - 4);
  for (const auto& extent : extents) ASSERT_TRUE(extent->share(Access::kRead).is_ok());  // each is used
  // Four at most: each share() above took one for a moment, too.
  EXPECT_TRUE(becomes([&] { return backend.ready_bytes() > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(backend.ready_bytes(), 4 * 256 * kKiB);
  std::vector<os::Fd> rest;
  do {
    rest.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(rest.back().is_open());
  } while (os::fd_is_for(rest.back().get(), os::FdUse::kExtent));
  EXPECT_TRUE(os::fd_is_for(rest.back().get() - 1, os::FdUse::kExtent)) << "none above the extents' is used";
  EXPECT_TRUE(os::fd_is_for(rest.back().get(), os::FdUse::kConnection));
}

TEST_F(ReadyFilesTest, TheNextOfALengthThatWasUsedHasItsPages) {
  start(8 * kMiB);
  EXPECT_FALSE(files->take(kMiB).fd.is_open());
  use(kMiB);
  ASSERT_TRUE(holds(kMiB));
  EXPECT_FALSE(files->take(2 * kMiB).fd.is_open()) << "of exactly that length";
  const ReadyFiles::File file = taken(kMiB);
  ASSERT_TRUE(file.fd.is_open());
  EXPECT_GE(pages_of(file.fd), kMiB);
  std::vector<unsigned char> mapped(kMiB / 4096);
  ASSERT_EQ(::mincore(file.mapping.data(), kMiB, mapped.data()), 0);
  EXPECT_EQ(std::count(mapped.begin(), mapped.end(), 1), kMiB / 4096);
  EXPECT_EQ(files->ready_bytes(), 0u);
  EXPECT_FALSE(files->take(kMiB).fd.is_open()) << "given once";
}

TEST_F(ReadyFilesTest, WhatIsBegunIsNotReady) {
  std::atomic<bool> is_begun{false}, may_end{false};
  files.emplace(ReadyFiles::Options{.most_bytes = 8 * kMiB, .make = [&](uint64_t bytes) {
                                      is_begun = true;
                                      (void)becomes([&] { return may_end.load(); });
                                      return file_of(bytes);
                                    }});
  use(kMiB);
  ASSERT_TRUE(becomes([&] { return is_begun.load(); }));
  EXPECT_EQ(files->ready_bytes(), 0u);
  may_end = true;
  ASSERT_TRUE(becomes([&] { return files->ready_bytes() == kMiB; }));
  EXPECT_TRUE(taken(kMiB).fd.is_open());
  files.reset();
}

TEST_F(ReadyFilesTest, WhatIsUsedOnceCausesNothing) {
  start(8 * kMiB);
  files->want(kMiB);
  files->want(2 * kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(files->ready_bytes(), 0u);
  files->want(kMiB);
  EXPECT_TRUE(holds(kMiB));
}

TEST_F(ReadyFilesTest, NoMoreIsReadyThanMayBe) {
  start(3 * kMiB);
  for (int i = 0; i < 8; ++i) use(kMiB);
  ASSERT_TRUE(holds(3 * kMiB));
  use(4 * kMiB);
  use(4 * kKiB);
  EXPECT_TRUE(holds(3 * kMiB));
  files->keep_within(kMiB);
  EXPECT_TRUE(holds(kMiB)) << "the pool needs them";
  files->keep_within(0);
  EXPECT_TRUE(holds(0));
  use(kMiB);
  EXPECT_TRUE(holds(0));
}

TEST_F(ReadyFilesTest, NothingIsReadyWhereNothingMayBe) {
  start(0);
  use(kMiB);
  EXPECT_TRUE(holds(0));
  EXPECT_FALSE(files->give_back());
}

TEST_F(ReadyFilesTest, WhatIsNotTakenGoesBack) {
  start(8 * kMiB, 20'000'000);
  ASSERT_TRUE(becomes([&] {
    use(kMiB);  // again: one may be gone before it is looked at
    return files->ready_bytes() != 0;
  }));
  EXPECT_TRUE(holds(0));
}

TEST_F(ReadyFilesTest, AMachineThatIsShortOfMemoryGetsItBack) {
  start(8 * kMiB);
  use(kMiB);
  ASSERT_TRUE(holds(kMiB));
  available_bytes = 127 * kMiB;
  EXPECT_TRUE(holds(0));
  use(kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(holds(0)) << "nothing is prepared meanwhile";
  available_bytes = kGiB;
  use(2 * kMiB);
  EXPECT_TRUE(holds(2 * kMiB));
}

TEST_F(ReadyFilesTest, GivenBackAtOnceForWhoNeedsADescriptor) {
  start(8 * kMiB);
  use(kMiB);
  ASSERT_TRUE(becomes([&] { return files->give_back(); }));
  EXPECT_EQ(files->ready_bytes(), 0u);
}

TEST(MachineMemory, IsWhatTheMachineHas) {
  const os::MachineMemory memory = os::machine_memory();
  EXPECT_GT(memory.available, 0u);
  EXPECT_LE(memory.available, memory.total);
}

class ReadyExtentsTest : public ::testing::Test {
 protected:
  ReadyExtentsTest() {
    std::vector<PoolConfig> pools;
    pools.push_back({std::make_unique<DramBackend>(DramConfig{.ready_bytes = 8 * kMiB}), 4 * kMiB});
    table.emplace(1, std::move(pools), generations);
  }
  uint64_t ready() { return table->use(Kind::kDram).ready_bytes; }
  std::shared_ptr<Extent> made(uint64_t bytes) {
    auto extent = table->create(bytes, Kind::kDram);
    EXPECT_TRUE(extent.is_ok()) << extent.status().to_string();
    return std::move(*extent);
  }
  void remove(std::shared_ptr<Extent> extent) {
    const ExtentId id = extent->id;
    extent.reset();
    ASSERT_TRUE(table->remove(id).is_ok());
  }

  void use_and_remove() {
    const auto extent = made(kMiB);
    std::memset(*extent->backing->data(), 7, kMiB);
    remove(extent);
  }

  std::vector<std::atomic<uint32_t>> generations = std::vector<std::atomic<uint32_t>>(16);
  std::optional<ExtentTable> table;
};

TEST_F(ReadyExtentsTest, OnlyAnExtentThatIsUsedWantsTheNext) {
  use_and_remove();
  remove(made(kMiB));
  EXPECT_EQ(ready(), 0u);
  const auto used = made(kMiB);
  ASSERT_TRUE(used->backing->data().is_ok());
  ASSERT_TRUE(becomes([&] { return ready() == kMiB; }));
  ASSERT_TRUE(used->backing->data().is_ok());
  ASSERT_TRUE(used->backing->share(Access::kRead).is_ok());
  EXPECT_EQ(ready(), kMiB) << "once each";
}

TEST_F(ReadyExtentsTest, ZerosWithTheirPages) {
  use_and_remove();
  use_and_remove();
  std::shared_ptr<Extent> next;
  ASSERT_TRUE(becomes([&] {  // the one that is populated now is not there yet
    if (ready() != kMiB) return false;
    next = made(kMiB);
    if (ready() == 0) return true;
    remove(std::move(next));
    return false;
  }));
  auto fd = next->backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  EXPECT_GE(pages_of(*fd), kMiB);
  EXPECT_NE(::ftruncate(fd->get(), 0), 0) << "sealed as all are";
  const std::byte* data = *next->backing->data();
  EXPECT_TRUE(std::all_of(data, data + kMiB, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(ReadyExtentsTest, ThePoolComesFirst) {
  use_and_remove();
  const auto used = made(kMiB);
  ASSERT_TRUE(used->backing->data().is_ok());
  ASSERT_TRUE(becomes([&] { return ready() == kMiB; }));
  const auto rest = made(3 * kMiB);
  EXPECT_TRUE(becomes([&] { return ready() == 0; }));
  EXPECT_TRUE(table->is_valid());
  ASSERT_TRUE(rest->backing->data().is_ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(becomes([&] { return ready() == 0; })) << "there is no room for more";
}

}  // namespace
}  // namespace ocm::memory
