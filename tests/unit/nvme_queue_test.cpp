// Many requests at a pool's file at once, by each of the ways that a kernel may let us.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "base/units.h"
#include "memory/nvme/block.h"
#include "memory/nvme/queue.h"
#include "temporary_folder.h"

namespace ocm::memory::nvme {
namespace {

struct alignas(kBlockBytes) Bytes : BlockBytes {};

class NvmeQueue : public testing::TestWithParam<Queue::Way> {
 protected:
  static constexpr uint64_t kBlocks = 1024;

  void SetUp() override {
    ASSERT_TRUE(FileDevice::create(path, kBlocks * kBlockBytes).is_ok());
    device = std::move(FileDevice::open(path)).value();
    auto opened = Queue::open(*device, GetParam());
    if (!opened.is_ok()) GTEST_SKIP() << opened.status().to_string();
    queue = std::move(opened).value();
  }
  /// Waits for one request.
  Status ask(Request::Op op, uint64_t block, Bytes* bytes) {
    Status status;
    std::latch over(1);
    queue->submit({op, block * kBlockBytes, bytes->data(), kBlockBytes, [&](Status told) {
                     status = std::move(told);
                     over.count_down();
                   }});
    over.wait();
    return status;
  }

  ocm::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pool";
  std::unique_ptr<FileDevice> device;
  std::unique_ptr<Queue> queue;
};

INSTANTIATE_TEST_SUITE_P(Ways, NvmeQueue, testing::Values(Queue::Way::kUring, Queue::Way::kThreads),
                         [](const auto& way) {
                           return way.param == Queue::Way::kUring ? "uring" : "threads";
                         });

TEST_P(NvmeQueue, MoreThanMayBeUnderWayAllArrive) {
  std::vector<Bytes> blocks(kBlocks);
  std::atomic<uint64_t> done{0}, failed{0};
  const auto all = [&](Request::Op op) {
    std::latch over(kBlocks);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      queue->submit({op, i * kBlockBytes, blocks[i].data(), kBlockBytes, [&](const Status& status) {
                       ++done;
                       if (!status.is_ok()) ++failed;
                       over.count_down();
                     }});
    }
    over.wait();
  };
  for (uint64_t i = 0; i < kBlocks; ++i)
    std::memset(blocks[i].data(), static_cast<int>(i * 7 + 1), kBlockBytes);
  all(Request::Op::kWrite);
  const std::vector<Bytes> written = blocks;
  for (Bytes& block : blocks) block = {};
  all(Request::Op::kRead);
  EXPECT_EQ(done, 2 * kBlocks);
  EXPECT_EQ(failed, 0u);
  for (uint64_t i = 0; i < kBlocks; ++i) ASSERT_EQ(blocks[i], written[i]) << i;
}

TEST_P(NvmeQueue, SeveralThreadsAndWhatIsDoneMaySubmit) {
  constexpr int kThreads = 4, kRounds = 50;
  std::atomic<int> over{0};
  std::vector<Bytes> blocks(kThreads);
  Queue* const raw = queue.get();  // null already while it ends
  const std::function<void(int, int)> step = [&](int thread, int round) {
    const auto op = round % 2 == 0 ? Request::Op::kWrite : Request::Op::kRead;
    raw->submit({op, static_cast<uint64_t>(thread) * kBlockBytes, blocks[static_cast<size_t>(thread)].data(),
                 kBlockBytes, [&, thread, round](const Status& status) {
                   EXPECT_TRUE(status.is_ok()) << status.to_string();
                   ++over;
                   if (round + 1 < kRounds) step(thread, round + 1);
                 }});
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { step(i, 0); });
  for (std::thread& thread : threads) thread.join();
  queue.reset();  // Q4
  EXPECT_EQ(over, kThreads * kRounds);
}

TEST_P(NvmeQueue, WhatTheDeviceDoesNotHaveIsAnError) {
  Bytes block{};
  EXPECT_TRUE(ask(Request::Op::kRead, kBlocks - 1, &block).is_ok());
  // It was cut short behind our back: no zeros, and no signal.
  ASSERT_EQ(::truncate(path.c_str(), 3 * kBlockBytes), 0);
  EXPECT_TRUE(ask(Request::Op::kRead, 2, &block).is_ok());
  const Status status = ask(Request::Op::kRead, 3, &block);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find(path), std::string_view::npos) << status.message();
}

TEST_P(NvmeQueue, AFlushEnds) {
  Bytes block{};
  block[0] = std::byte{9};
  EXPECT_TRUE(ask(Request::Op::kWrite, 5, &block).is_ok());
  EXPECT_TRUE(ask(Request::Op::kFlush, 0, &block).is_ok());
  EXPECT_TRUE(ask(Request::Op::kFlush, 0, &block).is_ok());
}

}  // namespace
}  // namespace ocm::memory::nvme
