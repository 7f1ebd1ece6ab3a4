// The ucx fabric over the transports that every machine has: tcp on the loopback device, shared memory.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <future>
#include <random>
#include <thread>
#include <vector>

#include "fabric/ucx/message.h"
#include "ucx_fixture.h"

namespace ocm::fabric::ucx {
namespace {

struct Transport {
  const char* name;
  Settings settings;
};

class Ucx : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    if (std::string why = reason_to_skip(GetParam().settings); !why.empty()) GTEST_SKIP() << why;
    start_server();
    auto connector = make_connector(GetParam().settings);
    ASSERT_TRUE(connector.is_ok()) << connector.status().to_string();
    connector_ = std::move(*connector);
    who_.session = os::random_id<SessionId>();
    who_.session_key = extents_.session_key(who_.session);
  }
  void start_server() {
    ServerOptions options;
    options.settings = GetParam().settings;
    auto server = UcxServer::start(options, extents_, stats_);
    ASSERT_TRUE(server.is_ok()) << server.status().to_string();
    server_ = std::move(*server);
  }
  Result<std::unique_ptr<Channel>> connect() {
    return connector_->connect({Fabric::kUcx, server_->address(), ""}, who_,
                               os::Deadline::after_ns(10 * kSecondNs));
  }
  std::unique_ptr<Channel> channel() {
    auto channel = connect();
    EXPECT_TRUE(channel.is_ok()) << channel.status().to_string();
    return channel.is_ok() ? std::move(*channel) : nullptr;
  }
  static uint32_t attach(Channel& channel, const ServedExtent& extent, Access access = Access::kReadWrite) {
    ExtentDescriptor d = descriptor_of(extent);
    if (access == Access::kRead) d.capability = os::read_capability(d.capability);
    auto index = channel.attach(d, access, os::Deadline::after_ns(10 * kSecondNs));
    EXPECT_TRUE(index.is_ok()) << index.status().to_string();
    return index.is_ok() ? *index : 0;
  }
  void revoke(const ExtentId& id) {
    extents_.remove(id);
    server_->revoke(id);
  }

  Extents extents_;
  ServerStats stats_;
  Credentials who_;
  std::unique_ptr<UcxServer> server_;
  std::unique_ptr<Connector> connector_;
};

std::vector<std::byte> pattern(uint64_t bytes, uint32_t seed) {
  std::vector<std::byte> out(bytes);
  std::mt19937 random(seed);
  for (auto& b : out) b = static_cast<std::byte>(random());
  return out;
}

TEST_P(Ucx, MovesEveryLengthBothWays) {
  auto extent = extents_.add(0, 32 << 20);
  auto c = channel();
  ASSERT_NE(c, nullptr);
  const uint32_t index = attach(*c, *extent);
  for (uint64_t bytes : {uint64_t{1}, uint64_t{7}, uint64_t{8}, uint64_t{64}, uint64_t{1024}, uint64_t{1025},
                         uint64_t{8191}, uint64_t{65537}, uint64_t{1} << 20, (uint64_t{20} << 20) + 3}) {
    auto source = pattern(bytes, static_cast<uint32_t>(bytes));
    ASSERT_EQ(run(*c, OpCode::kPut, index, 13, source.data(), bytes), Code::kOk) << bytes;
    ASSERT_EQ(std::memcmp(extent->data + 13, source.data(), bytes), 0) << bytes;
    std::vector<std::byte> target(bytes);
    ASSERT_EQ(run(*c, OpCode::kGet, index, 13, target.data(), bytes), Code::kOk) << bytes;
    ASSERT_EQ(target, source) << bytes;
  }
}

TEST_P(Ucx, AnEmptyPutCompletes) {
  auto extent = extents_.add(0, 4096);
  auto c = channel();
  EXPECT_EQ(run(*c, OpCode::kPut, attach(*c, *extent), 4096, nullptr, 0), Code::kOk);
}

TEST_P(Ucx, AGetAfterAPutOfTheSameBytesSeesThem) {
  auto extent = extents_.add(0, 8 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto source = pattern(6 << 20, 1);
  std::vector<std::byte> target(6 << 20);
  Op put, get;
  set_up(put, OpCode::kPut, index, 0, source.data(), source.size());
  set_up(get, OpCode::kGet, index, 0, target.data(), target.size());
  c->post(put);
  c->post(get);
  ASSERT_EQ(finish(*c, get), Code::kOk);
  EXPECT_TRUE(put.done());
  EXPECT_EQ(target, source);
}

TEST_P(Ucx, OperationsCompleteInPostOrder) {
  auto extent = extents_.add(0, 4 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto bytes = pattern(1 << 20, 2);
  constexpr size_t kOps = 300;
  std::vector<Op> ops(kOps);
  std::vector<std::byte> targets(kOps * 64);
  for (size_t i = 0; i < kOps; ++i) {
    if (i % 50 == 0) {
      set_up(ops[i], OpCode::kPut, index, 1 << 20, bytes.data(), bytes.size());
    } else if (i % 7 == 0) {
      set_up(ops[i], OpCode::kFence, index, 0, nullptr, 0);
    } else if (i % 11 == 0) {
      set_up(ops[i], OpCode::kGet, index, 1 << 30, targets.data(), 64);  // out of range
    } else {
      set_up(ops[i], OpCode::kGet, index, 64 * i, &targets[64 * i], 64);
    }
    c->post(ops[i]);
  }
  c->flush();
  EXPECT_EQ(c->in_flight() > 0 || ops.back().done(), true);
  while (!ops.back().done()) {
    c->progress(os::now_ns(), 10 * kSecondNs);
    bool undone = false;
    for (const Op& op : ops) {
      ASSERT_FALSE(undone && op.done());
      undone |= !op.done();
    }
  }
  EXPECT_EQ(ops[11].code, Code::kOutOfRange);
  EXPECT_EQ(ops[12].code, Code::kOk);
  EXPECT_EQ(c->in_flight(), 0u);
}

TEST_P(Ucx, AtomicsReturnTheOldValueAndApply) {
  auto extent = extents_.add(0, 4096);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto* word = reinterpret_cast<uint64_t*>(extent->data + 64);
  *word = 0xF0;
  uint64_t old = 0;
  ASSERT_EQ(run(*c, OpCode::kFetchAdd, index, 64, nullptr, 0, 0x10, &old), Code::kOk);
  EXPECT_EQ(old, 0xF0u);
  ASSERT_EQ(run(*c, OpCode::kAnd, index, 64, nullptr, 0, 0x1FF, &old), Code::kOk);
  EXPECT_EQ(old, 0x100u);
  ASSERT_EQ(run(*c, OpCode::kOr, index, 64, nullptr, 0, 0x3, &old), Code::kOk);
  EXPECT_EQ(old, 0x100u);
  ASSERT_EQ(run(*c, OpCode::kXor, index, 64, nullptr, 0, 0x1, &old), Code::kOk);
  EXPECT_EQ(old, 0x103u);
  ASSERT_EQ(run(*c, OpCode::kSwap, index, 64, nullptr, 0, 42, &old), Code::kOk);
  EXPECT_EQ(old, 0x102u);
  EXPECT_EQ(*word, 42u);
  Op cas;
  set_up(cas, OpCode::kCompareSwap, index, 64, nullptr, 0, 99);
  cas.expected = 41;
  c->post(cas);
  ASSERT_EQ(finish(*c, cas), Code::kOk);
  EXPECT_EQ(cas.old_value, 42u);
  EXPECT_EQ(*word, 42u);
  set_up(cas, OpCode::kCompareSwap, index, 64, nullptr, 0, 99);
  cas.expected = 42;
  c->post(cas);
  ASSERT_EQ(finish(*c, cas), Code::kOk);
  EXPECT_EQ(cas.old_value, 42u);
  EXPECT_EQ(*word, 99u);
}

TEST_P(Ucx, AtomicsOfTwoChannelsLoseNoCount) {
  auto extent = extents_.add(0, 4096);
  constexpr int kAdds = 500;
  auto add = [&] {
    auto c = channel();
    const uint32_t index = attach(*c, *extent);
    for (int i = 0; i < kAdds; ++i) EXPECT_EQ(run(*c, OpCode::kFetchAdd, index, 0, nullptr, 0, 1), Code::kOk);
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(extent->data), 2u * kAdds);
}

TEST_P(Ucx, ThreadsShareAChannel) {
  auto extent = extents_.add(0, 1 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto work = [&](uint32_t thread) {
    for (uint32_t i = 0; i < 200; ++i) {
      auto source = pattern(512, thread * 1000 + i);
      std::vector<std::byte> target(512);
      ASSERT_EQ(run(*c, OpCode::kPut, index, thread * 4096, source.data(), 512), Code::kOk);
      ASSERT_EQ(run(*c, OpCode::kGet, index, thread * 4096, target.data(), 512), Code::kOk);
      ASSERT_EQ(target, source);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

TEST_P(Ucx, NotifyComesAfterThePutAndWakes) {
  auto extent = extents_.add(0, 4 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto source = pattern(2 << 20, 5);
  Op put, notify;
  set_up(put, OpCode::kPut, index, 4096, source.data(), source.size());
  set_up(notify, OpCode::kNotify, index, 0, nullptr, 0, 3);
  auto waiter = std::async(std::launch::async, [&] {
    auto* word = reinterpret_cast<std::atomic<uint64_t>*>(extent->data);
    const os::Deadline deadline = os::Deadline::after_ns(10 * kSecondNs);
    while (word->load() == 0 && !deadline.passed()) wait_for_notify(extent->data, 0, deadline);
    return std::memcmp(extent->data + 4096, source.data(), source.size()) == 0 && word->load() == 3;
  });
  c->post(put);
  c->post(notify);
  EXPECT_EQ(finish(*c, notify), Code::kOk);
  EXPECT_TRUE(waiter.get());
}

TEST_P(Ucx, BoundsAlignmentAndAccessAreChecked) {
  auto extent = extents_.add(0, 4096);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  uint64_t word = 0;
  EXPECT_EQ(run(*c, OpCode::kPut, index, 4089, &word, 8), Code::kOutOfRange);
  EXPECT_EQ(run(*c, OpCode::kGet, index, ~uint64_t{0} - 3, &word, 8), Code::kOutOfRange);
  EXPECT_EQ(run(*c, OpCode::kFetchAdd, index, 4, nullptr, 0, 1), Code::kInvalidArgument);
  EXPECT_EQ(run(*c, OpCode::kFetchAdd, index, 4096, nullptr, 0, 1), Code::kOutOfRange);
  EXPECT_EQ(run(*c, OpCode::kGet, index + 100, 0, &word, 8), Code::kNotFound);
  const uint32_t reader = attach(*c, *extent, Access::kRead);
  EXPECT_EQ(run(*c, OpCode::kPut, reader, 0, &word, 8), Code::kPermission);
  EXPECT_EQ(run(*c, OpCode::kSwap, reader, 0, nullptr, 0, 1), Code::kPermission);
  EXPECT_EQ(run(*c, OpCode::kGet, reader, 0, &word, 8), Code::kOk);
}

TEST_P(Ucx, AWrongCapabilityOpensNothing) {
  auto extent = extents_.add(0, 4096);
  auto c = channel();
  const os::Deadline deadline = os::Deadline::after_ns(10 * kSecondNs);
  ExtentDescriptor d = descriptor_of(*extent);
  d.capability = os::random_id<Capability>();
  EXPECT_EQ(c->attach(d, Access::kRead, deadline).status().code(), Code::kPermission);
  d.capability = os::read_capability(extent->capability);
  EXPECT_EQ(c->attach(d, Access::kReadWrite, deadline).status().code(), Code::kPermission);
  EXPECT_TRUE(c->attach(d, Access::kRead, deadline).is_ok());
  EXPECT_TRUE(c->attach(descriptor_of(*extent), Access::kRead, deadline).is_ok());
  d = descriptor_of(*extent);
  d.id.generation = 2;
  EXPECT_EQ(c->attach(d, Access::kRead, deadline).status().code(), Code::kRevoked);
  d.id = {GlobalAddress(7, 1 << 20), 1};
  EXPECT_EQ(c->attach(d, Access::kRead, deadline).status().code(), Code::kNotFound);
  EXPECT_TRUE(c->health().is_ok());
}

TEST_P(Ucx, AnUnknownSessionKeyIsRefused) {
  who_.session_key[0] ^= std::byte{1};
  EXPECT_EQ(connect().status().code(), Code::kAuth);
}

TEST_P(Ucx, ADamagedAddressIsRefused) {
  FabricAddress address{Fabric::kUcx, server_->address(), ""};
  address.address[address.address.size() / 2] ^= 1;
  auto channel = connector_->connect(address, who_, os::Deadline::after_ns(kSecondNs));
  EXPECT_EQ(channel.status().code(), Code::kInvalidArgument);
}

TEST_P(Ucx, ARevokedExtentAnswersRevokedAndHarmsNobody) {
  auto extent = extents_.add(0, 1 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto ones = std::vector<std::byte>(4096, std::byte{1});
  ASSERT_EQ(run(*c, OpCode::kPut, index, 0, ones.data(), ones.size()), Code::kOk);
  revoke(extent->id);
  EXPECT_EQ(server_->registered_extents(), 0u);
  // The same global address in its next life.
  auto next = extents_.add(0, 1 << 20, 2);
  const uint32_t next_index = attach(*c, *next);
  auto twos = std::vector<std::byte>(4096, std::byte{2});
  EXPECT_EQ(run(*c, OpCode::kPut, index, 0, twos.data(), twos.size()), Code::kRevoked);
  EXPECT_EQ(run(*c, OpCode::kGet, index, 0, twos.data(), twos.size()), Code::kRevoked);
  EXPECT_EQ(run(*c, OpCode::kFetchAdd, index, 0, nullptr, 0, 1), Code::kRevoked);
  EXPECT_EQ(next->data[0], std::byte{0});
  EXPECT_EQ(extent->data[0], std::byte{1});
  EXPECT_EQ(run(*c, OpCode::kGet, next_index, 0, ones.data(), ones.size()), Code::kOk);
  EXPECT_EQ(ones[0], std::byte{0});
}

TEST_P(Ucx, RevokingUnderLoadNeverGivesForeignBytes) {
  constexpr int kRounds = 30;
  auto c = channel();
  for (int round = 0; round < kRounds; ++round) {
    auto extent = extents_.add(0, 4 << 20, static_cast<uint32_t>(round + 1));
    std::memset(extent->data, 0x5A, extent->bytes);
    const uint32_t index = attach(*c, *extent);
    std::thread revoker([&, id = extent->id] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
      revoke(id);
    });
    std::vector<std::byte> target(64 << 10);
    Code code = Code::kOk;
    while (code == Code::kOk) {
      std::fill(target.begin(), target.end(), std::byte{0});
      code = run(*c, OpCode::kGet, index, 1 << 20, target.data(), target.size());
      if (code == Code::kOk) {
        for (std::byte b : target) ASSERT_EQ(b, std::byte{0x5A});
        code = run(*c, OpCode::kPut, index, 1 << 20, target.data(), target.size());
      }
    }
    EXPECT_EQ(code, Code::kRevoked);
    revoker.join();
    c->detach(index);
  }
}

TEST_P(Ucx, AnOperationUnderWayOutlivesItsIndex) {
  auto extent = extents_.add(0, 4 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  auto source = pattern(4 << 20, 9);
  Op put;
  set_up(put, OpCode::kPut, index, 0, source.data(), source.size());
  c->post(put);
  c->detach(index);
  EXPECT_EQ(finish(*c, put), Code::kOk);
  EXPECT_EQ(std::memcmp(extent->data, source.data(), source.size()), 0);
}

TEST_P(Ucx, AHomeThatEndsIsPeerLost) {
  auto extent = extents_.add(0, 1 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  std::vector<std::byte> bytes(1 << 20);
  ASSERT_EQ(run(*c, OpCode::kPut, index, 0, bytes.data(), bytes.size()), Code::kOk);
  server_.reset();
  Op op;
  set_up(op, OpCode::kPut, index, 0, bytes.data(), bytes.size());
  c->post(op);
  EXPECT_EQ(finish(*c, op, kSecondNs / 2), Code::kPeerLost);
  EXPECT_EQ(c->health().code(), Code::kPeerLost);
  EXPECT_EQ(run(*c, OpCode::kGet, index, 0, bytes.data(), 8), Code::kPeerLost);
}

TEST_P(Ucx, AWaiterSleepsOnTheDescriptor) {
  auto extent = extents_.add(0, 8 << 20);
  auto c = channel();
  const uint32_t index = attach(*c, *extent);
  std::vector<std::byte> bytes(8 << 20);
  for (OpCode opcode : {OpCode::kGet, OpCode::kPut, OpCode::kFetchAdd, OpCode::kNotify}) {
    Op op;
    set_up(op, opcode, index, 0, bytes.data(), bytes.size(), 1);
    c->post(op);
    c->flush();
    const os::Deadline deadline = os::Deadline::after_ns(10 * kSecondNs);
    while (!op.done() && !deadline.passed()) {
      c->progress(os::now_ns(), 10 * kSecondNs);
      if (op.done()) break;
      const Channel::PollOn on = c->poll_on();
      if (on.fd < 0) continue;
      pollfd p{on.fd, on.events, 0};
      ASSERT_GT(::poll(&p, 1, 5000), 0) << "asleep with an operation under way";
    }
    EXPECT_TRUE(op.done());
    EXPECT_EQ(op.code, Code::kOk);
  }
}

TEST_P(Ucx, AnIdleHomeUsesNoProcessor) {
  auto extent = extents_.add(0, 4096);
  auto c = channel();
  attach(*c, *extent);
  auto cpu_ms = [] {
    rusage use{};
    ::getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
  };
  ::poll(nullptr, 0, 50);
  const auto before = cpu_ms();
  ::poll(nullptr, 0, 1000);
  EXPECT_LT(cpu_ms() - before, 10);
}

TEST_P(Ucx, AClientThatIsKilledHarmsNoHome) {
  // Between its operations: what emulated transports do otherwise stands at Settings::allow_emulated.
  auto extent = extents_.add(0, 16 << 20);
  // A process that is forked while a thread is in UCX finds its locks taken for ever.
  server_.reset();
  connector_.reset();
  struct Client {
    pid_t pid = 0;
    int socket = -1;
  };
  std::array<Client, 3> clients;
  for (Client& client : clients) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    client = {::fork(), ends[0]};
    ASSERT_GE(client.pid, 0);
    if (client.pid == 0) {
      std::array<char, 4096> address{};
      const ssize_t length = ::read(ends[1], address.data(), address.size());
      auto own = make_connector(GetParam().settings);
      if (length <= 0 || !own.is_ok()) ::_exit(1);
      const std::string server(address.data(), static_cast<size_t>(length));
      auto c = (*own)->connect({Fabric::kUcx, server, ""}, who_, os::Deadline::after_ns(5 * kSecondNs));
      if (!c.is_ok()) ::_exit(1);
      auto index =
          (*c)->attach(descriptor_of(*extent), Access::kReadWrite, os::Deadline::after_ns(5 * kSecondNs));
      std::vector<std::byte> bytes(8 << 20);
      if (run(**c, OpCode::kPut, *index, 0, bytes.data(), bytes.size()) != Code::kOk) ::_exit(2);
      if (run(**c, OpCode::kGet, *index, 0, bytes.data(), bytes.size()) != Code::kOk) ::_exit(3);
      (void)!::write(ends[1], "x", 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
  }
  start_server();
  auto connector = make_connector(GetParam().settings);
  ASSERT_TRUE(connector.is_ok()) << connector.status().to_string();
  connector_ = std::move(*connector);
  const std::string address = server_->address();
  for (const Client& client : clients) {
    ASSERT_EQ(::write(client.socket, address.data(), address.size()), static_cast<ssize_t>(address.size()));
    char byte = 0;
    EXPECT_EQ(::read(client.socket, &byte, 1), 1) << "the client failed";
    ::close(client.socket);
    ::kill(client.pid, SIGKILL);
    ::waitpid(client.pid, nullptr, 0);
  }
  auto c = channel();
  ASSERT_NE(c, nullptr);
  std::vector<std::byte> bytes(1 << 20, std::byte{3});
  EXPECT_EQ(run(*c, OpCode::kPut, attach(*c, *extent), 0, bytes.data(), bytes.size()), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(Transports, Ucx,
                         testing::Values(Transport{"tcp", {"tcp", "lo", true}},
                                         Transport{"shm", {"posix,sysv,cma,self", "", true}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(UcxApi, TransportsThatCheckAreKnown) {
  EXPECT_TRUE(hardware_checked("rc,dc"));
  EXPECT_TRUE(hardware_checked("rc_mlx5"));
  EXPECT_FALSE(hardware_checked("rc,tcp"));
  EXPECT_FALSE(hardware_checked("all"));
  EXPECT_FALSE(hardware_checked(""));
}

TEST(UcxApi, AMachineWithoutTheTransportSaysSo) {
  if (!available().is_ok()) GTEST_SKIP() << available().to_string();
  auto connector = make_connector({"rc,dc", "no_such_device:1"});
  EXPECT_EQ(connector.status().code(), Code::kUnsupported);
  EXPECT_NE(connector.status().message().find("rc,dc"), std::string_view::npos);
}

TEST(UcxApi, EmulatedTransportsMustBeAskedFor) {
  if (!available().is_ok()) GTEST_SKIP() << available().to_string();
  EXPECT_EQ(make_connector({"tcp", "lo"}).status().code(), Code::kUnsupported);
}

TEST(UcxApi, LoadingKeepsTheProgramsSignalHandlers) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGFPE, nullptr, &before);
  if (!available().is_ok()) GTEST_SKIP() << available().to_string();
  ::sigaction(SIGFPE, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

std::vector<Message> one_of_each() {
  std::vector<Message> all;
  for (int type = 1; type <= static_cast<int>(MessageType::kBye); ++type) {
    Message m;
    m.type = static_cast<MessageType>(type);
    m.request = 7;
    all.push_back(m);
  }
  all[3].rkey = "key";
  all[4].extent = {GlobalAddress(3, 4096), 9};
  all[5].base = 4096;
  all[5].bytes = 64;
  all[5].rkey = std::string(kRkeyBytesMax, 'k');
  all[5].code = Code::kRevoked;
  return all;
}

TEST(UcxMessage, ComesBackAsItWas) {
  for (const Message& m : one_of_each()) {
    const std::string bytes = encode(m);
    EXPECT_LE(bytes.size(), kMessageBytesMax);
    auto back = decode(os::bytes_of(bytes));
    ASSERT_TRUE(back.is_ok());
    EXPECT_EQ(*back, m);
  }
}

TEST(UcxMessage, EveryTruncationAndExtensionIsRefused) {
  for (const Message& m : one_of_each()) {
    const std::string bytes = encode(m);
    for (size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(decode(os::bytes_of(std::string_view(bytes).substr(0, n))).is_ok());
    }
    EXPECT_FALSE(decode(os::bytes_of(bytes + "x")).is_ok());
  }
}

TEST(UcxMessage, AnAddressKeepsItsChecksum) {
  const std::string address = encode_address("worker");
  EXPECT_EQ(*decode_address(address), "worker");
  for (size_t i = 0; i < address.size(); ++i) {
    std::string damaged = address;
    damaged[i] ^= 4;
    EXPECT_FALSE(decode_address(damaged).is_ok());
  }
  EXPECT_FALSE(decode_address("").is_ok());
}

}  // namespace
}  // namespace ocm::fabric::ucx
