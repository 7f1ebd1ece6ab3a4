// fabric/tcp: what a client gave up with its connection is never applied after its next connection was
// accepted.
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <optional>
#include <thread>

#include "fabric/tcp/handshake.h"
#include "fabric/tcp/socket.h"
#include "tcp_fixture.h"
#include "tcp_raw_peer.h"
#include "wire/frame.h"

namespace ocm::fabric::tcp {
namespace {

using wire::FrameHeader;
using wire::FrameType;
using wire::kFrameHeaderBytes;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kRoute = 77;
constexpr uint64_t kPutBytes = 200'000;

/// A client that speaks the handshake and then writes what it likes.
class RawClient : public RawPeer {
 public:
  RawClient(const std::string& address, const Credentials& who) : RawPeer(address), who_(who) {}

  /// Says hello and proves itself; the home's answer: kOk or the code of its error.
  Code enter(uint64_t route, uint64_t attempt) {
    Bytes hello(kHelloBytes);
    std::copy(who_.session.bytes.begin(), who_.session.bytes.end(), hello.begin());
    FrameHeader header;
    header.type = FrameType::kHello;
    header.operand = route;
    header.offset = attempt;
    write_frame(header, hello);
    Bytes challenge(kChallengeBytes);
    if (!read_header(header) || !read(challenge)) return Code::kPeerLost;
    std::copy_n(challenge.begin(), kNonceBytes, nonce_.begin());
    header = {};
    header.type = FrameType::kProof;
    const os::Digest proof = client_proof(who_.session_key, Nonce{}, nonce_, {});
    write_frame(header, proof);
    return answer();
  }

  void attach(const BufferExtent& extent) {
    wire::AttachBody body;
    body.address = extent.id.address.bits();
    body.generation = extent.id.generation;
    body.access = 3;
    body.proof = attach_proof(extent.capability, nonce_, body);
    Bytes bytes(wire::kAttachBodyBytes);
    wire::encode_attach(body, bytes.data());
    FrameHeader header;
    header.type = FrameType::kAttach;
    write_frame(header, bytes);
    ASSERT_TRUE(read_header(header));
    ASSERT_EQ(header.type, FrameType::kReply);
    index_ = static_cast<uint32_t>(header.operand);
  }

  /// The header of a put of kPutBytes at 0; its payload comes piece by piece with write().
  void begin_put() {
    FrameHeader header;
    header.type = FrameType::kPut;
    header.index = index_;
    header.length = kPutBytes;
    Bytes bytes(kFrameHeaderBytes);
    wire::encode_frame(header, bytes.data());
    write(bytes);
  }
  Code put(std::byte value) {
    begin_put();
    write(Bytes(kPutBytes, value));
    return answer();
  }

  Code answer() {
    FrameHeader header;
    if (!read_header(header)) return Code::kPeerLost;
    return header.type == FrameType::kReply ? Code::kOk
                                            : static_cast<Code>(static_cast<int64_t>(header.operand));
  }
  bool is_closed_by_home() {
    std::byte sink;
    return !read({&sink, 1});
  }

 private:
  void write_frame(FrameHeader header, std::span<const std::byte> payload) {
    header.length = payload.size();
    Bytes out(kFrameHeaderBytes);
    wire::encode_frame(header, out.data());
    out.insert(out.end(), payload.begin(), payload.end());
    EXPECT_TRUE(write(out));
  }
  const Credentials who_;
  Nonce nonce_{};
  uint32_t index_ = 0;
};

/// The parameter: the server's worker threads.
class TcpFenceTest : public TcpTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    start({.threads = GetParam()});
    extent = directory.add(1 << 20);
    who = credentials();
  }
  std::unique_ptr<RawClient> enter(uint64_t route, uint64_t attempt) { return enter(who, route, attempt); }
  std::unique_ptr<RawClient> enter(const Credentials& as, uint64_t route, uint64_t attempt) {
    auto client = std::make_unique<RawClient>(server->address(), as);
    EXPECT_EQ(client->enter(route, attempt), Code::kOk);
    client->attach(*extent);
    return client;
  }
  /// Looks at a byte that a worker may be writing.
  __attribute__((no_sanitize("thread"))) static bool has_landed(const volatile std::byte* at) {
    return *at == std::byte{1};
  }
  /// A put of 1s, of which half was sent and has landed.
  void put_half(RawClient& client) {
    client.begin_put();
    ASSERT_TRUE(client.write(Bytes(kPutBytes / 2, std::byte{1})));
    while (!has_landed(extent->data + kPutBytes / 2 - 1)) ::sched_yield();
  }
  bool holds(std::byte value) const {
    return std::all_of(extent->data, extent->data + kPutBytes, [&](std::byte b) { return b == value; });
  }

  std::shared_ptr<BufferExtent> extent;
  Credentials who;
};

TEST_P(TcpFenceTest, TheRestOfAnOldPutChangesNothing) {
  const auto older = enter(kRoute, 1);
  put_half(*older);
  const auto newer = enter(kRoute, 2);
  ASSERT_EQ(newer->put(std::byte{2}), Code::kOk);
  older->write(Bytes(kPutBytes / 2, std::byte{1}));
  EXPECT_TRUE(older->is_closed_by_home());
  EXPECT_EQ(newer->put(std::byte{3}), Code::kOk);
  EXPECT_TRUE(holds(std::byte{3}));
}

TEST_P(TcpFenceTest, WhatLiesInTheOldSocketChangesNothing) {
  for (uint64_t attempt = 1; attempt < 40; attempt += 2) {
    const auto older = enter(kRoute, attempt);
    // As much as fits, unread by anybody yet or half read, while the newer one enters.
    older->begin_put();
    older->write(Bytes(kPutBytes, std::byte{1}));
    older->begin_put();
    older->write(Bytes(kPutBytes - 1, std::byte{1}));
    const auto newer = enter(kRoute, attempt + 1);
    ASSERT_EQ(newer->put(std::byte{2}), Code::kOk);
    older->write(Bytes(1, std::byte{1}));
    ASSERT_EQ(older->answer() == Code::kOk ? older->is_closed_by_home() : true, true);
    ASSERT_TRUE(holds(std::byte{2})) << attempt;
  }
}

TEST_P(TcpFenceTest, AnOldConnectionIsClosedAtOnce) {
  const auto older = enter(kRoute, 1);
  const auto newer = enter(kRoute, 2);
  EXPECT_TRUE(older->is_closed_by_home());
  EXPECT_EQ(newer->put(std::byte{2}), Code::kOk);
}

TEST_P(TcpFenceTest, AnOlderOrEqualAttemptIsRefused) {
  const auto newer = enter(kRoute, 5);
  for (const uint64_t attempt : {uint64_t{0}, uint64_t{4}, uint64_t{5}}) {
    RawClient late(server->address(), who);
    EXPECT_EQ(late.enter(kRoute, attempt), Code::kProtocol) << attempt;
    EXPECT_TRUE(late.is_closed_by_home());
  }
  EXPECT_EQ(newer->put(std::byte{2}), Code::kOk);
}

TEST_P(TcpFenceTest, OtherRoutesAndSessionsAreUntouched) {
  const auto older = enter(kRoute, 1);
  const auto route = enter(kRoute + 1, 1);
  const auto session = enter(credentials(), kRoute, 1);
  const auto none = enter(0, 1);
  const auto newer = enter(kRoute, 2);
  const auto none_again = enter(0, 2);
  EXPECT_TRUE(older->is_closed_by_home());
  for (RawClient* client : {route.get(), session.get(), none.get(), newer.get(), none_again.get()}) {
    EXPECT_EQ(client->put(std::byte{2}), Code::kOk);
  }
}

TEST_P(TcpFenceTest, AProofThatFailsFencesNothing) {
  const auto older = enter(kRoute, 1);
  Credentials wrong = who;
  wrong.session_key[0] ^= std::byte{1};
  RawClient stranger(server->address(), wrong);
  EXPECT_EQ(stranger.enter(kRoute, 9), Code::kAuth);
  EXPECT_EQ(older->put(std::byte{2}), Code::kOk);
}

TEST_P(TcpFenceTest, ARouteIsForgottenWithItsConnection) {
  enter(kRoute, 7).reset();
  while (stats.connections.load() > 0) ::sched_yield();  // the test's own deadline limits it
  EXPECT_EQ(enter(kRoute, 1)->put(std::byte{2}), Code::kOk);
}

TEST_P(TcpFenceTest, ManyAttemptsAtOnceEndWithTheNewest) {
  constexpr uint64_t kThreads = 4, kAttempts = 50;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t attempt = t + 1; attempt <= kAttempts; attempt += kThreads) {
        RawClient client(server->address(), who);
        const Code code = client.enter(kRoute, attempt);
        EXPECT_TRUE(code == Code::kOk || code == Code::kProtocol || code == Code::kPeerLost);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(enter(kRoute, kAttempts + 1)->put(std::byte{2}), Code::kOk);
}

TEST_P(TcpFenceTest, AChannelsNextAttemptEndsItsFirst) {
  TcpConnector connector;
  who.route = kRoute;
  who.attempt = 1;
  auto first = connector.connect({Fabric::kTcp, server->address(), {}}, who, soon());
  ASSERT_TRUE(first.is_ok());
  who.attempt = 2;
  auto second = connector.connect({Fabric::kTcp, server->address(), {}}, who, soon());
  ASSERT_TRUE(second.is_ok());
  uint64_t word = 0;
  EXPECT_EQ(get(**first, 0, 0, &word, 8), Code::kPeerLost);
  auto index = (*second)->attach(describe(*extent), Access::kReadWrite, soon());
  ASSERT_TRUE(index.is_ok());
  EXPECT_EQ(put(**second, *index, 0, &word, 8), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(Workers, TcpFenceTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace ocm::fabric::tcp
