// Messages about councils: what is sent is read again, and what a stranger may send becomes nothing that could be taken for
// a voter.
#include "control/council_wire.h"

#include <gtest/gtest.h>

#include <string>

#include "council_fixture.h"

namespace ocm::control {
namespace {

using namespace test;

Council full_council() {
  Council out{7, 3, {11, 12}, {voter("a", 'a'), voter("b", 'b'), voter("c", 'c')}, {5, 6}};
  out.voters[1].address = "10.0.0.2:7100";
  out.instead_of = {13, 14};
  return out;
}

TEST(CouncilWire, ACouncilIsReadAsItWasSent) {
  wire::Council message;
  to_wire(Council{9, 9, {9}, {voter("z")}, {9}}, message);
  to_wire(full_council(), message);
  EXPECT_EQ(from_wire(message), full_council()) << "nothing of what was there before is left";
  EXPECT_EQ(message.voters(2).incarnation(), std::string(16, 'c'));
}

TEST(CouncilWire, NoneIsNone) {
  EXPECT_EQ(from_wire(wire::Council()), Council());
  EXPECT_FALSE(is_council(from_wire(wire::Council())));
}

TEST(CouncilWire, OfAWrongLengthARunIsNoRun) {
  for (const size_t bytes : {0, 1, 15, 17, 4096}) {
    wire::Council message;
    to_wire(full_council(), message);
    message.mutable_voters(0)->set_incarnation(std::string(bytes, 'a'));
    const Council council = from_wire(message);
    EXPECT_EQ(council.voters[0].incarnation, Incarnation());
    EXPECT_FALSE(council.has("a", run_of('a')));
    EXPECT_TRUE(council.has("b", run_of('b')));
    EXPECT_TRUE(council.has_node("a"));
  }
}

TEST(CouncilWire, WhatIsNoCouncilStillTellsThatThereIsOne) {
  for (const int voters : {0, 2, 4, 6, 7, 1000}) {
    wire::Council message;
    message.set_id(7);
    for (int i = 0; i < voters; ++i) message.add_voters()->set_name("a");
    const Council council = from_wire(message);
    EXPECT_EQ(council.id, 7u);
    EXPECT_EQ(council.voters.size(), static_cast<size_t>(voters));
    EXPECT_FALSE(is_council(council)) << voters;
  }
  wire::Council message;
  for (int i = 0; i < 3; ++i) message.add_voters()->set_name("a");
  EXPECT_FALSE(is_council(from_wire(message))) << "without an id";
  message.set_id(1);
  EXPECT_TRUE(is_council(from_wire(message)));
}

TEST(CouncilWire, WhoKnowsWhichCouncilIsReadAsItWasSent) {
  const Leader leader{full_council(), {council(1, {voter("a")}).council, council(2, {voter("b")}).council}};
  wire::Leader message;
  to_wire(leader, message);
  EXPECT_EQ(from_wire(message).council, leader.council);
  EXPECT_EQ(from_wire(message).remembered, leader.remembered);
  EXPECT_EQ(from_wire(wire::Leader()).council, Council());
}

TEST(CouncilWire, ManyRunsAreRememberedAndNotMore) {
  wire::NodeView node;
  for (uint64_t i = 0; i < 3 * kRememberedRunsMax; ++i) to_wire({run_of('r'), i}, *node.add_remembered());
  node.mutable_remembered(1)->set_incarnation("short");
  const VoterRun run = voter_run_from(std::string(16, 'n'), node.remembered());
  EXPECT_EQ(run.incarnation, run_of('n'));
  ASSERT_EQ(run.remembered.size(), kRememberedRunsMax - 1);
  EXPECT_EQ(run.remembered[0], (RememberedRun{run_of('r'), 0}));
  EXPECT_EQ(run.remembered[1], (RememberedRun{run_of('r'), 2})) << "one is of no run";
  EXPECT_EQ(voter_run_from("short", {}), VoterRun());
}

TEST(CouncilWire, WhatANodeReportsIsReadFromItsHeartbeat) {
  wire::Heartbeat beat;
  beat.mutable_self()->set_name("b");
  beat.mutable_self()->set_incarnation(std::string(16, 'b'));
  to_wire({run_of('r'), 4}, *beat.mutable_self()->add_remembered());
  to_wire(full_council(), *beat.mutable_council());
  for (size_t i = 0; i < 3 * kRememberedRunsMax; ++i) to_wire(full_council(), *beat.add_remembered());
  const VoterReport report = voter_report_from(beat);
  EXPECT_EQ(report.node, "b");
  EXPECT_EQ(report.run, (VoterRun{run_of('b'), {{run_of('r'), 4}}}));
  EXPECT_EQ(report.council, full_council());
  ASSERT_EQ(report.remembered.size(), kRememberedRunsMax);
  EXPECT_EQ(report.remembered.back(), full_council());
}

}  // namespace
}  // namespace ocm::control
