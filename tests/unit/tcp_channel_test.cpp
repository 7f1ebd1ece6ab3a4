// fabric/tcp: what a well-behaved client and home do together, over loopback.
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "tcp_fixture.h"

namespace ocm::fabric::tcp {
namespace {

class TcpChannelTest : public TcpTest {
 protected:
  void SetUp() override {
    start();
    extent = directory.add(uint64_t{24} << 20);
    channel = connect();
    ASSERT_NE(channel, nullptr);
    index = attach(Access::kReadWrite);
  }
  uint32_t attach(Access access) {
    auto attached = channel->attach(describe(*extent), access, soon());
    EXPECT_TRUE(attached.is_ok()) << attached.status().to_string();
    return attached.is_ok() ? *attached : 0;
  }
  void round_trip(uint64_t bytes, bool checksum) {
    const auto source = pattern(bytes, bytes + 1);
    std::vector<std::byte> target(bytes);
    ASSERT_EQ(put(*channel, index, 3, source.data(), bytes, checksum), Code::kOk) << bytes;
    ASSERT_TRUE(std::equal(source.begin(), source.end(), extent->data + 3)) << bytes;
    ASSERT_EQ(get(*channel, index, 3, target.data(), bytes, checksum), Code::kOk) << bytes;
    ASSERT_EQ(source, target) << bytes;
    EXPECT_TRUE(static_cast<const TcpChannel&>(*channel).is_valid());
  }
  static constexpr uint64_t kSizes[] = {
      0,     1,     63,      64,      4095,    4096,           4097,           16384,
      32720, 65536, 1000003, 1048576, 1048577, (8u << 20) + 5, (20u << 20) + 1};

  std::shared_ptr<BufferExtent> extent;
  std::unique_ptr<Channel> channel;
  uint32_t index = 0;
};

TEST_F(TcpChannelTest, MovesEveryLength) {
  for (const uint64_t bytes : kSizes) round_trip(bytes, false);
}

TEST_F(TcpChannelTest, MovesEveryLengthWithChecksums) {
  for (const uint64_t bytes : kSizes) round_trip(bytes, true);
}

TEST_F(TcpChannelTest, IsNotUsableOnceTheConnectionEndedInSilence) {
  round_trip(100, false);
  const os::Deadline limit = soon();
  EXPECT_TRUE(channel->is_usable());
  server.reset();
  EXPECT_TRUE(channel->health().is_ok());  // nobody looked
  while (channel->is_usable() && !limit.passed()) usleep(1000);
  EXPECT_FALSE(channel->is_usable());
  EXPECT_EQ(channel->health().code(), Code::kPeerLost);
}

TEST_F(TcpChannelTest, PipelinesHundredsOfMixedOps) {
  constexpr size_t kOps = 600;
  std::vector<std::vector<std::byte>> sources, targets;
  std::vector<Op> puts(kOps), gets(kOps);
  uint64_t offset = 0;
  for (size_t i = 0; i < kOps; ++i) {
    const uint64_t bytes = 1 + (i * 7919) % (i % 50 == 0 ? 200'000 : 6'000);
    sources.push_back(pattern(bytes, i));
    targets.emplace_back(bytes);
    set(puts[i], OpCode::kPut, index, offset, sources[i].data(), bytes);
    set(gets[i], OpCode::kGet, index, offset, targets[i].data(), bytes);
    channel->post(puts[i]);
    channel->post(gets[i]);
    offset += bytes;
  }
  channel->flush();
  for (size_t i = 0; i < kOps; ++i) {
    ASSERT_EQ(wait(*channel, puts[i]), Code::kOk);
    ASSERT_EQ(wait(*channel, gets[i]), Code::kOk);
    ASSERT_EQ(sources[i], targets[i]) << i;
  }
  EXPECT_EQ(channel->in_flight(), 0u);
}

TEST_F(TcpChannelTest, CompletesInPostOrder) {
  std::vector<Op> ops(300);
  std::vector<std::byte> buffer(ops.size() * 64);
  for (size_t i = 0; i < ops.size(); ++i) {
    set(ops[i], i % 2 ? OpCode::kPut : OpCode::kGet, index, i * 64, buffer.data() + i * 64, 64);
    channel->post(ops[i]);
  }
  channel->flush();
  while (!ops.back().done()) {
    channel->progress(os::now_ns(), 0);
    bool undone = false;
    for (size_t i = ops.size(); i-- > 0;) {  // backwards: a later one seen done means all before are
      if (ops[i].done()) {
        undone = true;
      } else {
        ASSERT_FALSE(undone) << i;
      }
    }
  }
}

TEST_F(TcpChannelTest, ManyOverlongGetsDoNotDeadlock) {
  const uint64_t bytes = 3u << 20;
  std::vector<std::vector<std::byte>> buffers(8, std::vector<std::byte>(bytes));
  std::vector<Op> ops(16);
  for (size_t i = 0; i < ops.size(); ++i) {
    set(ops[i], i % 2 ? OpCode::kGet : OpCode::kPut, index, (i / 2) * bytes, buffers[i / 2].data(), bytes);
    channel->post(ops[i]);
  }
  channel->flush();
  for (Op& op : ops) ASSERT_EQ(wait(*channel, op), Code::kOk);
}

TEST_F(TcpChannelTest, AtomicsReturnTheOldValue) {
  auto* word = reinterpret_cast<uint64_t*>(extent->data + 64);
  *word = 5;
  const struct {
    OpCode opcode;
    uint64_t operand, expected, old, after;
  } steps[] = {
      {OpCode::kFetchAdd, 3, 0, 5, 8},          {OpCode::kSwap, 0xF0, 0, 8, 0xF0},
      {OpCode::kCompareSwap, 9, 1, 0xF0, 0xF0}, {OpCode::kCompareSwap, 0x3C, 0xF0, 0xF0, 0x3C},
      {OpCode::kAnd, 0x0F, 0, 0x3C, 0x0C},      {OpCode::kOr, 0x11, 0, 0x0C, 0x1D},
      {OpCode::kXor, 0x1D, 0, 0x1D, 0},
  };
  for (const auto& step : steps) {
    Op op;
    set(op, step.opcode, index, 64, nullptr, 0);
    op.operand = step.operand;
    op.expected = step.expected;
    ASSERT_EQ(run(*channel, op), Code::kOk);
    EXPECT_EQ(op.old_value, step.old);
    EXPECT_EQ(*word, step.after);
  }
}

TEST_F(TcpChannelTest, NotifyComesAfterTheBytes) {
  const auto source = pattern(100'000, 1);
  Op data, notify, fence;
  set(data, OpCode::kPut, index, 128, const_cast<std::byte*>(source.data()), source.size());
  set(notify, OpCode::kNotify, index, 0, nullptr, 0);
  notify.operand = 4;
  set(fence, OpCode::kFence, index, 0, nullptr, 0);
  channel->post(data);
  channel->post(notify);
  channel->post(fence);
  channel->flush();
  ASSERT_EQ(wait(*channel, fence), Code::kOk);
  EXPECT_TRUE(data.done() && notify.done());
  EXPECT_EQ(extent->memory[0], 4u);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), extent->data + 128));
}

/// So many bytes of which the first may be used and the others may not be touched.
class HalfMemory {
 public:
  HalfMemory(size_t good, size_t bad) : bytes_(good + bad) {
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
    EXPECT_EQ(::mprotect(data_ + good, bad, PROT_NONE), 0);
  }
  ~HalfMemory() { ::munmap(data_, bytes_); }
  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  const size_t bytes_;
  std::byte* data_ = nullptr;
};

TEST_F(TcpChannelTest, ABadPointerFailsItsPutOnly) {
  constexpr size_t kMiB = size_t{1} << 20;
  uint64_t round = 0;
  for (const auto& [good, bad] : {std::pair{size_t{0}, size_t{65536}}, std::pair{2 * kMiB, kMiB},
                                  std::pair{size_t{0}, 20 * kMiB}, std::pair{kMiB, 19 * kMiB}}) {
    const HalfMemory memory(good, bad);
    const auto source = pattern(300'000, ++round);  // not what the round before left there
    Op before, wrong, after, seen;
    std::vector<std::byte> back(source.size());
    set(before, OpCode::kPut, index, 21 * kMiB, const_cast<std::byte*>(source.data()), source.size());
    set(wrong, OpCode::kPut, index, 0, memory.data(), memory.size());
    set(after, OpCode::kPut, index, 22 * kMiB, const_cast<std::byte*>(source.data()), source.size());
    set(seen, OpCode::kGet, index, 22 * kMiB, back.data(), back.size());
    for (Op* op : {&before, &wrong, &after, &seen}) channel->post(*op);
    channel->flush();
    EXPECT_EQ(wait(*channel, seen), Code::kOk);
    EXPECT_EQ(before.code, Code::kOk);
    EXPECT_EQ(wrong.code, Code::kInvalidArgument);
    EXPECT_EQ(after.code, Code::kOk);
    EXPECT_TRUE(std::equal(source.begin(), source.end(), extent->data + 21 * kMiB));
    EXPECT_TRUE(back == source);
    EXPECT_EQ(channel->in_flight(), 0u);
  }
  round_trip(1000003, false);
}

TEST_F(TcpChannelTest, ABadPointerNotifiesNobody) {
  for (const size_t bad : {size_t{65536}, size_t{20} << 20}) {  // the notify framed already, and not yet
    const HalfMemory memory(0, bad);
    Op data, notify;
    set(data, OpCode::kPut, index, 64, memory.data(), memory.size());
    set(notify, OpCode::kNotify, index, 0, nullptr, 0);
    notify.operand = 1;
    data.notify = &notify;
    channel->post(data);
    channel->flush();
    EXPECT_EQ(wait(*channel, notify), Code::kInvalidArgument);
    EXPECT_EQ(data.code, Code::kInvalidArgument);
    EXPECT_EQ(extent->memory[0], 0u);
  }
  round_trip(100'000, false);
}

TEST_F(TcpChannelTest, ABadPointerFailsItsGetOnly) {
  const auto source = pattern(extent->bytes, 6);
  std::copy(source.begin(), source.end(), extent->data);
  for (const size_t bad : {size_t{1} << 20, size_t{20} << 20}) {
    const HalfMemory memory(65536, bad);
    Op wrong, after;
    std::vector<std::byte> back(200'000);
    set(wrong, OpCode::kGet, index, 0, memory.data(), memory.size());
    set(after, OpCode::kGet, index, 0, back.data(), back.size());
    channel->post(wrong);
    channel->post(after);
    channel->flush();
    EXPECT_EQ(wait(*channel, after), Code::kOk);
    EXPECT_EQ(wrong.code, Code::kInvalidArgument);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), source.begin()));
  }
  round_trip(1000003, false);
}

TEST_F(TcpChannelTest, RefusesAWrongCapability) {
  ExtentDescriptor wrong = describe(*extent);
  wrong.capability = os::random_id<Capability>();
  EXPECT_EQ(channel->attach(wrong, Access::kRead, soon()).status().code(), Code::kPermission);
  EXPECT_EQ(channel->attach(wrong, Access::kReadWrite, soon()).status().code(), Code::kPermission);
  // The read capability does not open for writing.
  wrong.capability = os::read_capability(extent->capability);
  EXPECT_EQ(channel->attach(wrong, Access::kReadWrite, soon()).status().code(), Code::kPermission);
  round_trip(100, false);
}

TEST_F(TcpChannelTest, RefusesAStaleGeneration) {
  ExtentDescriptor stale = describe(*extent);
  stale.id.generation -= 1;
  EXPECT_EQ(channel->attach(stale, Access::kRead, soon()).status().code(), Code::kRevoked);
  stale.id.address = GlobalAddress(9, 0);
  EXPECT_EQ(channel->attach(stale, Access::kRead, soon()).status().code(), Code::kNotFound);
}

TEST_F(TcpChannelTest, ReadOnlyRefusesEveryWrite) {
  const uint32_t reader = attach(Access::kRead);
  std::vector<std::byte> bytes(100'000);
  EXPECT_EQ(get(*channel, reader, 0, bytes.data(), bytes.size()), Code::kOk);
  EXPECT_EQ(put(*channel, reader, 0, bytes.data(), bytes.size()), Code::kPermission);
  EXPECT_EQ(put(*channel, reader, 0, bytes.data(), 8), Code::kPermission);
  for (const OpCode opcode : {OpCode::kFetchAdd, OpCode::kSwap, OpCode::kCompareSwap, OpCode::kAnd,
                              OpCode::kOr, OpCode::kXor, OpCode::kNotify}) {
    Op op;
    set(op, opcode, reader, 0, nullptr, 0);
    EXPECT_EQ(run(*channel, op), Code::kPermission);
  }
  round_trip(1000, false);
}

TEST_F(TcpChannelTest, RefusesWhatIsOutOfRange) {
  std::vector<std::byte> bytes(200'000);
  const uint64_t end = extent->bytes;
  const uint64_t offsets[] = {
      end, end + 1, end - 199'999, ~uint64_t{0}, ~uint64_t{0} - 100'000, uint64_t{1} << 63};
  for (const uint64_t offset : offsets) {
    EXPECT_EQ(put(*channel, index, offset, bytes.data(), bytes.size()), Code::kOutOfRange) << offset;
    EXPECT_EQ(get(*channel, index, offset, bytes.data(), bytes.size()), Code::kOutOfRange) << offset;
  }
  Op op;
  set(op, OpCode::kFetchAdd, index, end, nullptr, 0);
  EXPECT_EQ(run(*channel, op), Code::kOutOfRange);
  Op crooked;
  set(crooked, OpCode::kFetchAdd, index, 4, nullptr, 0);
  EXPECT_EQ(run(*channel, crooked), Code::kInvalidArgument);
  round_trip(1000, false);
}

TEST_F(TcpChannelTest, ALongOpThatLeavesTheExtentFailsOnceAndWhole) {
  std::vector<std::byte> bytes(12u << 20);
  EXPECT_EQ(put(*channel, index, extent->bytes - (5u << 20), bytes.data(), bytes.size()), Code::kOutOfRange);
  EXPECT_EQ(get(*channel, index, extent->bytes - (5u << 20), bytes.data(), bytes.size()), Code::kOutOfRange);
  EXPECT_EQ(channel->in_flight(), 0u);
  round_trip(1000, false);
}

TEST_F(TcpChannelTest, RefusesAnUnknownIndex) {
  std::vector<std::byte> bytes(50'000);
  EXPECT_EQ(put(*channel, 12345, 0, bytes.data(), bytes.size()), Code::kNotFound);
  EXPECT_EQ(get(*channel, ~0u, 0, bytes.data(), bytes.size()), Code::kNotFound);
  round_trip(10, false);
}

TEST_F(TcpChannelTest, DetachedIndexIsGoneAfterEarlierOps) {
  std::vector<std::byte> bytes(6u << 20);
  Op before, after;
  set(before, OpCode::kPut, index, 0, bytes.data(), bytes.size());
  set(after, OpCode::kGet, index, 0, bytes.data(), 8);
  channel->post(before);
  channel->detach(index);
  channel->post(after);
  channel->flush();
  EXPECT_EQ(wait(*channel, after), Code::kNotFound);
  EXPECT_EQ(before.code, Code::kOk);
  index = attach(Access::kReadWrite);
  round_trip(1000, false);
}

TEST_F(TcpChannelTest, RevokingInTheMiddleFailsTheRestAndKeepsTheChannel) {
  std::vector<std::byte> bytes(20u << 20);
  Op op, later;
  set(op, OpCode::kPut, index, 0, bytes.data(), bytes.size());
  set(later, OpCode::kGet, index, 0, bytes.data(), 64);
  channel->post(op);
  channel->flush();
  extent->revoked.store(true, std::memory_order_release);
  channel->post(later);
  EXPECT_EQ(wait(*channel, later), Code::kRevoked);
  EXPECT_TRUE(op.done());
  EXPECT_TRUE(op.code == Code::kRevoked || op.code == Code::kOk);
  EXPECT_TRUE(channel->health().is_ok());
  extent = directory.add(1 << 20);
  index = attach(Access::kReadWrite);
  round_trip(1000, false);
}

TEST_F(TcpChannelTest, PutIsLocallyDoneBeforeItsReply) {
  std::vector<std::byte> small(64);
  Op op;
  set(op, OpCode::kPut, index, 0, small.data(), small.size());
  channel->post(op);
  channel->flush();
  EXPECT_TRUE(op.locally_done());
  EXPECT_EQ(wait(*channel, op), Code::kOk);
}

TEST_F(TcpChannelTest, FourThreadsShareAChannel) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t base = static_cast<uint64_t>(t) << 20;
      for (int i = 0; i < 60; ++i) {
        const uint64_t bytes = 1 + static_cast<uint64_t>(i) * 4801 % 150'000;
        const auto source = pattern(bytes, static_cast<uint64_t>(t) * 1000 + static_cast<uint64_t>(i));
        std::vector<std::byte> target(bytes);
        if (put(*channel, index, base, source.data(), bytes) != Code::kOk) ++failures;
        if (get(*channel, index, base, target.data(), bytes) != Code::kOk) ++failures;
        if (source != target) ++failures;
        Op add;
        set(add, OpCode::kFetchAdd, index, uint64_t{8} << 20, nullptr, 0);
        add.operand = 1;
        if (run(*channel, add) != Code::kOk) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
  EXPECT_EQ(extent->memory[(8u << 20) / 8], uint64_t{kThreads} * 60);
}

TEST_F(TcpChannelTest, TinyWindowStillMovesEverything) {
  channel = connect({.window_bytes = 1, .frame_bytes = 1000});
  index = attach(Access::kReadWrite);
  round_trip(50'001, false);
  round_trip(50'001, true);
}

// The replies of one run fill the socket; the frames that were received behind them are answered although no
// further byte arrives and the worker does not spin.
TEST_F(TcpChannelTest, FramesHeldBackByLongRepliesAreAnsweredWithoutSpinning) {
  TcpServerOptions options;
  options.spin_ns = 0;
  start(options);
  // A little over what may wait at the home, so that a late look at the socket often finds room for all the
  // rest.
  constexpr uint64_t kLength = 140'000;
  const auto long_one = directory.add(kLength);
  const auto own = connect();
  const auto attached = own->attach(describe(*long_one), Access::kReadWrite, soon());
  ASSERT_TRUE(attached.is_ok());
  std::vector<std::byte> target(kLength);
  for (int round = 0; round < 1200; ++round) {
    std::array<Op, 12> ops;
    for (Op& op : ops) {
      set(op, OpCode::kGet, attached.value(), 0, target.data(),
          kLength - static_cast<uint64_t>(round % 64) * 128);
      own->post(op);
    }
    own->flush();
    for (Op& op : ops) ASSERT_EQ(wait(*own, op, kSecondNs), Code::kOk) << "round " << round;
  }
}

TEST_F(TcpChannelTest, ServerStopFailsOpsWithPeerLost) {
  std::vector<std::byte> bytes(8);
  server->stop();
  EXPECT_EQ(get(*channel, index, 0, bytes.data(), bytes.size()), Code::kPeerLost);
  EXPECT_EQ(channel->health().code(), Code::kPeerLost);
  EXPECT_EQ(get(*channel, index, 0, bytes.data(), bytes.size()), Code::kPeerLost);
}

/// A worker that takes the wake-up of stop() in the round in which it goes to sleep must not sleep: SIGALRM ends the test.
TEST(TcpServer, StopsInWhateverRoundItsWorkerIs) {
  constexpr int kRounds = 8000, kSecondsMax = 60;
  TestDirectory directory;
  ServerStats stats;
  ::alarm(kSecondsMax);
  for (int i = 0; i < kRounds; ++i) {
    auto server = TcpServer::start({.spin_ns = 20'000}, directory, stats);
    ASSERT_TRUE(server.is_ok());
    const os::Deadline then = os::Deadline::after_ns(static_cast<uint64_t>(i % 200) * 250);
    while (!then.passed()) {
    }
    (*server)->stop();
  }
  ::alarm(0);
}

TEST_F(TcpChannelTest, WorkersShareTheConnections) {
  server.reset();
  start({.threads = 3});
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < 12; ++i) {
    channels.push_back(connect());
    auto attached = channels.back()->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(attached.is_ok());
    uint64_t word = static_cast<uint64_t>(i);
    ASSERT_EQ(put(*channels.back(), *attached, 8 * word, &word, 8), Code::kOk);
  }
  EXPECT_EQ(stats.connections.load(), 12u);
}

}  // namespace
}  // namespace ocm::fabric::tcp
