// Two page caches and many threads: programs' at both, those that carry packets, the storage's and the clock's. Each change
// of a word is seen by the next one, wherever it is made.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cache_sides.h"

namespace ocm::cache {
namespace {

/// Answers before it returns, as a device does for pages that were never written.
class Immediate final : public Staged {
 public:
  explicit Immediate(uint64_t bytes) : bytes_(bytes) {}
  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
    done({});
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
    done({});
  }
  void modify(uint64_t, std::function<void(std::byte*)>, Done) override { FAIL(); }

 private:
  std::vector<std::byte> bytes_;
};

/// One page after the other comes and goes, in one call: no stack grows with them.
TEST(CacheThreads, StorageThatAnswersAtOnceServesAnyNumberOfPages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kPages = 4'000;  // their stacks are larger, and each page takes them half a millisecond
#else
  constexpr uint64_t kPages = 20'000;
#endif
  constexpr uint64_t kBytes = kPages * 4096;
  const ExtentId extent{GlobalAddress(1, 4096), 1};
  Side side(1);
  side.cache->add(extent, kBytes, std::make_shared<Immediate>(kBytes), {});
  ASSERT_TRUE(side.cache->allow(extent, 1, true).is_ok());
  {
    CachedExtent here(*side.cache, extent, kBytes);
    std::vector<std::byte> bytes(kBytes, std::byte{7});
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) { here.write(0, bytes, std::move(done)); }).is_ok());
    std::vector<std::byte> back(kBytes);
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) { here.read(0, back, std::move(done)); }).is_ok());
    EXPECT_EQ(back, bytes);
    EXPECT_LE(side.cache->statistics().used, 8u);
    side.cache->remove(extent);
  }
  EXPECT_EQ(side.cache->statistics().used, 0u);
}

TEST(CacheThreads, EachChangeIsSeenByTheNext) {
  constexpr uint64_t kPages = 12, kBytes = kPages * 4096;
  constexpr int kThreads = 3, kChanges = 400;
  const ExtentId extent{GlobalAddress(1, 4096), 1};
  auto home = std::make_unique<Side>(1);
  auto away = std::make_unique<Side>(2);
  home->other = away.get(), away->other = home.get();
  home->cache->add(extent, kBytes, std::make_shared<Memory>(kBytes), {});
  ASSERT_TRUE(home->cache->allow(extent, 1, true).is_ok());
  ASSERT_TRUE(home->cache->allow(extent, 2, true).is_ok());
  {
    CachedExtent here(*home->cache, extent, kBytes), there(*away->cache, extent, kBytes);
    const auto change = [&](Staged& at, uint64_t page, const std::function<void(uint64_t&)>& how) {
      return wait_for_device([&](Staged::Done done) {
        at.modify(
            page * 4096 + 8,
            [&how](std::byte* bytes) {
              uint64_t value = 0;
              std::memcpy(&value, bytes, 8);
              how(value);
              std::memcpy(bytes, &value, 8);
            },
            std::move(done));
      });
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 2 * kThreads; ++i) {
      threads.emplace_back([&, i] {
        Staged& at = i % 2 == 0 ? static_cast<Staged&>(here) : there;
        for (int n = 0; n < kChanges; ++n) {
          const Status status =
              change(at, static_cast<uint64_t>(i * 5 + n) % kPages, [](uint64_t& value) { ++value; });
          ASSERT_TRUE(status.is_ok()) << status.to_string();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t sum = 0;
    for (uint64_t page = 0; page < kPages; ++page) {
      ASSERT_TRUE(change(there, page, [&](uint64_t& value) { sum += value; }).is_ok());
    }
    EXPECT_EQ(sum, uint64_t{2} * kThreads * kChanges);
    EXPECT_TRUE(home->cache->is_valid());
    EXPECT_TRUE(away->cache->is_valid());
    EXPECT_GT(away->cache->statistics().holder.misses, 0u);
  }
  away->stop_sending();
  home->close(), away->close();
}

/// Its term ended while it stood still: what is asked next waits for another, as with a handle that is new.
TEST(CacheThreads, WhoStoodStillWaitsForTheNextTerm) {
  constexpr uint64_t kBytes = 4096;
  const ExtentId extent{GlobalAddress(1, 4096), 1};
  auto home = std::make_unique<Side>(1);
  auto away = std::make_unique<Side>(2);
  home->other = away.get(), away->other = home.get();
  home->cache->add(extent, kBytes, std::make_shared<Memory>(kBytes), {});
  ASSERT_TRUE(home->cache->allow(extent, 2, true).is_ok());
  {
    CachedExtent there(*away->cache, extent, kBytes);
    std::byte value{0};
    const auto read = [&](Staged::Done done) { there.read(7, std::span(&value, 1), std::move(done)); };
    for (uint64_t stood_still = 0; stood_still < 5; ++stood_still) {
      EXPECT_TRUE(wait_for_device(read).is_ok());
      EXPECT_EQ(away->cache->statistics().terms_ended, stood_still);
      away->ahead_ns += 2 * Side::kNeverNs;
    }
  }
  away->stop_sending();
  home->close(), away->close();
}

}  // namespace
}  // namespace ocm::cache
