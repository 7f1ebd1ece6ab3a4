// Who may take the last descriptors: extents stop first, then connections, then HTTP.
#include "os/fd_reserve.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace ocm::os {
namespace {

/// RLIMIT_NOFILE for the length of a test.
class FdReserve : public testing::Test {
 protected:
  FdReserve() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~FdReserve() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void limit(uint64_t count) {
    const rlimit now{count, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  /// The lowest number that the use may not have.
  static int bound(FdUse use) {
    int fd = 0;
    while (fd_is_for(fd, use)) ++fd;
    return fd;
  }
  rlimit before_{};
};

TEST_F(FdReserve, EachUseLeavesSomeToWhatMattersMore) {
  for (const uint64_t count : {40, 64, 256, 1024}) {
    if (count > before_.rlim_max) continue;
    limit(count);
    const int last = static_cast<int>(count);
    EXPECT_LE(bound(FdUse::kHttp), last - 6) << count;  // a session of the operator's
    EXPECT_LT(bound(FdUse::kConnection), bound(FdUse::kHttp)) << count;
    EXPECT_LT(bound(FdUse::kExtent), bound(FdUse::kConnection)) << count;
    EXPECT_GE(bound(FdUse::kExtent), last * 6 / 10) << count;
  }
}

TEST_F(FdReserve, ADescriptorMovesDownToTheLowestFreeNumber) {
  Fd low(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = low.get();
  Fd high(::fcntl(low.get(), F_DUPFD_CLOEXEC, number + 20));
  low.reset();
  Fd moved = moved_down(std::move(high));
  EXPECT_EQ(moved.get(), number);
  EXPECT_EQ(::fcntl(number + 20, F_GETFD), -1);
  EXPECT_EQ(moved_down(std::move(moved)).get(), number);
}

}  // namespace
}  // namespace ocm::os
