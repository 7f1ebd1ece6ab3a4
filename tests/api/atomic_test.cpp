// Atomics and notified access through the C interface.
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "embedded.h"

namespace {

using Atomic = Embedded;

TEST_F(Atomic, EachGivesTheValueBefore) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);
  uint64_t old = 99;
  EXPECT_OK(ocm_atomic_fetch_add(a, 8, 5, &old));
  EXPECT_EQ(old, 0u);
  EXPECT_OK(ocm_atomic_swap(a, 8, 0xF0, &old));
  EXPECT_EQ(old, 5u);
  EXPECT_OK(ocm_atomic_compare_swap(a, 8, 1, 2, &old));
  EXPECT_EQ(old, 0xF0u);
  EXPECT_OK(ocm_atomic_compare_swap(a, 8, 0xF0, 0xFF, &old));
  EXPECT_EQ(old, 0xF0u);
  EXPECT_OK(ocm_atomic_and(a, 8, 0x3C, &old));
  EXPECT_EQ(old, 0xFFu);
  EXPECT_OK(ocm_atomic_or(a, 8, 0x03, &old));
  EXPECT_EQ(old, 0x3Cu);
  EXPECT_OK(ocm_atomic_xor(a, 8, 0x3F, nullptr));
  uint64_t word = 1;
  EXPECT_OK(ocm_get(a, 8, &word, 8));
  EXPECT_EQ(word, 0u);
}

TEST_F(Atomic, MisalignedAndPastTheEndAreRefused) {
  ocm_allocation* a = allocate(64);
  uint64_t old = 99;
  EXPECT_EQ(ocm_atomic_fetch_add(a, 4, 1, &old), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_atomic_fetch_add(a, 64, 1, &old), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_atomic_fetch_add(a, ~uint64_t{7}, 1, &old), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_atomic_fetch_add(nullptr, 0, 1, &old), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(old, 99u);
}

TEST_F(Atomic, ThreadsLoseNoAddition) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([=] {
      for (int i = 0; i < 10000; ++i) EXPECT_OK(ocm_atomic_fetch_add(a, 0, 1, nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t word = 0;
  EXPECT_OK(ocm_get(a, 0, &word, 8));
  EXPECT_EQ(word, 40000u);
}

TEST_F(Atomic, WaiterSeesTheBytesBeforeTheNotification) {
  ocm_allocation* a = allocate(8192, OCM_ALLOCATION_ZERO);
  const std::vector<uint8_t> in = numbers(4096);
  std::vector<uint8_t> out(4096);
  std::thread waiter([&] {
    uint64_t seen = 0;
    EXPECT_OK(ocm_wait_at_least(a, 8000, 3, 10'000'000'000, &seen));
    EXPECT_EQ(seen, 3u);
    EXPECT_OK(ocm_get(a, 0, out.data(), out.size()));
  });
  EXPECT_OK(ocm_put_notify(a, 0, nullptr, 0, 8000, 1));
  EXPECT_OK(ocm_put_notify(a, 0, in.data(), in.size(), 8000, 2));
  waiter.join();
  EXPECT_EQ(in, out);
}

TEST_F(Atomic, AStartedWaitEndsWhileNobodyCalls) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);
  uint64_t seen = 0;
  ocm_op* op = nullptr;
  ASSERT_OK(ocm_wait_at_least_start(a, 8, 3, 0, &seen, &op));
  EXPECT_EQ(ocm_op_test(op), 0);
  EXPECT_EQ(ocm_op_wait(op, OCM_WAIT_REMOTE, 1'000'000), OCM_DEADLINE);
  EXPECT_OK(ocm_fence(a));
  EXPECT_OK(ocm_session_fence(session));
  const int event = ::eventfd(0, EFD_CLOEXEC);
  EXPECT_OK(ocm_op_signal(op, event));
  EXPECT_OK(ocm_put_notify(a, 0, nullptr, 0, 8, 4));
  uint64_t told = 0;
  EXPECT_EQ(::read(event, &told, sizeof(told)), ssize_t{sizeof(told)});
  EXPECT_EQ(told, 1u);
  EXPECT_EQ(ocm_op_test(op), 1);
  EXPECT_EQ(seen, 4u);
  EXPECT_OK(ocm_op_free(op));
  ASSERT_OK(ocm_wait_at_least_start(a, 8, 4, 0, nullptr, &op));
  EXPECT_EQ(ocm_op_test(op), 1) << "it is there already";
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0));
  ::close(event);
}

TEST_F(Atomic, AStartedWaitIsGivenUp) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);
  ocm_op *cancelled = nullptr, *freed = nullptr, *late = nullptr, *revoked = nullptr, *left = nullptr;
  ocm_allocation* other = allocate(64, OCM_ALLOCATION_ZERO);
  ASSERT_OK(ocm_wait_at_least_start(a, 0, 1, 0, nullptr, &cancelled));
  ASSERT_OK(ocm_wait_at_least_start(a, 0, 1, 0, nullptr, &freed));
  ASSERT_OK(ocm_wait_at_least_start(a, 0, 1, 1'000'000, nullptr, &late));
  ASSERT_OK(ocm_wait_at_least_start(other, 0, 1, 0, nullptr, &revoked));
  ASSERT_OK(ocm_wait_at_least_start(a, 0, 1, 0, nullptr, &left));  // its session ends first
  EXPECT_OK(ocm_op_cancel(cancelled));
  EXPECT_EQ(ocm_op_wait(cancelled, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0), OCM_CANCELLED);
  EXPECT_OK(ocm_op_free(freed));
  EXPECT_EQ(ocm_op_wait(late, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0), OCM_DEADLINE);
  EXPECT_EQ(ocm_op_free(late), OCM_REVOKED);
  EXPECT_OK(ocm_allocation_free(other));
  EXPECT_EQ(ocm_op_test(revoked), OCM_REVOKED);
  EXPECT_OK(ocm_op_free(revoked));
  EXPECT_OK(ocm_session_fence(session)) << "who gives up knows of it";
  ocm_op* op = nullptr;
  EXPECT_EQ(ocm_wait_at_least_start(a, 4, 1, 0, nullptr, &op), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_wait_at_least_start(a, 64, 1, 0, nullptr, &op), OCM_OUT_OF_RANGE);
  EXPECT_EQ(ocm_wait_at_least_start(a, 0, 1, 0, nullptr, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(op, nullptr);
}

TEST_F(Atomic, AWordThatIsWaitedForMayBePublished) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);  // a piece of a slab, which moves
  uint64_t seen = 0;
  ocm_op* op = nullptr;
  ASSERT_OK(ocm_wait_at_least_start(a, 8, 3, 0, &seen, &op));
  ASSERT_OK(ocm_allocation_publish(a, "waited-for", 0));
  ocm_allocation* other = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "waited-for", OCM_ACCESS_READ_WRITE, &other));
  EXPECT_OK(ocm_atomic_fetch_add(other, 8, 3, nullptr));
  EXPECT_OK(ocm_op_wait(op, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0));
  EXPECT_EQ(seen, 3u);
  EXPECT_OK(ocm_name_remove(session, "waited-for"));
}

TEST_F(Atomic, WaitEndsAtItsDeadline) {
  ocm_allocation* a = allocate(64, OCM_ALLOCATION_ZERO);
  EXPECT_EQ(ocm_wait_at_least(a, 0, 1, 5'000'000, nullptr), OCM_DEADLINE);
}

}  // namespace
