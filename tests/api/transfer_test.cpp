// Put, get and copy through the C interface, in all their forms.
#include <thread>

#include "embedded.h"

namespace {

using Transfer = Embedded;

TEST_F(Transfer, WhatWasPutIsGot) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{63}, uint64_t{4096}, 3 * kMiB + 5, 40 * kMiB + 17}) {
    ocm_allocation* allocation = allocate(bytes + 100);
    const std::vector<uint8_t> in = numbers(bytes);
    std::vector<uint8_t> out(bytes);
    ASSERT_OK(ocm_put(allocation, 50, in.data(), bytes));
    ASSERT_OK(ocm_get(allocation, 50, out.data(), bytes));
    ASSERT_TRUE(in == out) << bytes;
    EXPECT_OK(ocm_allocation_free(allocation));
  }
}

TEST_F(Transfer, OffsetsPastTheEndAreOutOfRange) {
  ocm_allocation* allocation = allocate(1000);
  uint8_t bytes[16] = {};
  const struct {
    uint64_t offset, bytes;
  } wrong[] = {{1000, 1}, {999, 2}, {0, 1001}, {~uint64_t{0}, 1}, {~uint64_t{0}, 2}, {2, ~uint64_t{0} - 1}};
  for (const auto& [offset, length] : wrong) {
    EXPECT_EQ(ocm_put(allocation, offset, bytes, length), OCM_OUT_OF_RANGE) << offset;
    EXPECT_EQ(ocm_get(allocation, offset, bytes, length), OCM_OUT_OF_RANGE) << offset;
    const ocm_segment segment = {offset, bytes, length};
    EXPECT_EQ(ocm_putv(allocation, &segment, 1), OCM_OUT_OF_RANGE);
    EXPECT_EQ(ocm_place_copy(ocm_place_in(allocation, offset), ocm_place_at(bytes), length),
              OCM_OUT_OF_RANGE);
    ocm_op* op = nullptr;
    EXPECT_EQ(ocm_put_start(allocation, offset, bytes, length, &op), OCM_OUT_OF_RANGE);
    EXPECT_EQ(op, nullptr);
  }
  EXPECT_OK(ocm_put(allocation, 1000, bytes, 0));
  EXPECT_OK(ocm_put(allocation, 984, bytes, 16));
}

TEST_F(Transfer, NullBuffersAreInvalid) {
  ocm_allocation* allocation = allocate(1000);
  EXPECT_EQ(ocm_put(allocation, 0, nullptr, 1), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_get(allocation, 0, nullptr, 1), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_putv(allocation, nullptr, 1), OCM_INVALID_ARGUMENT);
  const ocm_segment segment = {0, nullptr, 1};
  EXPECT_EQ(ocm_getv(allocation, &segment, 1), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_put_strided(allocation, 0, 8, nullptr, 8, 8, 2), OCM_INVALID_ARGUMENT);
  uint8_t byte = 0;
  EXPECT_EQ(ocm_put_start(allocation, 0, &byte, 1, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_put(allocation, 0, nullptr, 0));
  EXPECT_OK(ocm_putv(allocation, nullptr, 0));
}

TEST_F(Transfer, VectoredMovesEverySegment) {
  ocm_allocation* allocation = allocate(kMiB);
  std::vector<uint8_t> in = numbers(5000), out(5000);
  std::vector<ocm_segment> puts, gets;
  for (uint64_t i = 0; i < 500; ++i) {
    puts.push_back({i * 2000, in.data() + i * 10, 10});
    gets.push_back({i * 2000, out.data() + i * 10, 10});
  }
  puts.push_back({17, nullptr, 0});
  ASSERT_OK(ocm_putv(allocation, puts.data(), puts.size()));
  ASSERT_OK(ocm_getv(allocation, gets.data(), gets.size()));
  EXPECT_EQ(in, out);
}

TEST_F(Transfer, StridedMovesATile) {
  constexpr uint64_t kRows = 30, kRow = 24, kStride = 100, kTile = 40;
  ocm_allocation* allocation = allocate(kRows * kStride);
  const std::vector<uint8_t> in = numbers(kRows * kTile);
  std::vector<uint8_t> out(kRows * kTile, 0);
  ASSERT_OK(ocm_put_strided(allocation, 5, kStride, in.data(), kTile, kRow, kRows));
  ASSERT_OK(ocm_get_strided(allocation, 5, kStride, out.data(), kTile, kRow, kRows));
  for (uint64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::memcmp(in.data() + row * kTile, out.data() + row * kTile, kRow), 0) << row;
    EXPECT_EQ(out[row * kTile + kRow], 0);
  }
}

TEST_F(Transfer, StridesThatLeaveOrOverflowAreOutOfRange) {
  ocm_allocation* allocation = allocate(1000);
  uint8_t bytes[64] = {};
  EXPECT_EQ(ocm_put_strided(allocation, 0, 100, bytes, 0, 8, 11), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_put_strided(allocation, 0, uint64_t{1} << 63, bytes, 0, 8, 3), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_get_strided(allocation, 0, 0, bytes, ~uint64_t{0}, 8, 4), OCM_OUT_OF_RANGE);
  EXPECT_OK(ocm_put_strided(allocation, 0, 100, bytes, 0, 8, 10));
  EXPECT_OK(ocm_put_strided(allocation, 0, 100, bytes, 0, 8, 0));
}

TEST_F(Transfer, CopyGoesBetweenAnyTwoPlaces) {
  ocm_allocation* a = allocate(kMiB);
  ocm_allocation* b = allocate(kMiB);
  const std::vector<uint8_t> in = numbers(10000);
  std::vector<uint8_t> out(10000);
  ASSERT_OK(ocm_copy(ocm_place_in(a, 1), ocm_place_at(in.data()), in.size()));
  ASSERT_OK(ocm_copy(ocm_place_in(b, 2), ocm_place_in(a, 1), in.size()));
  ASSERT_OK(ocm_copy(ocm_place_in(b, 50000), ocm_place_in(b, 2), in.size()));
  ASSERT_OK(ocm_copy(ocm_place_at(out.data()), ocm_place_in(b, 50000), in.size()));
  EXPECT_EQ(in, out);
  std::vector<uint8_t> third(10000);
  ASSERT_OK(ocm_copy(ocm_place_at(third.data()), ocm_place_at(out.data()), out.size()));
  EXPECT_EQ(in, third);
}

TEST_F(Transfer, OverlapInOneAllocationIsInvalid) {
  ocm_allocation* a = allocate(1000);
  EXPECT_EQ(ocm_copy(ocm_place_in(a, 0), ocm_place_in(a, 99), 100), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_copy(ocm_place_in(a, 0), ocm_place_in(a, 100), 100));
}

TEST_F(Transfer, CopyBetweenSessionsIsInvalid) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.flags = OCM_SESSION_EMBEDDED;
  ocm_session* other = nullptr;
  ASSERT_OK(ocm_session_open(&options, &other));
  ocm_allocation* theirs = nullptr;
  ASSERT_OK(ocm_allocation_create(other, 100, nullptr, &theirs));
  EXPECT_EQ(ocm_copy(ocm_place_in(allocate(100), 0), ocm_place_in(theirs, 0), 100), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_session_close(other));
}

TEST_F(Transfer, AsynchronousFormsCompleteAndAreFreedOnce) {
  ocm_allocation* allocation = allocate(kMiB);
  const std::vector<uint8_t> in = numbers(kMiB);
  std::vector<uint8_t> out(kMiB);
  ocm_op* op = nullptr;
  ASSERT_OK(ocm_put_start(allocation, 0, in.data(), in.size(), &op));
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_LOCAL, 0));
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_REMOTE, 1'000'000'000));
  EXPECT_EQ(ocm_op_test(op), 1);
  EXPECT_EQ(ocm_op_wait(op, 1u << 9, 0), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_op_free(op));
  EXPECT_EQ(ocm_op_free(op), OCM_REVOKED);
  EXPECT_EQ(ocm_op_test(op), OCM_REVOKED);
  ASSERT_OK(ocm_get_start(allocation, 0, out.data(), out.size(), &op));
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_FREE, 0));
  EXPECT_EQ(ocm_op_wait(op, 0, 0), OCM_REVOKED);
  EXPECT_EQ(in, out);
}

TEST_F(Transfer, FenceWaitsForEverythingStarted) {
  ocm_allocation* allocation = allocate(kMiB);
  ocm_allocation* copy = allocate(kMiB);
  const std::vector<uint8_t> in = numbers(1000);
  std::vector<ocm_op*> started;
  for (uint64_t i = 0; i < 100; ++i) {
    started.push_back(nullptr);
    const ocm_segment segment = {i * 1000, const_cast<uint8_t*>(in.data()), 1000};
    ASSERT_OK(ocm_putv_start(allocation, &segment, 1, &started.back()));
  }
  started.push_back(nullptr);
  ASSERT_OK(ocm_copy_start(ocm_place_in(copy, 0), ocm_place_in(allocation, 0), 100000, &started.back()));
  ASSERT_OK(ocm_fence(allocation));
  ASSERT_OK(ocm_session_fence(session));
  for (ocm_op* op : started) EXPECT_EQ(ocm_op_test(op), 1);
  std::vector<uint8_t> out(1000);
  ocm_op* op = nullptr;
  const ocm_segment segment = {99000, out.data(), 1000};
  ASSERT_OK(ocm_getv_start(copy, &segment, 1, &op));
  ASSERT_OK(ocm_op_wait(op, OCM_WAIT_FREE, 0));
  EXPECT_EQ(in, out);
  for (ocm_op* one : started) EXPECT_OK(ocm_op_free(one));
}

TEST_F(Transfer, CloseWithOperationsUnderWayEndsTheirHandles) {
  ocm_allocation* allocation = allocate(kMiB);
  const std::vector<uint8_t> in = numbers(kMiB);
  ocm_op* op = nullptr;
  ASSERT_OK(ocm_put_start(allocation, 0, in.data(), in.size(), &op));
  ASSERT_OK(ocm_session_close(session));
  session = nullptr;
  EXPECT_EQ(ocm_op_free(op), OCM_REVOKED);
}

TEST_F(Transfer, ThreadsMoveTheirOwnBytes) {
  ocm_allocation* allocation = allocate(8 * kMiB);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([=] {
      const std::vector<uint8_t> in = numbers(5 * kMiB / 4, static_cast<uint8_t>(t));
      std::vector<uint8_t> out(in.size());
      for (int i = 0; i < 20; ++i) {
        ASSERT_OK(ocm_put(allocation, t * 2 * kMiB, in.data(), in.size()));
        ASSERT_OK(ocm_get(allocation, t * 2 * kMiB, out.data(), out.size()));
        ASSERT_TRUE(in == out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Transfer, WhatIsCompleteCannotBeCancelled) {
  ocm_allocation* allocation = allocate(kMiB);
  uint8_t bytes[16] = {1};
  ocm_op* op = nullptr;
  ASSERT_OK(ocm_put_start(allocation, 0, bytes, sizeof(bytes), &op));
  EXPECT_EQ(ocm_op_test(op), 1);
  EXPECT_OK(ocm_op_cancel(op));
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0));
  EXPECT_EQ(ocm_op_cancel(op), OCM_REVOKED);
}

TEST_F(Transfer, AnAllocationOfThisHostIsReady) {
  ocm_allocation* allocation = allocate(kMiB);
  uint8_t byte = 1;
  ASSERT_OK(ocm_put(allocation, 0, &byte, 1));
  EXPECT_EQ(ocm_allocation_ready(allocation, 0, kMiB), 1);
  EXPECT_EQ(ocm_allocation_ready(allocation, kMiB, 0), 1);
  EXPECT_EQ(ocm_allocation_ready(allocation, 1, kMiB), OCM_OUT_OF_RANGE);
  EXPECT_OK(ocm_allocation_free(allocation));
  EXPECT_EQ(ocm_allocation_ready(allocation, 0, 1), OCM_REVOKED);
}

}  // namespace
