// memory/staged_memory: bytes in memory behind calls, which nobody maps, and whose calls are carried out one after another
// where they touch the same bytes.
#include "memory/staged_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace ocm::memory {
namespace {

constexpr uint64_t kStagedBytes = uint64_t{2} << 20;  // more pieces than there are locks

/// What a kind made: in memory, with a file or without.
class InMemory final : public Backing {
 public:
  InMemory(uint64_t bytes, bool has_file, Code fails, std::vector<uint64_t>* discarded)
      : bytes_(bytes), has_file_(has_file), fails_(fails), discarded_(discarded) {}
  bool has_file() override { return has_file_; }
  uint64_t bytes() const override { return bytes_.size(); }
  Result<std::byte*> data() override {
    if (fails_ != Code::kOk) return fails_;
    return bytes_.data();
  }
  Result<os::Fd> share(Access) override { return os::Fd(); }
  void discard(uint64_t offset, uint64_t bytes) override {
    std::memset(bytes_.data() + offset, 0, bytes);
    if (discarded_ != nullptr) discarded_->push_back(offset);
  }

 private:
  std::vector<std::byte> bytes_;
  const bool has_file_;
  const Code fails_;
  std::vector<uint64_t>* const discarded_;
};

std::unique_ptr<Backing> staged(uint64_t bytes, bool has_file = true,
                                std::vector<uint64_t>* discarded = nullptr) {
  return staged_over_memory(std::make_unique<InMemory>(bytes, has_file, Code::kOk, discarded)).value();
}
Status put(Backing& backing, uint64_t offset, const std::vector<std::byte>& from) {
  return wait_for_device([&](Staged::Done done) { backing.staged()->write(offset, from, std::move(done)); });
}
std::vector<std::byte> got(Backing& backing, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> out(bytes, std::byte{0xee});
  EXPECT_TRUE(wait_for_device([&](Staged::Done done) {
                backing.staged()->read(offset, out, std::move(done));
              }).is_ok());
  return out;
}

TEST(StagedMemory, WhatIsWrittenIsReadAtAnyOffsetAndLength) {
  const auto backing = staged(kStagedBytes);
  std::vector<std::byte> shadow(kStagedBytes);
  for (const uint64_t length :
       {uint64_t{1}, uint64_t{8}, uint64_t{65'536}, uint64_t{65'537}, uint64_t{1'500'000}}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{65'535}, kStagedBytes - length}) {
      const std::vector<std::byte> bytes(length, static_cast<std::byte>(length + offset));
      ASSERT_TRUE(put(*backing, offset, bytes).is_ok());
      std::copy(bytes.begin(), bytes.end(), shadow.begin() + static_cast<ptrdiff_t>(offset));
      EXPECT_EQ(got(*backing, offset, length), bytes);
    }
  }
  EXPECT_EQ(got(*backing, 0, kStagedBytes), shadow);
  EXPECT_TRUE(got(*backing, kStagedBytes, 0).empty()) << "of nothing, at the end";
}

TEST(StagedMemory, NobodyGetsAtTheBytesByAMapping) {
  const auto backing = staged(4096);
  for (const Status& refused : {backing->data().status(), backing->share(Access::kRead).status(),
                                backing->share(Access::kReadWrite).status()}) {
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.message().find("put and get"), std::string_view::npos) << refused.message();
  }
  EXPECT_TRUE(backing->has_file()) << "it takes a descriptor all the same";
  EXPECT_FALSE(staged(4096, false)->has_file());
}

TEST(StagedMemory, MemoryThatCannotBeReachedIsRefusedAtOnce) {
  const auto made = staged_over_memory(std::make_unique<InMemory>(4096, true, Code::kNoMemory, nullptr));
  EXPECT_EQ(made.status().code(), Code::kNoMemory);
}

/// S2: else a `done` that goes on to the next call would wait for itself.
TEST(StagedMemory, ACallMayBeMadeByTheEndOfAnother) {
  const auto backing = staged(4096);
  const std::vector<std::byte> first(4096, std::byte{1}), second(8, std::byte{2});
  bool is_over = false;
  backing->staged()->write(0, first, [&](const Status&) {
    backing->staged()->write(64, second, [&](const Status& status) { is_over = status.is_ok(); });
  });
  EXPECT_TRUE(is_over);
  EXPECT_EQ(got(*backing, 64, 8), second);
}

/// S1: two that write all of it never leave a part of each, whoever reads sees one of them.
TEST(StagedMemory, CallsOnTheSameBytesAreCarriedOutOneAfterAnother) {
  const auto backing = staged(kStagedBytes);
  std::atomic<bool> ends{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (const int value : {1, 2}) {
    threads.emplace_back([&, value] {
      const std::vector<std::byte> bytes(kStagedBytes - 100'000, static_cast<std::byte>(value));
      while (!ends) EXPECT_TRUE(put(*backing, 50'000, bytes).is_ok());
    });
  }
  for (int i = 0; i < 30; ++i) {
    const std::vector<std::byte> seen = got(*backing, 60'000, kStagedBytes - 120'000);
    if (std::any_of(seen.begin(), seen.end(), [&](std::byte one) { return one != seen.front(); })) ++torn;
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
}

TEST(StagedMemory, EachChangeOfAWordIsMadeOnceBesideWritesOfItsPage) {
  constexpr int kThreads = 4, kChanges = 2'000;
  const auto backing = staged(128 << 10);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int change = 0; change < kChanges; ++change) {
        const auto add = [](std::byte* word) {
          uint64_t value = 0;
          std::memcpy(&value, word, sizeof value);
          ++value;
          std::memcpy(word, &value, sizeof value);
        };
        backing->staged()->modify(65'536, add, [](const Status& status) { EXPECT_TRUE(status.is_ok()); });
        const std::vector<std::byte> beside(512, static_cast<std::byte>(i));
        EXPECT_TRUE(put(*backing, 65'536 + 8 + 512 * static_cast<uint64_t>(i), beside).is_ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t value = 0;
  std::memcpy(&value, got(*backing, 65'536, 8).data(), sizeof value);
  EXPECT_EQ(value, uint64_t{kThreads * kChanges});
}

TEST(StagedMemory, ItStopsOnceNothingIsUnderWayAndGivesItsPagesBack) {
  std::vector<uint64_t> discarded;
  const auto backing = staged(kStagedBytes, true, &discarded);
  ASSERT_TRUE(put(*backing, 0, std::vector<std::byte>(kStagedBytes, std::byte{7})).is_ok());
  bool idle = false;
  backing->stop([&] { idle = true; });
  EXPECT_TRUE(idle);
  EXPECT_FALSE(backing->ends_whole());
  backing->discard(kStagedBytes / 2, kStagedBytes / 2);
  backing->discard(0, kStagedBytes / 2);
  EXPECT_EQ(discarded, (std::vector<uint64_t>{kStagedBytes / 2, 0}));
  EXPECT_EQ(backing->bytes(), kStagedBytes);
}

}  // namespace
}  // namespace ocm::memory
