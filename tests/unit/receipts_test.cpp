// What a session shows to its daemon after a restart: believed if this session's daemon gave it, and only a
// home makes it own anything.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

#include "base/limits.h"
#include "control/allocation_wire.h"
#include "filled.h"
#include "sessions_fixture.h"

namespace ocm::node {
namespace {

constexpr uint64_t kBytes = 4096;
const std::string kHome = "home";

struct ReceiptRun : SessionsRun {
  using SessionsRun::SessionsRun;
  std::shared_ptr<Session> open(const Session* before = nullptr) {
    auto opened = sessions.open(
        before == nullptr ? hello() : hello(before->id, sessions.resume_key(before->id)), 1000, 1);
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    return opened.value().session;
  }
  Status show(Session& session, const std::string& receipt, uint32_t handles = 1) {
    wire::SessionRestore request;
    request.add_shown()->set_receipt(receipt);
    request.mutable_shown(0)->set_handles(handles);
    return sessions.restore(session, request);
  }
};

AllocationId nth_id(uint8_t number) {
  AllocationId out;
  out.bytes.fill(std::byte{number});
  return out;
}

/// Of `replicas` extents, from `address` on.
HeldAllocation allocation(uint8_t number, uint64_t address, int replicas = 2) {
  HeldAllocation out;
  out.allocation.id = nth_id(number);
  out.allocation.bytes_total = kBytes;
  out.allocation.layout = Layout::kReplicated;
  for (int i = 0; i < replicas; ++i) {
    auto& extent = out.allocation.extents.emplace_back();
    extent.id.address = GlobalAddress(address + static_cast<uint64_t>(i));
    extent.bytes = kBytes;
    extent.node = kHome;
  }
  out.quota_bytes = kBytes * static_cast<uint64_t>(replicas);
  return out;
}

control::SessionExtents reported(uint8_t number, std::initializer_list<uint64_t> addresses) {
  control::SessionExtents out;
  for (const uint64_t address : addresses) {
    auto& one = out.extents.emplace_back();
    one.allocation = nth_id(number);
    one.extent.id.address = GlobalAddress(address);
    one.extent.bytes = kBytes;
  }
  return out;
}

TEST(Records, OfWhatIsAttachedAreChargedToTheUserInAllSessions) {
  ReceiptRun run("token");
  constexpr int kExtents = 4096;
  control::Allocation record = allocation(1, 100, kExtents).allocation;
  for (auto& extent : record.extents) extent.capability = filled<Capability>('x');
  wire::Allocation message;
  control::to_wire(record, message);
  const size_t large = message.ByteSizeLong();
  std::vector<std::shared_ptr<control::Charge>> kept;
  Status refused;
  while (refused.is_ok() && kept.size() < 10'000) {
    auto charge = run.sessions.charge_record(1000, large);
    refused = charge.status();
    if (charge.is_ok()) kept.push_back(std::move(charge).value());
  }
  EXPECT_EQ(refused.code(), Code::kLimit);
  const size_t records_bytes = kept.size() * large;
  EXPECT_LT(records_bytes, control::kUserBytesMax);
  EXPECT_GT(records_bytes, control::kUserBytesMax / 8);
  EXPECT_TRUE(run.sessions.charge_record(1001, large).is_ok()) << "another user has a share of its own";
  for (int i = 0; i < 10'000; i += 100)
    EXPECT_TRUE(run.sessions.charge_record(0, large).is_ok()) << "root has no limit";
  kept.pop_back();
  EXPECT_TRUE(run.sessions.charge_record(1000, large).is_ok()) << "what is freed is there again";

  const auto session = run.open();
  HeldAllocation attached{record, false};
  const std::string receipt = run.sessions.receipt(session->id, attached);
  ReceiptRun after("token");
  const auto again = after.open(session.get());
  EXPECT_TRUE(after.show(*again, receipt).is_ok());
  EXPECT_NE(again->allocations.at(nth_id(1)).record, nullptr) << "what comes with a receipt is charged, too";
}

TEST(Receipts, BringTheAllocationBack) {
  ReceiptRun before("token"), after("token");
  const auto first = before.open();
  const std::string receipt = before.sessions.receipt(first->id, allocation(1, 100));
  const auto session = after.open(first.get());
  after.sessions.report(*session, kHome, reported(1, {100, 101}));
  ASSERT_TRUE(after.show(*session, receipt, 3).is_ok());
  ASSERT_EQ(session->allocations.size(), 1u);
  const HeldAllocation& held = session->allocations.at(nth_id(1));
  EXPECT_TRUE(held.owned && held.is_whole());
  EXPECT_TRUE(held.is_valid());
  EXPECT_EQ(held.handles, 3u);
  EXPECT_EQ(held.quota_bytes, 2 * kBytes);
  EXPECT_EQ(session->bytes_held, 2 * kBytes);
  EXPECT_TRUE(session->reported.empty());
  ASSERT_TRUE(after.show(*session, receipt).is_ok());  // again: nothing
  EXPECT_EQ(held.handles, 3u);
  EXPECT_EQ(session->bytes_held, 2 * kBytes);
}

TEST(Receipts, OfAnotherSessionAreRefused) {
  ReceiptRun before("token"), after("token");
  const auto mine = before.open(), other = before.open();
  const std::string receipt = before.sessions.receipt(other->id, allocation(1, 100));
  const auto session = after.open(mine.get());
  EXPECT_EQ(after.show(*session, receipt).code(), Code::kAuth);
  EXPECT_TRUE(session->allocations.empty());
}

TEST(Receipts, OfAnotherTokenAreRefused) {
  ReceiptRun before("token"), after("another");
  const auto first = before.open();
  const std::string receipt = before.sessions.receipt(first->id, allocation(1, 100));
  const auto session = after.open(first.get());
  EXPECT_EQ(after.show(*session, receipt).code(), Code::kAuth);
  EXPECT_TRUE(session->allocations.empty());
}

TEST(Receipts, WithAnotherByteAreRefusedAndTheOthersTaken) {
  ReceiptRun before("token"), after("token");
  const auto first = before.open();
  const std::string good = before.sessions.receipt(first->id, allocation(1, 100));
  const auto session = after.open(first.get());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string forged = good;
    forged[at] = static_cast<char>(forged[at] ^ 1);
    ASSERT_EQ(after.show(*session, forged).code(), Code::kAuth) << at;
    ASSERT_EQ(after.show(*session, good.substr(0, at)).code(), Code::kAuth) << at;
  }
  EXPECT_TRUE(session->allocations.empty());
  wire::SessionRestore both;
  both.add_shown()->set_receipt(good + "x");
  both.add_shown()->set_receipt(good);
  EXPECT_EQ(after.sessions.restore(*session, both).code(), Code::kAuth);
  EXPECT_EQ(session->allocations.size(), 1u);
}

TEST(Receipts, OfARunningDaemonAreRefused) {
  ReceiptRun run("token");
  const auto session = run.open();
  const std::string receipt = run.sessions.receipt(session->id, allocation(1, 100));
  EXPECT_EQ(run.show(*session, receipt).code(), Code::kInvalidArgument);
  EXPECT_TRUE(session->allocations.empty());
}

TEST(Receipts, OwnWhatAHomeHasOnly) {
  ReceiptRun before("token"), after("token");
  const auto first = before.open();
  const std::string receipt = before.sessions.receipt(first->id, allocation(1, 100));
  const auto session = after.open(first.get());
  ASSERT_TRUE(after.show(*session, receipt).is_ok());  // published, or freed, since
  const HeldAllocation& held = session->allocations.at(nth_id(1));
  EXPECT_FALSE(held.owned);
  EXPECT_EQ(session->bytes_held, 0u);
  // A home that was known late; a part that was made again has another extent.
  after.sessions.report(*session, kHome, reported(1, {700}));
  EXPECT_TRUE(held.owned);
  EXPECT_EQ(held.allocation.extents.size(), 2u);
  EXPECT_EQ(session->bytes_held, 2 * kBytes);
  // And the third run knows it as well.
  ReceiptRun third("token");
  const auto last = third.open(session.get());
  third.sessions.report(*last, kHome, reported(1, {100, 101}));
  ASSERT_TRUE(third.show(*last, after.sessions.receipt(session->id, held)).is_ok());
  EXPECT_TRUE(last->allocations.at(nth_id(1)).owned);
}

TEST(Receipts, OfWhatItsHomeDoesNotTellSayThatItIsMissing) {
  ReceiptRun before("token");
  const auto first = before.open();
  const std::string receipt = before.sessions.receipt(first->id, allocation(1, 100));
  for (const bool told_first : {true, false}) {
    ReceiptRun after("token");
    const auto session = after.open(first.get());
    const auto show = [&] {
      ASSERT_TRUE(after.show(*session, receipt).is_ok());
      wire::SessionRestore all;
      all.set_complete(true);
      ASSERT_TRUE(after.sessions.restore(*session, all).is_ok());
    };
    if (!told_first) show();
    after.sessions.report(*session, "other", {});
    EXPECT_TRUE(session->missing.empty()) << "its home has not told yet";
    after.sessions.report(*session, kHome, reported(1, {100}));
    if (told_first) show();
    EXPECT_EQ(session->missing.size(), 1u);
    EXPECT_TRUE(session->missing.contains({GlobalAddress(101), 0}));
    EXPECT_EQ(unsettled(*session, session->allocations.at(nth_id(1))).code(), Code::kPeerLost);
    after.sessions.report(*session, kHome, {});
    EXPECT_EQ(unsettled(*session, session->allocations.at(nth_id(1))).code(), Code::kRevoked);
  }
}

TEST(Receipts, OfWhatWasJoinedTakeItsPartsOver) {
  ReceiptRun before("token"), after("token");
  const auto first = before.open();
  HeldAllocation joined = allocation(9, 100, 4);
  const std::string receipt = before.sessions.receipt(first->id, joined);
  const auto session = after.open(first.get());
  after.sessions.report(*session, kHome, reported(1, {100, 101}));
  after.sessions.report(*session, kHome, reported(2, {102}));
  after.sessions.report(*session, kHome, reported(3, {500}));  // not of it
  ASSERT_TRUE(after.show(*session, receipt).is_ok());
  after.sessions.report(*session, kHome, reported(2, {103}));  // another home, late
  EXPECT_TRUE(session->allocations.at(nth_id(9)).owned);
  EXPECT_TRUE(session->allocations.contains(nth_id(3)));
  EXPECT_EQ(session->allocations.size(), 2u);
  EXPECT_EQ(session->bytes_held, 5 * kBytes);
}

TEST(Receipts, HaveABoundForASession) {
  ReceiptRun before("token"), after("token");
  const auto first = before.open();
  const auto session = after.open(first.get());
  session->restored_bytes =
      (size_t{256} << 20) - Sessions::kShownRecordBytes;  // a record takes more than its bytes
  EXPECT_EQ(after.show(*session, before.sessions.receipt(first->id, allocation(1, 100))).code(),
            Code::kLimit);
  EXPECT_TRUE(session->allocations.empty());
}

TEST(Receipts, OfAllSessionsOfAUserHaveABoundAndSoHaveTheirHolds) {
  constexpr int kAtOnce = 100'000;
  ReceiptRun before("token"), after("token");
  size_t taken = 0;
  const auto show_until_refused = [&](uint32_t uid) {
    const auto first = before.sessions.open(before.hello(), uid, 1).value().session;
    const std::string receipt = before.sessions.receipt(first->id, allocation(1, 100));
    const auto session =
        after.sessions.open(after.hello(first->id, before.sessions.resume_key(first->id)), uid, 1)
            .value()
            .session;
    wire::SessionRestore request;
    request.add_shown()->set_receipt(receipt);
    request.mutable_shown(0)->set_handles(kAtOnce);
    Status shown;
    for (uint32_t i = 0; shown.is_ok(); taken += shown.is_ok() ? kAtOnce : 0) {
      request.mutable_shown(0)->clear_holds();
      for (int k = 0; k < kAtOnce; ++k, ++i) {
        std::string hold(16, '\0');
        std::memcpy(hold.data(), &i, sizeof(i));
        request.mutable_shown(0)->add_holds(hold);
      }
      shown = after.sessions.restore(*session, request);
    }
    return shown;
  };
  EXPECT_EQ(show_until_refused(1000).code(), Code::kLimit);
  EXPECT_LE(taken * Sessions::kShownHoldBytes, Sessions::kRestoredBytesMax);
  const size_t of_the_first = taken;
  EXPECT_EQ(show_until_refused(1000).code(), Code::kLimit);
  EXPECT_EQ(taken, 2 * of_the_first);
  EXPECT_EQ(show_until_refused(1000).code(), Code::kLimit);
  EXPECT_LE(taken * Sessions::kShownHoldBytes, Sessions::kUserRestoredBytesMax);
  taken = 0;
  EXPECT_EQ(show_until_refused(1001).code(), Code::kLimit);
  EXPECT_EQ(taken, of_the_first) << "another user has a share of its own";
}

/// A message has room for both, and every other program's requests wait meanwhile.
TEST(Receipts, CostTheSameBesideManyHandlesThatEnded) {
  constexpr int kFreed = 200'000, kShown = 2'000;
  ReceiptRun before("token");
  const auto first = before.open();
  const std::string large = before.sessions.receipt(first->id, allocation(1, 100));
  const std::string small = before.sessions.receipt(first->id, allocation(2, 200));
  const auto cost_of = [&](int freed) {
    ReceiptRun after("token");
    const auto session = after.open(first.get());
    wire::SessionRestore ended, request;
    ended.add_shown()->set_receipt(large);
    ended.mutable_shown(0)->set_handles(kFreed + 1);
    for (int i = 0; i < freed; ++i) ended.mutable_shown(0)->add_freed();
    EXPECT_TRUE(after.sessions.restore(*session, ended).is_ok());
    for (int i = 0; i < kShown; ++i) {
      request.add_shown()->set_receipt(small);
      request.mutable_shown(i)->set_handles(1);
    }
    const std::clock_t start = std::clock();
    EXPECT_TRUE(after.sessions.restore(*session, request).is_ok());
    return std::clock() - start;
  };
  EXPECT_LT(cost_of(kFreed), 20 * cost_of(0));
}

TEST(Receipts, OfTheLongestSequenceFitsIntoAMessageTwice) {
  ReceiptRun run("token");
  HeldAllocation longest;
  longest.allocation.id = nth_id(1);
  longest.allocation.bytes_total = ~uint64_t{0};
  for (uint32_t i = 0; i < kSequenceExtentsMax; ++i) {
    auto& extent = longest.allocation.extents.emplace_back();
    extent.id = {GlobalAddress(~uint64_t{0}), ~uint32_t{0}};
    extent.bytes = uint64_t{1} << 40;
    extent.capability = filled<Capability>('x');
    extent.node = std::string(32, 'n');
    extent.slot = ~uint32_t{0};
    extent.part = i;
    longest.allocation.part_bytes.push_back(uint64_t{1} << 40);
  }
  const std::string receipt = run.sessions.receipt({}, longest);
  EXPECT_LT(2 * receipt.size(), wire::kControlBytesMax) << receipt.size();
}

}  // namespace
}  // namespace ocm::node
