// fabric/tcp: how many connections one user may have of a home.
#include <memory>
#include <vector>

#include "fabric/tcp/places.h"
#include "tcp_fixture.h"
#include "users.h"

namespace ocm::fabric::tcp {
namespace {

using test::kAlice;
using test::kBob;

constexpr uint32_t kMost = 5, kShare = 3;
constexpr uint32_t kOwn = 700;

TEST(TcpPlaces, OneUserHasHalfAndThePrivilegedAll) {
  Places places(kMost, kOwn);
  for (const uint32_t uid : {0u, kOwn}) {
    std::vector<Place> all;
    for (uint32_t i = 0; i < kMost; ++i) all.push_back(places.take(uid));
    EXPECT_TRUE(all.back());
    EXPECT_FALSE(places.take(uid));
    EXPECT_FALSE(places.has_its_share(uid));
  }
  std::vector<Place> bobs;
  for (uint32_t i = 0; i < kShare; ++i) bobs.push_back(places.take(kBob));
  EXPECT_TRUE(bobs.back());
  EXPECT_FALSE(places.take(kBob));
  EXPECT_TRUE(places.has_its_share(kBob));
  const Place alices = places.take(kAlice);
  EXPECT_TRUE(alices);
  EXPECT_FALSE(places.has_its_share(kAlice));
  EXPECT_TRUE(places.is_valid());
  bobs.pop_back();
  EXPECT_TRUE(places.take(kBob));
  EXPECT_TRUE(places.is_valid());
}

TEST(TcpPlaces, AllUsersTogetherLeaveASixteenth) {
  constexpr uint32_t kMany = 32, kKept = 2;
  Places places(kMany, kOwn);
  std::vector<Place> taken;
  for (uint32_t uid = 1; uid <= kMany; ++uid) {
    if (Place place = places.take(61000 + uid)) taken.push_back(std::move(place));
  }
  EXPECT_EQ(taken.size(), kMany - kKept);
  for (uint32_t i = 0; i < kKept; ++i) {
    taken.push_back(places.take(i == 0 ? 0 : kOwn));
    EXPECT_TRUE(taken.back()) << "root gets in";
  }
  EXPECT_FALSE(places.take(0));
  EXPECT_TRUE(places.is_valid());
  taken.erase(taken.begin());
  EXPECT_TRUE(places.take(kAlice)) << "what was given back is theirs again";
}

TEST(TcpPlaces, OfOnePlaceAnybodyMayHaveIt) {
  Places places(1, kOwn);
  EXPECT_TRUE(places.take(kBob));
}

class TcpPlacesTest : public TcpTest {
 protected:
  void SetUp() override { start({.max_connections = kMost}); }
  Result<std::unique_ptr<Channel>> connect_as(uint32_t uid) {
    TcpConnector connector;
    return connector.connect({Fabric::kTcp, server->address(), {}}, credentials(uid), soon());
  }
};

TEST_F(TcpPlacesTest, AUserBeyondHisHalfIsToldSoAndOthersConnect) {
  std::vector<std::unique_ptr<Channel>> bobs;
  for (uint32_t i = 0; i < kShare; ++i) bobs.push_back(connect_as(kBob).value());
  const Status beyond = connect_as(kBob).status();
  EXPECT_EQ(beyond.code(), Code::kLimit);
  EXPECT_NE(beyond.message().find("one user"), std::string::npos) << beyond.to_string();
  EXPECT_NE(beyond.message().find("[limits] connections"), std::string::npos) << beyond.to_string();
  const auto alices = connect_as(kAlice), roots = connect_as(0);
  EXPECT_TRUE(alices.is_ok() && roots.is_ok());
  const Status all = connect_as(0).status();
  EXPECT_EQ(all.code(), Code::kLimit);
  EXPECT_EQ(all.message().find("one user"), std::string::npos) << all.to_string();
  bobs.clear();
  const os::Deadline deadline = soon();
  while (!connect_as(kBob).is_ok() && !deadline.passed()) ::sched_yield();
  EXPECT_FALSE(deadline.passed());
}

TEST_F(TcpPlacesTest, AReconnectTakesThePlaceOfTheConnectionThatItFences) {
  std::vector<std::unique_ptr<Channel>> bobs;
  for (uint32_t i = 1; i < kShare; ++i) bobs.push_back(connect_as(kBob).value());
  Credentials who = credentials(kBob);
  who.route = 9;
  for (who.attempt = 1; who.attempt < 20; ++who.attempt) {
    TcpConnector connector;
    auto made = connector.connect({Fabric::kTcp, server->address(), {}}, who, soon());
    ASSERT_TRUE(made.is_ok()) << who.attempt << ": " << made.status().to_string();
    bobs.push_back(std::move(made).value());  // the home alone ends it
  }
}

}  // namespace
}  // namespace ocm::fabric::tcp
