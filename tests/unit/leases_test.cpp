// Who owns the extents of a home.
#include "control/leases.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

template <class Id>
Id id(char c) {
  Id out;
  out.bytes.fill(static_cast<std::byte>(c));
  return out;
}
const SessionId kSession = id<SessionId>('s');
const Incarnation kFirst = id<Incarnation>('1'), kSecond = id<Incarnation>('2');
const AllocationId kAllocation = id<AllocationId>('a');
ExtentId extent(uint64_t offset) { return ExtentId{GlobalAddress(1, offset), 1}; }

Leases two() {
  Leases leases;
  leases.add(extent(0), kSession, "n", kFirst, kAllocation, 7, 100);
  leases.add(extent(4096), kSession, "n", kFirst, kAllocation, 7, 50);
  return leases;
}

TEST(Leases, ASessionOwnsWhatWasMadeForIt) {
  Leases leases = two();
  EXPECT_EQ(leases.of_session(kSession).size(), 2u);
  EXPECT_EQ(leases.uid_bytes(7), 150u);
  EXPECT_TRUE(leases.is_valid());
  EXPECT_TRUE(leases.remove(extent(0)));
  EXPECT_FALSE(leases.remove(extent(0)));
  EXPECT_EQ(leases.of_session(kSession).size(), 1u);
  EXPECT_EQ(leases.uid_bytes(7), 50u);
  EXPECT_TRUE(leases.is_valid());
}

TEST(Leases, ANamedExtentOutlivesItsSession) {
  Leases leases = two();
  EXPECT_TRUE(leases.to_name(extent(0)));
  EXPECT_EQ(leases.of_session(kSession), std::vector<ExtentId>{extent(4096)});
  EXPECT_EQ(leases.uid_bytes(7), 150u);
  EXPECT_TRUE(leases.is_valid());
}

TEST(Leases, FailedPublishingGivesTheExtentBack) {
  Leases leases = two();
  leases.to_name(extent(0));
  EXPECT_TRUE(leases.to_session(extent(0), kSession, "n", kFirst));
  EXPECT_FALSE(leases.to_session(extent(0), kSession, "n", kFirst));
  EXPECT_EQ(leases.of_session(kSession).size(), 2u);
  EXPECT_TRUE(leases.is_valid());
}

TEST(Leases, ADeadDaemonsSessionsExpireAfterTheGrace) {
  Leases leases = two();
  leases.owner_node("n", std::nullopt, 1000, 10);
  EXPECT_TRUE(leases.expired(1009).empty());
  EXPECT_EQ(leases.expired(1010), std::vector<SessionId>{kSession});
}

TEST(Leases, SecondNewsOfADeathDoesNotRestartTheTimer) {
  Leases leases = two();
  leases.owner_node("n", std::nullopt, 1000, 10);
  leases.owner_node("n", std::nullopt, 1005, 10);
  EXPECT_EQ(leases.expired(1010).size(), 1u);
}

TEST(Leases, TheSameIncarnationBackStopsTheTimer) {
  Leases leases = two();
  leases.owner_node("n", std::nullopt, 1000, 10);
  leases.owner_node("n", kFirst, 1005, 10);
  EXPECT_TRUE(leases.expired(~uint64_t{0} - 1).empty());
}

TEST(Leases, AnotherIncarnationRunsTheTimerUntilTheSessionResumes) {
  Leases leases = two();
  leases.owner_node("n", kSecond, 1000, 10);
  EXPECT_EQ(leases.expired(1010).size(), 1u);
  EXPECT_TRUE(leases.resume(kSession, "n", kSecond));
  EXPECT_TRUE(leases.expired(1010).empty());
  leases.owner_node("n", kSecond, 2000, 10);
  EXPECT_TRUE(leases.expired(3000).empty());
}

TEST(Leases, AnotherNodeCannotResumeASession) {
  Leases leases = two();
  EXPECT_FALSE(leases.resume(kSession, "m", kSecond));
}

TEST(Leases, OtherNodesDeathsDoNotMatter) {
  Leases leases = two();
  leases.owner_node("m", std::nullopt, 1000, 10);
  EXPECT_TRUE(leases.expired(5000).empty());
}

}  // namespace
}  // namespace ocm::control
