// fabric/tcp: what somebody who reads a plain data connection learns: payloads, and no secret.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <thread>

#include "fabric/tcp/socket.h"
#include "tcp_fixture.h"

namespace ocm::fabric::tcp {
namespace {

/// Passes on what one client and the server say, both ways, and gives it all.
std::string overhear(int listener, const std::string& target) {
  std::string heard;
  pollfd waiting{listener, POLLIN, 0};
  if (::poll(&waiting, 1, 10'000) != 1) return heard;
  const os::Fd near(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  auto far = connect_to(target, soon());
  if (!far.is_ok()) return heard;
  const int ends[] = {near.get(), far->get()};
  char piece[4096];
  for (;;) {
    pollfd both[] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
    if (::poll(both, 2, 10'000) <= 0) return heard;
    for (int i = 0; i < 2; ++i) {
      if (both[i].revents == 0) continue;
      const ssize_t n = ::recv(ends[i], piece, sizeof(piece), 0);
      if (n <= 0) return heard;
      heard.append(piece, static_cast<size_t>(n));
      for (ssize_t sent = 0; sent < n;) {
        const ssize_t more = ::send(ends[1 - i], piece + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL);
        if (more <= 0) return heard;
        sent += more;
      }
    }
  }
}

/// Any eight bytes in a row are too many.
bool tells(const std::string& heard, std::span<const std::byte> secret) {
  constexpr size_t kTooMany = 8;
  for (size_t at = 0; at + kTooMany <= secret.size(); ++at) {
    if (heard.find(std::string_view(reinterpret_cast<const char*>(secret.data() + at), kTooMany)) !=
        std::string::npos)
      return true;
  }
  return false;
}

TEST_F(TcpTest, ADataConnectionTellsPayloadsAndNoSecret) {
  start();
  const auto written = directory.add(4096), read = directory.add(4096);
  auto listener = listen_on("127.0.0.1:0");
  ASSERT_TRUE(listener.is_ok());
  const std::string address = bound_address(listener->get()).value();
  std::string heard;
  std::thread relay([&] { heard = overhear(listener->get(), server->address()); });
  const Credentials who = credentials(1000);
  const Capability read_capability = os::read_capability(read->capability);
  const auto payload = pattern(64, 1);
  {
    TcpConnector connector;
    auto channel = connector.connect({Fabric::kTcp, address, {}}, who, soon());
    EXPECT_TRUE(channel.is_ok()) << channel.status().to_string();
    if (channel.is_ok()) {
      ExtentDescriptor readable = describe(*read);
      readable.capability = read_capability;
      const auto to = (*channel)->attach(describe(*written), Access::kReadWrite, soon());
      const auto from = (*channel)->attach(readable, Access::kRead, soon());
      EXPECT_TRUE(to.is_ok() && from.is_ok());
      std::vector<std::byte> got(64);
      EXPECT_EQ(put(**channel, to.value(), 0, payload.data(), payload.size()), Code::kOk);
      EXPECT_EQ(get(**channel, from.value(), 0, got.data(), got.size()), Code::kOk);
    }
  }
  relay.join();
  EXPECT_TRUE(tells(heard, payload)) << "nothing was overheard";
  EXPECT_TRUE(tells(heard, who.session.bytes)) << "nothing was overheard of the handshake";
  EXPECT_FALSE(tells(heard, who.session_key));
  EXPECT_FALSE(tells(heard, written->capability.bytes));
  EXPECT_FALSE(tells(heard, os::read_capability(written->capability).bytes));
  EXPECT_FALSE(tells(heard, read->capability.bytes));
  EXPECT_FALSE(tells(heard, read_capability.bytes));
}

}  // namespace
}  // namespace ocm::fabric::tcp
