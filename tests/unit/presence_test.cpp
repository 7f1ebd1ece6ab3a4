// Who is missed, and which council is over, on given time.
#include "control/presence.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ocm::control {
namespace {

constexpr uint64_t kSilence = 3'000'000'000, kFirst = 100 * kSilence;

/// A run of a daemon that remembers others.
VoterRun voter_run(char of, std::vector<RememberedRun> remembered = {}) {
  VoterRun out;
  out.incarnation.bytes.fill(static_cast<std::byte>(of));
  out.remembered = std::move(remembered);
  return out;
}

RememberedRun former_run(char of, uint64_t council) { return {voter_run(of).incarnation, council}; }

/// Of three nodes: each in its first run.
Council three_voters() {
  Council out;
  out.id = 201;
  out.number = 2;
  for (const char* name : {"a", "b", "c"}) out.voters.push_back({name, voter_run(name[0]).incarnation, {}});
  return out;
}

TEST(Presence, ACouncilIsOverWhenAMajorityOfItRunsNoMore) {
  Presence presence(1000);
  EXPECT_FALSE(presence.is_over({}));
  EXPECT_FALSE(presence.is_over(three_voters())) << "nobody was heard: they may be cut off";
  presence.heard(1, "b", voter_run('d'));
  EXPECT_FALSE(presence.is_over(three_voters()));
  presence.heard(9000, "c", voter_run('c'));
  EXPECT_FALSE(presence.is_over(three_voters()));
  presence.heard(9000, "c", voter_run('e'));
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, ACouncilIsNotOverWhoseFormerRunsAreRemembered) {
  Presence presence(1000);
  const auto restarted = [&](const char* name, char former) {
    presence.heard(9000, name, voter_run('x', {former_run('v', 0), former_run(former, 2)}));
  };
  restarted("b", 'b'), restarted("c", 'c');
  EXPECT_FALSE(presence.is_over(three_voters()));
  EXPECT_TRUE(presence.misses(9000, three_voters().voters[1])) << "it votes no more all the same";
  EXPECT_TRUE(presence.is_near(9000, three_voters())) << "no majority of them runs";
  EXPECT_FALSE(presence.is_near(9500, three_voters()));
  restarted("b", 'w');  // restarted once more
  EXPECT_FALSE(presence.is_over(three_voters())) << "a was not heard";
  restarted("c", 'w');
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, WhoIsRememberedInALaterCouncilPromisesAnEarlierOneNoMore) {
  Presence presence(1000);
  for (const char* name : {"b", "c"}) presence.heard(9000, name, voter_run('x', {former_run(name[0], 3)}));
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, TheRememberedCountNotWhereAMajorityRuns) {
  Presence presence(1000);
  presence.heard(9000, "a", voter_run('x', {former_run('a', 1)}));
  presence.heard(9000, "b", voter_run('b'));
  EXPECT_FALSE(presence.is_near(9000, three_voters())) << "c was not heard, and may vote with b";
  presence.heard(9000, "c", voter_run('c'));
  EXPECT_TRUE(presence.is_near(9000, three_voters()));
}

TEST(Presence, ACouncilIsNearWhereAMajorityOfItWasHeardLately) {
  Presence presence(1000);
  presence.heard(9000, "a", voter_run('d'));  // who asks was started again
  presence.heard(9000, "b", voter_run('b'));
  EXPECT_FALSE(presence.is_near(9000, three_voters()));
  presence.heard(9000, "c", voter_run('c'));
  EXPECT_TRUE(presence.is_near(9499, three_voters()));
  EXPECT_FALSE(presence.is_near(9500, three_voters()));
}

TEST(Presence, WhoWasCutOffItselfMissesNobodyForADeadline) {
  Presence presence(kSilence);
  const auto heard = [&](uint64_t now, const char* name) { presence.heard(now, name, voter_run(name[0])); };
  heard(kFirst, "b"), heard(kFirst, "c");
  EXPECT_TRUE(presence.look(kFirst, three_voters(), "a"));
  for (uint64_t now = kFirst; now < kFirst + 4 * kSilence; now += kSilence / 10) {  // cut off
    (void)presence.look(now, three_voters(), "a");
    EXPECT_FALSE(presence.misses(now, three_voters().voters[1]));
  }
  const uint64_t back = kFirst + 4 * kSilence;
  heard(back, "b");
  EXPECT_TRUE(presence.look(back, three_voters(), "a"));
  EXPECT_FALSE(presence.misses(back + kSilence - kSilence / 5, three_voters().voters[2]))
      << "its word may still be on the way";
  for (uint64_t now = back; now < back + kSilence; now += kSilence / 10)
    heard(now, "b"), presence.look(now, three_voters(), "a");
  EXPECT_TRUE(presence.misses(back + kSilence, three_voters().voters[2]));
  EXPECT_FALSE(presence.misses(back + kSilence, three_voters().voters[1]));
  presence.heard(back, "b", voter_run('x'));
  EXPECT_TRUE(presence.misses(back, three_voters().voters[1])) << "that run of its daemon is over";
}

}  // namespace
}  // namespace ocm::control
