// wire/version: which version two sides use, and what says that there is none.
#include "wire/version.h"

#include <gtest/gtest.h>

#include <limits>

namespace ocm::wire {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

TEST(Versions, TheHighestThatBothKnowIsUsed) {
  const struct {
    Versions here, there;
    uint32_t used;
  } cases[] = {
      {{8, 8}, {8, 8}, 8}, {{8, 9}, {8, 8}, 8},     {{8, 9}, {9, 10}, 9},
      {{8, 9}, {7, 9}, 9}, {{8, 9}, {1, kMost}, 9}, {{1, kMost}, {kMost, kMost}, kMost},
  };
  for (const auto& one : cases) {
    for (const auto& [here, there] : {std::pair(one.here, one.there), std::pair(one.there, one.here)}) {
      const auto agreed = agree("control", here, there);
      ASSERT_TRUE(agreed.is_ok()) << agreed.status().to_string();
      EXPECT_EQ(agreed.value().version, one.used);
    }
  }
}

TEST(Versions, WithNoneInCommonTheTextHasBothRanges) {
  for (const Versions there : {Versions{6, 7}, Versions{10, 12}, Versions{10, kMost}}) {
    const auto agreed = agree("control", {8, 9}, there);
    EXPECT_EQ(agreed.status().code(), Code::kProtocol);
    const std::string text(agreed.status().message());
    EXPECT_NE(text.find("control version " + std::to_string(there.min) + " to " + std::to_string(there.max)),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("here 8 to 9"), std::string::npos) << text;
  }
}

TEST(Versions, WhatIsNoRangeIsRefused) {
  for (const Versions there : {Versions{0, 0}, Versions{0, 9}, Versions{9, 8}, Versions{kMost, 0}})
    EXPECT_EQ(agree("control", {8, 9}, there).status().code(), Code::kProtocol) << there.min << there.max;
}

TEST(Versions, FeaturesInCommonAreThoseOfBoth) {
  EXPECT_EQ(agree("control", {8, 8, 0b0110}, {8, 8, 0b1011}).value().features, 0b0010u);
  EXPECT_EQ(agree("control", {8, 8, 0b0110}, {8, 8}).value().features, 0u);
}

TEST(Versions, AHelloOfOneVersionIsARangeOfOne) {
  SessionHello hello;
  hello.set_version(8);
  EXPECT_EQ(versions_of(hello), (Versions{8, 8, 0}));
}

TEST(Versions, WhoKnowsNoRangesReadsTheLowest) {
  NodeHello hello;
  tell_versions({8, 9, 5}, hello);
  EXPECT_EQ(hello.version(), 8u);
  EXPECT_EQ(versions_of(hello), (Versions{8, 9, 5}));
}

}  // namespace
}  // namespace ocm::wire
