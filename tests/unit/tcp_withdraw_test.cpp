// fabric/tcp: operations that are taken back while the home works on them. Nothing touches their buffers afterwards, and the
// channel serves others.
#include "tcp_fixture.h"

namespace ocm::fabric::tcp {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr std::byte kOld{0x11}, kNew{0x22}, kAfter{0x33};

class TcpWithdrawTest : public TcpTest {
 protected:
  void SetUp() override {
    start();
    extent = directory.add(64 * kMiB);
    std::fill_n(extent->data, extent->bytes, kOld);
    channel = connect({.window_bytes = 8 * kMiB, .frame_bytes = kMiB});
    ASSERT_NE(channel, nullptr);
    auto attached = channel->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(attached.is_ok()) << attached.status().to_string();
    index = *attached;
  }
  void begin(Op& op) {
    channel->post(op);
    channel->flush();
  }
  /// `op` is the owner's again, and the channel serves another one and then has nothing under way.
  void expect_withdrawn(Op& op) {
    channel->withdraw(op);
    ASSERT_TRUE(op.done());
    uint64_t word = 0;
    EXPECT_EQ(get(*channel, index, extent->bytes - 8, &word, 8), Code::kOk);
    EXPECT_EQ(channel->in_flight(), 0u) << "replies come in order";
    EXPECT_TRUE(channel->is_usable());
  }

  std::shared_ptr<BufferExtent> extent;
  std::unique_ptr<Channel> channel;
  uint32_t index = 0;
};

TEST_F(TcpWithdrawTest, AGetsBufferIsNotWrittenAnyMore) {
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{4096}, 3 * kMiB, 40 * kMiB}) {
    for (const bool checksum : {false, true}) {
      for (const int rounds : {0, 1, 3}) {
        std::vector<std::byte> target(bytes);
        Op op;
        set(op, OpCode::kGet, index, 0, target.data(), bytes);
        op.checksum = checksum;
        begin(op);
        for (int i = 0; i < rounds; ++i) channel->progress(os::now_ns(), 0);
        channel->withdraw(op);
        ASSERT_TRUE(op.done());
        std::fill(target.begin(), target.end(), kAfter);
        expect_withdrawn(op);
        EXPECT_EQ(std::count(target.begin(), target.end(), kAfter), static_cast<ptrdiff_t>(bytes));
      }
    }
  }
}

TEST_F(TcpWithdrawTest, APutsBufferIsNotReadAnyMore) {
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{4096}, 3 * kMiB, 40 * kMiB}) {
    for (const int rounds : {0, 1, 3}) {
      std::fill_n(extent->data, extent->bytes, kOld);
      std::vector<std::byte> source(bytes, kNew);
      Op op;
      set(op, OpCode::kPut, index, 0, source.data(), bytes);
      begin(op);
      for (int i = 0; i < rounds; ++i) channel->progress(os::now_ns(), 0);
      channel->withdraw(op);
      ASSERT_TRUE(op.done());
      std::fill(source.begin(), source.end(), kAfter);
      expect_withdrawn(op);
      EXPECT_EQ(std::count(extent->data, extent->data + bytes, kAfter), 0);
      EXPECT_EQ(std::count(extent->data + bytes, extent->data + extent->bytes, kOld),
                static_cast<ptrdiff_t>(extent->bytes - bytes));
    }
  }
}

TEST_F(TcpWithdrawTest, AnAtomicAndANotifiedPutAreAppliedWholeOrNot) {
  for (const uint64_t bytes : {uint64_t{64}, 20 * kMiB}) {
    std::fill_n(extent->data, extent->bytes, std::byte{0});
    const std::vector<std::byte> source(bytes, kNew);
    Op op, notify;
    set(op, OpCode::kPut, index, 64, const_cast<std::byte*>(source.data()), bytes);
    set(notify, OpCode::kNotify, index, 0, nullptr, 8);
    notify.operand = 1;
    op.notify = &notify;
    begin(op);
    expect_withdrawn(op);
    EXPECT_TRUE(notify.done());
    const auto put = std::count(extent->data + 64, extent->data + 64 + bytes, kNew);
    EXPECT_TRUE(extent->memory[0] == 0 || (extent->memory[0] == 1 && put == static_cast<ptrdiff_t>(bytes)));
  }
  Op add;
  set(add, OpCode::kFetchAdd, index, 8, nullptr, 8);
  add.operand = 5;
  const uint64_t before = extent->memory[1];
  begin(add);
  expect_withdrawn(add);
  EXPECT_EQ(extent->memory[1], before + 5) << "its frame was sent";
}

TEST_F(TcpWithdrawTest, ThoseBehindItGoOn) {
  std::vector<std::byte> first(20 * kMiB), second(kMiB);
  Op gone, good;
  set(gone, OpCode::kGet, index, 0, first.data(), first.size());
  set(good, OpCode::kGet, index, 0, second.data(), second.size());
  channel->post(gone);
  begin(good);
  channel->withdraw(gone);
  EXPECT_EQ(gone.code, Code::kCancelled);
  EXPECT_EQ(wait(*channel, good), Code::kOk);
  EXPECT_EQ(std::count(second.begin(), second.end(), kOld), static_cast<ptrdiff_t>(second.size()));
}

TEST_F(TcpWithdrawTest, OneThatIsDoneKeepsItsOutcome) {
  uint64_t word = 0;
  Op op;
  set(op, OpCode::kGet, index, 0, &word, 8);
  ASSERT_EQ(run(*channel, op), Code::kOk);
  channel->withdraw(op);
  EXPECT_EQ(op.code, Code::kOk);
  EXPECT_NE(word, 0u);
}

TEST_F(TcpWithdrawTest, OnesThatHaveNoMemoryBehindThemEndTheSame) {
  Op op;
  set(op, OpCode::kPut, index, 0, reinterpret_cast<void*>(4096), 40 * kMiB);
  channel->post(op);
  channel->withdraw(op);
  EXPECT_TRUE(op.done());
}

TEST_F(TcpWithdrawTest, TheChannelEndsWithThemUnderWay) {
  std::vector<std::byte> target(20 * kMiB);
  Op op;
  set(op, OpCode::kGet, index, 0, target.data(), target.size());
  begin(op);
  channel->withdraw(op);
  server.reset();
  const os::Deadline limit = soon();
  while (channel->is_usable() && !limit.passed()) {
  }
  EXPECT_FALSE(channel->is_usable()) << "who comes next connects anew";
  channel.reset();
}

}  // namespace
}  // namespace ocm::fabric::tcp
