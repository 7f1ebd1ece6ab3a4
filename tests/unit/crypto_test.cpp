// Random bits and authentication codes.
#include "os/crypto.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>

namespace ocm::os {
namespace {

TEST(Crypto, AKeyThatIsKeptGivesTheSameCodes) {
  const auto key = random_id<AllocationId>();
  const Hmac kept(key.bytes);
  for (const std::string_view text : {"", "a", "oncilla receipt"}) {
    const auto one = random_id<AllocationId>();
    EXPECT_EQ(kept({bytes_of(text), one.bytes}), hmac_sha256(key.bytes, {bytes_of(text), one.bytes}));
  }
  const auto other = random_id<AllocationId>();
  EXPECT_NE(kept({bytes_of("a")}), Hmac(other.bytes)({bytes_of("a")}));
}

// RFC 4231, test case 2.
TEST(Crypto, IsHmacSha256) {
  const Digest digest = Hmac(bytes_of("Jefe"))({bytes_of("what do ya want "), bytes_of("for nothing?")});
  const std::array<unsigned char, 32> expected{
      0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
      0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_TRUE(equal_secrets(digest, std::as_bytes(std::span(expected))));
}

TEST(Crypto, NoIdIsGivenTwice) {
  std::set<std::array<std::byte, 16>> seen;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(seen.insert(random_id<AllocationId>().bytes).second);
}

TEST(Crypto, AChildOfForkHasBitsOfItsOwn) {
  (void)random_id<AllocationId>();  // some are made ahead
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto its = random_id<AllocationId>();
    ::_exit(::write(ends[1], its.bytes.data(), its.bytes.size()) == 16 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  AllocationId its;
  ASSERT_EQ(::read(ends[0], its.bytes.data(), its.bytes.size()), 16);
  std::set<std::array<std::byte, 16>> mine;
  for (int i = 0; i < 200; ++i) mine.insert(random_id<AllocationId>().bytes);
  EXPECT_FALSE(mine.contains(its.bytes));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ocm::os
