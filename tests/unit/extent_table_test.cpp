// memory/extent_table: the accounting equations, lives of an address, and what is full says so.
#include "memory/extent_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/units.h"
#include "memory/gap_tree.h"

namespace ocm::memory {
namespace {

/// A backend without bytes whose reclaiming can be held up.
class GateBackend final : public KindBackend {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
    Code make_code = Code::kOk;
    std::vector<std::pair<uint64_t, uint64_t>> discarded;  // of how many bytes how many, in order
    void set(bool value) {
      const std::lock_guard lock(mutex);
      open = value;
      changed.notify_all();
    }
  };
  explicit GateBackend(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  Kind kind() const override { return Kind::kDram; }
  uint64_t page_bytes(const ExtentOptions& options) const override {
    return options.hugepages ? 2 * kMiB : 4096;
  }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions&) override {
    if (gate_->make_code != Code::kOk) return Status(gate_->make_code, "no bytes");
    return std::unique_ptr<Backing>(std::make_unique<Bytes>(bytes, gate_));
  }

  class Bytes final : public Backing {
   public:
    Bytes(uint64_t bytes, std::shared_ptr<Gate> gate) : bytes_(bytes), gate_(std::move(gate)) {}
    ~Bytes() override {
      std::unique_lock lock(gate_->mutex);
      gate_->changed.wait(lock, [&] { return gate_->open; });
    }
    uint64_t bytes() const override { return bytes_; }
    Result<std::byte*> data() override { return Status(Code::kUnsupported); }
    Result<os::Fd> share(Access) override { return Status(Code::kUnsupported); }
    void discard(uint64_t offset, uint64_t bytes) override {
      EXPECT_LE(offset + bytes, bytes_);
      if (bytes_ >= kGiB) std::this_thread::sleep_for(std::chrono::milliseconds(6));  // longer than a turn
      const std::lock_guard lock(gate_->mutex);
      gate_->discarded.emplace_back(bytes_, bytes);
    }

   private:
    const uint64_t bytes_;
    const std::shared_ptr<Gate> gate_;
  };

 private:
  const std::shared_ptr<Gate> gate_;
};

struct Fixture {
  explicit Fixture(uint64_t budget_bytes, uint32_t slots = 64, bool reaper = true) : generations(slots) {
    std::vector<PoolConfig> pools;
    pools.push_back({std::make_unique<GateBackend>(gate), budget_bytes});
    table = std::make_unique<ExtentTable>(7, std::move(pools), generations, reaper);
  }
  ~Fixture() { gate->set(true); }
  std::shared_ptr<Extent> create(uint64_t bytes, ExtentOptions options = {}) {
    auto extent = table->create(bytes, Kind::kDram, options);
    EXPECT_TRUE(extent.is_ok()) << extent.status().to_string();
    return extent.is_ok() ? *extent : nullptr;
  }
  void wait_reclaimed() {
    while (table->reclaiming_bytes(Kind::kDram) != 0) std::this_thread::yield();
  }
  std::shared_ptr<GateBackend::Gate> gate = std::make_shared<GateBackend::Gate>();
  std::vector<std::atomic<uint32_t>> generations;
  std::unique_ptr<ExtentTable> table;
};

TEST(ExtentTable, WhatAPoolKeptIsAnExtentOfItsBudget) {
  Fixture f(64 * kKiB);
  const auto kept = [&](uint64_t bytes) { return std::make_unique<GateBackend::Bytes>(bytes, f.gate); };
  {
    const auto extent = f.table->adopt(4097, Kind::kDram, kept(8192));
    ASSERT_TRUE(extent.is_ok()) << extent.status().to_string();
    EXPECT_EQ(extent.value()->bytes, 4097u);
    EXPECT_EQ(f.table->use(Kind::kDram).used_bytes, 8192u);
    EXPECT_TRUE(f.table->is_live(extent.value()->id));
    EXPECT_NE(extent.value()->capability, Capability());
  }
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{4096}, uint64_t{8193}, ~uint64_t{0}})
    EXPECT_EQ(f.table->adopt(wrong, Kind::kDram, kept(8192)).status().code(), Code::kInvalidArgument)
        << wrong;
  EXPECT_EQ(f.table->adopt(kMiB, Kind::kDram, kept(kMiB)).status().code(), Code::kPoolFull);
  EXPECT_EQ(f.table->extents(), 1u);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(GapTree, KeepsItsInvariantsUnderRandomTakesAndGives) {
  GapTree tree(0, 4096);
  std::mt19937 random(1);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || taken.empty()) {
      const uint64_t length = 1 + random() % 60, from = random() % 4096;
      if (const auto at = tree.find(from, length)) {
        EXPECT_GE(*at, from);
        tree.take(*at, length);
        taken.emplace_back(*at, length);
      }
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      tree.give(taken.back().first, taken.back().second);
      taken.pop_back();
    }
    if (i % 64 == 0) {
      ASSERT_TRUE(tree.is_valid()) << i;
    }
  }
}

TEST(GapTree, FindsTheLowestFitThatALinearSearchFinds) {
  GapTree tree(0, 512);
  std::vector<bool> free(512, true);
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const uint64_t at = random() % 512;
    if (free[at]) {
      tree.take(at, 1);
      free[at] = false;
    }
  }
  for (uint64_t from = 0; from < 512; ++from) {
    for (uint64_t length = 1; length < 8; ++length) {
      std::optional<uint64_t> expected;
      for (uint64_t at = from; at + length <= 512 && !expected; ++at) {
        bool all = true;
        for (uint64_t k = 0; k < length; ++k) all = all && free[at + k];
        if (all) expected = at;
      }
      // The gap that contains `from` counts from `from` on; later gaps from their beginning.
      EXPECT_EQ(tree.find(from, length), expected) << from << " " << length;
    }
  }
}

TEST(GapTree, MergesToOneGapWhenAllIsGivenBack) {
  GapTree tree(0, 100);
  for (uint64_t at = 0; at < 100; at += 10) tree.take(at, 10);
  EXPECT_EQ(tree.gaps(), 0u);
  for (uint64_t at = 0; at < 100; at += 20) tree.give(at, 10);
  for (uint64_t at = 10; at < 100; at += 20) tree.give(at, 10);
  EXPECT_EQ(tree.gaps(), 1u);
  EXPECT_EQ(tree.longest(), 100u);
}

TEST(Budget, IsNeverExceeded) {
  Budget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_FALSE(budget.take(~uint64_t{0}));
  EXPECT_TRUE(budget.take(40));
  EXPECT_TRUE(budget.is_valid());
  budget.give(100);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(ExtentTable, CreatesFindsAndCounts) {
  Fixture f(kMiB);
  const auto extent = f.create(5000);
  EXPECT_EQ(extent->bytes, 5000u);
  EXPECT_EQ(extent->reserved_bytes, 8192u);
  EXPECT_EQ(extent->id.address.partition(), 7u);
  EXPECT_NE(extent->id.address.offset(), 0u);
  EXPECT_EQ(f.generations[extent->slot].load(), extent->id.generation);
  EXPECT_EQ(*f.table->find(extent->id), extent);
  EXPECT_EQ(f.table->use(Kind::kDram).used_bytes, 8192u);
  EXPECT_EQ(f.table->extents(), 1u);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, RemoveEndsTheGenerationThenTheExtent) {
  Fixture f(kMiB);
  auto extent = f.create(4096);
  const ExtentId id = extent->id;
  bool told = false;
  extent->on_revoke([&] {
    told = true;
    EXPECT_EQ(f.generations[extent->slot].load(), 0u);
  });
  EXPECT_TRUE(f.table->remove(id).is_ok());
  EXPECT_TRUE(told);
  EXPECT_TRUE(extent->revoked());
  EXPECT_EQ(f.table->find(id).status().code(), Code::kRevoked);
  EXPECT_EQ(f.table->remove(id).code(), Code::kRevoked);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, HookAfterRemoveRunsAtOnce) {
  Fixture f(kMiB);
  auto extent = f.create(4096);
  EXPECT_TRUE(f.table->remove(extent->id).is_ok());
  bool told = false;
  extent->on_revoke([&] { told = true; });
  EXPECT_TRUE(told);
}

TEST(ExtentTable, UnknownExtentsAreNotFoundAndOtherLivesRevoked) {
  Fixture f(kMiB);
  const auto extent = f.create(4096);
  ExtentId id = extent->id;
  id.generation += 5;
  if (id.generation == 0) ++id.generation;
  EXPECT_EQ(f.table->find(id).status().code(), Code::kRevoked);
  id.address = GlobalAddress(7, 1 << 30);
  EXPECT_EQ(f.table->find(id).status().code(), Code::kNotFound);
  id.address = GlobalAddress(8, extent->id.address.offset());
  EXPECT_EQ(f.table->find(id).status().code(), Code::kNotFound);
}

TEST(ExtentTable, BudgetComesBackWhenTheLastHolderLetsGo) {
  Fixture f(8192);
  auto extent = f.create(8192);
  EXPECT_TRUE(f.table->remove(extent->id).is_ok());
  EXPECT_EQ(f.table->reclaiming_bytes(Kind::kDram), 8192u);
  const Status full = f.table->try_create(4096, Kind::kDram).status();
  EXPECT_EQ(full.code(), Code::kPoolFull);
  EXPECT_NE(full.message().find("being reclaimed"), std::string_view::npos) << full.message();
  extent.reset();
  EXPECT_TRUE(f.table->create(8192, Kind::kDram).is_ok());  // waits for the reaper
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, WhatIsFreedWhileTheReaperWorksGathersOrSleepsComesBack) {
  Fixture f(64 * kMiB, 256);
  std::mt19937 random(5);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<ExtentId> made;
    for (uint32_t i = random() % 40 + 1; i > 0; --i)
      made.push_back(f.create(random() % 3 == 0 ? kMiB : 4096)->id);
    for (const ExtentId& id : made) {
      ASSERT_TRUE(f.table->remove(id).is_ok());
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    }
    if (random() % 2 == 0) continue;
    if (random() % 2 == 0) {
      const auto all = f.create(64 * kMiB);
      ASSERT_TRUE(all != nullptr) << "a full pool wakes it";
      ASSERT_TRUE(f.table->remove(all->id).is_ok());
    } else {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (f.table->reclaiming_bytes(Kind::kDram) != 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      ASSERT_EQ(f.table->reclaiming_bytes(Kind::kDram), 0u);
    }
  }
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, WhoFreedLittleDoesNotWaitForAllThatAnotherFreed) {
  Fixture f(8 * kGiB);
  auto slow = f.create(4096), big = f.create(2 * kGiB), small = f.create(8192);
  f.gate->set(false);
  for (auto* one : {&slow, &big, &small}) {
    ASSERT_TRUE(f.table->remove((*one)->id).is_ok());
    one->reset();
  }
  f.gate->set(true);
  f.wait_reclaimed();
  const auto& pieces = f.gate->discarded;
  const auto at = [&](uint64_t of) {
    return std::find_if(pieces.begin(), pieces.end(), [of](const auto& one) { return one.first == of; });
  };
  EXPECT_LT(at(8192) - at(2 * kGiB), 3) << "after a piece of it";
  uint64_t all = 0;
  for (const auto& [of, bytes] : pieces) all += of == 2 * kGiB ? bytes : 0;
  EXPECT_EQ(all, 2 * kGiB);
  EXPECT_TRUE(f.table->is_valid());
}

/// A descriptor, too, is there again only when the reaper has closed it.
TEST(ExtentTable, WhoIsRefusedWhatIsBeingReclaimedIsToldThatItMayFitSoon) {
  Fixture f(16 * kKiB);
  const auto kept = f.create(4096);
  EXPECT_FALSE(f.table->may_fit_soon(Code::kNoFds, 4096, Kind::kDram, 0)) << "nothing is being reclaimed";
  f.gate->set(false);
  ASSERT_TRUE(f.table->remove(f.create(8192)->id).is_ok());
  f.gate->make_code = Code::kNoFds;
  EXPECT_EQ(f.table->try_create(4096, Kind::kDram).status().code(), Code::kNoFds);
  EXPECT_TRUE(f.table->may_fit_soon(Code::kNoFds, 4096, Kind::kDram, 0));
  EXPECT_TRUE(f.table->may_fit_soon(Code::kPoolFull, 12 * kKiB, Kind::kDram, 0));
  EXPECT_FALSE(f.table->may_fit_soon(Code::kPoolFull, 16 * kKiB, Kind::kDram, 0)) << "somebody has the rest";
  EXPECT_FALSE(f.table->may_fit_soon(Code::kNoMemory, 4096, Kind::kDram, 0));
  f.gate->set(true);
  f.wait_reclaimed();
  EXPECT_TRUE(f.table->may_fit_soon(Code::kNoFds, 4096, Kind::kDram, 0)) << "it came back since";
  EXPECT_FALSE(f.table->may_fit_soon(Code::kNoFds, 4096, Kind::kDram, f.table->reclaimed(Kind::kDram)));
  f.gate->make_code = Code::kOk;
}

TEST(ExtentTable, WhatIsRetiredCountsAsUsedUntilItIsLetGo) {
  Fixture f(8 * kMiB);
  const ExtentId id = f.table->create(4 * kMiB, Kind::kDram).value()->id;
  auto kept = f.table->retire(id);
  ASSERT_TRUE(kept.is_ok());
  EXPECT_TRUE((*kept)->revoked());
  EXPECT_EQ(f.generations[(*kept)->slot].load(), 0u);
  EXPECT_EQ(f.table->find(id).status().code(), Code::kRevoked);
  EXPECT_EQ(f.table->retire(id).status().code(), Code::kRevoked);
  EXPECT_EQ(f.table->use(Kind::kDram).used_bytes, 4 * kMiB);
  EXPECT_EQ(f.table->reclaiming_bytes(Kind::kDram), 0u);
  EXPECT_TRUE(f.table->is_valid());
  kept = Status(Code::kRevoked);
  while (f.table->use(Kind::kDram).used_bytes != 0) std::this_thread::yield();
  EXPECT_TRUE(f.table->create(8 * kMiB, Kind::kDram).is_ok());
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, SharedBytesArePaidOnceAndStayForTheLastId) {
  Fixture t(64 * kKiB);
  const auto first = t.table->create(8192, Kind::kDram).value();
  auto second = t.table->share(first->id).value();
  EXPECT_NE(second->id, first->id);
  EXPECT_NE(second->capability.bytes, first->capability.bytes);
  EXPECT_EQ(second->backing->bytes(), first->backing->bytes());
  EXPECT_EQ(t.table->use(Kind::kDram).used_bytes, 8192u);
  EXPECT_TRUE(t.table->is_valid());
  EXPECT_EQ(t.table->share(first->id).status().code(), Code::kExists);
  ASSERT_TRUE(t.table->remove(first->id).is_ok());
  EXPECT_EQ(t.table->find(first->id).status().code(), Code::kRevoked);
  EXPECT_TRUE(t.table->find(second->id).is_ok());
  EXPECT_EQ(t.table->use(Kind::kDram).used_bytes, 8192u) << "the second pays now";
  EXPECT_EQ(t.table->use(Kind::kDram).reclaiming_bytes, 0u);
  EXPECT_TRUE(t.table->is_valid());
  const ExtentId id = second->id;
  second.reset();
  ASSERT_TRUE(t.table->remove(id).is_ok());
  t.wait_reclaimed();
  EXPECT_EQ(t.table->use(Kind::kDram).free_bytes(), 64 * kKiB);
  EXPECT_TRUE(t.table->is_valid());
}

TEST(ExtentTable, ASecondIdThatGoesFirstLeavesTheBytesToTheFirst) {
  Fixture t(64 * kKiB);
  auto first = t.table->create(8192, Kind::kDram).value();
  ASSERT_TRUE(t.table->remove(t.table->share(first->id).value()->id).is_ok());
  EXPECT_TRUE(t.table->find(first->id).is_ok());
  EXPECT_EQ(t.table->use(Kind::kDram).used_bytes, 8192u);
  const auto again = t.table->share(first->id);
  ASSERT_TRUE(again.is_ok()) << "once more after the one before is gone";
  const ExtentId id = first->id;
  first.reset();
  ASSERT_TRUE(t.table->remove(again.value()->id).is_ok());
  ASSERT_TRUE(t.table->remove(id).is_ok());
  EXPECT_TRUE(t.table->is_valid());
}

TEST(ExtentTable, ASuspendedExtentAnswersNobodyAndComesBack) {
  Fixture t(64 * kKiB);
  const auto extent = t.table->create(4096, Kind::kDram).value();
  const ExtentId id = extent->id;
  EXPECT_EQ(t.table->resume(id).code(), Code::kNotFound);
  ASSERT_TRUE(t.table->suspend(id).is_ok());
  EXPECT_EQ(t.table->find(id).status().code(), Code::kRevoked);
  EXPECT_EQ(t.generations[extent->slot].load(), 0u);
  EXPECT_TRUE(extent->suspended());
  EXPECT_FALSE(extent->revoked());
  EXPECT_TRUE(t.table->is_valid());
  ASSERT_TRUE(t.table->resume(id).is_ok());
  EXPECT_TRUE(t.table->find(id).is_ok());
  EXPECT_EQ(t.generations[extent->slot].load(), id.generation);
  ASSERT_TRUE(t.table->suspend(id).is_ok());
  ASSERT_TRUE(t.table->remove(id).is_ok()) << "its owner may free it meanwhile";
  EXPECT_EQ(t.table->resume(id).code(), Code::kNotFound);
  EXPECT_TRUE(t.table->is_valid());
}

TEST(ExtentTable, WithoutAReaperTheBudgetIsBackAtOnce) {
  Fixture f(8192, 64, false);
  auto extent = f.create(8192);
  EXPECT_TRUE(f.table->remove(extent->id).is_ok());
  EXPECT_EQ(f.table->reclaiming_bytes(Kind::kDram), 8192u);  // held here
  extent.reset();
  EXPECT_EQ(f.table->reclaiming_bytes(Kind::kDram), 0u);
  EXPECT_TRUE(f.table->try_create(8192, Kind::kDram).is_ok());
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, CreateWaitsForReclaimingButNotForEver) {
  Fixture f(8192);
  auto extent = f.create(8192);
  f.gate->set(false);
  EXPECT_TRUE(f.table->remove(extent->id).is_ok());
  extent.reset();
  EXPECT_EQ(f.table->create(4096, Kind::kDram, {}, 1'000'000).status().code(), Code::kPoolFull);
  EXPECT_TRUE(f.table->is_valid());
  std::thread opener([&] { f.gate->set(true); });
  EXPECT_TRUE(f.table->create(8192, Kind::kDram).is_ok());
  opener.join();
}

TEST(ExtentTable, SaysWhatIsFree) {
  Fixture f(kMiB);
  const auto extent = f.create(512 * kKiB);
  const Status status = f.table->create(768 * kKiB, Kind::kDram).status();
  EXPECT_EQ(status.code(), Code::kPoolFull);
  EXPECT_NE(status.message().find("512 KiB"), std::string_view::npos) << status.message();
}

TEST(ExtentTable, RefusesNothingAndTooMuch) {
  Fixture f(kMiB);
  EXPECT_EQ(f.table->create(0, Kind::kDram).status().code(), Code::kInvalidArgument);
  for (const uint64_t bytes :
       {kMiB + 1, uint64_t{1} << 40, (uint64_t{1} << 40) + 1, ~uint64_t{0}, ~uint64_t{4095}}) {
    EXPECT_EQ(f.table->create(bytes, Kind::kDram).status().code(), Code::kPoolFull) << bytes;
  }
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, NamesTheKindItDoesNotOffer) {
  Fixture f(kMiB);
  for (const Kind kind : {Kind::kNvme, Kind::kGpu}) {
    const Status status = f.table->create(4096, kind).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find(kind_name(kind)), std::string_view::npos);
  }
}

TEST(ExtentTable, SlotsAreALimit) {
  Fixture f(kMiB, 2);
  const auto a = f.create(1), b = f.create(1);
  EXPECT_EQ(f.table->create(1, Kind::kDram).status().code(), Code::kLimit);
  EXPECT_TRUE(f.table->remove(a->id).is_ok());
  const auto c = f.create(1);
  EXPECT_EQ(c->slot, a->slot);
  EXPECT_NE(c->id.generation, a->id.generation);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, FailingBackendLeavesNothingTaken) {
  Fixture f(kMiB);
  f.gate->make_code = Code::kNoMemory;
  EXPECT_EQ(f.table->create(4096, Kind::kDram).status().code(), Code::kNoMemory);
  EXPECT_EQ(f.table->use(Kind::kDram).used_bytes, 0u);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, AFreedAddressIsTheLastToBeUsedAgain) {
  Fixture f(64 * kMiB, 1024);
  std::set<uint64_t> seen;
  for (int i = 0; i < 5000; ++i) {
    auto extent = f.create(4096);
    ASSERT_TRUE(seen.insert(extent->id.address.bits()).second);
    ASSERT_TRUE(f.table->remove(extent->id).is_ok());
  }
}

TEST(ExtentTable, GenerationsAreUnique) {
  Fixture f(64 * kMiB, 4);
  std::set<uint32_t> seen;
  for (int i = 0; i < 5000; ++i) {
    auto extent = f.create(4096);
    EXPECT_NE(extent->id.generation, 0u);
    ASSERT_TRUE(seen.insert(extent->id.generation).second);
    ASSERT_TRUE(f.table->remove(extent->id).is_ok());
  }
}

TEST(ExtentTable, HugePagesAreAlignedInTheAddressSpace) {
  Fixture f(64 * kMiB);
  const auto small = f.create(4096);
  const auto huge = f.create(1, {.hugepages = true});
  EXPECT_EQ(huge->id.address.offset() % (2 * kMiB), 0u);
  EXPECT_EQ(huge->reserved_bytes, 2 * kMiB);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, ExtentsOutliveTheTable) {
  Fixture f(kMiB);
  auto extent = f.create(4096);
  f.table.reset();
  EXPECT_TRUE(extent->revoked());
  EXPECT_EQ(f.generations[extent->slot].load(), 0u);
}

TEST(ExtentTable, StaysValidUnderConcurrentUse) {
  Fixture f(4 * kMiB, 256);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::shared_ptr<Extent>> mine;
      for (int i = 0; i < 3000; ++i) {
        if (random() % 2 == 0 || mine.empty()) {
          if (auto extent = f.table->try_create(1 + random() % 65536, Kind::kDram); extent.is_ok()) {
            mine.push_back(*extent);
          }
        } else {
          const auto extent = mine.back();
          mine.pop_back();
          EXPECT_TRUE(f.table->find(extent->id).is_ok());
          EXPECT_TRUE(f.table->remove(extent->id).is_ok());
        }
      }
      for (const auto& extent : mine) EXPECT_TRUE(f.table->remove(extent->id).is_ok());
    });
  }
  std::thread checker([&] {
    while (!stop) ASSERT_TRUE(f.table->is_valid());
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  checker.join();
  f.wait_reclaimed();
  EXPECT_EQ(f.table->use(Kind::kDram).free_bytes(), 4 * kMiB);
  EXPECT_TRUE(f.table->is_valid());
}

TEST(ExtentTable, HoldsAHundredThousandExtents) {
  Fixture f(uint64_t{1} << 40, 131072);
  std::vector<std::shared_ptr<Extent>> live;
  for (int i = 0; i < 100'000; ++i) live.push_back(f.create(4096));
  const uint64_t begin = os::now_ns();
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds; ++i) {
    const auto extent = f.create(4096);
    ASSERT_TRUE(f.table->remove(extent->id).is_ok());
  }
  RecordProperty("create_remove_ns", std::to_string((os::now_ns() - begin) / kRounds));
  EXPECT_TRUE(f.table->is_valid());
}

}  // namespace
}  // namespace ocm::memory
