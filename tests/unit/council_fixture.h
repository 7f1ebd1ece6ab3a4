// A council of a, b and c, requests to its voters, and one voter of it, on given time.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "control/quorum.h"

namespace ocm::control::test {

inline constexpr uint64_t kLease = 3'000'000'000;
inline constexpr uint64_t kWorldStart = 100 * kLease;
inline constexpr uint32_t kHome = 7;

/// The run of a daemon that is all of this letter.
inline Incarnation run_of(char of) {
  Incarnation out;
  out.bytes.fill(static_cast<std::byte>(of));
  return out;
}

inline VoterInfo voter(const std::string& name, char incarnation = 'a') {
  return {name, run_of(incarnation), {}};
}

inline MadeCouncil council(uint64_t number, const std::vector<VoterInfo>& voters,
                           std::vector<uint64_t> chains = {1}) {
  MadeCouncil out;
  out.council.id = number * 100 + chains.back();
  out.council.number = number;
  out.council.chains = std::move(chains);
  out.council.voters = voters;
  return out;
}

inline LeaseVote vote(const Council& in, uint32_t partition = kHome) {
  LeaseVote out;
  out.council = in.id;
  out.partition = partition;
  return out;
}

/// A part with one replica at kHome and one at kSibling.
inline constexpr uint32_t kSibling = 8;
inline ExtentId replica(uint32_t partition, uint64_t offset = 4096) {
  return {GlobalAddress(partition, offset), 1};
}

/// To a voter: the replica at kHome was decided to be lost.
inline LossRequest loss() {
  LossRequest out;
  out.phase = LossRequest::Phase::kLearn;
  out.part = {replica(kHome), replica(kSibling)};
  out.replica = replica(kHome);
  out.lost = {replica(kHome)};
  return out;
}

inline SealRequest sealing(const Council& in, uint64_t number, uint64_t run = 1) {
  return {in.id, {number, run}, false, {}};
}

inline Proposal proposing(const Council& in, const MadeCouncil& next, uint64_t number, uint64_t run) {
  Proposal out{in.id, {number, run}, next};
  out.next.follows.push_back(in);
  return out;
}

struct One : testing::Test {
  One() {
    EXPECT_TRUE(v.install(kWorldStart, first).is_ok());
    (void)v.grant(kWorldStart, vote(in, kSibling));
  }
  LeaseGrant grant(uint64_t now, const LeaseVote& request) { return v.grant(now, request); }

  Voter v{"a", run_of('a'), kLease};
  MadeCouncil first = council(1, {voter("a"), voter("b"), voter("c")});
  const Council& in = first.council;
};

}  // namespace ocm::control::test
