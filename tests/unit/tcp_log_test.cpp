// fabric/tcp: what strangers can make a data server write to its log.
#include "fabric/tcp/handshake.h"
#include "fault_switch.h"
#include "log_lines.h"
#include "tcp_fixture.h"
#include "tcp_raw_peer.h"

namespace ocm::fabric::tcp {
namespace {

constexpr int kPeers = 20;

TEST_F(TcpTest, AnEndOfMemoryIsToldOnceInAWhile) {
  test::FaultSwitch no_memory(fault::Point::kHelloNoMemory);
  start();
  const auto extent = directory.add(4096);
  wire::FrameHeader header;
  header.type = wire::FrameType::kHello;
  header.length = kHelloBytes;
  std::vector<std::byte> hello(wire::kFrameHeaderBytes + kHelloBytes);
  wire::encode_frame(header, hello.data());
  test::LogLines lines;
  no_memory.on = true;
  for (int i = 0; i < kPeers; ++i) RawPeer(server->address()).write_and_wait_for_the_end(hello);
  no_memory.on = false;
  const auto told = lines.of("tcp.connection_failed");
  EXPECT_EQ(told.size(), 1u);
  auto channel = connect();
  ASSERT_NE(channel, nullptr);
  EXPECT_TRUE(channel->attach(describe(*extent), Access::kRead, soon()).is_ok())
      << "others are served as before";
  channel.reset();
  server.reset();  // before the hook goes
}

}  // namespace
}  // namespace ocm::fabric::tcp
