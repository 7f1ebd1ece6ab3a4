// A council of a, b and c, requests to its voters, and one voter of it, on given time.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/quorum.h"

namespace ocm::control::test {

inline constexpr uint64_t kLease = 3'000'000'000;
inline constexpr uint64_t kWorldStart = 100 * kLease;
inline constexpr uint32_t kHome = 7;

inline wire::Voter voter(const std::string& name, char incarnation = 'a') {
  wire::Voter out;
  out.set_name(name);
  out.set_incarnation(std::string(16, incarnation));
  return out;
}

inline wire::InstallCouncil council(uint64_t number, const std::vector<wire::Voter>& voters,
                                    std::vector<uint64_t> chains = {1}) {
  wire::InstallCouncil out;
  out.mutable_council()->set_id(number * 100 + chains.back());
  out.mutable_council()->set_number(number);
  for (const uint64_t chain : chains) out.mutable_council()->add_chains(chain);
  for (const auto& v : voters) *out.mutable_council()->add_voters() = v;
  return out;
}

inline wire::LeaseVote vote(const wire::Council& in, uint32_t partition = kHome) {
  wire::LeaseVote out;
  out.set_council_id(in.id());
  out.set_partition(partition);
  return out;
}

/// A part with one replica at kHome and one at kSibling.
inline constexpr uint32_t kSibling = 8;
inline ExtentId replica(uint32_t partition, uint64_t offset = 4096) {
  return {GlobalAddress(partition, offset), 1};
}

/// To a voter: the replica at kHome was decided to be lost.
inline wire::LoseReplica loss(const wire::Council& in) {
  LossRequest request;
  request.phase = LossRequest::Phase::kLearn;
  request.part = {replica(kHome), replica(kSibling)};
  request.replica = replica(kHome);
  request.lost = {replica(kHome)};
  return to_wire(request, in.id());
}

inline wire::SealCouncil sealing(const wire::Council& in, uint64_t number, uint64_t run = 1) {
  wire::SealCouncil out;
  out.set_council_id(in.id());
  out.mutable_ballot()->set_round(number);
  out.mutable_ballot()->set_by(run);
  return out;
}

inline wire::ProposeCouncil proposing(const wire::Council& in, const wire::InstallCouncil& next,
                                      uint64_t number, uint64_t run) {
  wire::ProposeCouncil out;
  out.set_council_id(in.id());
  out.mutable_ballot()->set_round(number);
  out.mutable_ballot()->set_by(run);
  *out.mutable_next() = next;
  *out.mutable_next()->add_bases() = in;
  return out;
}

struct One : testing::Test {
  One() {
    EXPECT_TRUE(v.install(kWorldStart, first).is_ok());
    wire::LeaseGranted out;
    v.grant(kWorldStart, vote(in, kSibling), out);
  }
  wire::LeaseGranted grant(uint64_t now, const wire::LeaseVote& request) {
    wire::LeaseGranted out;
    v.grant(now, request, out);
    return out;
  }
  Voter v{"a", std::string(16, 'a'), kLease};
  wire::InstallCouncil first = council(1, {voter("a"), voter("b"), voter("c")});
  const wire::Council& in = first.council();
};

}  // namespace ocm::control::test
