// The registry of published allocations.
#include "control/names.h"

#include <gtest/gtest.h>

#include "filled.h"
#include "os/crypto.h"

namespace ocm::control {
namespace {

Allocation allocation(const std::string& name, char id, uint32_t uid = 1000, uint32_t mode = 0600) {
  Allocation out;
  out.id = filled<AllocationId>(id);
  out.name = name;
  out.owner_uid = uid;
  out.mode = mode;
  auto& extent = out.extents.emplace_back();
  extent.node = "a";
  extent.id = {GlobalAddress(4096 + static_cast<uint64_t>(id)), 1};
  extent.capability = filled<Capability>('k');
  return out;
}

Result<Allocation> remove(Names& names, const std::string& name, uint32_t uid) {
  OCM_TRY_ASSIGN(const AllocationId id, names.removable(name, uid));
  return names.remove(name, id, uid);
}

TEST(Names, ANameLeadsToOneAllocation) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  EXPECT_EQ(names.publish(allocation("x", '2')).code(), Code::kExists);
  EXPECT_EQ(names.publish(allocation("y", '1')).code(), Code::kExists);
}

TEST(Names, WhatIsPublishedAgainHasItsNameOrWasRemoved) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  EXPECT_TRUE(names.publish(allocation("x", '1', 1000, 0604)).is_ok());
  EXPECT_EQ(names.find("x")->mode, 0604u);
  EXPECT_EQ(names.publish(allocation("x", '1', 1001)).code(), Code::kExists);
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(names.find_id(filled<AllocationId>('1')), names.find("x"));
  ASSERT_TRUE(remove(names, "x", 1000).is_ok());
  EXPECT_EQ(names.publish(allocation("x", '1')).code(), Code::kRevoked);
  EXPECT_EQ(names.find_id(filled<AllocationId>('1')), nullptr);
}

TEST(Names, AnIdThatHasNoNameHasNoneFromThenOn) {
  Names names(10);
  EXPECT_FALSE(names.remember_removed(filled<AllocationId>('1')).has_value());
  EXPECT_EQ(names.publish(allocation("x", '1')).code(), Code::kRevoked);
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kRemoved);
}

TEST(Names, AFailedPublishForgetsItsOwnNameOnly) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  ASSERT_TRUE(remove(names, "x", 0).is_ok());
  ASSERT_TRUE(names.publish(allocation("x", '2')).is_ok());
  EXPECT_FALSE(names.forget("x", filled<AllocationId>('1')).has_value());
  ASSERT_NE(names.find("x"), nullptr);
  EXPECT_TRUE(names.forget("x", filled<AllocationId>('2')).has_value());
  EXPECT_EQ(names.find("x"), nullptr);
}

TEST(Names, ARemovalThatComesLateTakesNoOther) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  const AllocationId first = names.removable("x", 1000).value();
  ASSERT_TRUE(remove(names, "x", 1000).is_ok());
  ASSERT_TRUE(names.publish(allocation("x", '2')).is_ok());
  EXPECT_EQ(names.remove("x", first, 1000).status().code(), Code::kNotFound);
  ASSERT_NE(names.find("x"), nullptr);
}

TEST(Names, ReadersGetTheDerivedCapability) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  const auto read = names.attach("x", Access::kRead, 1000);
  const auto write = names.attach("x", Access::kReadWrite, 1000);
  ASSERT_TRUE(read.is_ok() && write.is_ok());
  EXPECT_EQ(read.value().extents[0].capability, os::read_capability(filled<Capability>('k')));
  EXPECT_EQ(write.value().extents[0].capability, filled<Capability>('k'));
}

TEST(Names, ModeBitsDecideWhoOpens) {
  EXPECT_TRUE(may_access(0600, 5, 5, Access::kReadWrite));
  EXPECT_FALSE(may_access(0600, 5, 6, Access::kRead));
  EXPECT_TRUE(may_access(0604, 5, 6, Access::kRead));
  EXPECT_FALSE(may_access(0604, 5, 6, Access::kReadWrite));
  EXPECT_TRUE(may_access(0606, 5, 6, Access::kReadWrite));
  EXPECT_FALSE(may_access(0400, 5, 5, Access::kReadWrite));
  EXPECT_TRUE(may_access(0, 5, 0, Access::kReadWrite));
}

TEST(Names, OnlyTheOwnerAndRootRemove) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1', 1000, 0666)).is_ok());
  EXPECT_EQ(remove(names, "x", 1001).status().code(), Code::kPermission);
  EXPECT_TRUE(remove(names, "x", 1000).is_ok());
  EXPECT_EQ(remove(names, "x", 0).status().code(), Code::kNotFound);
}

TEST(Names, WhatFollowsATildeIsTheOwnersOfWhatStandsBefore) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("t", '1', 1000, 0666)).is_ok());
  const Status refused = names.publish(allocation("t~0a~1", '2', 1001, 0666));
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.to_string().find("uid 1000"), std::string::npos) << refused.to_string();
  EXPECT_EQ(names.find("t~0a~1"), nullptr);
  EXPECT_TRUE(names.publish(allocation("t~0a~1", '2', 1000)).is_ok());
  EXPECT_EQ(names.publish(allocation("t~", '3', 1001)).code(), Code::kPermission);
  EXPECT_TRUE(names.publish(allocation("tt~0a~1", '3', 1001)).is_ok());  // of tt, which nobody has
}

TEST(Names, WhatRootAppendsIsTheOwnersToRemove) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("t", '1', 1000, 0644)).is_ok());
  ASSERT_TRUE(names.publish(allocation("t~0a~1", '2', 0, 0644)).is_ok());
  EXPECT_EQ(names.find("t~0a~1")->owner_uid, 1000u);
  EXPECT_TRUE(remove(names, "t", 1000).is_ok());
  EXPECT_TRUE(remove(names, "t~0a~1", 1000).is_ok());
}

TEST(Names, WhatHomesReportIsTakenWhoeverOwnsIt) {
  // "t~" was published when there was no "t".
  Names names(10);
  EXPECT_EQ(names.merge(allocation("t", '1', 1000)), Names::Merged::kAdded);
  EXPECT_EQ(names.merge(allocation("t~0a~1", '2', 1001)), Names::Merged::kAdded);
  EXPECT_EQ(names.find("t~0a~1")->owner_uid, 1001u);
}

TEST(Names, AllUsersTogetherLeaveASixteenth) {
  constexpr uint32_t kDaemon = 7;
  Names names(32, kDaemon);
  const auto publish = [&](int which, uint32_t uid) {
    const char id = static_cast<char>('A' + which);
    return names.publish(allocation(std::string(1, id), id, uid)).code();
  };
  for (int i = 0; i < 30; ++i) EXPECT_EQ(publish(i, 1000 + static_cast<uint32_t>(i % 3)), Code::kOk);
  EXPECT_EQ(publish(30, 1003), Code::kLimit);
  EXPECT_EQ(publish(30, 0), Code::kOk);
  EXPECT_EQ(publish(31, kDaemon), Code::kOk);
}

TEST(Names, OneUserHasHalfOfThemAndThePrivilegedAll) {
  constexpr uint32_t kDaemon = 7;
  Names names(8, kDaemon);
  const auto publish = [&](char id, uint32_t uid) {
    return names.publish(allocation(std::string(1, id), id, uid)).code();
  };
  for (const char id : {'1', '2', '3', '4'}) EXPECT_EQ(publish(id, 1000), Code::kOk);
  EXPECT_EQ(publish('5', 1000), Code::kLimit);
  EXPECT_EQ(publish('5', 1001), Code::kOk);
  ASSERT_TRUE(remove(names, "1", 1000).is_ok());
  EXPECT_EQ(publish('6', 1000), Code::kOk);  // given back
  EXPECT_TRUE(names.forget("6", filled<AllocationId>('6')).has_value());
  EXPECT_EQ(publish('6', 1000), Code::kOk);
  for (const char id : {'2', '3', '4', '5', '6'}) ASSERT_TRUE(remove(names, std::string(1, id), 0).is_ok());
  char first = 'a';
  for (const uint32_t all : {0u, kDaemon}) {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(publish(static_cast<char>(first + i), all), Code::kOk);
    EXPECT_EQ(publish('z', all), Code::kLimit);
    for (int i = 0; i < 8; ++i)
      ASSERT_TRUE(remove(names, std::string(1, static_cast<char>(first + i)), 0).is_ok());
    first = 'A';
  }
}

TEST(Names, ListsByPrefixWithoutCapabilities) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("t.a", '1', 1000, 0604)).is_ok());
  ASSERT_TRUE(names.publish(allocation("t.b", '2', 1000, 0600)).is_ok());
  ASSERT_TRUE(names.publish(allocation("u", '3', 1000, 0604)).is_ok());
  const auto none_gone = [](const PlacedExtent&, bool) { return false; };
  const auto others = names.list("t.", "", 5, none_gone);
  ASSERT_EQ(others.entries.size(), 1u);
  EXPECT_EQ(others.entries[0].name, "t.a");
  EXPECT_EQ(others.entries[0].extents, 1u);
  EXPECT_EQ(names.list("", "", 1000, none_gone).entries.size(), 3u);
}

TEST(Names, ManyAreListedPageByPage) {
  Names names(2 * kNamesListedMax);
  const auto none_gone = [](const PlacedExtent&, bool) { return false; };
  for (size_t i = 0; i < kNamesListedMax + 5; ++i) {
    Allocation one = allocation("n" + std::to_string(i), '1', 0);
    __builtin_memcpy(one.id.bytes.data(), &i, sizeof(i));
    ASSERT_TRUE(names.publish(std::move(one)).is_ok());
  }
  const auto first = names.list("n", "", 0, none_gone);
  ASSERT_EQ(first.entries.size(), kNamesListedMax);
  EXPECT_TRUE(first.more);
  const auto rest = names.list("n", first.entries.rbegin()->name, 0, none_gone);
  EXPECT_EQ(rest.entries.size(), 5u);
  EXPECT_FALSE(rest.more);
  EXPECT_LT(first.entries.rbegin()->name, rest.entries[0].name);
  EXPECT_EQ(names.list("o", "n1", 0, none_gone).entries.size(), 0u);
}

TEST(Names, RebuiltFromWhatTheHomesReport) {
  Names names(20);
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kAdded);
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kKnown);
  // Another has got the name meanwhile: what was acknowledged is neither hidden nor kept for ever.
  EXPECT_EQ(names.merge(allocation("x", '2')), Names::Merged::kRenamed);
  EXPECT_EQ(names.merge(allocation("x", '2')), Names::Merged::kKnown);
  ASSERT_NE(names.find("x.conflict-32323232"), nullptr);
  EXPECT_EQ(names.find("x.conflict-32323232")->id, filled<AllocationId>('2'));
  const std::string longest(254, 'y'), accents = longest.substr(0, 235) + "\xc3\xa9" + longest.substr(0, 18);
  for (const std::string& name : {longest, accents}) {
    EXPECT_EQ(names.merge(allocation(name, name == longest ? '3' : '4')), Names::Merged::kAdded);
    EXPECT_EQ(names.merge(allocation(name, name == longest ? '5' : '6')), Names::Merged::kRenamed);
    const auto* renamed = names.find_id(filled<AllocationId>(name == longest ? '5' : '6'));
    ASSERT_NE(renamed, nullptr);
    EXPECT_TRUE(check_name(renamed->name).is_ok()) << renamed->name;
  }
}

TEST(Names, WhatOthersRememberAsRemovedIsNotBroughtBackToAnEmptyRegistry) {
  Names former(10), names(10), late(10);
  ASSERT_TRUE(former.publish(allocation("x", '1')).is_ok());
  ASSERT_TRUE(remove(former, "x", 1000).is_ok());
  ASSERT_EQ(former.removed().size(), 1u);
  EXPECT_FALSE(names.remember_removed(former.removed().front()).has_value());
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kRemoved);
  EXPECT_EQ(late.merge(allocation("x", '1')), Names::Merged::kAdded);  // its home was the first to tell
  const auto back = late.remember_removed(former.removed().front());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->extents.size(), 1u);
  EXPECT_EQ(late.find("x"), nullptr);
  EXPECT_TRUE(late.publish(allocation("x", '2')).is_ok());
}

TEST(Names, AHomeThatWasAwayDoesNotBringBackARemovedName) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  ASSERT_TRUE(remove(names, "x", 1000).is_ok());
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kRemoved);
}

TEST(Names, BadNamesAreRefused) {
  for (const std::string& bad : {std::string(), std::string("a/b"), std::string("a\0b", 3),
                                 std::string(256, 'a'), std::string("\xff"), std::string("\xc3")}) {
    EXPECT_FALSE(check_name(bad).is_ok());
  }
  EXPECT_TRUE(check_name(std::string(255, 'a')).is_ok());
  EXPECT_TRUE(check_name("tabelle-\xc3\xa4").is_ok());
}

TEST(Names, TheRegistryIsBounded) {
  Names names(1);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  EXPECT_EQ(names.publish(allocation("y", '2')).code(), Code::kLimit);
}

TEST(Names, ALostReplicaIsMarkedAndCounted) {
  Names names(10);
  Allocation a = allocation("x", '1');
  a.layout = Layout::kReplicated;
  a.extents.push_back(a.extents[0]);
  a.extents[1].id.address = GlobalAddress(99);
  ASSERT_TRUE(names.publish(a).is_ok());
  const auto listed = [&] {
    return names.list("", "", 0, [](const PlacedExtent&, bool) { return false; }).entries[0];
  };
  EXPECT_EQ(listed().lost_extents, 0u);
  EXPECT_TRUE(names.lose_extent(ExtentId{GlobalAddress(99), 1}));
  EXPECT_FALSE(names.lose_extent(ExtentId{GlobalAddress(99), 1})) << "it is noted already";
  EXPECT_TRUE(names.find("x")->extents[1].lost);
  EXPECT_EQ(listed().lost_extents, 1u);
  EXPECT_EQ(listed().extents, 2u);
  EXPECT_FALSE(listed().lost);
}

Allocation replicated(const std::string& name, char id,
                      const std::vector<std::pair<uint64_t, uint32_t>>& replicas) {
  Allocation out = allocation(name, id);
  out.layout = Layout::kReplicated;
  const PlacedExtent extent = out.extents[0];
  out.extents.clear();
  for (const auto& [address, generation] : replicas) {
    out.extents.push_back(extent);
    out.extents.back().id = {GlobalAddress(address), generation};
  }
  return out;
}

TEST(Names, AnAddressThatIsUsedAgainIsAnotherReplica) {
  Names names(10);
  ASSERT_TRUE(names.publish(replicated("x", '1', {{7, 1}, {99, 1}})).is_ok());
  ASSERT_TRUE(names.lose_extent(ExtentId{GlobalAddress(99), 1}));
  ASSERT_TRUE(names.publish(replicated("y", '2', {{8, 1}, {99, 2}})).is_ok());
  EXPECT_TRUE(names.is_valid());
  ASSERT_TRUE(remove(names, "x", 0).is_ok());
  EXPECT_TRUE(names.lose_extent(ExtentId{GlobalAddress(99), 2})) << "it is of y still";
}

TEST(Names, AReplicaIsOfOneName) {
  Names names(10);
  ASSERT_TRUE(names.publish(replicated("x", '1', {{7, 1}, {99, 1}})).is_ok());
  EXPECT_EQ(names.publish(replicated("y", '2', {{8, 1}, {99, 1}})).code(), Code::kExists);
  EXPECT_EQ(names.merge(replicated("y", '2', {{8, 1}, {99, 1}})), Names::Merged::kRefused);
  ASSERT_TRUE(names.publish(replicated("y", '2', {{8, 1}, {9, 1}})).is_ok());
  PartMoved again;
  again.was = {GlobalAddress(8), 1};
  again.now.push_back(names.find("x")->extents[0]);
  again.epoch = 1;
  EXPECT_FALSE(names.relocate(again)) << "the replica of another name";
  EXPECT_TRUE(names.is_valid());
}

TEST(Names, APartThatWasMadeAgainIsFoundUnderItsName) {
  Names names(10), restarted(10);
  Allocation a = allocation("x", '1');
  a.layout = Layout::kReplicated;
  a.extents.push_back(a.extents[0]);
  a.extents[1].id.address = GlobalAddress(99);
  ASSERT_TRUE(names.publish(a).is_ok());
  ASSERT_TRUE(names.lose_extent(ExtentId{GlobalAddress(a.extents[0].id.address), 1}));
  PartMoved again;
  again.was = {GlobalAddress(99), 1};
  for (const uint64_t address : {uint64_t{7}, uint64_t{8}}) {
    again.now.push_back(a.extents[0]);
    again.now.back().id.address = GlobalAddress(address);
  }
  again.epoch = 1;
  ASSERT_TRUE(names.relocate(again));
  EXPECT_FALSE(names.relocate(again)) << "the former part is not there any more";
  EXPECT_EQ(names.find("x")->extents[1].id.address, GlobalAddress(7));
  EXPECT_FALSE(names.find("x")->extents[0].lost);
  EXPECT_TRUE(names.lose_extent(ExtentId{GlobalAddress(8), 1})) << "the new replicas are known";
  // A coordinator that started anew hears the former part first.
  std::vector<PlacedExtent> former;
  EXPECT_EQ(restarted.merge(a, 0, &former), Names::Merged::kAdded);
  EXPECT_TRUE(former.empty());
  EXPECT_EQ(restarted.merge(*names.find("x"), 0, &former), Names::Merged::kKnown);
  EXPECT_EQ(restarted.find("x")->extents[1].id.address, GlobalAddress(7));
  ASSERT_EQ(former.size(), 2u) << "N8: whoever reported them shall free them";
  former.clear();
  EXPECT_EQ(restarted.merge(a, 0, &former), Names::Merged::kKnown);
  EXPECT_EQ(restarted.find("x")->extents[1].id.address, GlobalAddress(7)) << "what is older changes nothing";
  ASSERT_EQ(former.size(), 2u);
  EXPECT_EQ(former[0].id.address, a.extents[0].id.address);
  EXPECT_EQ(former[1].id.address, GlobalAddress(99));
  former.clear();
  const Allocation before = *restarted.find("x");
  ASSERT_TRUE(restarted.lose_extent(ExtentId{GlobalAddress(7), 1}));
  EXPECT_EQ(restarted.merge(before, 0, &former), Names::Merged::kKnown);
  EXPECT_TRUE(former.empty()) << "of a part without a living replica nothing is freed";
  Allocation other = *restarted.find("x");
  other.extents[1].lost = false;
  other.extents[1].id.address = GlobalAddress(55);
  EXPECT_EQ(restarted.merge(other, 0, &former), Names::Merged::kKnown);
  EXPECT_TRUE(former.empty()) << "of two that were made again as often neither knows more";
  EXPECT_TRUE(restarted.is_valid());
}

TEST(Names, AReplicaThatWasGivenUpAndIsReportedIsFreed) {
  Names names(10);
  ASSERT_TRUE(names.publish(replicated("y", '2', {{8, 1}, {9, 1}})).is_ok());
  const Allocation before = *names.find("y");
  ASSERT_TRUE(names.lose_extent(ExtentId{GlobalAddress(9), 1}));
  std::vector<PlacedExtent> former;
  EXPECT_EQ(names.merge(before, 0, &former), Names::Merged::kKnown);
  ASSERT_EQ(former.size(), 1u) << "it was not made again yet";
  EXPECT_EQ(former[0].id.address, GlobalAddress(9));
  // A home that was away has it the other way round: its voters forgot. One living replica stays in each record.
  former.clear();
  Allocation other = before;
  other.extents[0].lost = true;
  EXPECT_EQ(names.merge(other, 0, &former), Names::Merged::kKnown);
  ASSERT_EQ(former.size(), 1u);
  EXPECT_EQ(former[0].id.address, GlobalAddress(9));
  EXPECT_FALSE(names.find("y")->extents[0].lost);
}

TEST(Names, ALossIsOfAReplicaAndNotOfItsPlaceInTheRecord) {
  Names names(10);
  ASSERT_TRUE(names.publish(replicated("y", '2', {{8, 1}, {9, 1}})).is_ok());
  Allocation other = *names.find("y");
  std::swap(other.extents[0], other.extents[1]);
  other.extents[0].lost = true;
  std::vector<PlacedExtent> former;
  EXPECT_EQ(names.merge(other, 0, &former), Names::Merged::kKnown);
  EXPECT_FALSE(names.find("y")->extents[0].lost);
  EXPECT_TRUE(names.find("y")->extents[1].lost);
  EXPECT_EQ(names.find("y")->extents[1].id.address, GlobalAddress(9));
  ASSERT_EQ(former.size(), 1u) << "what was in force until now";
  EXPECT_EQ(former[0].id.address, GlobalAddress(9));
}

NameNote noted(const std::string& name, char id, uint32_t uid = 1000, uint32_t mode = 0600) {
  return {.id = filled<AllocationId>(id), .name = name, .owner_uid = uid, .mode = mode, .homes = {"a"}};
}

TEST(Names, ANotedNameIsNobodyElses) {
  Names names(10);
  EXPECT_FALSE(names.expect(noted("x", '1')).has_value());
  ASSERT_NE(names.expected("x"), nullptr);
  EXPECT_EQ(names.publish(allocation("x", '2')).code(), Code::kExists) << "N10";
  EXPECT_EQ(names.merge(allocation("x", '2')), Names::Merged::kRenamed);
  EXPECT_EQ(names.publish(allocation("x~1", '3', 1001)).code(), Code::kPermission) << "N4";
  EXPECT_TRUE(names.is_valid());
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kAdded) << "its home is back";
  EXPECT_EQ(names.expected("x"), nullptr);
  EXPECT_EQ(names.find("x")->id, filled<AllocationId>('1'));
  EXPECT_TRUE(names.is_valid());
}

TEST(Names, ANotedNameIsRemovedWithoutItsHomes) {
  Names names(10);
  (void)names.expect(noted("x", '1'));
  EXPECT_EQ(names.removable("x", 1001).status().code(), Code::kPermission);
  const auto removed = remove(names, "x", 1000);
  ASSERT_TRUE(removed.is_ok());
  EXPECT_EQ(removed.value().id, filled<AllocationId>('1'));
  EXPECT_EQ(names.expected("x"), nullptr);
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kRemoved);
  EXPECT_TRUE(names.publish(allocation("x", '2')).is_ok());
  EXPECT_TRUE(names.is_valid());
}

TEST(Names, ANoteOfARemovalFreesWhatAHomeBroughtBack) {
  Names names(10);
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kAdded);
  const auto back = names.expect({.id = filled<AllocationId>('1')});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->extents.size(), 1u);
  EXPECT_EQ(names.find("x"), nullptr);
  (void)names.expect(noted("x", '1'));
  EXPECT_EQ(names.expected("x"), nullptr) << "a removal is final";
}

TEST(Names, WhatIsKnownIsNotExpected) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  (void)names.expect(noted("x", '1'));
  (void)names.expect(noted("x", '2'));
  EXPECT_EQ(names.expected("x"), nullptr);
  (void)names.expect(noted("y", '2'));
  EXPECT_TRUE(names.publish(allocation("y", '2')).is_ok()) << "published again, by who had the answer";
  EXPECT_EQ(names.expected("y"), nullptr);
  EXPECT_TRUE(names.is_valid());
}

TEST(Names, AHomeThatDidNotHearOfANewNameIsKnownByTheNotedOne) {
  Names names(10);
  (void)names.expect(noted("x.conflict-31313131", '1'));
  EXPECT_EQ(names.merge(allocation("x", '1')), Names::Merged::kRenamed);
  EXPECT_NE(names.find("x.conflict-31313131"), nullptr);
  EXPECT_EQ(names.find("x"), nullptr);
}

TEST(Names, ANotedNameWhosePublishIsUndoneIsNobodyElses) {
  Names names(10);
  (void)names.expect(noted("x", '1'));
  EXPECT_EQ(names.publish(allocation("y", '1')).code(), Code::kExists) << "it may have a name";
  const auto before = names.noted(filled<AllocationId>('1'));
  ASSERT_TRUE(before.has_value());
  ASSERT_TRUE(names.publish(allocation("x", '1')).is_ok());
  EXPECT_TRUE(names.forget("x", filled<AllocationId>('1'), before).has_value());
  EXPECT_EQ(names.find("x"), nullptr);
  EXPECT_TRUE(names.expects(filled<AllocationId>('1'))) << "N10";
  EXPECT_EQ(names.publish(allocation("x", '2')).code(), Code::kExists);
  EXPECT_TRUE(names.is_valid());
  (void)names.remember_removed(filled<AllocationId>('1'));  // its program gives it up
  EXPECT_TRUE(names.publish(allocation("x", '2')).is_ok());
  EXPECT_FALSE(names.noted(filled<AllocationId>('2')).has_value());
  EXPECT_TRUE(names.forget("x", filled<AllocationId>('2')).has_value());
  EXPECT_EQ(names.expected("x"), nullptr) << "no voter has noted that";
  EXPECT_TRUE(names.is_valid());
}

TEST(Names, OfTwoNotesOfOneNameTheNewerCounts) {
  for (const bool late : {false, true}) {
    Names names(10);
    NameNote older = noted("x", '1'), newer = noted("x", '2');
    older.sequence = 1, newer.sequence = 2;
    (void)names.expect(late ? newer : older);
    (void)names.expect(late ? older : newer);
    ASSERT_NE(names.expected("x"), nullptr);
    EXPECT_EQ(names.expected("x")->id, filled<AllocationId>('2'));
    EXPECT_FALSE(names.expects(filled<AllocationId>('1')));
    EXPECT_TRUE(names.is_valid());
  }
}

TEST(Names, NotedNamesAreListedAsLostInTheirOrder) {
  Names names(10);
  ASSERT_TRUE(names.publish(allocation("b", '2')).is_ok());
  (void)names.expect(noted("a", '1'));
  (void)names.expect(noted("c", '3', 1001));
  (void)names.expect(noted("d", '4'));
  const auto gone = [](const PlacedExtent&, bool) { return false; };
  std::string seen;
  for (const auto& entry : names.list("", "", 1000, gone).entries)
    seen += entry.name + (entry.lost ? "!" : "");
  EXPECT_EQ(seen, "a!bd!");
  EXPECT_EQ(names.list("", "b", 0, gone).entries.size(), 2u);
  EXPECT_EQ(names.census(gone).lost.size(), 3u);
}

}  // namespace
}  // namespace ocm::control
