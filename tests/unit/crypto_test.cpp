// Random bits and authentication codes.
#include "os/crypto.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <string>

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

bool memory_is_short = false;

TEST(CryptoDeathTest, NothingFailsForWantOfMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs anew: the library has not allocated yet
  const auto run = [] {
    const auto get = [](size_t bytes, const char*, int) {
      return memory_is_short ? nullptr : std::malloc(bytes);
    };
    const auto grow = [](void* at, size_t bytes, const char*, int) {
      return memory_is_short ? nullptr : std::realloc(at, bytes);
    };
    const auto drop = [](void* at, const char*, int) { std::free(at); };
    if (CRYPTO_set_mem_functions(get, grow, drop) != 1) std::_Exit(1);
    const Digest expected = hmac_sha256(bytes_of("key"), {bytes_of("text")});
    memory_is_short = true;
    std::array<std::byte, 4096> random{};
    fill_random(random);
    fill_random(std::span(random).first(16));
    std::_Exit(hmac_sha256(bytes_of("key"), {bytes_of("text")}) == expected ? 0 : 2);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

// RFC 4231, test case 6: a key of more than a block.
TEST(Crypto, ALongKeyIsHashed) {
  const std::string key(131, '\xaa');
  const Digest digest =
      hmac_sha256(bytes_of(key), {bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")});
  const std::array<unsigned char, 32> expected{
      0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
      0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
  EXPECT_EQ(std::memcmp(digest.data(), expected.data(), digest.size()), 0);
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
