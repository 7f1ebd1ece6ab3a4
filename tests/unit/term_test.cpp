// cache/courier: the term between a home and a node, whose clocks run at speeds of their own.
#include "cache/courier/term.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "cache/courier/courier.h"

namespace ocm::cache {
namespace {

constexpr uint64_t kLengthNs = 1'000'000;

TEST(Term, IsCountedFromWhenTheNodeAsked) {
  HeldTerm held(kLengthNs);
  EXPECT_FALSE(held.runs(0));
  held.given(1, 100);
  EXPECT_TRUE(held.runs(100));
  EXPECT_TRUE(held.runs(100 + kLengthNs / 20 * 19 - 1));
  EXPECT_FALSE(held.runs(100 + kLengthNs / 20 * 19));
  held.renewed(1, 5000);
  held.renewed(1, 4000);  // an older one, acknowledged later
  EXPECT_EQ(held.until_ns(), 5000 + kLengthNs / 20 * 19);
  EXPECT_EQ(held.say_ns(), 5000 + kLengthNs / 4);
}

TEST(Term, ThatEndedNeverRunsAgain) {
  HeldTerm held(kLengthNs);
  held.given(2, 0);
  held.end();
  held.renewed(2, 10);
  held.given(2, 10);
  held.given(1, 10);
  EXPECT_FALSE(held.runs(10));
  EXPECT_TRUE(held.is_valid());
  held.given(3, 10);
  held.renewed(2, 1'000'000);
  EXPECT_FALSE(held.runs(1'000'000));
  EXPECT_EQ(held.number(), 3u);

  GivenTerm given(kLengthNs);
  EXPECT_FALSE(given.heard(0, 0));
  EXPECT_EQ(given.give(0), 1u);
  EXPECT_FALSE(given.heard(1, kLengthNs));
  EXPECT_EQ(given.give(kLengthNs), 2u);
  EXPECT_FALSE(given.heard(1, kLengthNs + 1));
  EXPECT_TRUE(given.heard(2, kLengthNs + 1));
  EXPECT_TRUE(given.is_valid());
  given.end();
  EXPECT_TRUE(given.is_valid());
  EXPECT_FALSE(given.heard(2, kLengthNs + 2));
  EXPECT_EQ(given.until_ns(), 0u);
}

/// A life of one node and its home through a network that loses and delays, on two clocks. True if the node ever used a
/// term that the home took for ended. `length_ns`: what the node takes for the term's length.
bool is_used_too_long(uint64_t seed, uint64_t length_ns, uint64_t& renewals) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  // A fortieth faster and slower: together within a twentieth.
  const double node_speed = 1 - 0.0244, home_speed = 1 + 0.0244;
  const bool swapped = below(2) == 0;
  const auto node_at = [&](uint64_t t) {
    return 77'000 + static_cast<uint64_t>(static_cast<double>(t) * (swapped ? home_speed : node_speed));
  };
  const auto home_at = [&](uint64_t t) {
    return 5'000'000 + static_cast<uint64_t>(static_cast<double>(t) * (swapped ? node_speed : home_speed));
  };
  const CourierLimits limits{.give_up_ns = ~uint64_t{0}};
  HeldTerm held(length_ns);
  GivenTerm given(kLengthNs);
  Courier near(1, limits), far(1, limits);
  struct Packet {
    bool to_home;
    bool asks;
    uint64_t number, asked_ns;
    CourierHeader header;
  };
  std::multimap<uint64_t, Packet> network;
  bool cut = false;
  uint64_t delay = 1000;
  const auto leave = [&](uint64_t t, const Packet& packet) {
    if (!cut && below(8) != 0) network.emplace(t + 1 + below(delay), packet);
  };
  for (uint64_t t = 1; t < 40 * kLengthNs; t += 1 + below(kLengthNs / 50)) {
    if (below(60) == 0) cut = !cut;
    if (below(40) == 0) delay = 1 + below(kLengthNs);
    while (!network.empty() && network.begin()->first <= t) {
      const auto [at, packet] = *network.begin();
      network.erase(network.begin());
      std::vector<uint64_t> acknowledged;
      if (packet.to_home) {
        if (packet.asks) {
          if (given.runs(home_at(at))) continue;
          const uint64_t number = given.give(home_at(at));
          far = Courier(number, limits);
          leave(at, {false, true, number, packet.asked_ns, {}});
        } else if (given.heard(packet.header.term, home_at(at))) {
          (void)far.receive(packet.header, home_at(at), acknowledged);
          leave(at, {false, false, 0, 0, far.header(0)});
        }
      } else if (packet.asks) {
        if (packet.number <= held.number()) continue;
        held.given(packet.number, packet.asked_ns);
        near = Courier(packet.number, limits);
      } else if (packet.header.term == held.number()) {
        (void)near.receive(packet.header, node_at(at), acknowledged);
        if (!acknowledged.empty()) ++renewals;
        if (near.heard_since_ns() != 0) held.renewed(held.number(), near.heard_since_ns());
      }
      if (held.runs(node_at(at)) && !(given.runs(home_at(at)) && given.number() == held.number()))
        return true;
    }
    if (held.runs(node_at(t)) && !(given.runs(home_at(t)) && given.number() == held.number())) return true;
    if (!held.runs(node_at(t))) {
      held.end();
      leave(t, {true, true, 0, node_at(t), {}});
    } else if (near.can_send() && below(3) == 0) {
      const uint64_t sequence = near.send(node_at(t));
      leave(t, {true, false, 0, 0, near.header(sequence)});
    } else {
      std::vector<uint64_t> again;
      (void)near.due(node_at(t) + kLengthNs * 100, again);
      for (const uint64_t sequence : again) leave(t, {true, false, 0, 0, near.header(sequence)});
    }
  }
  return false;
}

TEST(Term, TheHomeWaitsUntilTheNodeUsesItNoMore) {
  uint64_t renewals = 0;
  for (uint64_t seed = 0; seed < 200; ++seed)
    ASSERT_FALSE(is_used_too_long(seed, kLengthNs, renewals)) << seed;
  EXPECT_GT(renewals, 10'000u);
}

TEST(Term, WithoutItsTwentiethItWouldNot) {
  uint64_t renewals = 0;
  bool found = false;
  for (uint64_t seed = 0; seed < 200 && !found; ++seed)
    found = is_used_too_long(seed, kLengthNs * 20 / 19, renewals);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace ocm::cache
