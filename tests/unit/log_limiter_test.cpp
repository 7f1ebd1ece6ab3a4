// The limiter of log lines: the first at once, then one a period, and bounded whoever the peers are.
#include "base/log_limiter.h"

#include <gtest/gtest.h>

namespace ocm::log {
namespace {

constexpr uint64_t kPeriodNs = Limiter::kPeriodNs;

TEST(LogLimiter, WritesTheFirstLineAtOnceAndThenOneAPeriodWithTheCountOfTheOthers) {
  Limiter limiter;
  EXPECT_EQ(limiter.admit("refused", "10.0.0.9", 5), 0u);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE(limiter.admit("refused", "10.0.0.9", 6 + i));
  EXPECT_EQ(limiter.admit("refused", "10.0.0.9", 5 + kPeriodNs), 1000u);
  EXPECT_FALSE(limiter.admit("refused", "10.0.0.9", 6 + kPeriodNs));
}

TEST(LogLimiter, CountsEachEventAndEachPeerApart) {
  Limiter limiter;
  EXPECT_TRUE(limiter.admit("refused", "10.0.0.9", 0));
  EXPECT_TRUE(limiter.admit("refused", "10.0.0.10", 0));
  EXPECT_TRUE(limiter.admit("closed", "10.0.0.9", 0));
  EXPECT_FALSE(limiter.admit("closed", "10.0.0.9", 0));
}

TEST(LogLimiter, AnotherReasonIsWrittenAtOnce) {
  Limiter limiter;
  EXPECT_EQ(limiter.admit("refused", "10.0.0.9", 0, "connection refused"), 0u);
  EXPECT_FALSE(limiter.admit("refused", "10.0.0.9", 1, "connection refused"));
  EXPECT_EQ(limiter.admit("refused", "10.0.0.9", 2, "it speaks TLS"), 0u);
  EXPECT_FALSE(limiter.admit("refused", "10.0.0.9", 3, "it speaks TLS"));
  EXPECT_EQ(limiter.admit("refused", "10.0.0.9", kPeriodNs, "connection refused"), 1u);
}

TEST(LogLimiter, WritesABoundedNumberOfLinesAPeriodHoweverManyReasonsAPeerHas) {
  Limiter limiter;
  for (uint64_t period = 0; period < 5; ++period) {
    size_t written = 0;
    for (int i = 0; i < 1000; ++i) {
      // Some come again in each period.
      const std::string reason = std::to_string(i) + (i % 2 == 0 ? "" : " of " + std::to_string(period));
      written += limiter.admit("refused", "10.0.0.9", period * kPeriodNs, reason).has_value() ? 1 : 0;
    }
    EXPECT_EQ(written, Limiter::kReasonsMax + 1);
    EXPECT_TRUE(limiter.admit("refused", "10.0.0.10", period * kPeriodNs, "another peer"));
  }
}

TEST(LogLimiter, WritesABoundedNumberOfLinesAPeriodHoweverManyPeersThereAre) {
  Limiter limiter;
  for (uint64_t period = 0; period < 3; ++period) {
    size_t written = 0;
    for (int peer = 0; peer < 10'000; ++peer) {
      const std::string name = std::to_string(period) + "." + std::to_string(peer);
      written += limiter.admit("refused", name, period * kPeriodNs).has_value() ? 1 : 0;
    }
    EXPECT_EQ(written, Limiter::kKeysMax + 1);
    EXPECT_TRUE(limiter.is_valid());
  }
}

TEST(LogLimiter, ACrowdOfOneEventDoesNotSilenceAnother) {
  Limiter limiter;
  for (int peer = 0; peer < 10'000; ++peer) (void)limiter.admit("refused", std::to_string(peer), 0);
  EXPECT_TRUE(limiter.admit("closed", "10.0.0.9", 0));
}

}  // namespace
}  // namespace ocm::log
