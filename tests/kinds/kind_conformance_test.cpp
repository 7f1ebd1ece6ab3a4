// What every kind of memory does, whatever it is made of: those of this build, and one of the tests. A kind joins by its
// entry alone (memory/entry.h). Held also over what is put before a kind: calls in place of a mapping, and the page cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "base/units.h"
#include "cache/cached_kind.h"
#include "memory/extent_table.h"
#include "memory/registry/registry.h"
#include "memory/staged_memory.h"
#include "test_kind.h"

namespace ocm::memory {
namespace {

std::vector<const Entry*> all_kinds() {
  std::vector<const Entry*> out(entries().begin(), entries().end());
  out.push_back(&test::kEntry);
  return out;
}

enum class Before { kNothing, kCalls, kCache };

struct Subject {
  const Entry* entry;
  Before before = Before::kNothing;
};

/// Each kind; those that can be coherent also so: over calls alone where they are mapped, and through a cache.
std::vector<Subject> subjects() {
  std::vector<Subject> out;
  for (const Entry* entry : all_kinds()) {
    out.push_back({entry});
    if (entry->traits.coherent && entry->traits.mapped) out.push_back({entry, Before::kCalls});
    if (entry->traits.coherent) out.push_back({entry, Before::kCache});
  }
  return out;
}

class KindConformance : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    Settings settings;
    settings.set(entry_.kind, entry_.settings.front(), 16 * kMiB);
    auto made = entry_.make(settings, {});
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    backend_ = std::move(made).value();
    if (before_ == Before::kCache) {
      const cache::CachesOptions options{.self = kPartition, .bytes = 4 * backend_->cached_page_bytes()};
      backend_ = cache::with_cache(std::move(backend_), std::make_shared<cache::Caches>(options));
      options_.coherent = true;
    }
    unit_ = backend_->page_bytes(options_);
  }
  Result<std::unique_ptr<Backing>> make_bytes(uint64_t bytes) {
    auto made = backend_->make(bytes, options_);
    if (!made.is_ok()) return made;
    if (before_ == Before::kCalls) return staged_over_memory(std::move(*made));
    // As the table does, at an address of its own.
    (*made)->named({GlobalAddress(kPartition, 4096 + made_++ * kGiB), 1});
    return made;
  }
  std::unique_ptr<Backing> make(uint64_t units) {
    auto made = make_bytes(units * unit_);
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    return made.is_ok() ? std::move(made).value() : nullptr;
  }
  static std::vector<std::byte> bytes_of(Backing& backing, uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> out(bytes, std::byte{1});
    if (Staged* staged = backing.staged(); staged != nullptr) {
      EXPECT_TRUE(wait_for_device([&](auto done) { staged->read(offset, out, done); }).is_ok());
    } else {
      std::memcpy(out.data(), *backing.data() + offset, bytes);
    }
    return out;
  }
  static void put(Backing& backing, uint64_t offset, const std::vector<std::byte>& from) {
    if (Staged* staged = backing.staged(); staged != nullptr) {
      EXPECT_TRUE(wait_for_device([&](auto done) { staged->write(offset, from, done); }).is_ok());
    } else {
      std::memcpy(*backing.data() + offset, from.data(), from.size());
    }
  }
  static std::vector<std::byte> of(uint64_t bytes, int value) {
    return std::vector<std::byte>(bytes, std::byte(value));
  }

  static constexpr uint32_t kPartition = 7;
  const Entry& entry_ = *GetParam().entry;
  const Before before_ = GetParam().before;
  ExtentOptions options_;
  uint64_t made_ = 0;
  std::unique_ptr<KindBackend> backend_;
  uint64_t unit_ = 0;
};

TEST_P(KindConformance, ItsEntrySaysWhatItIs) {
  EXPECT_EQ(backend_->kind(), entry_.kind);
  EXPECT_TRUE(is_kind(static_cast<uint64_t>(entry_.kind)));
  ASSERT_FALSE(entry_.settings.empty());
  EXPECT_EQ(entry_.settings.front().key, kBytes);
  std::set<std::string_view> keys;
  for (const Setting& setting : entry_.settings) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key << " twice";
    EXPECT_TRUE(setting.is_valid()) << setting.key;
    const bool none = setting.type == Setting::Type::kIndex && setting.initial == kNoIndex;
    const bool text = setting.type == Setting::Type::kPath;
    EXPECT_EQ(text, setting.initial_text[0] != 0) << setting.key;
    EXPECT_TRUE(none || text || (setting.initial >= setting.least && setting.initial <= setting.most))
        << setting.key;
  }
  Settings settings;
  settings.set(entry_.kind, entry_.settings.front(), 64 * unit_);
  EXPECT_EQ(entry_.bytes(settings), 64 * unit_);
  std::vector<std::string> warnings;
  EXPECT_TRUE(entry_.check_machine(settings, warnings).is_ok());
}

TEST_P(KindConformance, ItsUnitIsAPowerOfTwoThatAddressesCanHave) {
  EXPECT_GE(unit_, 4096u);
  EXPECT_EQ(unit_ & (unit_ - 1), 0u);
  EXPECT_EQ(make(3)->bytes(), 3 * unit_);
}

TEST_P(KindConformance, BytesAreZerosAndStay) {
  const auto one = make(4), other = make(4);
  const uint64_t bytes = 4 * unit_;
  EXPECT_EQ(bytes_of(*one, 0, bytes), of(bytes, 0));
  put(*one, 0, of(bytes, 7));
  EXPECT_EQ(bytes_of(*other, 0, bytes), of(bytes, 0)) << "each has its own";
  put(*one, unit_ - 3, of(9, 8));
  std::vector<std::byte> expected = of(bytes, 7);
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(unit_ - 3), 9, std::byte{8});
  EXPECT_EQ(bytes_of(*one, 0, bytes), expected);
  EXPECT_EQ(bytes_of(*one, bytes - 1, 1), of(1, 7));
}

TEST_P(KindConformance, DataIsOnePlaceForEveryThread) {
  const auto backing = make(1);
  if (backing->staged() != nullptr) {
    EXPECT_EQ(backing->data().status().code(), Code::kUnsupported);
    return;
  }
  std::vector<std::byte*> seen(4);
  std::vector<std::thread> threads;
  for (std::byte*& pointer : seen) threads.emplace_back([&] { pointer = *backing->data(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::byte* pointer : seen) EXPECT_EQ(pointer, seen.front());
}

/// Half of a word is seen by nobody, and each change is made once.
TEST_P(KindConformance, WordsAreChangedWhole) {
  const auto backing = make(1);
  Staged* const staged = backing->staged();
  if (staged == nullptr) GTEST_SKIP() << "the processor's, on bytes in memory";
  constexpr int kThreads = 4, kChanges = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const auto add = [](std::byte* word) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(word) % 8, 0u);
        uint64_t value;
        std::memcpy(&value, word, sizeof value);
        ++value;
        std::memcpy(word, &value, sizeof value);
      };
      for (int change = 0; change < kChanges; ++change)
        EXPECT_TRUE(wait_for_device([&](auto done) { staged->modify(64, add, done); }).is_ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t value = 0;
  std::memcpy(&value, bytes_of(*backing, 64, 8).data(), sizeof value);
  EXPECT_EQ(value, uint64_t{kThreads * kChanges});
}

TEST_P(KindConformance, WhatIsSharedShowsTheSameBytesAndNoMoreRightsThanGiven) {
  const auto backing = make(2);
  auto shared = backing->share(Access::kReadWrite);
  EXPECT_EQ(shared.is_ok(), entry_.traits.mapped && before_ == Before::kNothing);
  if (!shared.is_ok()) {  // then nobody else maps it, in no way
    EXPECT_EQ(shared.status().code(), Code::kUnsupported);
    EXPECT_EQ(backing->share(Access::kRead).status().code(), Code::kUnsupported);
    return;
  }
  auto mapping = os::Mapping::map(shared->get(), 2 * unit_, true);
  ASSERT_TRUE(mapping.is_ok());
  std::memcpy(mapping->data() + unit_, "hello", 5);
  EXPECT_EQ(std::memcmp(*backing->data() + unit_, "hello", 5), 0);
  auto read_only = backing->share(Access::kRead);
  ASSERT_TRUE(read_only.is_ok());
  EXPECT_TRUE(os::Mapping::map(read_only->get(), 2 * unit_, false).is_ok());
  EXPECT_EQ(os::Mapping::map(read_only->get(), 2 * unit_, true).status().code(), Code::kPermission);
}

TEST_P(KindConformance, WhatIsDiscardedReadsZeros) {
  const auto backing = make(2);
  put(*backing, 0, of(2 * unit_, 7));
  if (before_ == Before::kCache) {  // once it was stopped, when nobody reads it any more
    EXPECT_TRUE(wait_for_device([&](auto done) { backing->stop([done] { done({}); }); }).is_ok());
    backing->discard(0, backing->bytes());
    return;
  }
  backing->discard(unit_, unit_);
  EXPECT_EQ(bytes_of(*backing, 0, unit_), of(unit_, 7)) << "a piece";
  EXPECT_EQ(bytes_of(*backing, unit_, unit_), of(unit_, 0));
  backing->discard(0, backing->bytes());
  EXPECT_EQ(bytes_of(*backing, 0, 2 * unit_), of(2 * unit_, 0));
}

TEST_P(KindConformance, OptionsOfAnExtentAreNotLost) {
  const ExtentOptions all = backend_->completed({.hugepages = true, .populate = true});
  EXPECT_TRUE(all.hugepages && all.populate);
}

TEST_P(KindConformance, MoreThanThereIsIsAnError) {
  auto made = make_bytes(uint64_t{1} << 62);
  // What nobody has touched may cost nothing.
  const bool touches = made.is_ok() && made.value()->staged() == nullptr;
  const Status status = touches ? made.value()->data().status() : made.status();
  EXPECT_EQ(status.code(), Code::kNoMemory) << status.to_string();
}

std::string name_of(const testing::TestParamInfo<Subject>& info) {
  constexpr const char* kBefore[] = {"", "_by_calls", "_cached"};
  return std::string(info.param.entry->name()) + kBefore[static_cast<int>(info.param.before)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, KindConformance, testing::ValuesIn(subjects()), name_of);

/// Pools of every kind side by side on one node.
TEST(KindPools, EachHasABudgetOfItsOwn) {
  constexpr uint64_t kBudget = 256 * kKiB;
  std::vector<PoolConfig> pools;
  Settings settings;
  for (const Entry* entry : all_kinds()) {
    settings.set(entry->kind, entry->settings.front(), kBudget);
    pools.push_back({entry->make(settings, {}).value(), kBudget});
  }
  std::vector<std::atomic<uint32_t>> generations(64);
  ExtentTable table(1, std::move(pools), generations);
  EXPECT_EQ(table.kinds().size(), all_kinds().size());
  for (const Entry* entry : all_kinds()) {
    auto extent = table.create(kBudget, entry->kind);
    ASSERT_TRUE(extent.is_ok()) << entry->name() << ": " << extent.status().to_string();
    EXPECT_EQ(extent.value()->kind, entry->kind);
    const Status full = table.try_create(1, entry->kind).status();
    EXPECT_EQ(full.code(), Code::kPoolFull);
    EXPECT_NE(full.message().find(entry->name()), std::string_view::npos) << full.to_string();
    EXPECT_TRUE(table.is_valid());
  }
  for (const KindName& line : kKinds) {
    if (table.has(line.kind)) continue;
    EXPECT_EQ(table.create(1, line.kind).status().code(), Code::kUnsupported) << line.name;
  }
}

}  // namespace
}  // namespace ocm::memory
