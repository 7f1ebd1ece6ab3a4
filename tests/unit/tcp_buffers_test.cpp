// What the requests of a user for bytes on devices take of memory: bounded, and who waits is told.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "fabric/tcp/buffers.h"
#include "users.h"

namespace ocm::fabric::tcp {
namespace {

using test::kAlice;
using test::kBob;

constexpr uint32_t kDaemons = 900;

class TcpBuffers : public testing::Test {
 protected:
  bool take(uint32_t uid, uint64_t bytes, Buffers::Taken& out, const void* who = nullptr) {
    return buffers.take(uid, bytes, bell, who, out);
  }

  Buffers buffers{100, kDaemons};
  const std::shared_ptr<Bell> bell = std::make_shared<Bell>(os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
};

TEST_F(TcpBuffers, OneUserHasSoManyAndOthersTheirs) {
  Buffers::Taken first, second, other, more;
  EXPECT_TRUE(take(kAlice, 60, first));
  EXPECT_TRUE(take(kAlice, 40, second));
  EXPECT_FALSE(take(kAlice, 1, more));
  EXPECT_TRUE(take(kBob, 100, other));
  EXPECT_TRUE(buffers.is_valid());
  second = {};
  EXPECT_EQ(buffers.taken(kAlice), 60u);
  EXPECT_TRUE(buffers.is_valid());
  EXPECT_TRUE(take(kAlice, 40, more));
  first = {};
  more = {};
  EXPECT_EQ(buffers.taken(kAlice), 0u);
}

TEST_F(TcpBuffers, TheDaemonsOwnUserAndRootHaveAll) {
  Buffers::Taken own, roots;
  EXPECT_TRUE(take(kDaemons, 1'000'000, own));
  EXPECT_TRUE(take(0, 1'000'000, roots));
}

TEST_F(TcpBuffers, WhoWaitsIsRungForOnceAfterSomethingIsGivenBack) {
  const int one = 1, two = 2;
  Buffers::Taken taken, none;
  ASSERT_TRUE(take(kAlice, 100, taken));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(take(kAlice, 10, none, &one));
  EXPECT_FALSE(take(kAlice, 10, none, &two));
  EXPECT_TRUE(bell->take().empty());
  taken = {};
  auto rung = bell->take();
  std::sort(rung.begin(), rung.end());
  std::vector<const void*> expected{&one, &two};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(rung, expected);
  ASSERT_TRUE(take(kAlice, 10, taken));
  taken = {};
  EXPECT_TRUE(bell->take().empty()) << "nobody waits any more";
}

}  // namespace
}  // namespace ocm::fabric::tcp
