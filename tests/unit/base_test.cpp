// base: units, ids, codes and CRC32C.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/ids.h"
#include "base/text.h"
#include "base/units.h"

namespace ocm {
namespace {

TEST(Units, ParsesPowersOf1024And1000) {
  EXPECT_EQ(parse_bytes("64").value(), 64u);
  EXPECT_EQ(parse_bytes("4KiB").value(), 4096u);
  EXPECT_EQ(parse_bytes("1.5 GiB").value(), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("2GB").value(), 2'000'000'000u);
}

TEST(Units, RefusesWhatIsNotALength) {
  for (const char* text : {"", "x", "-1", "1XiB", "1e99", "nan", "inf", "4 KiB x"}) {
    EXPECT_EQ(parse_bytes(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(Units, FormatsThreeDigits) {
  EXPECT_EQ(format_bytes(64), "64 B");
  EXPECT_EQ(format_bytes(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(200 * kMiB), "200 MiB");
}

TEST(GlobalAddress, KeepsPartitionAndOffsetApart) {
  const GlobalAddress address(0xABCDEF, 0x123456789A);
  EXPECT_EQ(address.partition(), 0xABCDEFu);
  EXPECT_EQ(address.offset(), 0x123456789Au);
  EXPECT_EQ(GlobalAddress(address.bits()), address);
}

TEST(SessionIds, TellTheirUid) {
  const SessionId id = with_uid(SessionId{}, 4294967294u);
  EXPECT_EQ(uid_of(id), 4294967294u);
  EXPECT_EQ(id.bytes[kSessionUidAt - 1], std::byte{0});
  EXPECT_EQ(uid_of(with_uid(id, 0)), 0u);
}

TEST(Codes, EveryCodeHasANameAndAText) {
  for (int number = -100; number <= 0; ++number) {
    if (!is_code(number)) continue;
    EXPECT_NE(code_name(static_cast<Code>(number)), "UNKNOWN");
    EXPECT_FALSE(code_text(static_cast<Code>(number)).empty());
  }
  EXPECT_FALSE(is_code(1));
  EXPECT_EQ(code_name(static_cast<Code>(-50)), "UNKNOWN");
}

TEST(Crc32c, MatchesRfc3720) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
  const char zeros[32] = {};
  EXPECT_EQ(crc32c(0, zeros, 32), 0x8A9136AAu);
}

TEST(Crc32c, ContinuesOverPieces) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const uint32_t whole = crc32c(0, text.data(), text.size());
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(crc32c(0, text.data(), cut), text.data() + cut, text.size() - cut), whole);
  }
}

TEST(Text, NamesAreStrictUtf8WithoutSlashAndNul) {
  for (const std::string good : {"a", "tabelle-\xc3\xa4", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(check_name(good).is_ok());
  const std::string bad[] = {"",
                             "a/b",
                             std::string("a\0b", 3),
                             "\xc0\x80",
                             "\xed\xa0\x80",
                             "\xe2\x82",
                             "\xf5\x80\x80\x80",
                             "\x80",
                             "\xe0\x80\x80"};
  for (const std::string& name : bad) EXPECT_EQ(check_name(name).code(), Code::kInvalidArgument) << name;
  EXPECT_EQ(check_name(std::string(256, 'a')).code(), Code::kTooLarge);
}

}  // namespace
}  // namespace ocm
