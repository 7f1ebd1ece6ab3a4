// The clock of leases and deadlines runs on while the machine is suspended.
#include "os/clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace ocm {
namespace {

#ifndef CLONE_NEWTIME
constexpr int CLONE_NEWTIME = 0x80;
#endif

/// In a time namespace where CLOCK_BOOTTIME is a day ahead, as after a suspend of a day. 77: not permitted.
int seen_after_a_suspend() {
  constexpr char kOffset[] = "boottime 86400 0";
  if (::unshare(CLONE_NEWTIME) != 0) return 77;
  const int offsets = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (offsets < 0 || ::write(offsets, kOffset, std::strlen(kOffset)) < 0) return 77;
  const pid_t child = ::fork();  // children are in it
  if (child != 0) {
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  timespec awake{};
  clock_gettime(CLOCK_MONOTONIC, &awake);
  const uint64_t now_s = os::now_ns() / 1'000'000'000;
  ::_exit(now_s >= static_cast<uint64_t>(awake.tv_sec) + 86'000 ? 0 : 1);
}

TEST(Clock, RunsWhileTheMachineIsSuspended) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(seen_after_a_suspend());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "time namespaces need root";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a lease would outlive a suspend";
}

}  // namespace
}  // namespace ocm
