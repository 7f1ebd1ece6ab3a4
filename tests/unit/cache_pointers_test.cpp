// Two page caches, and programs that map their pages: real page faults, answered by a thread for each program as in a
// daemon.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cache_sides.h"
#include "os/memory.h"
#include "os/userfault.h"

namespace ocm::cache {
namespace {

/// A program of one side: what it maps, and who answers its faults.
class Mapper final : public Viewer, public std::enable_shared_from_this<Mapper> {
 public:
  /// Null: the system does not let it.
  static std::shared_ptr<Mapper> start(PageCache& cache, const ExtentId& extent) {
    auto faults = os::Userfault::make();
    if (!faults.is_ok()) return nullptr;
    auto shadow = cache.shadow(extent);
    EXPECT_TRUE(shadow.is_ok());
    auto file = shadow.value()->share(true);
    EXPECT_TRUE(file.is_ok());
    std::shared_ptr<Mapper> made(new Mapper(cache, extent));
    made->bytes_ = shadow.value()->bytes();
    made->data_ = static_cast<std::byte*>(
        ::mmap(nullptr, made->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.value().get(), 0));
    made->faults_ = std::move(faults.value());
    if (!made->faults_.watch(reinterpret_cast<uint64_t>(made->data_), made->bytes_, true).is_ok())
      return nullptr;
    EXPECT_TRUE(cache.add_viewer(extent, shadow.value().get(), made));
    made->thread_ = std::thread([mapper = made.get()] { mapper->run(); });
    return made;
  }
  ~Mapper() override { EXPECT_FALSE(thread_.joinable()); }

  /// The mapping ends; nobody is in it.
  void stop() {
    ends_ = true;
    thread_.join();
    ::munmap(data_, bytes_);
    cache_.viewer_ended(extent_, this);
  }
  std::atomic<uint64_t>& word(uint64_t offset) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(data_ + offset);
  }
  int refused() const { return refused_; }

  void enter(uint32_t page, std::shared_ptr<Shadow> shadow, PageBytes bytes) override {
    push({Job::kEnter, page, false, std::move(shadow), std::move(bytes)});
  }
  void grant(uint32_t page, bool writable) override { push({Job::kGrant, page, writable}); }
  void protect(uint32_t page) override {
    ++asked_to_protect_;
    push({Job::kProtect, page, false});
  }
  int asked_to_protect() const { return asked_to_protect_; }
  std::atomic<bool> is_stubborn{false};  // it does not let go of what it stores to
  void end() override { was_ended_ = true; }
  bool was_ended() const { return was_ended_; }
  void refuse(uint32_t page, Code) override {
    ++refused_;
    push({Job::kGrant, page, true});  // who waits looks again
  }

 private:
  struct Job {
    enum Kind { kEnter, kGrant, kProtect } kind;
    uint32_t page;
    bool writable;
    std::shared_ptr<Shadow> shadow = {};
    PageBytes bytes = {};
  };
  static bool is_protect(const Job& job) { return job.kind == Job::kProtect; }
  Mapper(PageCache& cache, const ExtentId& extent) : cache_(cache), extent_(extent) {}
  void push(const Job& job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  void run() {
    const auto base = reinterpret_cast<uint64_t>(data_);
    while (!ends_) {
      const auto fault = faults_.next();
      ASSERT_TRUE(fault.is_ok());
      if (fault.value().has_value()) {
        const auto page = static_cast<uint32_t>((fault.value()->address - base) / cache_.page_bytes());
        const bool stores = fault.value()->writes || !faults_.can_protect();
        cache_.fault(extent_, page, stores, shared_from_this(), true);
      }
      std::deque<Job> jobs;
      {
        const std::lock_guard lock(mutex_);
        jobs.swap(jobs_);
        if (is_stubborn) {
          std::ranges::copy_if(jobs, std::back_inserter(jobs_), is_protect);
          std::erase_if(jobs, is_protect);
        }
      }
      for (const Job& job : jobs) {
        const uint64_t at = base + job.page * cache_.page_bytes();
        if (job.kind == Job::kEnter) {
          job.shadow->enter(job.page, job.bytes.get());
          cache_.entered(extent_, job.page, this);
        } else if (job.kind == Job::kGrant) {
          faults_.resolve(at, cache_.page_bytes(), job.writable);
        } else {
          faults_.protect(at, cache_.page_bytes());
          cache_.is_protected(extent_, job.page, this);
        }
      }
      if (fault.value().has_value() || !jobs.empty()) continue;
      pollfd on{faults_.fd(), POLLIN, 0};
      ::poll(&on, 1, 1);
    }
  }

  PageCache& cache_;
  const ExtentId extent_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  os::Userfault faults_;
  std::atomic<bool> ends_{false}, was_ended_{false};
  std::atomic<int> refused_{0}, asked_to_protect_{0};
  std::mutex mutex_;
  std::deque<Job> jobs_;
  std::thread thread_;
};

class CachePointers : public testing::Test {
 protected:
  static constexpr uint64_t kPages = 32, kBytes = kPages * 4096;  // four times what a cache has
  const ExtentId extent{GlobalAddress(1, 4096), 1};

  void SetUp() override { start(Side::kNeverNs); }
  void start(uint64_t give_up_ns) {
    home_ = std::make_unique<Side>(1);
    away_ = std::make_unique<Side>(2, give_up_ns);
    home_->other = away_.get(), away_->other = home_.get();
    home_->cache->add(extent, kBytes, std::make_shared<Memory>(kBytes), {});
    ASSERT_TRUE(home_->cache->allow(extent, 1, true).is_ok());
    ASSERT_TRUE(home_->cache->allow(extent, 2, true).is_ok());
    here_ = std::make_unique<CachedExtent>(*home_->cache, extent, kBytes);
    there_ = std::make_unique<CachedExtent>(*away_->cache, extent, kBytes);
    for (Side* side : {home_.get(), away_.get(), away_.get()}) {
      mappers_.push_back(Mapper::start(*side->cache, extent));
      if (mappers_.back() == nullptr) {
        mappers_.pop_back();
        GTEST_SKIP() << "this system does not let programs wait for pages";
      }
    }
  }
  void TearDown() override {
    for (const auto& mapper : mappers_) {
      EXPECT_EQ(mapper->refused(), 0);
      mapper->stop();
    }
    EXPECT_TRUE(home_->cache->is_valid());
    EXPECT_TRUE(away_->cache->is_valid());
    mappers_.clear();
    here_.reset(), there_.reset();
    away_->stop_sending();
    home_->close(), away_->close();
  }
  /// Threads at each program, each of which does it so often.
  void each(int threads, int times, const std::function<void(Mapper&, int thread, int time)>& what) {
    std::vector<std::thread> all;
    for (size_t of = 0; of < mappers_.size(); ++of) {
      for (int i = 0; i < threads; ++i) {
        all.emplace_back([&, of, number = static_cast<int>(of) * threads + i] {
          for (int n = 0; n < times; ++n) what(*mappers_[of], number, n);
        });
      }
    }
    for (std::thread& thread : all) thread.join();
  }

  std::unique_ptr<Side> home_, away_;
  std::unique_ptr<CachedExtent> here_, there_;
  std::vector<std::shared_ptr<Mapper>> mappers_;
};

TEST_F(CachePointers, EachAtomicIsSeenByTheNext) {
  constexpr int kThreads = 2, kTimes = 150;
  each(kThreads, kTimes, [](Mapper& at, int thread, int time) {
    at.word(static_cast<uint64_t>(thread * 5 + time) % kPages * 4096 + 8) += 1;
  });
  uint64_t sum = 0;
  for (uint64_t page = 0; page < kPages; ++page) sum += mappers_[0]->word(page * 4096 + 8);
  EXPECT_EQ(sum, 3u * kThreads * kTimes);
  EXPECT_GT(away_->cache->statistics().holder.withdrawn, 0u);
}

TEST_F(CachePointers, WhatIsPutIsLoadedAndWhatIsStoredIsGot) {
  each(1, 200, [&](Mapper& at, int thread, int time) {
    // A word of its own in pages that all of them use.
    const uint64_t offset =
        static_cast<uint64_t>(time * 7) % kPages * 4096 + 64 * static_cast<uint64_t>(thread);
    CachedExtent& calls = thread == 1 ? *here_ : *there_;  // perhaps at the other node
    uint64_t value = static_cast<uint64_t>(time) << 8 | static_cast<uint64_t>(thread);
    at.word(offset) = value;
    uint64_t back = 0;
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) {
                  calls.read(offset, std::as_writable_bytes(std::span(&back, 1)), std::move(done));
                }).is_ok());
    ASSERT_EQ(back, value);
    value += 1000;
    ASSERT_TRUE(wait_for_device([&](Staged::Done done) {
                  calls.write(offset, std::as_bytes(std::span(&value, 1)), std::move(done));
                }).is_ok());
    ASSERT_EQ(at.word(offset).load(), value);
  });
}

/// Both stores are before both loads in no order that a memory has, if neither sees the other's.
TEST_F(CachePointers, StoresAreSeenBeforeLoadsAfterThemElsewhere) {
  constexpr int kRounds = 200;
  std::atomic<uint64_t> step[2]{}, seen[2]{};
  const auto meet = [&](int side) {
    const uint64_t mine = ++step[side];
    while (step[1 - side] < mine) std::this_thread::yield();
  };
  std::thread sides[2];
  for (int side = 0; side < 2; ++side) {
    sides[side] = std::thread([&, side] {
      Mapper& at = *mappers_[static_cast<size_t>(side)];
      for (uint64_t n = 1; n <= kRounds; ++n) {
        meet(side);
        at.word(side == 0 ? 0 : 4096).store(n);
        seen[side] = at.word(side == 0 ? 4096 : 0).load();
        meet(side);
        EXPECT_FALSE(seen[0] < n && seen[1] < n) << "round " << n;
        meet(side);
      }
    });
  }
  for (std::thread& side : sides) side.join();
}

class ImpatientPointers : public CachePointers {
  void SetUp() override { start(300'000'000); }
};

/// A program that holds up the kernel loses its mapping, and the page goes on, with what was stored.
TEST_F(ImpatientPointers, WhoLetsNothingGoHoldsUpNobody) {
  mappers_[1]->word(4096) = 5;  // so few are dirty that none is cleaned
  mappers_[1]->is_stubborn = true;
  mappers_[0]->word(4096) += 1;
  EXPECT_EQ(mappers_[0]->word(4096), 6u);
  EXPECT_TRUE(mappers_[1]->was_ended());
  EXPECT_TRUE(mappers_[2]->was_ended());  // it maps the same shadow, and must not go on with old bytes
  EXPECT_FALSE(mappers_[0]->was_ended());
  EXPECT_EQ(away_->cache->statistics().holder.given_up, 1u);
  const auto again = Mapper::start(*away_->cache, extent);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->word(4096), 6u);
  again->stop();
}

/// A process that stood still answers late, and so does its clock.
TEST_F(CachePointers, WhoStoodStillWithItsProgramsIsNotGivenUp) {
  const auto ours = mappers_[0];
  ours->word(4096) = 5;
  ours->is_stubborn = true;
  std::atomic<bool> written{false};
  const uint64_t six = 6;
  here_->write(4096, std::as_bytes(std::span(&six, 1)), [&](const Status& status) {
    EXPECT_TRUE(status.is_ok());
    written = true;
  });
  while (ours->asked_to_protect() == 0) std::this_thread::yield();
  home_->ahead_ns += 2 * Side::kNeverNs;
  home_->cache->tick();
  ours->is_stubborn = false;
  while (!written) std::this_thread::yield();
  EXPECT_EQ(ours->word(4096), 6u);
  EXPECT_FALSE(ours->was_ended());
  EXPECT_EQ(home_->cache->statistics().holder.given_up, 0u);
}

size_t threads_now() {
  using std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(directory_iterator("/proc/self/task"), directory_iterator()));
}

/// A program that writes to the shadow's file from a page which never comes keeps the kernel from taking pages out of it.
TEST(PointersAlone, ACacheEndsWhileAPageIsHeldUpOnItsWayOut) {
  auto held_up = os::Userfault::make();
  if (!held_up.is_ok() || !held_up.value().of_kernel())
    GTEST_SKIP() << "this system does not let the kernel wait for pages";
  const auto nothing = os::make_memfd("never", 4096, {});
  ASSERT_TRUE(nothing.is_ok());
  const auto from = os::Mapping::map(nothing.value().get(), 4096, true);
  ASSERT_TRUE(from.is_ok());
  ASSERT_TRUE(held_up.value().watch(reinterpret_cast<uint64_t>(from.value().data()), 4096, true).is_ok());

  std::thread([] {}).join();  // a sanitizer has one of its own from the first on
  const size_t before = threads_now();
  const ExtentId extent{GlobalAddress(1, 4096), 1};
  auto home = std::make_unique<Side>(1);
  home->cache->add(extent, 8192, std::make_shared<Memory>(8192), {});
  ASSERT_TRUE(home->cache->allow(extent, 1, true).is_ok());
  auto here = std::make_unique<CachedExtent>(*home->cache, extent, 8192);
  const auto mapper = Mapper::start(*home->cache, extent);
  ASSERT_NE(mapper, nullptr);
  mapper->word(8) = 1;
  auto file = home->cache->shadow(extent).value()->share(true);
  ASSERT_TRUE(file.is_ok());
  std::thread writer([&] { EXPECT_EQ(::pwrite(file.value().get(), from.value().data(), 8, 4096), 8); });
  while (!held_up.value().next().value().has_value()) std::this_thread::yield();
  mapper->stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it is copied; else this asks for less
  here.reset(), home.reset();

  held_up.value() = os::Userfault();
  writer.join();
  while (threads_now() > before) std::this_thread::yield();  // and its thread finds no cache
}

TEST_F(CachePointers, PagesAreFewerThanFramesWhatEverIsMapped) {
  each(2, 100, [&](Mapper& at, int thread, int time) {
    at.word(static_cast<uint64_t>(thread * 11 + time * 3) % kPages * 4096) += 1;
    EXPECT_LE(home_->cache->statistics().used, 8u);
    EXPECT_LE(away_->cache->statistics().used, 8u);
  });
}

}  // namespace
}  // namespace ocm::cache
