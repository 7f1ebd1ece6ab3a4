// Who owns the extents of a home.
#include "control/ownership.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

namespace ocm::control {
namespace {

template <class Id>
Id id(char c) {
  Id out;
  out.bytes.fill(static_cast<std::byte>(c));
  return out;
}
const SessionId kSession = id<SessionId>('s');
const Incarnation kFirstRun = id<Incarnation>('1'), kSecondRun = id<Incarnation>('2');
const AllocationId kAllocation = id<AllocationId>('a');
ExtentId extent(uint64_t offset) { return ExtentId{GlobalAddress(1, offset), 1}; }

Ownership two() {
  Ownership ownership;
  ownership.add(extent(0), kSession, "n", kFirstRun, kAllocation, {7, 100});
  ownership.add(extent(4096), kSession, "n", kFirstRun, kAllocation, {7, 50});
  return ownership;
}

/// A daemon's timer runs for ten from then on.
constexpr Ownership::Patience kPatience{10, 0};

TEST(Ownership, AHoldGoesWithWhatIsMadeAgain) {
  Ownership ownership(0, 2 * held_bytes(2));
  for (const uint64_t offset : {0, 4096, 8192}) {
    ownership.add(extent(offset), kSession, "n", kFirstRun, kAllocation, {7, 100});
    ownership.to_name(extent(offset), 1);
  }
  SessionId holder = id<SessionId>('h');
  holder.bytes[0] = std::byte{0};
  const Ownership::HeldBy by{holder, "m", kFirstRun, id<HoldId>('1')};
  EXPECT_TRUE(ownership.add_to_hold(by, extent(0)));
  EXPECT_FALSE(ownership.add_to_hold(by, extent(0))) << "it is known";
  // The hold's own begin comes after it: what it lists already stays, the rest is added.
  EXPECT_TRUE(ownership.hold(holder, "m", kFirstRun, by.hold, {extent(0), extent(4096)}).value().empty());
  EXPECT_TRUE(ownership.hold(holder, "m", kFirstRun, by.hold, {extent(0), extent(4096)}).value().empty());
  EXPECT_TRUE(ownership.is_valid());
  ASSERT_EQ(ownership.holds_on(extent(4096)).size(), 1u);
  EXPECT_EQ(ownership.holds_on(extent(4096))[0].node, "m");
  EXPECT_TRUE(ownership.holds_on(extent(8192)).empty());
  EXPECT_FALSE(ownership.end_name(extent(0)));
  EXPECT_FALSE(ownership.add_to_hold({holder, "m", kFirstRun, id<HoldId>('2')}, extent(0)))
      << "no name has it any more";
  EXPECT_EQ(ownership.end_hold(holder, by.hold), std::vector<ExtentId>{extent(0)});
  EXPECT_TRUE(ownership.remove(extent(0)));
  EXPECT_TRUE(ownership.is_valid());
}

TEST(Ownership, WhatGoesWithAHoldIsBoundedToo) {
  Ownership ownership(0, held_bytes(1));
  for (const uint64_t offset : {0, 4096}) {
    ownership.add(extent(offset), kSession, "n", kFirstRun, kAllocation, {7, 100});
    ownership.to_name(extent(offset), 1);
  }
  const Ownership::HeldBy by{id<SessionId>('h'), "m", kFirstRun, id<HoldId>('1')};
  EXPECT_TRUE(ownership.add_to_hold(by, extent(0)));
  EXPECT_FALSE(ownership.add_to_hold(by, extent(4096)));
  EXPECT_TRUE(ownership.is_valid());
}

TEST(Ownership, ASessionOwnsWhatWasMadeForIt) {
  Ownership ownership = two();
  EXPECT_EQ(ownership.of_session(kSession).size(), 2u);
  EXPECT_EQ(ownership.of_user(7).bytes, 150u);
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_TRUE(ownership.remove(extent(0)));
  EXPECT_FALSE(ownership.remove(extent(0)));
  EXPECT_EQ(ownership.of_session(kSession).size(), 1u);
  EXPECT_EQ(ownership.of_user(7).bytes, 50u);
  EXPECT_EQ(ownership.of_user(7).extents, 1u);
  EXPECT_EQ(ownership.of_user(8).extents, 0u);
  EXPECT_TRUE(ownership.is_valid());
}

TEST(Ownership, ANamedExtentOutlivesItsSession) {
  Ownership ownership = two();
  EXPECT_TRUE(ownership.to_name(extent(0), 1));
  EXPECT_EQ(ownership.of_session(kSession), std::vector<ExtentId>{extent(4096)});
  EXPECT_EQ(ownership.of_user(7).bytes, 150u);
  EXPECT_TRUE(ownership.is_valid());
}

/// It is freed later, for there may be many: until then nobody gets it, and its user pays.
TEST(Ownership, WhatASessionHasAsItEndsIsNobodysForGood) {
  Ownership ownership = two();
  const auto ended = ownership.end_session(kSession);
  EXPECT_EQ(ended.size(), 2u);
  EXPECT_TRUE(ownership.end_session(kSession).empty());
  EXPECT_EQ(ownership.nobodys(), 2u);
  EXPECT_EQ(ownership.find(extent(0)), nullptr);
  EXPECT_TRUE(ownership.of_session(kSession).empty());
  EXPECT_TRUE(ownership.of_names().empty());
  EXPECT_FALSE(ownership.vouching(kSession).has_value());
  EXPECT_FALSE(ownership.resume(kSession, "n", kSecondRun));
  EXPECT_FALSE(ownership.to_name(extent(0), 1));
  EXPECT_FALSE(ownership.to_session(extent(0), kSession, "n", kSecondRun));
  EXPECT_FALSE(ownership.give(extent(0), kAllocation, kSession, "n", kSecondRun));
  EXPECT_FALSE(ownership.give_to_name(extent(0), kAllocation, 1));
  EXPECT_FALSE(ownership.rename(extent(0), extent(8192)));
  EXPECT_EQ(ownership.hold(id<SessionId>('r'), "m", kFirstRun, id<HoldId>('h'), {extent(0)}).value().size(),
            1u);
  EXPECT_FALSE(ownership.add_to_hold({id<SessionId>('r'), "m", kFirstRun, id<HoldId>('h')}, extent(0)));
  EXPECT_TRUE(ownership.end_name(extent(0))) << "it is to be freed";
  EXPECT_EQ(ownership.of_user(7).bytes, 150u);
  EXPECT_TRUE(ownership.is_valid());
  ownership.add(extent(16384), kSession, "n", kSecondRun, kAllocation, {7, 1});  // a later run of its daemon
  EXPECT_EQ(ownership.of_session(kSession).size(), 1u);
  for (const ExtentId& one : ended) EXPECT_TRUE(ownership.remove(one));
  EXPECT_EQ(ownership.nobodys(), 0u);
  EXPECT_EQ(ownership.of_user(7).bytes, 1u);
  EXPECT_TRUE(ownership.is_valid());
}

TEST(Ownership, FailedPublishingGivesTheExtentBack) {
  Ownership ownership = two();
  ownership.to_name(extent(0), 1);
  EXPECT_TRUE(ownership.to_session(extent(0), kSession, "n", kFirstRun));
  EXPECT_FALSE(ownership.to_session(extent(0), kSession, "n", kFirstRun));
  EXPECT_EQ(ownership.of_session(kSession).size(), 2u);
  EXPECT_TRUE(ownership.is_valid());
}

TEST(Ownership, ADeadDaemonsSessionsExpireAfterTheGrace) {
  Ownership ownership = two();
  ownership.owner_node("n", std::nullopt, 1000, kPatience);
  EXPECT_TRUE(ownership.expired(1009).empty());
  EXPECT_EQ(ownership.expired(1010), std::vector<SessionId>{kSession});
}

TEST(Ownership, SecondNewsOfADeathDoesNotRestartTheTimer) {
  Ownership ownership = two();
  ownership.owner_node("n", std::nullopt, 1000, kPatience);
  ownership.owner_node("n", std::nullopt, 1005, kPatience);
  EXPECT_EQ(ownership.expired(1010).size(), 1u);
}

TEST(Ownership, TheSameIncarnationBackStopsTheTimer) {
  Ownership ownership = two();
  ownership.owner_node("n", std::nullopt, 1000, kPatience);
  ownership.owner_node("n", kFirstRun, 1005, kPatience);
  EXPECT_TRUE(ownership.expired(~uint64_t{0} - 1).empty());
}

TEST(Ownership, AnotherIncarnationRunsTheTimerUntilTheSessionResumes) {
  Ownership ownership = two();
  ownership.owner_node("n", kSecondRun, 1000, kPatience);
  EXPECT_EQ(ownership.expired(1010).size(), 1u);
  EXPECT_TRUE(ownership.resume(kSession, "n", kSecondRun));
  EXPECT_TRUE(ownership.expired(1010).empty());
  ownership.owner_node("n", kSecondRun, 2000, kPatience);
  EXPECT_TRUE(ownership.expired(3000).empty());
}

TEST(Ownership, ALateRequestOfTheFormerIncarnationTakesNothingFromTheSession) {
  Ownership ownership = two();
  ASSERT_TRUE(ownership.resume(kSession, "n", kSecondRun));
  ownership.add(extent(8192), kSession, "n", kFirstRun, kAllocation, {1000, 4096});
  ASSERT_TRUE(ownership.to_name(extent(0), 1));
  ASSERT_TRUE(ownership.hold(kSession, "n", kFirstRun, id<HoldId>('l'), {extent(0)}).is_ok());
  ownership.owner_node("n", kSecondRun, 1000, kPatience);
  EXPECT_TRUE(ownership.expired(5000).empty());
  EXPECT_TRUE(ownership.timers_fit({{"n", kSecondRun}}));
}

TEST(Ownership, OnlyResumingStopsTheTimer) {
  Ownership ownership = two();
  ownership.owner_node("n", kSecondRun, 1000, kPatience);
  ownership.add(extent(8192), kSession, "n", kSecondRun, kAllocation, {1000, 4096});
  EXPECT_TRUE(ownership.is_expired(kSession, 1010));
  EXPECT_TRUE(ownership.timers_fit({{"n", kSecondRun}}));
  ASSERT_TRUE(ownership.resume(kSession, "n", kSecondRun));
  EXPECT_FALSE(ownership.is_expired(kSession, 1010));
  EXPECT_TRUE(ownership.timers_fit({{"n", kSecondRun}}));
}

TEST(Ownership, WhoIsThoughtDeadAndAnswersHasTheGraceAgain) {
  Ownership ownership = two();
  ownership.renew(kSession, 500, kPatience);
  EXPECT_TRUE(ownership.timers_fit({})) << "no timer ran";
  ownership.owner_node("n", std::nullopt, 1000, kPatience);
  ownership.renew(kSession, 1010, kPatience);
  EXPECT_FALSE(ownership.is_expired(kSession, 1019));
  EXPECT_TRUE(ownership.is_expired(kSession, 1020));
}

TEST(Ownership, OneQuestionInVainFreesNothing) {
  const Ownership::Patience patience{10, 4};
  Ownership ownership = two();
  ownership.owner_node("n", std::nullopt, 1000, patience);
  ASSERT_FALSE(ownership.is_expired(kSession, 1005));
  ASSERT_TRUE(ownership.is_expired(kSession, 1006)) << "it is asked a deadline before the grace is over";
  EXPECT_TRUE(ownership.wait_longer(kSession, 1006));
  ASSERT_FALSE(ownership.is_expired(kSession, 1009));
  EXPECT_FALSE(ownership.wait_longer(kSession, 1010));

  ownership.renew(kSession, 1010, patience);
  ASSERT_TRUE(ownership.is_expired(kSession, 1020));
  EXPECT_TRUE(ownership.wait_longer(kSession, 1020)) << "it may just be starting again";
  ASSERT_FALSE(ownership.is_expired(kSession, 1023));
  EXPECT_FALSE(ownership.wait_longer(kSession, 1024));

  Ownership others = two();
  others.owner_node("n", std::nullopt, 1000, {4, 10});
  ASSERT_TRUE(others.is_expired(kSession, 1000)) << "a grace shorter than the deadline";
  EXPECT_TRUE(others.wait_longer(kSession, 1000));
  EXPECT_FALSE(others.is_expired(kSession, 1009));
}

TEST(Ownership, EachNewRunHasTheGraceFromWhenItIsSeen) {
  Ownership ownership = two();
  ownership.owner_node("n", std::nullopt, 1000, kPatience);
  ownership.owner_node("n", kSecondRun, 1009, kPatience);
  ownership.owner_node("n", kSecondRun, 1015, kPatience);
  ownership.owner_node("n", std::nullopt, 1016, kPatience);
  ownership.owner_node("n", kSecondRun, 1017, kPatience);
  EXPECT_FALSE(ownership.is_expired(kSession, 1018));
  EXPECT_TRUE(ownership.is_expired(kSession, 1019));
}

TEST(Ownership, ADaemonThatStartsAgainAndAgainKeepsNothingForEver) {
  Ownership ownership = two();
  uint64_t now_ns = 1000;
  for (uint8_t run = 10; !ownership.is_expired(kSession, now_ns); ++run, now_ns += 5) {
    ASSERT_LT(now_ns, 1100u);
    Incarnation next;
    next.bytes.fill(std::byte{run});
    ownership.owner_node("n", std::nullopt, now_ns, kPatience);
    ownership.owner_node("n", next, now_ns, kPatience);
  }
  EXPECT_GE(now_ns, 1040u);
}

TEST(Ownership, AnotherNodeCannotResumeASession) {
  Ownership ownership = two();
  EXPECT_FALSE(ownership.resume(kSession, "m", kSecondRun));
}

TEST(Ownership, OtherNodesDeathsDoNotMatter) {
  Ownership ownership = two();
  ownership.owner_node("m", std::nullopt, 1000, kPatience);
  EXPECT_TRUE(ownership.expired(5000).empty());
}

const SessionId kReader = id<SessionId>('r'), kOther = id<SessionId>('o');
const HoldId kHold = id<HoldId>('h'), kNext = id<HoldId>('i');
const std::vector<ExtentId> kBoth = {extent(0), extent(4096)};

/// Two extents that a name owns.
Ownership named() {
  Ownership ownership = two();
  for (const ExtentId& one : kBoth) ownership.to_name(one, 1);
  return ownership;
}

TEST(OwnershipHold, KeepsWhatItsNameLeaves) {
  Ownership ownership = named();
  const auto missing = ownership.hold(kReader, "m", kFirstRun, kHold, kBoth);
  ASSERT_TRUE(missing.is_ok());
  EXPECT_TRUE(missing.value().empty());
  EXPECT_FALSE(ownership.end_name(extent(0)));
  EXPECT_FALSE(ownership.end_name(extent(4096)));
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_EQ(ownership.of_user(7).bytes, 150u);
  EXPECT_EQ(ownership.end_hold(kReader, kHold), kBoth);
  EXPECT_TRUE(ownership.end_hold(kReader, kHold).empty());
}

TEST(OwnershipHold, EndsWithoutFreeingWhatStillHasItsName) {
  Ownership ownership = named();
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  EXPECT_TRUE(ownership.end_hold(kReader, kHold).empty());
  EXPECT_EQ(ownership.sessions(), 0u);
  EXPECT_TRUE(ownership.end_name(extent(0)));
  EXPECT_TRUE(ownership.is_valid());
}

TEST(OwnershipHold, TheLastOneFrees) {
  Ownership ownership = named();
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kNext, {extent(0)}).is_ok());
  ASSERT_TRUE(ownership.hold(kOther, "k", kFirstRun, kHold, {extent(0)}).is_ok());
  for (const ExtentId& one : kBoth) ownership.end_name(one);
  EXPECT_EQ(ownership.end_hold(kReader, kHold), std::vector<ExtentId>{extent(4096)});
  ownership.remove(extent(4096));
  EXPECT_TRUE(ownership.end_hold(kOther, kHold).empty());
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_EQ(ownership.end_hold(kReader, kNext), std::vector<ExtentId>{extent(0)});
}

TEST(OwnershipHold, OnlyWhatANameOwnsCanBeHeld) {
  Ownership ownership = two();
  ownership.to_name(extent(0), 1);
  const auto missing =
      ownership.hold(kReader, "m", kFirstRun, kHold, {extent(0), extent(4096), extent(8192)});
  ASSERT_TRUE(missing.is_ok());
  EXPECT_EQ(missing.value(), (std::vector<ExtentId>{extent(4096), extent(8192)}));
  EXPECT_FALSE(ownership.end_name(extent(0)));
  const auto late = ownership.hold(kOther, "m", kFirstRun, kNext, {extent(0)});
  ASSERT_TRUE(late.is_ok());
  EXPECT_EQ(late.value().size(), 1u);  // its name has ended
  EXPECT_TRUE(ownership.is_valid());
}

TEST(OwnershipHold, AskedTwiceItIsOne) {
  Ownership ownership = named();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  EXPECT_TRUE(ownership.is_valid());
  for (const ExtentId& one : kBoth) ownership.end_name(one);
  EXPECT_EQ(ownership.end_hold(kReader, kHold), kBoth);
}

TEST(OwnershipHold, IsAnOrphanWithItsDaemon) {
  Ownership ownership = named();
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  ownership.owner_node("m", kSecondRun, 1000, kPatience);
  EXPECT_EQ(ownership.expired(1010), std::vector<SessionId>{kReader});
  EXPECT_TRUE(ownership.resume(kReader, "m", kSecondRun));
  EXPECT_TRUE(ownership.expired(1010).empty());
  EXPECT_EQ(ownership.holds_of(kReader), std::vector<HoldId>{kHold});
}

TEST(OwnershipHold, OutlivesAnExtentThatIsDropped) {
  Ownership ownership = named();
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  EXPECT_TRUE(ownership.remove(extent(0)));
  EXPECT_TRUE(ownership.is_valid());
  ownership.end_name(extent(4096));
  EXPECT_EQ(ownership.end_hold(kReader, kHold), std::vector<ExtentId>{extent(4096)});
}

TEST(OwnershipHold, FailedPublishingTakesTheExtentBackFromItsHolders) {
  Ownership ownership = named();
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, kBoth).is_ok());
  EXPECT_TRUE(ownership.to_session(extent(0), kSession, "n", kFirstRun));
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_TRUE(ownership.end_hold(kReader, kHold).empty());
  EXPECT_EQ(ownership.of_session(kSession), std::vector<ExtentId>{extent(0)});
}

TEST(OwnershipHold, IsBoundedForEachSession) {
  Ownership ownership = named();
  const std::vector<ExtentId> many(kHeldExtentsMax, extent(0));
  ASSERT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, {extent(0)}).is_ok());
  EXPECT_EQ(ownership.hold(kReader, "m", kFirstRun, kNext, many).status().code(), Code::kLimit);
  EXPECT_TRUE(ownership.hold(kOther, "m", kFirstRun, kNext, many).is_ok());
  EXPECT_EQ(ownership.holds_on(extent(0)).size(), 2u) << "however often a request names it";
  EXPECT_TRUE(ownership.is_valid());
}

TEST(OwnershipHold, OfOthersCostARenamedExtentNothing) {
  const auto processor_time = [](uint64_t others) {
    Ownership ownership = named();
    for (uint64_t i = 0; i < others; ++i) {
      HoldId hold{};
      std::memcpy(hold.bytes.data(), &i, sizeof i);
      EXPECT_TRUE(ownership.hold(kOther, "m", kFirstRun, hold, {extent(4096)}).is_ok());
    }
    EXPECT_TRUE(ownership.hold(kReader, "m", kFirstRun, kHold, {extent(0)}).is_ok());
    const std::clock_t begun = std::clock();
    for (uint64_t i = 0; i < 100; ++i) {
      EXPECT_TRUE(ownership.rename(extent(i == 0 ? 0 : i + 1), extent(i + 2)));
      EXPECT_EQ(ownership.holds_on(extent(i + 2)).size(), 1u);
    }
    return std::clock() - begun;
  };
  EXPECT_LT(processor_time(60'000), 100 * processor_time(0) + CLOCKS_PER_SEC / 100);
}

TEST(OwnershipHold, OfOneUserTakeABoundedPart) {
  constexpr uint32_t kPrivileged = 700;
  Ownership ownership(kPrivileged, 2 * held_bytes(1));
  ownership.add(extent(0), kSession, "n", kFirstRun, kAllocation, {7, 100});
  ownership.to_name(extent(0), 1);
  const auto hold = [&](uint32_t uid, char session, char its) {
    return ownership.hold(with_uid(id<SessionId>(session), uid), "m", kFirstRun, id<HoldId>(its), {extent(0)})
        .status()
        .code();
  };
  EXPECT_EQ(hold(8, 'r', '1'), Code::kOk);
  EXPECT_EQ(hold(8, 'o', '2'), Code::kOk) << "another session of the same user";
  EXPECT_EQ(hold(8, 'p', '3'), Code::kLimit);
  EXPECT_EQ(hold(9, 'r', '4'), Code::kOk) << "another user";
  for (const uint32_t uid : {0u, kPrivileged}) {
    for (const char its : {'5', '6', '7'}) EXPECT_EQ(hold(uid, 'r', its), Code::kOk) << uid;
  }
  EXPECT_TRUE(ownership.is_valid());
  ownership.end_hold(with_uid(id<SessionId>('r'), 8), id<HoldId>('1'));
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_EQ(hold(8, 'p', '3'), Code::kOk);
}

TEST(Ownership, ALateEndOfAnEarlierIncarnationIsNone) {
  Ownership ownership = two();
  EXPECT_TRUE(ownership.is_ended_by(kSession, kFirstRun));
  EXPECT_FALSE(ownership.is_ended_by(kSession, kSecondRun));
  ASSERT_TRUE(ownership.resume(kSession, "n", kSecondRun));
  EXPECT_FALSE(ownership.is_ended_by(kSession, kFirstRun));
  EXPECT_TRUE(ownership.is_ended_by(kSession, kSecondRun));
  EXPECT_TRUE(ownership.is_ended_by(id<SessionId>('x'), kFirstRun)) << "it has nothing here";
}

TEST(Ownership, WhatANameGoesOnWithoutStaysForItsHolders) {
  Ownership ownership = two();
  ownership.to_name(extent(0), 1);
  ASSERT_TRUE(ownership.hold(kSession, "n", kFirstRun, id<HoldId>('h'), {extent(0)}).is_ok());
  EXPECT_FALSE(ownership.end_name(extent(0)));
  EXPECT_FALSE(ownership.end_name(extent(0))) << "told again";
  EXPECT_EQ(ownership.hold(kSession, "n", kFirstRun, id<HoldId>('i'), {extent(0)}).value().size(), 1u);
  EXPECT_EQ(ownership.end_hold(kSession, id<HoldId>('h')), std::vector<ExtentId>{extent(0)});
}

TEST(Ownership, ARenamedExtentKeepsItsOwnerAndItsHolders) {
  const SessionId reader = id<SessionId>('r');
  const HoldId hold = id<HoldId>('h');
  Ownership ownership = two();
  ASSERT_TRUE(ownership.rename(extent(0), extent(8192)));
  EXPECT_FALSE(ownership.rename(extent(0), extent(8192)));
  EXPECT_EQ(ownership.find(extent(0)), nullptr);
  EXPECT_EQ(ownership.find(extent(8192))->session, kSession);
  EXPECT_EQ(ownership.of_session(kSession).size(), 2u);
  EXPECT_TRUE(ownership.is_valid());
  ASSERT_TRUE(ownership.to_name(extent(8192), 1));
  ASSERT_TRUE(ownership.hold(reader, "m", kSecondRun, hold, {extent(8192), extent(8192)}).is_ok());
  ASSERT_TRUE(ownership.rename(extent(8192), extent(12288)));
  EXPECT_TRUE(ownership.is_valid());
  EXPECT_FALSE(ownership.end_name(extent(12288))) << "it is held";
  EXPECT_EQ(ownership.end_hold(reader, hold), std::vector<ExtentId>{extent(12288)});
}

TEST(Ownership, WhatOneSessionMadeIsGivenToAnotherOrToAName) {
  const SessionId owner = id<SessionId>('o');
  const AllocationId theirs = id<AllocationId>('b');
  Ownership ownership = two();
  ASSERT_TRUE(ownership.give(extent(0), theirs, owner, "m", kSecondRun));
  EXPECT_EQ(ownership.of_session(owner), std::vector<ExtentId>{extent(0)});
  EXPECT_EQ(ownership.find(extent(0))->allocation, theirs);
  ASSERT_TRUE(ownership.vouching(owner).has_value());
  EXPECT_EQ(ownership.vouching(owner)->node, "m");
  ASSERT_TRUE(ownership.give_to_name(extent(4096), theirs, 1));
  EXPECT_FALSE(ownership.find(extent(4096))->session.has_value());
  EXPECT_FALSE(ownership.vouching(kSession).has_value()) << "it owns nothing any more";
  EXPECT_FALSE(ownership.give(extent(0x9000), theirs, owner, "m", kSecondRun));
  EXPECT_TRUE(ownership.is_valid());
}

}  // namespace
}  // namespace ocm::control
