#include "fabric_conformance.h"

#include <poll.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "base/units.h"
#include "os/clock.h"

namespace ocm::fabric {

std::vector<std::byte> pattern(uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes);
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
  for (auto& b : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    b = static_cast<std::byte>(x);
  }
  return out;
}

void FabricConformance::SetUp() {
  fixture_ = GetParam()();
  if (const std::string reason = fixture_->skip_reason(); !reason.empty()) GTEST_SKIP() << reason;
}

Freeze::Freeze(FabricFixture& fixture) : fixture_(fixture) {
  ExtentDescriptor extent = fixture.home.make(4096);
  fixture.address(extent);
  fixture.home.freeze();
  hanging_ = std::thread([this, extent] {
    const auto deadline = os::Deadline::after_ns(20'000'000'000);
    auto channel = fixture_.connect(fixture_.home.credentials(), deadline);
    if (channel.is_ok()) (void)(*channel)->attach(extent, Access::kRead, deadline);
  });
  fixture.home.wait_frozen();
}

Freeze::~Freeze() {
  fixture_.home.thaw();
  hanging_.join();
}

std::unique_ptr<Channel> FabricConformance::connect() {
  auto channel = fixture_->connect(fixture_->home.credentials(), soon());
  EXPECT_TRUE(channel.is_ok()) << channel.status().to_string();
  OCM_ASSERT(channel.is_ok());
  return std::move(*channel);
}

ExtentDescriptor FabricConformance::extent(uint64_t bytes) {
  ExtentDescriptor descriptor = fixture_->home.make(bytes);
  fixture_->address(descriptor);
  return descriptor;
}

uint32_t FabricConformance::attach(Channel& channel, const ExtentDescriptor& extent, Access access) {
  auto index = channel.attach(extent, access, soon());
  EXPECT_TRUE(index.is_ok()) << index.status().to_string();
  return index.is_ok() ? *index : ~0u;
}

void FabricConformance::drive(Channel& channel, const std::vector<Op*>& ops, uint64_t stall_ns) {
  channel.flush();
  const uint64_t begin_ns = os::now_ns();
  bool late = false;
  uint64_t rounds = 0;
  for (const Op* op : ops) {
    while (!op->done()) {
      const uint64_t now_ns = os::now_ns();
      channel.progress(now_ns, stall_ns);
      if (!late && now_ns - begin_ns > 30'000'000'000) {
        late = true;
        ADD_FAILURE() << "an op is not done after 30 s";
      }
      if (++rounds % 64 != 0 || op->done()) continue;
      // Sleeping on what the channel names must not lose a wake-up: it only ever costs this millisecond.
      const Channel::PollOn on = channel.poll_on();
      if (on.fd < 0) {
        std::this_thread::yield();
      } else {
        pollfd entry{on.fd, on.events, 0};
        ::poll(&entry, 1, 1);
      }
    }
  }
}

Code FabricConformance::put(Channel& channel, uint32_t index, uint64_t offset, const void* source,
                            uint64_t bytes) {
  Op op;
  op.opcode = OpCode::kPut;
  op.index = index;
  op.offset = offset;
  op.local = const_cast<std::byte*>(static_cast<const std::byte*>(source));
  op.bytes = bytes;
  return run(channel, op);
}

Code FabricConformance::get(Channel& channel, uint32_t index, uint64_t offset, void* target, uint64_t bytes) {
  Op op;
  op.opcode = OpCode::kGet;
  op.index = index;
  op.offset = offset;
  op.local = static_cast<std::byte*>(target);
  op.bytes = bytes;
  return run(channel, op);
}

std::pair<Code, uint64_t> FabricConformance::atomic(Channel& channel, uint32_t index, OpCode opcode,
                                                    uint64_t offset, uint64_t operand, uint64_t expected) {
  Op op;
  op.opcode = opcode;
  op.index = index;
  op.offset = offset;
  op.operand = operand;
  op.expected = expected;
  run(channel, op);
  return {op.code, op.old_value};
}

namespace {

using Codes = std::pair<Code, uint64_t>;

void prepare(Op& op, OpCode opcode, uint32_t index, uint64_t offset, void* local, uint64_t bytes) {
  op.opcode = opcode;
  op.index = index;
  op.offset = offset;
  op.local = static_cast<std::byte*>(local);
  op.bytes = bytes;
}

// ---- attach

TEST_P(FabricConformance, CapabilityOpensTheExtent) {
  const auto channel = connect();
  const auto e = extent(4096);
  const uint32_t index = attach(*channel, e);
  uint64_t seen = 1;
  EXPECT_EQ(get(*channel, index, 0, &seen, 8), Code::kOk);
  EXPECT_EQ(seen, 0u);
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, WrongCapabilityIsRefused) {
  const auto channel = connect();
  auto e = extent(4096);
  e.capability.bytes[3] ^= std::byte{1};
  EXPECT_EQ(channel->attach(e, Access::kReadWrite, soon()).status().code(), Code::kPermission);
  EXPECT_EQ(channel->attach(e, Access::kRead, soon()).status().code(), Code::kPermission);
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, ReadCapabilityReadsOnly) {
  const auto channel = connect();
  const auto e = extent(4096);
  fixture_->home.data(e)[5] = std::byte{42};
  EXPECT_EQ(channel->attach(read_only(e), Access::kReadWrite, soon()).status().code(), Code::kPermission);
  const uint32_t index = attach(*channel, read_only(e), Access::kRead);
  std::byte seen{};
  EXPECT_EQ(get(*channel, index, 5, &seen, 1), Code::kOk);
  EXPECT_EQ(seen, std::byte{42});
  const uint64_t word = 7;
  EXPECT_EQ(put(*channel, index, 0, &word, 8), Code::kPermission);
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 0, 1).first, Code::kPermission);
  EXPECT_EQ(atomic(*channel, index, OpCode::kNotify, 0, 1).first, Code::kPermission);
  EXPECT_EQ(fixture_->home.data(e)[0], std::byte{0});
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, OwnerMayAttachForReading) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096), Access::kRead);
  uint64_t word = 1;
  EXPECT_EQ(get(*channel, index, 0, &word, 8), Code::kOk);
  EXPECT_EQ(put(*channel, index, 0, &word, 8), Code::kPermission);
}

TEST_P(FabricConformance, StaleGenerationIsRevoked) {
  const auto channel = connect();
  auto e = extent(4096);
  e.id.generation -= 1;
  EXPECT_EQ(channel->attach(e, Access::kReadWrite, soon()).status().code(), Code::kRevoked);
  const auto freed = extent(4096);
  fixture_->home.revoke(freed);
  EXPECT_EQ(channel->attach(freed, Access::kReadWrite, soon()).status().code(), Code::kRevoked);
}

TEST_P(FabricConformance, UnknownExtentIsNotFound) {
  const auto channel = connect();
  auto e = extent(4096);
  e.id.address = GlobalAddress(1, uint64_t{1} << 39);
  EXPECT_EQ(channel->attach(e, Access::kReadWrite, soon()).status().code(), Code::kNotFound);
}

TEST_P(FabricConformance, WrongSessionKeyIsRefused) {
  if (!fixture_->checks_keys()) GTEST_SKIP() << "this fabric has no key of its own to check";
  Credentials who = fixture_->home.credentials();
  who.session_key[0] ^= std::byte{1};
  const auto channel = fixture_->connect(who, soon());
  EXPECT_EQ(channel.status().code(), Code::kAuth);
}

TEST_P(FabricConformance, ManyExtentsOnOneChannel) {
  const auto channel = connect();
  std::vector<uint32_t> indexes;
  std::vector<ExtentDescriptor> extents;
  for (int i = 0; i < 200; ++i) {
    extents.push_back(extent(4096));
    indexes.push_back(attach(*channel, extents.back()));
  }
  for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(put(*channel, indexes[i], 8, &i, 8), Code::kOk);
  for (uint64_t i = 0; i < 200; ++i) {
    uint64_t seen = 0;
    EXPECT_EQ(get(*channel, indexes[i], 8, &seen, 8), Code::kOk);
    EXPECT_EQ(seen, i);
  }
}

// ---- put and get

TEST_P(FabricConformance, EverySizeArrivesWholeAndAlone) {
  const auto channel = connect();
  const uint64_t room = 20 * kMiB + 8192;
  const auto e = extent(room);
  const uint32_t index = attach(*channel, e);
  std::byte* home = fixture_->home.data(e);
  for (const uint64_t bytes : {uint64_t{0},   uint64_t{1},   uint64_t{7},    uint64_t{8},    uint64_t{63},
                               uint64_t{64},  uint64_t{65},  uint64_t{4095}, uint64_t{4096}, uint64_t{4097},
                               32 * kKiB - 1, 32 * kKiB + 1, 64 * kKiB,      256 * kKiB + 5, kMiB - 1,
                               kMiB,          kMiB + 3,      8 * kMiB,       8 * kMiB + 1,   20 * kMiB}) {
    const uint64_t offset = 4001;
    const auto source = pattern(bytes, bytes + 1);
    std::memset(home, 0xEE, offset + bytes + 64);
    ASSERT_EQ(put(*channel, index, offset, source.data(), bytes), Code::kOk) << bytes;
    std::vector<std::byte> seen(bytes + 2, std::byte{0x55});
    ASSERT_EQ(get(*channel, index, offset, seen.data() + 1, bytes), Code::kOk) << bytes;
    EXPECT_TRUE(std::equal(source.begin(), source.end(), seen.begin() + 1)) << bytes;
    EXPECT_EQ(seen.front(), std::byte{0x55}) << bytes;
    EXPECT_EQ(seen.back(), std::byte{0x55}) << bytes;
    std::array<std::byte, 2> around{};
    ASSERT_EQ(get(*channel, index, offset - 1, &around[0], 1), Code::kOk);
    ASSERT_EQ(get(*channel, index, offset + bytes, &around[1], 1), Code::kOk);
    EXPECT_EQ(around[0], std::byte{0xEE}) << bytes;
    EXPECT_EQ(around[1], std::byte{0xEE}) << bytes;
  }
  EXPECT_EQ(channel->in_flight(), 0u);
}

TEST_P(FabricConformance, AnyAlignmentArrives) {
  const auto channel = connect();
  const auto e = extent(65536);
  const uint32_t index = attach(*channel, e);
  const auto source = pattern(4096, 9);
  for (const uint64_t offset : {0, 1, 3, 7, 63, 4093, 8191}) {
    for (const uint64_t skew : {0, 1, 5, 31}) {
      ASSERT_EQ(put(*channel, index, offset, source.data() + skew, 1111), Code::kOk);
      std::vector<std::byte> seen(1111 + skew);
      ASSERT_EQ(get(*channel, index, offset, seen.data() + skew, 1111), Code::kOk);
      EXPECT_EQ(std::memcmp(seen.data() + skew, source.data() + skew, 1111), 0) << offset << " " << skew;
    }
  }
}

TEST_P(FabricConformance, ChecksummedPayloadsArrive) {
  if (!fixture_->has_checksums()) GTEST_SKIP() << "this fabric's links have checksums of their own";
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4 * kMiB));
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, 3 * kMiB + 17}) {
    auto source = pattern(bytes, 3);
    std::vector<std::byte> seen(bytes);
    Op out, in;
    prepare(out, OpCode::kPut, index, 11, source.data(), bytes);
    prepare(in, OpCode::kGet, index, 11, seen.data(), bytes);
    out.checksum = in.checksum = true;
    EXPECT_EQ(run(*channel, out), Code::kOk);
    EXPECT_EQ(run(*channel, in), Code::kOk);
    EXPECT_EQ(seen, source);
  }
}

TEST_P(FabricConformance, BoundsAreChecked) {
  const auto channel = connect();
  const uint64_t size = 10000;  // not a multiple of pages
  const auto e = extent(size);
  const uint32_t index = attach(*channel, e);
  std::vector<std::byte> buffer(3 * size, std::byte{0x11});
  const std::pair<uint64_t, uint64_t> bad[] = {{size, 1},        {size - 1, 2}, {0, size + 1},  {~0ull, 1},
                                               {~0ull - 5, 100}, {size + 1, 0}, {1ull << 63, 8}};
  for (const auto& [offset, bytes] : bad) {
    EXPECT_EQ(put(*channel, index, offset, buffer.data(), bytes), Code::kOutOfRange)
        << offset << "+" << bytes;
    EXPECT_EQ(get(*channel, index, offset, buffer.data(), bytes), Code::kOutOfRange)
        << offset << "+" << bytes;
  }
  // Longer than any buffer: refused before a byte of it is moved.
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{0, ~0ull}, {1, ~0ull}, {5, 1ull << 63}}) {
    EXPECT_EQ(get(*channel, index, offset, buffer.data(), bytes), Code::kOutOfRange)
        << offset << "+" << bytes;
  }
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, size, 1).first, Code::kOutOfRange);
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, ~0ull - 7, 1).first, Code::kOutOfRange);
  EXPECT_EQ(put(*channel, index, size - 1, buffer.data(), 1), Code::kOk);
  EXPECT_EQ(put(*channel, index, size, buffer.data(), 0), Code::kOk);
  EXPECT_TRUE(channel->health().is_ok());
  std::vector<std::byte> seen(size);
  EXPECT_EQ(get(*channel, index, 0, seen.data(), size), Code::kOk);
  EXPECT_EQ(seen[0], std::byte{0}) << "a refused put changed something";
}

TEST_P(FabricConformance, TheHomeChecksBoundsItself) {
  const auto channel = connect();
  auto e = extent(4096);
  e.bytes = 1 << 20;  // a descriptor that lies
  auto index = channel->attach(e, Access::kReadWrite, soon());
  if (!index.is_ok()) return;  // refused at once: as good
  std::vector<std::byte> buffer(8192, std::byte{1});
  EXPECT_EQ(put(*channel, *index, 4090, buffer.data(), 100), Code::kOutOfRange);
  EXPECT_EQ(get(*channel, *index, 8192, buffer.data(), 100), Code::kOutOfRange);
  EXPECT_EQ(atomic(*channel, *index, OpCode::kSwap, 4096, 1).first, Code::kOutOfRange);
  EXPECT_EQ(put(*channel, *index, 4000, buffer.data(), 96), Code::kOk);
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, UnknownIndexIsAnError) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096));
  uint64_t word = 0;
  EXPECT_NE(put(*channel, index + 1000, 0, &word, 8), Code::kOk);
  EXPECT_NE(get(*channel, ~0u, 0, &word, 8), Code::kOk);
  EXPECT_EQ(get(*channel, index, 0, &word, 8), Code::kOk);
}

// ---- atomics

TEST_P(FabricConformance, AtomicsDoWhatTheySay) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096));
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 16, 5), Codes(Code::kOk, 0));
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 16, ~0ull), Codes(Code::kOk, 5));
  EXPECT_EQ(atomic(*channel, index, OpCode::kSwap, 16, 0xF0F0), Codes(Code::kOk, 4));
  EXPECT_EQ(atomic(*channel, index, OpCode::kCompareSwap, 16, 1, 2), Codes(Code::kOk, 0xF0F0));
  EXPECT_EQ(atomic(*channel, index, OpCode::kCompareSwap, 16, 0xFF, 0xF0F0), Codes(Code::kOk, 0xF0F0));
  EXPECT_EQ(atomic(*channel, index, OpCode::kAnd, 16, 0x0F), Codes(Code::kOk, 0xFF));
  EXPECT_EQ(atomic(*channel, index, OpCode::kOr, 16, 0x100), Codes(Code::kOk, 0x0F));
  EXPECT_EQ(atomic(*channel, index, OpCode::kXor, 16, 0x101), Codes(Code::kOk, 0x10F));
  uint64_t seen = 0;
  EXPECT_EQ(get(*channel, index, 16, &seen, 8), Code::kOk);
  EXPECT_EQ(seen, 0x0Eu);
}

TEST_P(FabricConformance, MisalignedAtomicsAreRefused) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096));
  for (const OpCode opcode : {OpCode::kFetchAdd, OpCode::kSwap, OpCode::kCompareSwap, OpCode::kAnd,
                              OpCode::kOr, OpCode::kXor, OpCode::kNotify}) {
    EXPECT_EQ(atomic(*channel, index, opcode, 12, 1).first, Code::kInvalidArgument);
  }
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, AtomicsOfSeveralChannelsAddUp) {
  constexpr uint64_t kThreads = 3, kRounds = 200;
  const auto e = extent(4096);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto channel = connect();
      const uint32_t index = attach(*channel, e);
      for (uint64_t i = 0; i < kRounds; ++i) {
        EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 0, 1).first, Code::kOk);
        for (uint64_t seen = 0;;) {  // an increment by compare-swap
          const auto [code, old] = atomic(*channel, index, OpCode::kCompareSwap, 8, seen + 1, seen);
          ASSERT_EQ(code, Code::kOk);
          if (old == seen) break;
          seen = old;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto channel = connect();
  const uint32_t index = attach(*channel, e);
  std::array<uint64_t, 2> sums{};
  EXPECT_EQ(get(*channel, index, 0, sums.data(), 16), Code::kOk);
  EXPECT_EQ(sums[0], kThreads * kRounds);
  EXPECT_EQ(sums[1], kThreads * kRounds);
}

// ---- order

TEST_P(FabricConformance, OpsToOneExtentCompleteInOrder) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(kMiB));
  constexpr int kOps = 200;
  std::deque<Op> ops(kOps);
  std::vector<std::vector<std::byte>> buffers;
  for (int i = 0; i < kOps; ++i) {
    buffers.push_back(pattern(i % 5 == 0 ? 100'000 : 64, i));
    prepare(ops[i], OpCode::kPut, index, 0, buffers[i].data(), buffers[i].size());
    channel->post(ops[i]);
  }
  channel->flush();
  while (!ops.back().done()) {
    channel->progress(os::now_ns(), kStallNs);
    bool later_done = false;
    for (int i = kOps - 1; i >= 0; --i) {
      const bool done = ops[i].done();
      ASSERT_TRUE(done || !later_done) << i;
      later_done = later_done || done;
    }
  }
  std::vector<std::byte> seen(64);
  EXPECT_EQ(get(*channel, index, 0, seen.data(), 64), Code::kOk);
  EXPECT_EQ(seen, buffers.back());
}

TEST_P(FabricConformance, GetPostedAfterPutSeesIt) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(kMiB));
  constexpr int kOps = 64;
  std::deque<Op> puts(kOps), gets(kOps);
  std::vector<std::vector<std::byte>> out, in;
  std::vector<Op*> all;
  for (int i = 0; i < kOps; ++i) {
    const uint64_t bytes = i % 8 == 0 ? 300'000 : 200;
    out.push_back(pattern(bytes, i));
    in.emplace_back(bytes);
    prepare(puts[i], OpCode::kPut, index, 5, out[i].data(), bytes);
    prepare(gets[i], OpCode::kGet, index, 5, in[i].data(), bytes);
    for (Op* op : {&puts[i], &gets[i]}) {
      channel->post(*op);
      all.push_back(op);
    }
  }
  drive(*channel, all);
  for (int i = 0; i < kOps; ++i) {
    EXPECT_EQ(puts[i].code, Code::kOk);
    EXPECT_EQ(gets[i].code, Code::kOk);
    EXPECT_EQ(in[i], out[i]) << i;
  }
}

TEST_P(FabricConformance, FenceCompletesAfterEveryEarlierPut) {
  const auto channel = connect();
  const auto a = extent(4 * kMiB), b = extent(4 * kMiB);
  const uint32_t index_a = attach(*channel, a), index_b = attach(*channel, b);
  auto source = pattern(3 * kMiB, 1);
  std::deque<Op> puts(6);
  Op fence;
  for (int i = 0; i < 6; ++i) {
    prepare(puts[i], OpCode::kPut, i % 2 == 0 ? index_a : index_b, i, source.data(), source.size());
    channel->post(puts[i]);
  }
  fence.opcode = OpCode::kFence;
  fence.index = index_b;
  EXPECT_EQ(run(*channel, fence), Code::kOk);
  // Applied at the home: another channel sees them, whether their replies are here or not.
  const auto other = connect();
  std::byte seen{};
  EXPECT_EQ(get(*other, attach(*other, a), 4 + source.size() - 1, &seen, 1), Code::kOk);
  EXPECT_EQ(seen, source.back());
  EXPECT_EQ(get(*other, attach(*other, b), 5 + source.size() - 1, &seen, 1), Code::kOk);
  EXPECT_EQ(seen, source.back());
  for (Op& op : puts) drive(*channel, {&op});
}

TEST_P(FabricConformance, FenceAloneCompletes) {
  const auto channel = connect();
  Op fence;
  fence.opcode = OpCode::kFence;
  fence.index = attach(*channel, extent(4096));
  EXPECT_EQ(run(*channel, fence), Code::kOk);
}

TEST_P(FabricConformance, NotifyIsSeenAfterTheBytes) {
  const auto channel = connect(), other = connect();
  const auto e = extent(2 * kMiB);
  const uint32_t index = attach(*channel, e), other_index = attach(*other, e);
  for (uint64_t round = 1; round <= 8; ++round) {
    auto source = pattern(kMiB + 99, round);
    Op data, notify;
    prepare(data, OpCode::kPut, index, 64, source.data(), source.size());
    prepare(notify, OpCode::kNotify, index, 8, nullptr, 0);
    notify.operand = 1;
    channel->post(data);
    channel->post(notify);
    channel->flush();
    uint64_t word = 0;
    const uint64_t begin_ns = os::now_ns();
    while (word < round) {
      channel->progress(os::now_ns(), kStallNs);
      ASSERT_EQ(get(*other, other_index, 8, &word, 8), Code::kOk);
      ASSERT_LT(os::now_ns() - begin_ns, 30'000'000'000u);
    }
    std::vector<std::byte> seen(source.size());
    ASSERT_EQ(get(*other, other_index, 64, seen.data(), seen.size()), Code::kOk);
    EXPECT_EQ(seen, source);
    drive(*channel, {&data, &notify});
    EXPECT_EQ(data.code, Code::kOk);
    EXPECT_EQ(notify.code, Code::kOk);
  }
}

TEST_P(FabricConformance, ANotifyIsAppliedOnlyIfItsPutWas) {
  const auto channel = connect();
  const auto e = extent(2 * kMiB);
  const uint32_t index = attach(*channel, e);
  const auto word = [&] {
    uint64_t seen = 0;
    EXPECT_EQ(get(*channel, index, 8, &seen, 8), Code::kOk);
    return seen;
  };
  auto source = pattern(kMiB + 99, 4);
  const auto put_notify = [&](uint64_t offset, uint64_t bytes) {
    Op data, notify;
    prepare(data, OpCode::kPut, index, offset, source.data(), bytes);
    prepare(notify, OpCode::kNotify, index, 8, nullptr, 0);
    notify.operand = 1;
    data.notify = &notify;
    channel->post(data);
    drive(*channel, {&data, &notify});
    EXPECT_EQ(data.code, notify.code);
    return data.code;
  };
  EXPECT_EQ(put_notify(64, source.size()), Code::kOk);
  EXPECT_EQ(word(), 1u);
  // One that is refused whole, and one of whose pieces the last leaves the extent.
  EXPECT_EQ(put_notify(2 * kMiB, 100), Code::kOutOfRange);
  EXPECT_EQ(put_notify(2 * kMiB - source.size() + 1, source.size()), Code::kOutOfRange);
  EXPECT_EQ(word(), 1u);
  EXPECT_EQ(put_notify(64, 100), Code::kOk);
  EXPECT_EQ(word(), 2u);
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, ANotifyEndsWithItsPutWhenTheHomeIsDead) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096));
  fixture_->kill_home();
  for (int i = 0; i < 2; ++i) {
    uint64_t value = 7;
    Op data, notify;
    prepare(data, OpCode::kPut, index, 64, &value, 8);
    prepare(notify, OpCode::kNotify, index, 8, nullptr, 0);
    data.notify = &notify;
    channel->post(data);
    drive(*channel, {&data, &notify});
    EXPECT_EQ(data.code, Code::kPeerLost);
    EXPECT_EQ(notify.code, Code::kPeerLost);
  }
}

// ---- many at once

TEST_P(FabricConformance, HundredsInFlight) {
  const auto channel = connect();
  constexpr uint32_t kExtents = 4, kOps = 600;
  std::vector<uint32_t> indexes;
  for (uint32_t i = 0; i < kExtents; ++i) indexes.push_back(attach(*channel, extent(kMiB)));
  std::deque<Op> ops(kOps);
  std::vector<uint64_t> values(kOps), seen(kOps);
  std::vector<Op*> all;
  for (uint32_t i = 0; i < kOps; ++i) {
    values[i] = i * 1000 + 1;
    prepare(ops[i], OpCode::kPut, indexes[i % kExtents], 8ull * i, &values[i], 8);
    channel->post(ops[i]);
    all.push_back(&ops[i]);
  }
  drive(*channel, all);
  for (const Op& op : ops) ASSERT_EQ(op.code, Code::kOk);
  std::deque<Op> gets(kOps);
  all.clear();
  for (uint32_t i = 0; i < kOps; ++i) {
    prepare(gets[i], OpCode::kGet, indexes[i % kExtents], 8ull * i, &seen[i], 8);
    channel->post(gets[i]);
    all.push_back(&gets[i]);
  }
  drive(*channel, all);
  EXPECT_EQ(seen, values);
  EXPECT_EQ(channel->in_flight(), 0u);
}

TEST_P(FabricConformance, LargePutsAndGetsAtOnce) {
  const auto channel = connect();
  const uint32_t a = attach(*channel, extent(8 * kMiB)), b = attach(*channel, extent(8 * kMiB));
  auto out = pattern(8 * kMiB, 5);
  std::vector<std::byte> in(8 * kMiB, std::byte{9});
  std::deque<Op> ops(8);
  std::vector<Op*> all;
  for (int i = 0; i < 8; ++i) {
    if (i % 2 == 0) {
      prepare(ops[i], OpCode::kPut, a, i * kMiB, out.data() + i * kMiB, 2 * kMiB);
    } else {
      prepare(ops[i], OpCode::kGet, b, (i - 1) * kMiB, in.data() + (i - 1) * kMiB, 2 * kMiB);
    }
    channel->post(ops[i]);
    all.push_back(&ops[i]);
  }
  drive(*channel, all);
  for (const Op& op : ops) EXPECT_EQ(op.code, Code::kOk);
  EXPECT_EQ(in, std::vector<std::byte>(8 * kMiB));
  EXPECT_EQ(get(*channel, a, 0, in.data(), in.size()), Code::kOk);
  EXPECT_EQ(in, out);
}

TEST_P(FabricConformance, ThreadsShareAChannel) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(kMiB));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 150; ++i) {
        const uint64_t bytes = i % 10 == 0 ? 60'000 : 100, offset = t * 100'000;
        const auto source = pattern(bytes, t * 1000 + i);
        std::vector<std::byte> seen(bytes);
        ASSERT_EQ(put(*channel, index, offset, source.data(), bytes), Code::kOk);
        ASSERT_EQ(get(*channel, index, offset, seen.data(), bytes), Code::kOk);
        ASSERT_EQ(seen, source);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(FabricConformance, ChannelsToOneHomeSeeEachOther) {
  const auto a = connect(), b = connect();
  const auto e = extent(4096);
  const uint32_t index_a = attach(*a, e), index_b = attach(*b, e);
  for (uint64_t i = 1; i < 50; ++i) {
    uint64_t seen = 0;
    ASSERT_EQ(put(*a, index_a, 0, &i, 8), Code::kOk);
    ASSERT_EQ(get(*b, index_b, 0, &seen, 8), Code::kOk);
    ASSERT_EQ(seen, i);
    std::swap(seen, seen);
    ASSERT_EQ(put(*b, index_b, 8, &i, 8), Code::kOk);
    ASSERT_EQ(get(*a, index_a, 8, &seen, 8), Code::kOk);
    ASSERT_EQ(seen, i);
  }
}

// ---- ends

TEST_P(FabricConformance, DetachEndsTheIndexOnly) {
  const auto channel = connect();
  const auto e = extent(4096);
  const uint32_t index = attach(*channel, e), other = attach(*channel, extent(4096));
  uint64_t word = 77;
  Op op;
  prepare(op, OpCode::kPut, index, 0, &word, 8);
  channel->post(op);
  channel->detach(index);  // what is under way completes first
  drive(*channel, {&op});
  EXPECT_EQ(op.code, Code::kOk);
  EXPECT_NE(put(*channel, index, 0, &word, 8), Code::kOk);
  EXPECT_EQ(put(*channel, other, 0, &word, 8), Code::kOk);
  uint64_t seen = 0;
  const uint32_t again = attach(*channel, e);
  EXPECT_EQ(get(*channel, again, 0, &seen, 8), Code::kOk);
  EXPECT_EQ(seen, 77u);
}

TEST_P(FabricConformance, RevokeInTheMiddleEndsThatExtentOnly) {
  const auto channel = connect();
  const auto e = extent(kMiB), kept = extent(kMiB);
  const uint32_t index = attach(*channel, e), kept_index = attach(*channel, kept);
  auto source = pattern(kMiB, 2);
  std::deque<Op> ops(40);
  for (size_t i = 0; i < ops.size(); ++i) {
    prepare(ops[i], i % 4 == 3 ? OpCode::kGet : OpCode::kPut, index, 0, source.data(), 50'000);
    channel->post(ops[i]);
    if (i == 20) fixture_->home.revoke(e);
  }
  bool revoked = false;
  for (Op& op : ops) {
    drive(*channel, {&op});
    EXPECT_TRUE(op.code == Code::kRevoked || (op.code == Code::kOk && !revoked)) << code_name(op.code);
    revoked = revoked || op.code == Code::kRevoked;
  }
  EXPECT_EQ(put(*channel, index, 0, source.data(), 8), Code::kRevoked);
  EXPECT_EQ(get(*channel, index, 0, source.data(), 8), Code::kRevoked);
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 0, 1).first, Code::kRevoked);
  EXPECT_EQ(put(*channel, kept_index, 0, source.data(), 50'000), Code::kOk);
  EXPECT_TRUE(channel->health().is_ok());
}

TEST_P(FabricConformance, DeadPeerIsPeerLost) {
  const auto channel = connect();
  const auto e = extent(4 * kMiB);
  const uint32_t index = attach(*channel, e);
  auto source = pattern(4 * kMiB, 2);
  ASSERT_EQ(put(*channel, index, 0, source.data(), 4096), Code::kOk);
  fixture_->kill_home();
  std::deque<Op> ops(5);
  for (Op& op : ops) {
    prepare(op, OpCode::kPut, index, 0, source.data(), source.size());
    channel->post(op);
  }
  for (Op& op : ops) {
    drive(*channel, {&op});
    EXPECT_EQ(op.code, Code::kPeerLost);
  }
  EXPECT_EQ(channel->health().code(), Code::kPeerLost);
  EXPECT_EQ(get(*channel, index, 0, source.data(), 8), Code::kPeerLost);
  EXPECT_EQ(atomic(*channel, index, OpCode::kFetchAdd, 0, 1).first, Code::kPeerLost);
  EXPECT_EQ(channel->attach(e, Access::kReadWrite, soon()).status().code(), Code::kPeerLost);
  EXPECT_EQ(channel->in_flight(), 0u);
  channel->detach(index);
}

TEST_P(FabricConformance, SilentPeerIsPeerLostAfterTheStall) {
  const auto channel = connect();
  const uint32_t index = attach(*channel, extent(4096));
  if (!fixture_->freeze_home()) GTEST_SKIP() << "the home cannot be frozen inside this process";
  uint64_t word = 0;
  Op op;
  prepare(op, OpCode::kGet, index, 0, &word, 8);
  channel->post(op);
  drive(*channel, {&op}, 200'000'000);
  EXPECT_EQ(op.code, Code::kPeerLost);
  EXPECT_EQ(channel->health().code(), Code::kPeerLost);
}

TEST_P(FabricConformance, ConnectToADeadHomeFails) {
  fixture_->kill_home();
  const auto channel = fixture_->connect(fixture_->home.credentials(), os::Deadline::after_ns(500'000'000));
  EXPECT_EQ(channel.status().code(), Code::kPeerLost);
}

TEST_P(FabricConformance, ClosingAChannelEndsItsOps) {
  const auto e = extent(4 * kMiB);
  auto source = pattern(4 * kMiB, 2);
  std::deque<Op> ops(20);
  {
    const auto channel = connect();
    const uint32_t index = attach(*channel, e);
    for (Op& op : ops) {
      prepare(op, OpCode::kPut, index, 0, source.data(), source.size());
      channel->post(op);
    }
  }
  for (const Op& op : ops) EXPECT_TRUE(op.done());
  const auto channel = connect();
  EXPECT_EQ(put(*channel, attach(*channel, e), 0, source.data(), 8), Code::kOk) << "the home goes on";
}

}  // namespace
}  // namespace ocm::fabric
