// Names of hosts. What happens without an answer is in tests/cluster/test_name_server.py.
#include "os/lookup.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace ocm::os {
namespace {

Deadline soon() { return Deadline::after_ns(10'000'000'000); }

TEST(Lookup, NumbersAreThereAtOnce) {
  for (const auto& [host, family] : {std::pair("127.0.0.1", AF_INET), std::pair("::1", AF_INET6)}) {
    const auto asked = Lookup::start(host, "80");
    ASSERT_TRUE(asked.is_ok() && asked.value().is_done()) << host;
    EXPECT_LT(asked.value().fd(), 0);
    EXPECT_EQ(asked.value().result().value().front().family(), family);
  }
}

TEST(Lookup, AStarListensEverywhere) {
  const auto found = lookup("*", "80", true, soon());
  ASSERT_TRUE(found.is_ok());
  for (const Endpoint& one : found.value()) {
    if (one.family() != AF_INET) continue;
    EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(one.address).sin_addr.s_addr, INADDR_ANY);
  }
}

TEST(Lookup, ANameIsFoundByAThread) {
  const auto found = lookup("localhost", "80", false, soon());
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_GT(found.value().size(), 0u);
}

TEST(Lookup, WhatIsNoNameIsAnError) {
  EXPECT_EQ(lookup(std::string(300, 'a'), "80", false, soon()).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ocm::os
