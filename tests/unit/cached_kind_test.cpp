// cache/cached_kind: an extent that is freed while pages of it are on their way to the device gives them back afterwards, for
// its slots are another extent's then; and of a kind that programs map, coherent extents are cached and others are not.
#include "cache/cached_kind.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "memory/extent_table.h"

namespace ocm::cache {
namespace {

constexpr uint64_t kPage = 65536;

/// What the device's side sees; writes to it can be held up.
struct Device {
  std::mutex mutex;
  bool holds = false;
  std::vector<std::function<void()>> held;
  int under_way = 0, discarded_in_the_middle = 0;
  uint64_t discarded = 0;
  std::atomic<int> backings{0};

  void begin(bool is_write, std::function<void()> what) {
    {
      const std::lock_guard lock(mutex);
      ++under_way;
      if (is_write && holds) return held.push_back(std::move(what));
    }
    what();
  }
  void ended() {
    const std::lock_guard lock(mutex);
    --under_way;
  }
  size_t held_now() {
    const std::lock_guard lock(mutex);
    return held.size();
  }
  void let() {
    std::vector<std::function<void()>> all;
    {
      const std::lock_guard lock(mutex);
      holds = false;
      all.swap(held);
    }
    for (const auto& one : all) one();
  }
};

class Slow final : public memory::Backing, public Staged {
 public:
  Slow(Device& device, uint64_t bytes) : device_(device), bytes_(bytes) { ++device_.backings; }
  ~Slow() override { --device_.backings; }
  Staged* staged() override { return this; }
  uint64_t bytes() const override { return bytes_.size(); }
  Result<std::byte*> data() override { return Status(Code::kUnsupported); }
  Result<os::Fd> share(Access) override { return Status(Code::kUnsupported); }
  void discard(uint64_t, uint64_t bytes) override {
    const std::lock_guard lock(device_.mutex);
    device_.discarded += bytes;
    device_.discarded_in_the_middle += device_.under_way != 0 ? 1 : 0;
  }
  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    device_.begin(false, [=, this, done = std::move(done)] {
      std::memcpy(into.data(), bytes_.data() + offset, into.size());
      device_.ended();
      done({});
    });
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    device_.begin(true, [=, this, done = std::move(done)] {
      std::memcpy(bytes_.data() + offset, from.data(), from.size());
      device_.ended();
      done({});
    });
  }
  void modify(uint64_t, std::function<void(std::byte*)>, Done) override { FAIL(); }

 private:
  Device& device_;
  std::vector<std::byte> bytes_;
};

class SlowKind final : public memory::KindBackend {
 public:
  explicit SlowKind(Device& device) : device_(device) {}
  Kind kind() const override { return Kind::kDram; }
  uint64_t page_bytes(const memory::ExtentOptions&) const override { return kPage; }
  Result<std::unique_ptr<memory::Backing>> make(uint64_t bytes, const memory::ExtentOptions&) override {
    return std::unique_ptr<memory::Backing>(std::make_unique<Slow>(device_, bytes));
  }

 private:
  Device& device_;
};

void wait_until(const std::function<bool()>& is_so) {
  for (int i = 0; i < 20'000 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(is_so());
}

class CachedKind : public ::testing::Test {
 protected:
  CachedKind() {
    auto caches = std::make_shared<Caches>(CachesOptions{.self = 7, .bytes = 4 * kPage});
    std::vector<memory::PoolConfig> pools(1);
    pools[0].backend = with_cache(std::make_unique<SlowKind>(device), caches);
    pools[0].budget_bytes = 64 * kPage;
    table = std::make_unique<memory::ExtentTable>(7, std::move(pools), generations);
    extent = table->try_create(8 * kPage, Kind::kDram).value();
  }
  /// More than the cache has room for: some of it has to leave, and is held up.
  void fill() {
    {
      const std::lock_guard lock(device.mutex);
      device.holds = true;
    }
    bytes.resize(3 * kPage, std::byte{7});
    extent->backing->staged()->write(0, bytes, [](const Status&) {});
    wait_until([&] { return device.held_now() != 0; });
  }

  Device device;
  std::vector<std::atomic<uint32_t>> generations = std::vector<std::atomic<uint32_t>>(64);
  std::unique_ptr<memory::ExtentTable> table;
  std::shared_ptr<memory::Extent> extent;
  std::vector<std::byte> bytes;
};

TEST_F(CachedKind, WhatIsFreedGivesItsPagesBackOnceNothingIsOnItsWay) {
  fill();
  ASSERT_TRUE(table->remove(extent->id).is_ok());
  extent.reset();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // longer than it takes where nothing is held up
  EXPECT_EQ(table->reclaiming_bytes(Kind::kDram), 8 * kPage);
  EXPECT_EQ(device.discarded, 0u);
  device.let();
  wait_until([&] { return table->reclaiming_bytes(Kind::kDram) == 0; });
  EXPECT_EQ(device.discarded, 8 * kPage);
  EXPECT_EQ(device.discarded_in_the_middle, 0);
  wait_until([&] { return device.backings == 0; });
  EXPECT_TRUE(table->is_valid());
}

TEST_F(CachedKind, ATableEndsOnceNothingIsOnItsWay) {
  fill();
  extent.reset();
  auto ended = std::async(std::launch::async, [&] { table.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(device.backings, 1);
  device.let();
  ended.get();
  EXPECT_EQ(device.backings, 0);
}

TEST_F(CachedKind, WhatOutlivesItsTableEndsToo) {
  fill();
  auto ended = std::async(std::launch::async, [&] { table.reset(); });
  ended.get();
  auto let = std::async(std::launch::async, [&] {
    wait_until([&] { return device.held_now() != 0; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device.let();
  });
  extent.reset();  // with it the kind and its cache end, which wait
  let.get();
  wait_until([&] { return device.backings == 0; });
}

/// Memory that programs map, in units of 4 KiB.
class Mapped final : public memory::Backing {
 public:
  explicit Mapped(uint64_t bytes) : bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_.size(); }
  Result<std::byte*> data() override { return bytes_.data(); }
  Result<os::Fd> share(Access) override { return os::Fd(); }
  void discard(uint64_t offset, uint64_t bytes) override { std::memset(bytes_.data() + offset, 0, bytes); }

 private:
  std::vector<std::byte> bytes_;
};

class MappedKind final : public memory::KindBackend {
 public:
  explicit MappedKind(std::vector<Mapped*>& made) : made_(made) {}
  Kind kind() const override { return Kind::kDram; }
  uint64_t page_bytes(const memory::ExtentOptions&) const override { return 4096; }
  uint64_t cached_page_bytes() const override { return kPage; }
  Result<std::unique_ptr<memory::Backing>> make(uint64_t bytes, const memory::ExtentOptions&) override {
    auto one = std::make_unique<Mapped>(bytes);
    made_.push_back(one.get());
    return std::unique_ptr<memory::Backing>(std::move(one));
  }

 private:
  std::vector<Mapped*>& made_;
};

class CoherentKind : public ::testing::Test {
 protected:
  CoherentKind() {
    std::vector<memory::PoolConfig> pools(1);
    pools[0].backend = with_cache(std::make_unique<MappedKind>(made), caches);
    pools[0].budget_bytes = 64 * kPage;
    table = std::make_unique<memory::ExtentTable>(7, std::move(pools), generations);
  }
  uint64_t used() const { return table->use(Kind::kDram).used_bytes; }

  const std::shared_ptr<Caches> caches =
      std::make_shared<Caches>(CachesOptions{.self = 7, .bytes = 4 * kPage});
  std::vector<Mapped*> made;
  std::vector<std::atomic<uint32_t>> generations = std::vector<std::atomic<uint32_t>>(64);
  std::unique_ptr<memory::ExtentTable> table;
};

TEST_F(CoherentKind, WhatNobodyAskedToBeCoherentIsMappedAndCostsNoCache) {
  const auto extent = table->try_create(100, Kind::kDram).value();
  EXPECT_EQ(extent->backing->staged(), nullptr);
  EXPECT_TRUE(extent->backing->share(Access::kRead).is_ok());
  EXPECT_EQ(used(), 4096u);
  EXPECT_TRUE(caches->all().empty());
}

TEST_F(CoherentKind, CoherentMemoryIsCachedInWholePagesAndNeverMapped) {
  const auto extent = table->try_create(kPage + 1, Kind::kDram, {.coherent = true}).value();
  EXPECT_EQ(used(), 2 * kPage) << "it has whole pages of the cache";
  EXPECT_EQ(extent->bytes, kPage + 1);
  ASSERT_NE(extent->backing->staged(), nullptr);
  EXPECT_TRUE(extent->backing->has_file()) << "which takes a descriptor";
  EXPECT_EQ(extent->backing->data().status().code(), Code::kUnsupported);
  EXPECT_EQ(extent->backing->share(Access::kReadWrite).status().code(), Code::kUnsupported);
  EXPECT_EQ(caches->allow(extent->id, 9, true), kPage) << "another node may cache it";
  EXPECT_EQ(caches->allow(table->try_create(kPage, Kind::kDram).value()->id, 9, true), 0u);
}

TEST_F(CoherentKind, MoreThanTheCacheHoldsIsAsItWasPutAndGivenBack) {
  constexpr uint64_t kPages = 16;  // of which the cache has four
  auto extent = table->try_create(kPages * kPage, Kind::kDram, {.coherent = true}).value();
  Staged& staged = *extent->backing->staged();
  for (uint64_t page = 0; page < kPages; ++page) {
    const std::vector<std::byte> bytes(kPage, static_cast<std::byte>(page + 1));
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) {
                  staged.write(page * kPage, bytes, std::move(done));
                }).is_ok());
  }
  for (uint64_t page = 0; page < kPages; ++page) {
    std::vector<std::byte> bytes(kPage);
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) {
                  staged.read(page * kPage, bytes, std::move(done));
                }).is_ok());
    EXPECT_EQ(bytes, std::vector<std::byte>(kPage, static_cast<std::byte>(page + 1)));
  }
  EXPECT_EQ(*made.front()->data().value(), std::byte{1}) << "what left the cache is in the home's memory";
  ASSERT_TRUE(table->remove(extent->id).is_ok());
  extent.reset();
  wait_until([&] { return used() + table->reclaiming_bytes(Kind::kDram) == 0; });
  EXPECT_TRUE(table->is_valid());
}

}  // namespace
}  // namespace ocm::cache
