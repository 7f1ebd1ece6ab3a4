// Messages to voters and their answers, and what voters save: what is written is read again, and of what a stranger may send
// nothing is taken that a voter could not have said.
#include "control/voting_wire.h"

#include <gtest/gtest.h>

#include <string>

#include "council_fixture.h"
#include "wire/convert.h"

namespace ocm::control {
namespace {

using namespace test;

/// Everything that is read of it, written again: what two values have in common that compare by no operator.
template <class Message, class Value>
std::string bytes_of(const Value& value) {
  Message out;
  to_wire(value, out);
  return out.SerializeAsString();
}
template <class Message, class Value>
Value read_again(const Value& value) {
  Message out;
  EXPECT_TRUE(out.ParseFromString(bytes_of<Message>(value)));
  return from_wire(out);
}

VoterState full_state() {
  VoterState out;
  LossState::Part& part = out.losses.parts[replica(kHome)];
  part.replicas = {replica(kHome), replica(kSibling), replica(9)};
  part.lost = {{replica(kSibling), true}, {replica(9), false}};
  part.ended = replica(9, 8192);
  part.gone = {replica(kHome)};
  part.accepted_at = {3, 4};
  part.accepted = replica(9);
  part.uid = 1000;
  out.losses.parts[replica(kHome, 8192)].replicas = {replica(kHome, 8192), replica(kSibling, 8192)};
  out.losses.votes_ns = {{kHome, 17}, {kSibling, 0}};
  out.losses.nodes = {{kHome, "a"}};
  out.losses.ends = {{kSibling, {5, 4}}};
  out.losses.over = {{kHome, 8}};
  out.seats_ns = {{run_of('s'), 99}, {run_of('t'), 1}};
  return out;
}

MadeCouncil full_made() {
  MadeCouncil out = council(4, {voter("a"), voter("b", 'x'), voter("c")}, {1, 2});
  out.state = full_state();
  out.follows = {council(3, {voter("a")}).council, council(2, {voter("b")}, {2}).council};
  return out;
}

TEST(VotingWire, AStepOfADecisionIsReadAsItWasSent) {
  LossRequest request = loss();
  request.ended = replica(kSibling, 8192);
  request.over = {replica(kSibling)};
  request.remembered = true;
  request.uid = 1000;
  request.ballot = {5, 6};
  request.promised_at_ns = 7;
  wire::LoseReplica message;
  to_wire(request, 42, message);
  EXPECT_EQ(message.council_id(), 42u);
  const LossRequest read = from_wire(message).value();
  EXPECT_EQ(read.phase, request.phase);
  EXPECT_EQ(read.part, request.part);
  EXPECT_EQ(read.replica, request.replica);
  EXPECT_EQ(read.lost, request.lost);
  EXPECT_EQ(read.ended, request.ended);
  EXPECT_EQ(read.over, request.over);
  EXPECT_TRUE(read.remembered);
  EXPECT_EQ(read.uid, request.uid);
  EXPECT_EQ(read.ballot, request.ballot);
  EXPECT_EQ(read.promised_at_ns, request.promised_at_ns);
  message.clear_ended();
  EXPECT_FALSE(from_wire(message).value().ended);
  for (const uint32_t phase : {0u, 4u, 257u, ~0u}) {
    message.set_phase(phase);
    EXPECT_EQ(from_wire(message).status().code(), Code::kInvalidArgument) << phase;
  }
}

TEST(VotingWire, AnAnswerAboutADecisionIsReadAsItWasSent) {
  LossAnswer answer;
  answer.agreed = true;
  answer.promised = {5, 6};
  answer.accepted_at = {4, 3};
  answer.accepted = replica(kHome);
  answer.lost = {replica(kSibling)};
  answer.ended = replica(9);
  answer.at_ns = 7;
  answer.wait_ns = 8;
  const LossAnswer read = read_again<wire::ReplicaLosing>(answer);
  EXPECT_TRUE(read.agreed);
  EXPECT_EQ(read.promised, answer.promised);
  EXPECT_EQ(read.accepted_at, answer.accepted_at);
  EXPECT_EQ(read.accepted, answer.accepted);
  EXPECT_EQ(read.lost, answer.lost);
  EXPECT_EQ(read.ended, answer.ended);
  EXPECT_EQ(read.at_ns, answer.at_ns);
  EXPECT_EQ(read.wait_ns, answer.wait_ns);
}

TEST(VotingWire, ARequestForAVoteIsReadAsItWasSent) {
  LeaseVote request = vote(council(3, {voter("a")}).council);
  request.node = "n7";
  request.freed = {replica(kHome)};
  request.gone = {replica(kHome, 8192), replica(kHome, 12288)};
  request.seat = run_of('s');
  request.seat_given_up = run_of('u');
  request.end = {5, 4};
  request.tell_all = true;
  request.freed_before = 6;
  const LeaseVote read = read_again<wire::LeaseVote>(request);
  EXPECT_EQ(read.council, request.council);
  EXPECT_EQ(read.partition, request.partition);
  EXPECT_EQ(read.node, request.node);
  EXPECT_EQ(read.freed, request.freed);
  EXPECT_EQ(read.gone, request.gone);
  EXPECT_EQ(read.seat, request.seat);
  EXPECT_EQ(read.seat_given_up, request.seat_given_up);
  EXPECT_EQ(read.end, request.end);
  EXPECT_TRUE(read.tell_all);
  EXPECT_EQ(read.freed_before, request.freed_before);
}

TEST(VotingWire, WhoAsksForTheSeatIsARunOfADaemon) {
  wire::LeaseVote message;
  EXPECT_FALSE(from_wire(message).seat);
  for (const size_t bytes : {1, 15, 17}) {
    message.set_seat(std::string(bytes, 's'));
    message.set_seat_given_up(std::string(bytes, 's'));
    EXPECT_FALSE(from_wire(message).seat) << bytes;
    EXPECT_FALSE(from_wire(message).seat_given_up) << bytes;
  }
  for (const char* name : {"", "not a name", "\n", "../x"}) {
    message.set_node(name);
    EXPECT_EQ(from_wire(message).node, "") << name;
  }
}

TEST(VotingWire, AVoteIsReadAsItWasSent) {
  LeaseGrant grant;
  grant.granted = grant.seat = grant.over = true;
  grant.dropped = {replica(kHome)};
  grant.watched.push_back({replica(kHome, 8192), {replica(kHome, 8192), replica(9)}, {replica(9)}, {}, {}});
  grant.watched.push_back(
      {replica(kHome, 12288), {replica(kHome, 12288), replica(10)}, {}, replica(11), replica(10)});
  grant.council = full_made().council;
  grant.run = VoterRun{run_of('v'), {{run_of('w'), 2}}};
  const LeaseGrant read = read_again<wire::LeaseGranted>(grant);
  EXPECT_TRUE(read.granted && read.seat && read.over);
  EXPECT_EQ(read.dropped, grant.dropped);
  ASSERT_EQ(read.watched.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.watched[i].replica, grant.watched[i].replica);
    EXPECT_EQ(read.watched[i].part, grant.watched[i].part);
    EXPECT_EQ(read.watched[i].lost, grant.watched[i].lost);
    EXPECT_EQ(read.watched[i].ended, grant.watched[i].ended);
    EXPECT_EQ(read.watched[i].in_doubt, grant.watched[i].in_doubt);
  }
  EXPECT_EQ(read.council, grant.council);
  EXPECT_EQ(read.run, grant.run);
  const LeaseGrant none = from_wire(wire::LeaseGranted());
  EXPECT_FALSE(none.granted || none.seat || none.over || none.council || none.run);
  wire::LeaseGranted message;
  message.set_run("short");
  EXPECT_EQ(from_wire(message).run, VoterRun()) << "it speaks of a run, and that is none";
}

TEST(VotingWire, WhatVotersKnewIsReadAsItWasSent) {
  const VoterState read = read_again<wire::VoterState>(full_state());
  EXPECT_EQ(bytes_of<wire::VoterState>(read), bytes_of<wire::VoterState>(full_state()));
  ASSERT_EQ(read.losses.parts.size(), 2u);
  const LossState::Part& part = read.losses.parts.at(replica(kHome));
  EXPECT_EQ(part.replicas.size(), 3u);
  ASSERT_EQ(part.lost.size(), 2u);
  EXPECT_EQ(part.lost[0].id, replica(kSibling));
  EXPECT_TRUE(part.lost[0].freed);
  EXPECT_FALSE(part.lost[1].freed);
  EXPECT_EQ(part.ended, replica(9, 8192));
  EXPECT_EQ(part.gone, std::vector<ExtentId>{replica(kHome)});
  EXPECT_EQ(part.accepted_at, (Ballot{3, 4}));
  EXPECT_EQ(part.accepted, replica(9));
  EXPECT_EQ(part.uid, 1000u);
  EXPECT_FALSE(read.losses.parts.at(replica(kHome, 8192)).ended);
  EXPECT_EQ(read.losses.votes_ns, full_state().losses.votes_ns);
  EXPECT_EQ(read.losses.nodes, full_state().losses.nodes);
  EXPECT_EQ(read.losses.ends, full_state().losses.ends);
  EXPECT_EQ(read.losses.over, full_state().losses.over);
  EXPECT_EQ(read.seats_ns, full_state().seats_ns);
}

TEST(VotingWire, PartsThatCannotHaveBeenAreLeftOut) {
  wire::VoterState message;
  const auto add = [&](int replicas, int lost, int freed) {
    auto& part = *message.add_parts();
    const uint64_t offset = uint64_t{1} + static_cast<uint64_t>(message.parts_size());
    for (int i = 0; i < replicas; ++i)
      wire::set_ref(replica(kHome + static_cast<uint32_t>(i), offset << 12), *part.add_replicas());
    for (int i = 0; i < lost; ++i)
      wire::set_ref(replica(kHome + static_cast<uint32_t>(i), offset << 12), *part.add_lost());
    for (int i = 0; i < freed; ++i) part.add_freed(true);
  };
  add(0, 0, 0), add(1, 0, 0), add(2, 2, 2), add(2, 1, 0), add(3, 1, 2);
  EXPECT_TRUE(from_wire(message).losses.parts.empty());
  add(3, 2, 2);
  EXPECT_EQ(from_wire(message).losses.parts.size(), 1u) << "the others count all the same";
}

TEST(VotingWire, OfVotesForHomesOnlyNamesAreNodes) {
  wire::VoterState message;
  auto& vote = *message.add_votes();
  vote.set_partition(kHome);
  vote.set_left_ns(3);
  vote.set_node("not a name");
  vote.set_stays(4);  // and it never was about to end
  const LossState read = from_wire(message).losses;
  EXPECT_EQ(read.votes_ns, (std::map<uint32_t, uint64_t>{{kHome, 3}}));
  EXPECT_TRUE(read.nodes.empty() && read.ends.empty() && read.over.empty());
}

TEST(VotingWire, VotesForTheSeatAreForRunsAndFew) {
  wire::VoterState message;
  message.add_seats()->set_holder("short");
  message.add_seats()->set_holder(std::string(17, 'x'));
  EXPECT_TRUE(from_wire(message).seats_ns.empty());
  for (int i = 0; i < 100; ++i) {
    auto& seat = *message.add_seats();
    seat.set_holder(std::string(15, 'x') + static_cast<char>(i));
    seat.set_left_ns(1);
  }
  EXPECT_EQ(from_wire(message).seats_ns.size(), 16u);
}

TEST(VotingWire, WhatEndsACouncilIsReadAsItWasSent) {
  const SealRequest request{3, {4, 5}, true, run_of('c')};
  const SealRequest read = read_again<wire::SealCouncil>(request);
  EXPECT_EQ(read.council, request.council);
  EXPECT_EQ(read.ballot, request.ballot);
  EXPECT_TRUE(read.tell);
  EXPECT_EQ(read.candidate, request.candidate);
  wire::SealCouncil message;
  message.set_candidate("short");
  EXPECT_EQ(from_wire(message).candidate, Incarnation());

  const Proposal proposal{3, {4, 5}, full_made()};
  const Proposal proposed = read_again<wire::ProposeCouncil>(proposal);
  EXPECT_EQ(proposed.council, proposal.council);
  EXPECT_EQ(proposed.ballot, proposal.ballot);
  EXPECT_EQ(proposed.next.council, proposal.next.council);
  EXPECT_EQ(proposed.next.follows, proposal.next.follows);
  EXPECT_EQ(bytes_of<wire::VoterState>(proposed.next.state), bytes_of<wire::VoterState>(full_state()));
}

TEST(VotingWire, APromiseIsReadAsItWasSent) {
  CouncilPromise promise;
  promise.agreed = promise.remembered = true;
  promise.promised = {5, 6};
  promise.accepted_at = {4, 3};
  promise.state = full_state();
  promise.accepted = full_made();
  promise.made_of = council(1, {voter("a")});
  const CouncilPromise read = read_again<wire::CouncilPromise>(promise);
  EXPECT_EQ(bytes_of<wire::CouncilPromise>(read), bytes_of<wire::CouncilPromise>(promise));
  EXPECT_TRUE(read.agreed && read.remembered);
  EXPECT_EQ(read.promised, promise.promised);
  EXPECT_EQ(read.accepted_at, promise.accepted_at);
  EXPECT_EQ(read.accepted.value().council, full_made().council);
  EXPECT_EQ(read.made_of.value().council, promise.made_of->council);
  EXPECT_EQ(read.state.losses.parts.size(), 2u);
  const CouncilPromise none = from_wire(wire::CouncilPromise());
  EXPECT_FALSE(none.agreed || none.remembered || none.accepted || none.made_of);
  promise.agreed = false;
  const CouncilPromise refused = read_again<wire::CouncilPromise>(promise);
  EXPECT_EQ(refused.promised, promise.promised) << "a higher one";
  EXPECT_TRUE(refused.state.losses.parts.empty());
}

VoterMemory full_memory() {
  VoterMemory out;
  out.name = "a";
  out.incarnation = run_of('a');
  out.made_of = full_made();
  out.promised = {5, 6};
  out.accepted_at = {4, 3};
  out.accepted = council(5, {voter("a")});
  out.losses = full_state().losses;
  out.home_in = full_made().follows;
  return out;
}

TEST(VotingWire, WhatAVoterSavedIsReadAgain) {
  wire::VoterMemory message;
  to_wire(full_memory(), message);
  const VoterMemory read = from_wire(message).value();
  EXPECT_EQ(bytes_of<wire::VoterMemory>(read), message.SerializeAsString());
  EXPECT_EQ(read.name, "a");
  EXPECT_EQ(read.incarnation, run_of('a'));
  EXPECT_EQ(read.made_of.value().council, full_made().council);
  EXPECT_EQ(read.promised, (Ballot{5, 6}));
  EXPECT_EQ(read.accepted_at, (Ballot{4, 3}));
  EXPECT_EQ(read.accepted.value().council.number, 5u);
  EXPECT_EQ(read.losses.parts.size(), 2u);
  EXPECT_EQ(read.home_in, full_made().follows);
  for (const size_t bytes : {0, 15, 17}) {
    message.set_incarnation(std::string(bytes, 'a'));
    EXPECT_EQ(from_wire(message).status().code(), Code::kProtocol) << bytes;
  }
}

TEST(VotingWire, AVoterWithoutACouncilSavesWhatItsHomeCameTo) {
  VoterMemory memory = full_memory();
  memory.made_of.reset();
  wire::VoterMemory message;
  to_wire(memory, message);
  EXPECT_FALSE(message.has_made_of() || message.has_state() || message.has_promised());
  EXPECT_EQ(from_wire(message).value().home_in, memory.home_in);
}

TEST(VotingWire, AChangeOfWhatAVoterSavedIsReadAgain) {
  VoterChange change;
  change.promised = {5, 6};
  change.accepted_at = {4, 3};
  change.accepted = full_made();
  change.losses = {full_state().losses, {replica(3), replica(4)}};
  change.home_in = full_made().follows;
  const VoterChange read = read_again<wire::VoterChange>(change);
  EXPECT_EQ(bytes_of<wire::VoterChange>(read), bytes_of<wire::VoterChange>(change));
  EXPECT_EQ(read.losses.forgotten, change.losses.forgotten);
  EXPECT_EQ(read.losses.state.parts.size(), 2u);
  EXPECT_EQ(read.accepted.value().council, full_made().council);
  EXPECT_EQ(read.home_in, change.home_in);
  EXPECT_FALSE(from_wire(wire::VoterChange()).accepted);
}

}  // namespace
}  // namespace ocm::control
