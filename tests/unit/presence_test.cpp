// Who is missed, and which council is over, on given time.
#include "control/presence.h"

#include <gtest/gtest.h>

#include <string>

namespace ocm::control {
namespace {

constexpr uint64_t kPatience = 3'000'000'000, kFirst = 100 * kPatience;

std::string run_of(char of) { return std::string(16, of); }

wire::RememberedRun former_run(char of, uint64_t council) {
  wire::RememberedRun out;
  out.set_incarnation(run_of(of));
  out.set_council(council);
  return out;
}

/// Of three nodes: each in its first run.
wire::Council three_voters() {
  wire::Council out;
  out.set_id(201);
  out.set_number(2);
  for (const char* name : {"a", "b", "c"}) {
    auto& voter = *out.add_voters();
    voter.set_name(name);
    voter.set_incarnation(run_of(name[0]));
  }
  return out;
}

TEST(Presence, ACouncilIsOverWhenAMajorityOfItRunsNoMore) {
  Presence presence(1000);
  EXPECT_FALSE(presence.is_over({}));
  EXPECT_FALSE(presence.is_over(three_voters())) << "nobody was heard: they may be cut off";
  presence.heard(1, "b", run_of('d'));
  EXPECT_FALSE(presence.is_over(three_voters()));
  presence.heard(9000, "c", run_of('c'));
  EXPECT_FALSE(presence.is_over(three_voters()));
  presence.heard(9000, "c", run_of('e'));
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, ACouncilIsNotOverWhoseFormerRunsAreRemembered) {
  Presence presence(1000);
  const auto restarted = [&](const char* name, char former) {
    presence.heard(9000, name, VoterRun(run_of('x'), {former_run('v', 0), former_run(former, 2)}));
  };
  restarted("b", 'b'), restarted("c", 'c');
  EXPECT_FALSE(presence.is_over(three_voters()));
  EXPECT_TRUE(presence.misses(9000, three_voters().voters(1))) << "it votes no more all the same";
  EXPECT_TRUE(presence.is_near(9000, three_voters())) << "no majority of them runs";
  EXPECT_FALSE(presence.is_near(9500, three_voters()));
  restarted("b", 'w');  // restarted once more
  EXPECT_FALSE(presence.is_over(three_voters())) << "a was not heard";
  restarted("c", 'w');
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, WhoIsRememberedInALaterCouncilPromisesAnEarlierOneNoMore) {
  Presence presence(1000);
  for (const char* name : {"b", "c"})
    presence.heard(9000, name, VoterRun(run_of('x'), {former_run(name[0], 3)}));
  EXPECT_TRUE(presence.is_over(three_voters()));
}

TEST(Presence, TheRememberedCountNotWhereAMajorityRuns) {
  Presence presence(1000);
  presence.heard(9000, "a", VoterRun(run_of('x'), {former_run('a', 1)}));
  presence.heard(9000, "b", run_of('b'));
  EXPECT_FALSE(presence.is_near(9000, three_voters())) << "c was not heard, and may vote with b";
  presence.heard(9000, "c", run_of('c'));
  EXPECT_TRUE(presence.is_near(9000, three_voters()));
}

TEST(Presence, ACouncilIsNearWhereAMajorityOfItWasHeardLately) {
  Presence presence(1000);
  presence.heard(9000, "a", run_of('d'));  // who asks was started again
  presence.heard(9000, "b", run_of('b'));
  EXPECT_FALSE(presence.is_near(9000, three_voters()));
  presence.heard(9000, "c", run_of('c'));
  EXPECT_TRUE(presence.is_near(9499, three_voters()));
  EXPECT_FALSE(presence.is_near(9500, three_voters()));
}

TEST(Presence, WhoWasCutOffItselfMissesNobodyForADeadline) {
  Presence presence(kPatience);
  const auto heard = [&](uint64_t now, const char* name) { presence.heard(now, name, run_of(name[0])); };
  heard(kFirst, "b"), heard(kFirst, "c");
  EXPECT_TRUE(presence.look(kFirst, three_voters(), "a"));
  for (uint64_t now = kFirst; now < kFirst + 4 * kPatience; now += kPatience / 10) {  // cut off
    (void)presence.look(now, three_voters(), "a");
    EXPECT_FALSE(presence.misses(now, three_voters().voters(1)));
  }
  const uint64_t back = kFirst + 4 * kPatience;
  heard(back, "b");
  EXPECT_TRUE(presence.look(back, three_voters(), "a"));
  EXPECT_FALSE(presence.misses(back + kPatience - kPatience / 5, three_voters().voters(2)))
      << "its word may still be on the way";
  for (uint64_t now = back; now < back + kPatience; now += kPatience / 10)
    heard(now, "b"), presence.look(now, three_voters(), "a");
  EXPECT_TRUE(presence.misses(back + kPatience, three_voters().voters(2)));
  EXPECT_FALSE(presence.misses(back + kPatience, three_voters().voters(1)));
  presence.heard(back, "b", run_of('x'));
  EXPECT_TRUE(presence.misses(back, three_voters().voters(1))) << "that run of its daemon is over";
}

}  // namespace
}  // namespace ocm::control
