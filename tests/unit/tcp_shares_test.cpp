// fabric/tcp: users share the time of a data worker.
#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/tcp/shares.h"
#include "tcp_fixture.h"
#include "users.h"

namespace ocm::fabric::tcp {
namespace {

using test::kAlice;
using test::kBob;

TEST(TcpShares, WhoIsAloneHasNoBound) {
  Shares shares;
  shares.joined(kAlice);
  shares.joined(kAlice);
  EXPECT_FALSE(shares.is_crowded());
  shares.joined(kBob);
  EXPECT_TRUE(shares.is_crowded());
  shares.left(kAlice);
  EXPECT_TRUE(shares.is_crowded());
  shares.left(kAlice);
  EXPECT_FALSE(shares.is_crowded());
}

TEST(TcpShares, WhoSpentItsPassIsLeftOutUntilTheNext) {
  Shares shares;
  shares.joined(kAlice);
  shares.joined(kBob);
  shares.begin_pass();
  shares.spent(kAlice, Shares::kPassNs - 1);
  EXPECT_TRUE(shares.may_run(kAlice));
  shares.spent(kAlice, 1);
  EXPECT_FALSE(shares.may_run(kAlice));
  EXPECT_TRUE(shares.may_run(kBob));
  shares.begin_pass();
  EXPECT_TRUE(shares.may_run(kAlice));
  shares.spent(kAlice, 1);
  EXPECT_TRUE(shares.may_run(kAlice));
  EXPECT_TRUE(shares.is_valid());
}

std::vector<size_t> order_of(Round round) {
  std::vector<size_t> out;
  while (round.has_more()) out.push_back(round.take());
  return out;
}

TEST(TcpShares, APassBeginsWithWhatWasLeftOutFirst) {
  size_t from = 0;
  EXPECT_EQ(order_of(Round(3, from)), (std::vector<size_t>{0, 1, 2}));
  Round round(3, from);
  (void)round.take();
  round.left_out(round.take());
  round.left_out(round.take());
  EXPECT_EQ(order_of(Round(3, from)), (std::vector<size_t>{1, 2, 0}));
  EXPECT_EQ(order_of(Round(3, from)), (std::vector<size_t>{0, 1, 2}));
  from = 7;  // more were there
  EXPECT_EQ(order_of(Round(2, from)), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(order_of(Round(0, from)).empty());
}

/// Everybody's long and short operations end, and their bytes are right, whoever else has how many connections.
TEST_F(TcpTest, ConnectionsOfManyUsersAreAllServed) {
  constexpr size_t kOfAlice = 24, kRounds = 6;
  constexpr uint64_t kBytes = uint64_t{2} << 20;
  start();  // with one worker
  const auto extent = directory.add((kOfAlice + 1) * kBytes);
  struct Client {
    std::unique_ptr<Channel> channel;
    uint32_t index = 0;
    std::vector<std::byte> source, target;
  };
  std::vector<Client> alices(kOfAlice);
  for (size_t i = 0; i < kOfAlice; ++i) {
    Client& one = alices[i];
    one.channel = connect({}, kAlice);
    auto index = one.channel->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(index.is_ok()) << index.status().to_string();
    one.index = index.value();
    one.target.resize(kBytes);
  }
  const auto bobs = connect({}, kBob);
  auto bob = bobs->attach(describe(*extent), Access::kReadWrite, soon());
  ASSERT_TRUE(bob.is_ok());
  for (size_t round = 0; round < kRounds; ++round) {
    std::vector<Op> puts(kOfAlice), gets(kOfAlice);
    for (size_t i = 0; i < kOfAlice; ++i) {
      Client& one = alices[i];
      one.source = pattern(kBytes, round * kOfAlice + i);
      set(puts[i], OpCode::kPut, one.index, i * kBytes, one.source.data(), kBytes);
      set(gets[i], OpCode::kGet, one.index, i * kBytes, one.target.data(), kBytes);
      one.channel->post(puts[i]);
      one.channel->post(gets[i]);
      one.channel->flush();
    }
    const uint64_t number = round + 1;
    uint64_t read = 0;
    EXPECT_EQ(put(*bobs, bob.value(), kOfAlice * kBytes, &number, sizeof(number)), Code::kOk);
    EXPECT_EQ(get(*bobs, bob.value(), kOfAlice * kBytes, &read, sizeof(read)), Code::kOk);
    EXPECT_EQ(read, number);
    std::vector<Channel*> all;
    for (const Client& one : alices) all.push_back(one.channel.get());
    const auto all_done = [&] {
      return std::all_of(gets.begin(), gets.end(), [](const Op& op) { return op.done(); });
    };
    ASSERT_TRUE(wait_until(all, all_done, soon(60), 30 * kSecondNs));
    for (size_t i = 0; i < kOfAlice; ++i) {
      EXPECT_EQ(puts[i].code, Code::kOk);
      EXPECT_EQ(gets[i].code, Code::kOk);
      EXPECT_TRUE(alices[i].source == alices[i].target);
    }
  }
}

}  // namespace
}  // namespace ocm::fabric::tcp
