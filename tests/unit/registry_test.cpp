// fabric/registry: what every folder of a fabric says of it, and the servers of a home.
#include <gtest/gtest.h>

#include <set>

#include "fabric/registry/servers.h"

namespace ocm::fabric {
namespace {

class NoExtents final : public ExtentDirectory {
 public:
  Result<std::shared_ptr<ServedExtent>> open(ExtentId) override { return Code::kNotFound; }
  std::array<std::byte, 32> session_key(const SessionId&) override { return {}; }
};

const Servers::One& of(const Servers& servers, Fabric fabric) {
  for (const Servers::One& one : servers.all()) {
    if (one.entry.fabric == fabric) return one;
  }
  OCM_ASSERT(!"not a fabric that is served");
  return servers.all().front();
}

TEST(Registry, EveryLineHasAnEntryOfItsNumber) {
  for (const FabricName& line : kFabrics) {
    const Entry* entry = find_entry(line.fabric);
    ASSERT_NE(entry, nullptr) << line.name;
    EXPECT_STREQ(entry->name(), line.name);
    EXPECT_EQ(fabric_named(line.name), line.fabric);
  }
  EXPECT_EQ(find_entry(Fabric::kAny), nullptr);
  EXPECT_EQ(fabric_named("smoke"), Fabric::kAny);
  EXPECT_FALSE(is_fabric(31));
  EXPECT_FALSE(is_fabric(256 + 2));
}

TEST(Registry, RanksAreDistinctAndOrdered) {
  std::set<uint32_t> seen;
  uint32_t before = 0;
  for (const Entry* entry : entries_by_rank()) {
    EXPECT_TRUE(seen.insert(entry->traits.rank).second) << entry->name();
    EXPECT_GE(entry->traits.rank, before);
    before = entry->traits.rank;
  }
  EXPECT_EQ(seen.size(), kFabricsCount);
}

TEST(Registry, InitialSettingsAreWithinTheirLimits) {
  each_setting([](const Entry& entry, const Setting& setting) {
    EXPECT_GE(setting.initial, setting.least) << entry.name() << " " << setting.key;
    EXPECT_LE(setting.initial, setting.most) << entry.name() << " " << setting.key;
    EXPECT_EQ(Settings().get(entry.fabric, setting), setting.initial);
    EXPECT_EQ(entry.setting(setting.key), &setting);
  });
}

/// Only what connects, or is the own node's, can be reached at all.
TEST(Registry, WhatIsServedIsConnectedTo) {
  for (const Entry* entry : entries()) {
    EXPECT_EQ(entry->traits.own_node, entry->connector == nullptr) << entry->name();
    EXPECT_TRUE(entry->serve == nullptr || entry->connector != nullptr) << entry->name();
  }
}

TEST(Servers, TellTheAdvertisedHostAndServeWhatIsEnabled) {
  NoExtents directory;
  Servers servers;
  ServeOptions options;
  options.listen = "127.0.0.1:0";
  options.advertise = "fd00::1";
  options.connections_max = 4;
  ASSERT_TRUE(servers.start(options, directory).is_ok());
  const Servers::One& tcp = of(servers, Fabric::kTcp);
  ASSERT_NE(tcp.server, nullptr);
  EXPECT_TRUE(tcp.server->address().starts_with("[fd00::1]:")) << tcp.server->address();
  const Servers::One& ucx = of(servers, Fabric::kUcx);
  EXPECT_EQ(ucx.server, nullptr);
  EXPECT_EQ(ucx.why_not, "");  // nobody asked for it
  servers.revoke(ExtentId{});
  servers.stop();
  servers.stop();
}

TEST(Servers, OneThatCannotBeServedHereIsLeftOutWithItsReason) {
  ::setenv("OCM_UCX_TLS", "none-such", 1);
  NoExtents directory;
  Servers servers;
  ServeOptions options;
  options.listen = "127.0.0.1:0";
  options.settings.set(Fabric::kUcx, *find_entry(Fabric::kUcx)->setting(kEnabled), 1);
  EXPECT_TRUE(servers.start(options, directory).is_ok());
  EXPECT_EQ(of(servers, Fabric::kUcx).server, nullptr);
  EXPECT_NE(of(servers, Fabric::kUcx).why_not, "");
  EXPECT_NE(of(servers, Fabric::kTcp).server, nullptr);
  ::unsetenv("OCM_UCX_TLS");
}

TEST(Servers, OneThatMustStartEndsTheStart) {
  NoExtents directory;
  Servers servers;
  ServeOptions options;
  options.listen = "nowhere";
  EXPECT_FALSE(servers.start(options, directory).is_ok());
}

}  // namespace
}  // namespace ocm::fabric
