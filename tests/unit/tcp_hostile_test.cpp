// fabric/tcp: what hostile, broken and vanished peers can do, which is nothing to anybody else.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
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
using wire::kDataVersions;
using wire::kFrameHeaderBytes;
using Bytes = std::vector<std::byte>;

/// A peer that waits for its end, or ends by itself.
class Peer : public RawPeer {
 public:
  using RawPeer::RawPeer;
  bool is_closed_by_peer() {
    std::byte sink[4096];
    for (;;) {
      pollfd p{fd_.get(), POLLIN, 0};
      if (::poll(&p, 1, 10'000) <= 0) return false;
      if (::recv(fd_.get(), sink, sizeof(sink), 0) <= 0 && errno != EAGAIN) return true;
    }
  }
  void close() { fd_.reset(); }
};

Bytes frame(FrameType type, std::span<const std::byte> payload = {},
            const std::function<void(FrameHeader&)>& change = nullptr) {
  FrameHeader header;
  header.type = type;
  header.length = payload.size();
  if (change) change(header);
  Bytes out(kFrameHeaderBytes + payload.size());
  wire::encode_frame(header, out.data());
  std::copy(payload.begin(), payload.end(), out.begin() + kFrameHeaderBytes);
  return out;
}

class TcpHostileTest : public TcpTest {
 protected:
  void SetUp() override {
    start();
    extent = directory.add(1 << 20);
  }
  /// Another client still gets its answer.
  void expect_server_lives() {
    auto channel = connect();
    ASSERT_NE(channel, nullptr);
    auto index = channel->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(index.is_ok());
    uint64_t word = 42;
    EXPECT_EQ(put(*channel, *index, 0, &word, 8), Code::kOk);
    uint64_t back = 0;
    EXPECT_EQ(get(*channel, *index, 0, &back, 8), Code::kOk);
    EXPECT_EQ(back, 42u);
  }
  /// Says hello and proves itself; the server's nonce comes back.
  Nonce authenticate(Peer& peer) {
    const Credentials who = credentials();
    Bytes hello(kHelloBytes);
    std::copy(who.session.bytes.begin(), who.session.bytes.end(), hello.begin());
    EXPECT_TRUE(peer.write(frame(FrameType::kHello, hello)));
    FrameHeader header;
    EXPECT_TRUE(peer.read_header(header));
    EXPECT_EQ(header.type, FrameType::kChallenge);
    Bytes challenge(kChallengeBytes);
    EXPECT_TRUE(peer.read(challenge));
    Nonce nonce;
    std::copy_n(challenge.begin(), kNonceBytes, nonce.begin());
    EXPECT_TRUE(peer.write(frame(FrameType::kProof, client_proof(who.session_key, Nonce{}, nonce, {}))));
    EXPECT_TRUE(peer.read_header(header));
    EXPECT_EQ(header.type, FrameType::kReply);
    return nonce;
  }
  uint32_t attach(Peer& peer, const Nonce& nonce) {
    wire::AttachBody body;
    body.address = extent->id.address.bits();
    body.generation = extent->id.generation;
    body.access = 3;
    body.proof = attach_proof(extent->capability, nonce, body);
    std::array<std::byte, wire::kAttachBodyBytes> bytes;
    wire::encode_attach(body, bytes.data());
    EXPECT_TRUE(peer.write(frame(FrameType::kAttach, bytes)));
    FrameHeader header;
    EXPECT_TRUE(peer.read_header(header));
    EXPECT_EQ(header.type, FrameType::kReply);
    return static_cast<uint32_t>(header.operand);
  }

  std::shared_ptr<BufferExtent> extent;
};

TEST_F(TcpHostileTest, GarbageClosesTheConnectionOnly) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Peer peer(server->address());
    peer.write(pattern(100 + seed * 997, seed));
    EXPECT_TRUE(peer.is_closed_by_peer());
  }
  expect_server_lives();
}

TEST_F(TcpHostileTest, GarbageAfterAuthenticationClosesTheConnectionOnly) {
  Peer peer(server->address());
  authenticate(peer);
  peer.write(pattern(200, 3));
  EXPECT_TRUE(peer.is_closed_by_peer());
  expect_server_lives();
}

TEST_F(TcpHostileTest, OversizedAndMalformedFramesClose) {
  const Bytes cases[] = {
      frame(FrameType::kPut, {}, [](FrameHeader& h) { h.length = wire::kFrameBytesMax + 1; }),
      frame(FrameType::kGet, {}, [](FrameHeader& h) { h.length = ~uint64_t{0}; }),
      frame(FrameType::kFence, {}, [](FrameHeader& h) { h.length = 100; }),
      frame(FrameType::kFence, {}, [](FrameHeader& h) { h.flags = 0x80; }),
      frame(FrameType::kCompareSwap),
      frame(FrameType::kReply),
      frame(FrameType::kHello, Bytes(kHelloBytes)),
      frame(FrameType::kAttach, Bytes(47)),
      frame(FrameType::kAttach, Bytes(48)),  // access 0
  };
  for (const Bytes& bytes : cases) {
    Peer peer(server->address());
    authenticate(peer);
    peer.write(bytes);
    EXPECT_TRUE(peer.is_closed_by_peer());
  }
  expect_server_lives();
}

TEST_F(TcpHostileTest, NothingBeforeAuthentication) {
  for (const FrameType type : {FrameType::kAttach, FrameType::kGet, FrameType::kPut, FrameType::kFence,
                               FrameType::kProof, FrameType::kDetach}) {
    Peer peer(server->address());
    peer.write(frame(type));
    EXPECT_TRUE(peer.is_closed_by_peer());
  }
  expect_server_lives();
}

TEST_F(TcpHostileTest, TruncatedFramesLeaveNothingBehind) {
  {
    Peer peer(server->address());
    const Nonce nonce = authenticate(peer);
    const uint32_t index = attach(peer, nonce);
    const Bytes payload(60'000, std::byte{1});
    Bytes bytes = frame(FrameType::kPut, payload, [&](FrameHeader& h) { h.index = index; });
    bytes.resize(30'000);
    peer.write(bytes);
  }
  {
    Peer peer(server->address());
    Bytes bytes = frame(FrameType::kHello, Bytes(kHelloBytes));
    bytes.resize(20);
    peer.write(bytes);
  }
  expect_server_lives();
  while (stats.connections.load() > 0) ::sched_yield();  // the test's own deadline limits it
}

TEST_F(TcpHostileTest, BytesOneByOneAreUnderstood) {
  Peer peer(server->address());
  const Nonce nonce = authenticate(peer);
  const uint32_t index = attach(peer, nonce);
  const Bytes payload = pattern(10, 1);
  const Bytes bytes = frame(FrameType::kPut, payload, [&](FrameHeader& h) { h.index = index; });
  for (const std::byte b : bytes) ASSERT_TRUE(peer.write({&b, 1}));
  FrameHeader header;
  ASSERT_TRUE(peer.read_header(header));
  EXPECT_EQ(header.type, FrameType::kReply);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), extent->data));
}

TEST_F(TcpHostileTest, AFailedPutIsDrainedAndTheStreamStaysInStep) {
  Peer peer(server->address());
  const Nonce nonce = authenticate(peer);
  const uint32_t index = attach(peer, nonce);
  const Bytes payload(3 << 20, std::byte{7});
  ASSERT_TRUE(peer.write(frame(FrameType::kPut, payload, [&](FrameHeader& h) {
    h.index = index;
    h.offset = 16;  // leaves the extent
  })));
  ASSERT_TRUE(peer.write(frame(FrameType::kFence, {}, [](FrameHeader& h) { h.tag = 9; })));
  FrameHeader header;
  ASSERT_TRUE(peer.read_header(header));
  EXPECT_EQ(header.type, FrameType::kError);
  EXPECT_EQ(static_cast<int64_t>(header.operand), static_cast<int64_t>(Code::kOutOfRange));
  ASSERT_TRUE(peer.read_header(header));
  EXPECT_EQ(header.type, FrameType::kReply);
  EXPECT_EQ(header.tag, 9u);
  EXPECT_EQ(extent->data[100], std::byte{0});
}

TEST_F(TcpHostileTest, ABadPayloadChecksumIsRefused) {
  Peer peer(server->address());
  const Nonce nonce = authenticate(peer);
  const uint32_t index = attach(peer, nonce);
  ASSERT_TRUE(peer.write(frame(FrameType::kPut, Bytes(100), [&](FrameHeader& h) {
    h.index = index;
    h.flags = wire::kFlagPayloadCrc;
    h.payload_crc = 12345;
  })));
  FrameHeader header;
  ASSERT_TRUE(peer.read_header(header));
  EXPECT_EQ(header.type, FrameType::kError);
  EXPECT_EQ(static_cast<int64_t>(header.operand), static_cast<int64_t>(Code::kBadChecksum));
}

TEST_F(TcpHostileTest, AChainedFrameIsRefusedWithTheOneBeforeIt) {
  Peer peer(server->address());
  const Nonce nonce = authenticate(peer);
  const uint32_t index = attach(peer, nonce);
  const auto answer = [&](const Bytes& request) {
    EXPECT_TRUE(peer.write(request));
    FrameHeader header;
    EXPECT_TRUE(peer.read_header(header));
    return header.type == FrameType::kError ? static_cast<Code>(static_cast<int64_t>(header.operand))
                                            : Code::kOk;
  };
  const auto put = [&](uint32_t flags) {
    return frame(FrameType::kPut, Bytes(100, std::byte{9}), [&](FrameHeader& h) {
      h.index = index;
      h.offset = 64;
      h.flags = flags;
    });
  };
  const auto notify = [&](uint32_t flags) {
    return frame(FrameType::kNotify, {}, [&](FrameHeader& h) {
      h.index = index;
      h.operand = 1;
      h.flags = flags;
    });
  };
  EXPECT_EQ(answer(put(wire::kFlagPayloadCrc)), Code::kBadChecksum);
  std::fill_n(extent->data + 64, 100, std::byte{0});
  EXPECT_EQ(answer(put(wire::kFlagChained)), Code::kBadChecksum);
  EXPECT_EQ(extent->data[64], std::byte{0});
  EXPECT_EQ(answer(notify(wire::kFlagChained)), Code::kBadChecksum);
  EXPECT_EQ(extent->memory[0], 0u);
  EXPECT_EQ(answer(put(0)), Code::kOk);
  EXPECT_EQ(answer(notify(wire::kFlagChained)), Code::kOk);
  EXPECT_EQ(extent->memory[0], 1u);
}

TEST_F(TcpHostileTest, AClientThatNeverReadsIsStoppedAndOthersGoOn) {
  Peer peer(server->address());
  const Nonce nonce = authenticate(peer);
  const uint32_t index = attach(peer, nonce);
  const Bytes ask = frame(FrameType::kGet, {}, [&](FrameHeader& h) {
    h.index = index;
    h.length = 1 << 20;
  });
  Bytes many;
  for (int i = 0; i < 2000; ++i) many.insert(many.end(), ask.begin(), ask.end());
  peer.write(std::span(many).first(many.size() / 4));  // 500 MiB of replies nobody takes
  expect_server_lives();
}

TEST_F(TcpHostileTest, AGetAnswersWithWhatWasThereBeforeTheWritesBehindIt) {
  constexpr size_t kGets = 100;
  const Bytes source = pattern(100'000, 5);
  for (const bool with_atomic : {false, true}) {
    std::copy(source.begin(), source.end(), extent->data);
    Peer peer(server->address());
    const Nonce nonce = authenticate(peer);
    const uint32_t index = attach(peer, nonce);
    Bytes asks;
    for (size_t i = 0; i < kGets; ++i) {
      const Bytes ask = frame(FrameType::kGet, {}, [&](FrameHeader& h) {
        h.index = index;
        h.length = source.size();
      });
      asks.insert(asks.end(), ask.begin(), ask.end());
    }
    const auto aim = [&](FrameHeader& h) {
      h.index = index;
      h.operand = 1;
    };
    const Bytes write = with_atomic ? frame(FrameType::kFetchAdd, {}, aim)
                                    : frame(FrameType::kPut, Bytes(source.size(), std::byte{7}), aim);
    asks.insert(asks.end(), write.begin(), write.end());
    ASSERT_TRUE(peer.write(asks));  // more replies than the kernel keeps for one who does not read
    FrameHeader header;
    for (size_t i = 0; i < kGets; ++i) {
      ASSERT_TRUE(peer.read_header(header));
      ASSERT_EQ(header.type, FrameType::kReply);
      Bytes got(source.size());
      for (size_t at = 0; at < got.size(); at += 1000)
        ASSERT_TRUE(peer.read(std::span(got).subspan(at, 1000)));
      ASSERT_TRUE(got == source) << i;
    }
    ASSERT_TRUE(peer.read_header(header));
    EXPECT_EQ(header.type, FrameType::kReply);
    EXPECT_NE(extent->data[0], source[0]);
  }
}

TEST_F(TcpHostileTest, AHelloOfAnotherVersionIsToldTheServersOwn) {
  for (const wire::Versions there : {wire::Versions{kDataVersions.max + 1, kDataVersions.max + 3},
                                     wire::Versions{0, 0}, wire::Versions{2, 1}, wire::Versions{0, 1}}) {
    Peer peer(server->address());
    Bytes hello(kHelloBytes + kVersionsBytes);
    encode_versions(there, hello.data() + kHelloBytes);
    peer.write(frame(FrameType::kHello, hello));
    FrameHeader header;
    ASSERT_TRUE(peer.read_header(header));
    EXPECT_EQ(header.type, FrameType::kError);
    EXPECT_EQ(static_cast<int64_t>(header.operand), static_cast<int64_t>(Code::kProtocol));
    EXPECT_EQ(header.offset, uint64_t{kDataVersions.min} << 32 | kDataVersions.max);
    EXPECT_TRUE(peer.is_closed_by_peer());
  }
  expect_server_lives();
}

TEST_F(TcpHostileTest, AHelloHasTheLengthOfOneWithVersionsOrWithout) {
  for (const size_t bytes : {size_t{0}, kHelloBytes - 1, kHelloBytes + 1, kHelloBytes + kVersionsBytes + 1}) {
    Peer peer(server->address());
    peer.write(frame(FrameType::kHello, Bytes(bytes)));
    EXPECT_TRUE(peer.is_closed_by_peer()) << bytes;
  }
  Peer old(server->address());
  authenticate(old);
  expect_server_lives();
}

TEST_F(TcpHostileTest, AWrongSessionKeyIsRefused) {
  Credentials who = credentials();
  who.session_key[0] ^= std::byte{1};
  TcpConnector connector;
  const auto made = connector.connect({Fabric::kTcp, server->address(), {}}, who, soon());
  EXPECT_EQ(made.status().code(), Code::kAuth);
  // The server's side of it: a client that does not check gets no further.
  Peer peer(server->address());
  peer.write(frame(FrameType::kHello, Bytes(kHelloBytes)));
  FrameHeader header;
  ASSERT_TRUE(peer.read_header(header));
  Bytes challenge(kChallengeBytes);
  ASSERT_TRUE(peer.read(challenge));
  peer.write(frame(FrameType::kProof, Bytes(kProofBytes)));
  ASSERT_TRUE(peer.read_header(header));
  EXPECT_EQ(header.type, FrameType::kError);
  EXPECT_EQ(static_cast<int64_t>(header.operand), static_cast<int64_t>(Code::kAuth));
  EXPECT_TRUE(peer.is_closed_by_peer());
  expect_server_lives();
}

TEST_F(TcpHostileTest, SilenceBeforeAuthenticationIsEnded) {
  server.reset();
  start({.authenticate_ns = 20'000'000});
  Peer peer(server->address());
  EXPECT_TRUE(peer.is_closed_by_peer());
  expect_server_lives();
}

TEST_F(TcpHostileTest, TooManyConnectionsAreToldSo) {
  server.reset();
  start({.max_connections = 2});
  auto first = connect();
  auto second = connect();
  TcpConnector connector;
  const auto third = connector.connect({Fabric::kTcp, server->address(), {}}, credentials(), soon());
  ASSERT_FALSE(third.is_ok());
  EXPECT_TRUE(third.status().code() == Code::kLimit || third.status().code() == Code::kPeerLost);
  EXPECT_GE(stats.refused.load(), 1u);
}

TEST_F(TcpHostileTest, NobodyListeningIsPeerLost) {
  const std::string address = server->address();
  server.reset();
  TcpConnector connector;
  EXPECT_EQ(connector.connect({Fabric::kTcp, address, {}}, credentials(), soon()).status().code(),
            Code::kPeerLost);
  EXPECT_EQ(connector.connect({Fabric::kTcp, "nonsense", {}}, credentials(), soon()).status().code(),
            Code::kInvalidArgument);
}

/// One accepted connection of a fake home.
class FakeServer {
 public:
  using Behaviour = std::function<void(int fd)>;
  explicit FakeServer(Behaviour behaviour) : FakeServer(std::vector<Behaviour>{std::move(behaviour)}) {}
  /// Towards one connection after the other.
  explicit FakeServer(std::vector<Behaviour> behaviours) {
    auto listener = listen_on("127.0.0.1:0");
    EXPECT_TRUE(listener.is_ok());
    listener_ = std::move(listener).value();
    thread_ = std::thread([this, behaviours = std::move(behaviours)] {
      for (const Behaviour& behaviour : behaviours) {
        pollfd p{listener_.get(), POLLIN, 0};
        if (::poll(&p, 1, 10'000) <= 0) return;
        const os::Fd fd(::accept(listener_.get(), nullptr, nullptr));
        behaviour(fd.get());
      }
    });
  }
  ~FakeServer() { thread_.join(); }
  std::string address() const { return bound_address(listener_.get()).value(); }

  static bool read(int fd, std::span<std::byte> out) {
    return ::recv(fd, out.data(), out.size(), MSG_WAITALL) == static_cast<ssize_t>(out.size());
  }
  static void write(int fd, std::span<const std::byte> bytes) {
    [[maybe_unused]] const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Plays the home's part until the client is authenticated.
  static void welcome(int fd, TestDirectory& directory, size_t versions_bytes = kVersionsBytes) {
    Bytes hello(kFrameHeaderBytes + kHelloBytes + versions_bytes);
    ASSERT_TRUE(read(fd, hello));
    SessionId session;
    Nonce client;
    std::memcpy(session.bytes.data(), hello.data() + kFrameHeaderBytes, 16);
    std::memcpy(client.data(), hello.data() + kFrameHeaderBytes + 16, kNonceBytes);
    Bytes challenge(kChallengeBytes + versions_bytes);
    if (versions_bytes > 0) encode_versions(kDataVersions, challenge.data() + kChallengeBytes);
    const os::Digest proof = server_proof(directory.session_key(session), client, Nonce{}, {});
    std::copy(proof.begin(), proof.end(), challenge.begin() + kNonceBytes);
    write(fd, frame(FrameType::kChallenge, challenge));
    Bytes answer(kFrameHeaderBytes + kProofBytes);
    ASSERT_TRUE(read(fd, answer));
    write(fd, frame(FrameType::kReply));
  }

 private:
  os::Fd listener_;
  std::thread thread_;
};

class TcpBadHomeTest : public TcpTest {
 protected:
  Result<std::unique_ptr<Channel>> connect_to_fake(const FakeServer& fake, os::Deadline deadline = soon()) {
    TcpConnector connector;
    return connector.connect({Fabric::kTcp, fake.address(), {}}, credentials(), deadline);
  }
  /// A get to a home that answers it with `answer` and goes.
  Code get_answered_with(const Bytes& answer) {
    FakeServer fake([&](int fd) {
      FakeServer::welcome(fd, directory);
      Bytes request(kFrameHeaderBytes);
      FakeServer::read(fd, request);
      FakeServer::write(fd, answer);
      FakeServer::read(fd, request);  // until the client has had enough
    });
    auto channel = connect_to_fake(fake);
    EXPECT_TRUE(channel.is_ok());
    Bytes target(64);
    const Code code = get(**channel, 0, 0, target.data(), target.size());
    EXPECT_EQ((*channel)->in_flight(), 0u);
    return code;
  }
};

TEST_F(TcpBadHomeTest, GarbageWhileConnectingIsAProtocolError) {
  FakeServer fake([](int fd) {
    Bytes sink(kFrameHeaderBytes + kHelloBytes + kVersionsBytes);
    FakeServer::read(fd, sink);
    FakeServer::write(fd, pattern(500, 1));
    FakeServer::read(fd, sink);
  });
  EXPECT_EQ(connect_to_fake(fake).status().code(), Code::kProtocol);
}

TEST_F(TcpBadHomeTest, SilenceWhileConnectingMeetsTheDeadline) {
  FakeServer fake([](int fd) {
    Bytes sink(kFrameHeaderBytes + kHelloBytes + kVersionsBytes + 1);
    FakeServer::read(fd, sink);
  });
  EXPECT_EQ(connect_to_fake(fake, os::Deadline::after_ns(30'000'000)).status().code(), Code::kDeadline);
}

/// As one did that knew no ranges: a hello of another length ended its connection.
TEST_F(TcpBadHomeTest, AnOlderHomeIsAskedAgainInItsOwnWay) {
  const wire::Versions old{1, 1};
  ASSERT_TRUE(wire::agree("data", kDataVersions, old).is_ok());
  const FakeServer fake({[](int fd) {
                           Bytes header(kFrameHeaderBytes);
                           FakeServer::read(fd, header);
                         },
                         [&](int fd) { FakeServer::welcome(fd, directory, 0); }});
  const auto channel = connect_to_fake(fake);
  EXPECT_TRUE(channel.is_ok()) << channel.status().to_string();
}

TEST_F(TcpBadHomeTest, AHomeOfAnotherVersionIsRefusedWithBothRanges) {
  for (const bool refuses : {false, true}) {
    FakeServer fake([&](int fd) {
      Bytes sink(kFrameHeaderBytes + kHelloBytes + kVersionsBytes),
          challenge(kChallengeBytes + kVersionsBytes);
      FakeServer::read(fd, sink);
      encode_versions({7, 9}, challenge.data() + kChallengeBytes);
      FakeServer::write(fd, !refuses ? frame(FrameType::kChallenge, challenge)
                                     : frame(FrameType::kError, {}, [](FrameHeader& h) {
                                         h.operand =
                                             static_cast<uint64_t>(static_cast<int64_t>(Code::kProtocol));
                                         h.offset = uint64_t{7} << 32 | 9;
                                       }));
      FakeServer::read(fd, sink);
    });
    const Status refused = connect_to_fake(fake).status();
    EXPECT_EQ(refused.code(), Code::kProtocol);
    for (const char* told : {"data version 7 to 9", "here 1"})
      EXPECT_NE(refused.message().find(told), std::string_view::npos) << refused.message();
  }
}

/// Its backlog is full: the kernel answers no SYN, and by itself would try for two minutes.
TEST_F(TcpBadHomeTest, AnAddressThatDoesNotAnswerMeetsTheDeadline) {
  auto listener = listen_on("127.0.0.1:0");
  ASSERT_TRUE(listener.is_ok());
  ASSERT_EQ(::listen(listener->get(), 0), 0);
  const std::string address = bound_address(listener->get()).value();
  const auto first = connect_to(address, soon());
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  pollfd p{listener->get(), POLLIN, 0};
  ASSERT_EQ(::poll(&p, 1, 10'000), 1);  // nobody accepts it
  constexpr size_t kMoreMax = 16;       // that the kernel may let in
  std::vector<os::Fd> more;
  uint64_t took_ns = 0;
  const auto refused = [&]() -> Status {
    while (more.size() < kMoreMax) {
      const uint64_t start_ns = os::now_ns();
      auto fd = connect_to(address, os::Deadline::after_ns(30'000'000));
      took_ns = os::now_ns() - start_ns;
      if (!fd.is_ok()) return fd.status();
      more.push_back(std::move(fd).value());
    }
    return {};
  }();
  EXPECT_EQ(refused.code(), Code::kDeadline) << refused.to_string();
  EXPECT_LT(took_ns, 20'000'000'000u);
}

TEST_F(TcpBadHomeTest, AServerWithoutTheKeyIsRefused) {
  FakeServer fake([](int fd) {
    Bytes sink(kFrameHeaderBytes + kHelloBytes + kVersionsBytes), challenge(kChallengeBytes + kVersionsBytes);
    encode_versions(kDataVersions, challenge.data() + kChallengeBytes);
    FakeServer::read(fd, sink);
    FakeServer::write(fd, frame(FrameType::kChallenge, challenge));
    FakeServer::read(fd, sink);
  });
  EXPECT_EQ(connect_to_fake(fake).status().code(), Code::kAuth);
}

TEST_F(TcpBadHomeTest, RepliesThatFitNoRequestFailTheChannel) {
  EXPECT_EQ(get_answered_with(pattern(200, 9)), Code::kProtocol);
  EXPECT_EQ(get_answered_with(frame(FrameType::kReply, Bytes(64), [](FrameHeader& h) { h.tag = 77; })),
            Code::kProtocol);
  EXPECT_EQ(get_answered_with(frame(FrameType::kReply, Bytes(65), [](FrameHeader& h) { h.tag = 1; })),
            Code::kProtocol);
  EXPECT_EQ(get_answered_with(frame(FrameType::kReply, Bytes(8000), [](FrameHeader& h) { h.tag = 1; })),
            Code::kProtocol);
  EXPECT_EQ(get_answered_with(frame(FrameType::kGet, {}, [](FrameHeader& h) { h.tag = 1; })),
            Code::kProtocol);
  EXPECT_EQ(get_answered_with(frame(FrameType::kError, {},
                                    [](FrameHeader& h) {
                                      h.tag = 1;
                                      h.operand = 5;
                                    })),
            Code::kProtocol);
}

TEST_F(TcpBadHomeTest, AHomeThatGoesInTheMiddleOfAReplyIsLost) {
  Bytes half = frame(FrameType::kReply, Bytes(64), [](FrameHeader& h) { h.tag = 1; });
  half.resize(80);
  FakeServer fake([&](int fd) {
    FakeServer::welcome(fd, directory);
    Bytes request(kFrameHeaderBytes);
    FakeServer::read(fd, request);
    FakeServer::write(fd, half);
  });
  auto channel = connect_to_fake(fake);
  ASSERT_TRUE(channel.is_ok());
  Bytes target(64);
  EXPECT_EQ(get(**channel, 0, 0, target.data(), target.size()), Code::kPeerLost);
  EXPECT_EQ((*channel)->health().code(), Code::kPeerLost);
}

TEST_F(TcpBadHomeTest, AStalledHomeIsLostAfterTheStallTime) {
  std::atomic<bool> over{false};
  FakeServer fake([&](int fd) {
    FakeServer::welcome(fd, directory);
    while (!over.load()) ::sched_yield();
  });
  auto channel = connect_to_fake(fake);
  ASSERT_TRUE(channel.is_ok());
  // More than the kernel takes, so that both a put and a waiting get are under way.
  Bytes data(16 << 20);
  Op put_op, get_op;
  set(put_op, OpCode::kPut, 0, 0, data.data(), data.size());
  set(get_op, OpCode::kGet, 0, 0, data.data(), 64);
  (*channel)->post(put_op);
  (*channel)->post(get_op);
  (*channel)->flush();
  EXPECT_EQ(wait(**channel, get_op, 50'000'000), Code::kPeerLost);
  EXPECT_TRUE(put_op.done());
  EXPECT_EQ(put_op.code, Code::kPeerLost);
  over.store(true);
}

TEST_F(TcpBadHomeTest, AttachToAStalledHomeMeetsItsDeadline) {
  std::atomic<bool> over{false};
  FakeServer fake([&](int fd) {
    FakeServer::welcome(fd, directory);
    while (!over.load()) ::sched_yield();
  });
  auto channel = connect_to_fake(fake);
  ASSERT_TRUE(channel.is_ok());
  const auto attached = (*channel)->attach({}, Access::kRead, os::Deadline::after_ns(20'000'000));
  EXPECT_EQ(attached.status().code(), Code::kDeadline);
  over.store(true);
}

}  // namespace
}  // namespace ocm::fabric::tcp
