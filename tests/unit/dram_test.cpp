// memory/dram: an extent's bytes are zeros, shared, and read-only for those who may only read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <numa.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"
#include "memory/dram/dram_backend.h"
#include "memory/extent_table.h"
#include "os/clock.h"

namespace ocm::memory {
namespace {

std::unique_ptr<Backing> make(uint64_t bytes, ExtentOptions options = {}, DramConfig config = {}) {
  auto backing = DramBackend(config).make(bytes, options);
  EXPECT_TRUE(backing.is_ok()) << backing.status().to_string();
  return backing.is_ok() ? std::move(*backing) : nullptr;
}

TEST(Dram, BytesAreZeros) {
  const auto backing = make(64 * kKiB);
  const std::byte* data = *backing->data();
  EXPECT_TRUE(std::all_of(data, data + 64 * kKiB, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Dram, DataIsMappedOnceByAnyThread) {
  const auto backing = make(4096);
  std::vector<std::byte*> seen(4);
  std::vector<std::thread> threads;
  for (auto& pointer : seen) threads.emplace_back([&] { pointer = *backing->data(); });
  for (auto& thread : threads) thread.join();
  for (const std::byte* pointer : seen) EXPECT_EQ(pointer, seen[0]);
}

TEST(Dram, ASharedDescriptorShowsTheSameBytes) {
  const auto backing = make(4096);
  auto fd = backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  auto mapping = os::Mapping::map(fd->get(), 4096, true);
  ASSERT_TRUE(mapping.is_ok());
  std::memcpy(mapping->data(), "hello", 5);
  EXPECT_EQ(std::memcmp(*backing->data(), "hello", 5), 0);
}

TEST(Dram, AReadDescriptorCannotBeMappedWritable) {
  const auto backing = make(4096);
  auto fd = backing->share(Access::kRead);
  ASSERT_TRUE(fd.is_ok());
  EXPECT_TRUE(os::Mapping::map(fd->get(), 4096, false).is_ok());
  EXPECT_EQ(os::Mapping::map(fd->get(), 4096, true).status().code(), Code::kPermission);
  EXPECT_NE(::ftruncate(fd->get(), 0), 0);
}

TEST(Dram, ASharedDescriptorCannotShrinkTheExtent) {
  const auto backing = make(8192);
  auto fd = backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  EXPECT_NE(::ftruncate(fd->get(), 4096), 0);
}

TEST(Dram, AHolderCannotSealTheExtent) {
  const auto backing = make(8192);
  auto fd = backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    errno = 0;
    EXPECT_EQ(::fcntl(fd->get(), F_ADD_SEALS, seal), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_TRUE(backing->data().is_ok());
}

TEST(Dram, AReadOnlyTableStaysWritableForItsMakerOnly) {
  auto fd = os::make_memfd("table", 4096, {.seal_later = true});
  ASSERT_TRUE(fd.is_ok());
  auto mapping = os::Mapping::map(fd->get(), 4096, true);
  ASSERT_TRUE(mapping.is_ok());
  ASSERT_TRUE(os::seal_writes(fd->get()).is_ok());
  mapping->data()[0] = std::byte{1};
  EXPECT_FALSE(os::Mapping::map(fd->get(), 4096, true).is_ok());
  EXPECT_NE(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Dram, PopulateTakesThePagesNow) {
  for (const uint64_t bytes : {kMiB, 9 * kMiB}) {
    const auto backing = make(bytes, {.populate = true});
    auto fd = backing->share(Access::kReadWrite);
    ASSERT_TRUE(fd.is_ok());
    struct stat file {};
    ASSERT_EQ(::fstat(fd->get(), &file), 0);
    EXPECT_EQ(static_cast<uint64_t>(file.st_blocks) * 512, bytes);
  }
}

/// The flags of the mapping that has the address, as /proc/self/smaps has them.
std::string flags_of(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) is_it = begin <= wanted && wanted < end;
    if (is_it && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}

TEST(Dram, ALargeExtentAsksForHugePagesAndASharedFileDoesNot) {
  if (os::shared_huge_pages().empty()) GTEST_SKIP() << "this kernel has no huge pages for shared memory";
  const auto large = make(4 * kMiB), small = make(4 * kKiB, {.own_file = false});
  EXPECT_NE(flags_of(large->data().value()).find(" hg "), std::string::npos);
  EXPECT_EQ(flags_of(small->data().value()).find(" hg "), std::string::npos);
}

TEST(SharedFile, ExtentsInItAreApartAndNobodyGetsIt) {
  DramBackend backend(DramConfig{.bytes = kMiB});
  auto made = backend.make(8192, {.own_file = false}), another = backend.make(5000, {.own_file = false});
  ASSERT_TRUE(made.is_ok() && another.is_ok());
  std::byte *first = *made.value()->data(), *second = *another.value()->data();
  EXPECT_TRUE(second >= first + 8192 || first >= second + 8192);
  std::memset(first, 1, 8192);
  EXPECT_TRUE(std::all_of(second, second + 8192, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_FALSE(made.value()->has_file());
  for (const Access access : {Access::kRead, Access::kReadWrite})
    EXPECT_EQ(made.value()->share(access).status().code(), Code::kUnsupported);
  EXPECT_EQ(another.value()->bytes(), 8192u);
}

TEST(SharedFile, WhatIsFreedReadsAsZerosForTheNext) {
  auto file = SharedFile::make({.bytes = 64 * kKiB});
  ASSERT_TRUE(file.is_ok());
  for (int round = 0; round < 3; ++round) {
    auto all = (*file)->cut(64 * kKiB, round == 1);
    ASSERT_TRUE(all.is_ok());
    EXPECT_EQ((*file)->cut(4096, false).status().code(), Code::kNoMemory) << "it is full";
    std::byte* data = *all.value()->data();
    EXPECT_TRUE(std::all_of(data, data + 64 * kKiB, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(data, 7, 64 * kKiB);
    EXPECT_TRUE((*file)->is_valid());
  }
}

TEST(SharedFile, DiscardedPagesAreZerosAndTheOthersStay) {
  auto file = SharedFile::make({.bytes = kMiB});
  ASSERT_TRUE(file.is_ok());
  auto made = (*file)->cut(4 * 4096, false), neighbour = (*file)->cut(4096, false);
  ASSERT_TRUE(made.is_ok() && neighbour.is_ok());
  std::byte* data = *made.value()->data();
  std::memset(data, 7, 4 * 4096);
  std::memset(*neighbour.value()->data(), 9, 4096);
  made.value()->discard(4096, 2 * 4096);
  for (const auto& [at, value] : {std::pair{0, 7}, {4096, 0}, {3 * 4096 - 1, 0}, {3 * 4096, 7}})
    EXPECT_EQ(data[at], static_cast<std::byte>(value)) << at;
  made.value().reset();
  EXPECT_EQ((*neighbour.value()->data())[0], std::byte{9});
  EXPECT_TRUE((*file)->is_valid());
}

TEST(SharedFile, ThreadsThatMakeAndEndExtentsKeepThemApart) {
  auto file = SharedFile::make({.bytes = 256 * kKiB});
  ASSERT_TRUE(file.is_ok());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, full{0};
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::unique_ptr<Backing>> held;
      for (int i = 0; i < 500; ++i) {
        auto made = (*file)->cut(4096 * (1 + static_cast<uint64_t>(i) % 5), i % 7 == 0);
        if (!made.is_ok()) {
          ++full;
          held.clear();
          continue;
        }
        std::byte* data = *made.value()->data();
        const auto is = [&](std::byte b) { return b == std::byte{0}; };
        if (!std::all_of(data, data + made.value()->bytes(), is)) ++wrong;
        std::memset(data, thread, made.value()->bytes());
        held.push_back(std::move(made).value());
        for (const auto& one : held) {
          if ((*one->data())[one->bytes() - 1] != static_cast<std::byte>(thread)) ++wrong;
        }
        if (held.size() > 6) held.erase(held.begin() + i % 6);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE((*file)->is_valid());
}

TEST(Dram, PagesOfARemovedExtentComeBackAlthoughAProgramMapsThem) {
  std::vector<std::atomic<uint32_t>> generations(4);
  std::vector<PoolConfig> pools;
  pools.push_back({std::make_unique<DramBackend>(), 4 * kMiB});
  ExtentTable table(1, std::move(pools), generations);
  auto extent = table.create(4 * kMiB, Kind::kDram);
  ASSERT_TRUE(extent.is_ok());
  auto fd = (*extent)->backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  auto mapping = os::Mapping::map(fd->get(), 4 * kMiB, true);
  ASSERT_TRUE(mapping.is_ok());
  std::memset(mapping->data(), 1, 4 * kMiB);
  const ExtentId id = (*extent)->id;
  extent->reset();
  ASSERT_TRUE(table.remove(id).is_ok());
  while (table.reclaiming_bytes(Kind::kDram) != 0) std::this_thread::yield();
  struct stat file {};
  ASSERT_EQ(::fstat(fd->get(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0) << "pages beyond the budget";
  EXPECT_EQ(mapping->data()[0], std::byte{0});
}

TEST(Dram, AMappingOfAPartOfAPageIsUnmappedWhole) {
  const auto backing = make(8192);
  auto fd = backing->share(Access::kReadWrite);
  ASSERT_TRUE(fd.is_ok());
  auto mapping = os::Mapping::map(fd->get(), 4097, true);
  ASSERT_TRUE(mapping.is_ok());
  EXPECT_EQ(mapping->bytes(), 4097u);
  std::byte* data = mapping->data();
  *mapping = os::Mapping();
  unsigned char resident[2];
  EXPECT_NE(::mincore(data, 8192, resident), 0) << "pages stayed mapped";
}

TEST(Dram, HugePagesAreUnmapped) {
  const uint64_t huge = huge_page_bytes();
  auto fd = os::make_memfd("huge", huge != 0 ? huge : 4096, {.hugepages = huge != 0});
  if (huge == 0 || !fd.is_ok()) GTEST_SKIP() << "this host has no huge pages";
  auto mapping = os::Mapping::map(fd->get(), 5, true);
  if (!mapping.is_ok()) GTEST_SKIP() << "this host has no free huge pages";
  std::byte* data = mapping->data();
  *mapping = os::Mapping();
  unsigned char resident[1];
  EXPECT_NE(::mincore(data, 4096, resident), 0) << "the huge page stayed mapped";
}

TEST(Dram, HugePagesFallBackWhereTheNodeHasNone) {
  if (huge_page_bytes() == 0) GTEST_SKIP() << "this kernel has no huge pages";
  DramBackend backend;
  const uint64_t page = backend.page_bytes({.hugepages = true});
  EXPECT_EQ(page, huge_page_bytes());
  const auto backing = make(page, {.hugepages = true});
  std::byte* data = *backing->data();
  data[page - 1] = std::byte{1};
  EXPECT_EQ(data[0], std::byte{0});
}

TEST(Dram, TakesItsPagesFromTheNamedNumaNode) {
  if (::numa_available() < 0) GTEST_SKIP() << "this host has no NUMA support";
  const auto backing = make(kMiB, {.populate = true}, {.numa_node = 0});
  EXPECT_NE(*backing->data(), nullptr);
}

TEST(Dram, RefusesANumaNodeThatIsNotThere) {
  EXPECT_FALSE(DramBackend({.numa_node = 63}).make(4096, {}).is_ok());
  EXPECT_FALSE(DramBackend({.numa_node = 64}).make(4096, {}).is_ok());
}

TEST(Dram, CreateAndRemoveOfASmallExtentIsCheap) {
  std::vector<std::atomic<uint32_t>> generations(1024);
  std::vector<PoolConfig> pools;
  pools.push_back({std::make_unique<DramBackend>(), kGiB});
  ExtentTable table(1, std::move(pools), generations);
  std::vector<uint64_t> ns;
  for (int i = 0; i < 500; ++i) {
    const uint64_t begin = os::now_ns();
    auto extent = table.create(4096, Kind::kDram);
    ASSERT_TRUE(extent.is_ok()) << extent.status().to_string();
    const ExtentId id = (*extent)->id;
    *extent = nullptr;
    ASSERT_TRUE(table.remove(id).is_ok());
    ns.push_back(os::now_ns() - begin);
  }
  std::nth_element(ns.begin(), ns.begin() + 250, ns.end());
  RecordProperty("create_remove_ns_p50", std::to_string(ns[250]));
}

/// What programs of this host have mapped stays theirs when the node ends; until then a freed extent's pages are taken.
TEST(Dram, ANodeThatEndsLeavesMappedPagesAlone) {
  for (const bool ends : {true, false}) {
    std::vector<std::atomic<uint32_t>> generations(8);
    std::vector<PoolConfig> pools;
    pools.push_back({std::make_unique<DramBackend>(DramConfig{}), kMiB});
    auto table = std::make_unique<ExtentTable>(7, std::move(pools), generations);
    std::vector<os::Mapping> mapped;
    std::vector<ExtentId> ids;
    for (int i = 0; i < 2; ++i) {
      auto extent = table->create(4096, Kind::kDram);
      ASSERT_TRUE(extent.is_ok());
      auto fd = (*extent)->backing->share(Access::kReadWrite);
      ASSERT_TRUE(fd.is_ok());
      auto mapping = os::Mapping::map(fd->get(), 4096, true);
      ASSERT_TRUE(mapping.is_ok());
      mapping->data()[0] = std::byte{7};
      mapped.push_back(std::move(*mapping));
      ids.push_back((*extent)->id);
    }
    auto retired = table->retire(ids[1]);
    ASSERT_TRUE(retired.is_ok());
    std::shared_ptr<Extent> held = std::move(*retired);
    if (ends)
      table->keep_mapped_pages();
    else
      ASSERT_TRUE(table->remove(ids[0]).is_ok());
    held.reset();
    table.reset();
    for (const os::Mapping& mapping : mapped) EXPECT_EQ(mapping.data()[0], std::byte{uint8_t(ends ? 7 : 0)});
    EXPECT_EQ(generations[0].load(), 0u);
  }
}

}  // namespace
}  // namespace ocm::memory
