// fabric/tcp: strangers, who connect and never prove themselves, take nobody's place.
#include <memory>
#include <vector>

#include "fabric/tcp/worker.h"
#include "tcp_fixture.h"
#include "tcp_raw_peer.h"

namespace ocm::fabric::tcp {
namespace {

constexpr uint32_t kPlaces = 4;

class TcpStrangerTest : public TcpTest {
 protected:
  void SetUp() override {
    start({.max_connections = kPlaces});
    extent = directory.add(4096);
  }
  void expect_a_new_client_works() {
    auto channel = connect();
    ASSERT_NE(channel, nullptr);
    auto index = channel->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(index.is_ok()) << index.status().to_string();
    uint64_t word = 7;
    EXPECT_EQ(put(*channel, *index, 0, &word, 8), Code::kOk);
  }
  /// Strangers up to twice of what a worker lets wait, each of which writes `words` first; clients in
  /// between.
  void crowd(std::span<const std::byte> words) {
    std::vector<std::unique_ptr<RawPeer>> strangers;
    for (size_t i = 0; i < 2 * Worker::kUnprovedMax; ++i) {
      strangers.push_back(std::make_unique<RawPeer>(server->address()));
      strangers.back()->write(words);
      if (i % 32 == 0 || i + 1 == 2 * Worker::kUnprovedMax) expect_a_new_client_works();
      if (HasFailure()) return;
    }
    EXPECT_LE(stats.connections.load(), Worker::kUnprovedMax + kPlaces);
    EXPECT_GE(stats.refused.load(), Worker::kUnprovedMax);
  }

  std::shared_ptr<BufferExtent> extent;
};

TEST_F(TcpStrangerTest, SilentOnesMakeRoom) { crowd({}); }

TEST_F(TcpStrangerTest, ThoseWithHalfAHelloMakeRoom) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kHello;
  header.length = kHelloBytes;
  std::array<std::byte, wire::kFrameHeaderBytes> hello;
  wire::encode_frame(header, hello.data());
  crowd(hello);
}

TEST_F(TcpStrangerTest, ThoseWithAHelloAndNoProofMakeRoom) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kHello;
  header.length = kHelloBytes;
  std::array<std::byte, wire::kFrameHeaderBytes + kHelloBytes> hello{};
  wire::encode_frame(header, hello.data());
  crowd(hello);
}

TEST_F(TcpStrangerTest, ProvedOnesKeepTheirPlaces) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (uint32_t i = 0; i < kPlaces; ++i) channels.push_back(connect());
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (size_t i = 0; i < 2 * Worker::kUnprovedMax; ++i)
    strangers.push_back(std::make_unique<RawPeer>(server->address()));
  for (const auto& channel : channels) {
    auto index = channel->attach(describe(*extent), Access::kRead, soon());
    EXPECT_TRUE(index.is_ok()) << index.status().to_string();
  }
  TcpConnector connector;
  const auto one_more = [&] {
    return connector.connect({Fabric::kTcp, server->address(), {}}, credentials(), soon()).status().code();
  };
  EXPECT_EQ(one_more(), Code::kLimit);
  channels.pop_back();
  const os::Deadline deadline = soon();
  Code code = one_more();  // until the server has seen the end of the other
  while (code == Code::kLimit && !deadline.passed()) code = one_more();
  EXPECT_EQ(code, Code::kOk);
}

}  // namespace
}  // namespace ocm::fabric::tcp
