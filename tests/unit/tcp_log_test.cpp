// fabric/tcp: what strangers can make a data server write to its log.
#include <atomic>

#include "base/fault.h"
#include "fabric/tcp/handshake.h"
#include "log_lines.h"
#include "tcp_fixture.h"
#include "tcp_raw_peer.h"

namespace ocm::fabric::tcp {
namespace {

constexpr int kPeers = 20;

/// Lets the server meet an end of memory at each hello, as long as it is on.
struct NoMemory final : fault::Hook {
  NoMemory() { fault::install(this); }
  ~NoMemory() override { fault::install(nullptr); }
  bool happens(fault::Point point) override { return on && point == fault::Point::kHelloNoMemory; }
  void reached(fault::State) override {}
  std::atomic<bool> on{false};
};

void write_and_wait_for_the_end(const std::string& address, std::span<const std::byte> bytes) {
  RawPeer peer(address);
  EXPECT_TRUE(peer.write(bytes));
  std::byte one;
  while (peer.read({&one, 1})) {
  }
}

TEST_F(TcpTest, AnEndOfMemoryIsToldOnceInAWhile) {
  NoMemory no_memory;
  start();
  const auto extent = directory.add(4096);
  wire::FrameHeader header;
  header.type = wire::FrameType::kHello;
  header.length = kHelloBytes;
  std::vector<std::byte> hello(wire::kFrameHeaderBytes + kHelloBytes);
  wire::encode_frame(header, hello.data());
  test::LogLines lines;
  no_memory.on = true;
  for (int i = 0; i < kPeers; ++i) write_and_wait_for_the_end(server->address(), hello);
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
