// The tcp fabric joins: a data server and its clients over loopback, as it is and with other settings.
#include "fabric/tcp/connector.h"
#include "fabric/tcp/server.h"
#include "fabric_conformance.h"

namespace ocm::fabric {
namespace {

class TcpFixture final : public FabricFixture {
 public:
  TcpFixture(const tcp::TcpServerOptions& server, const tcp::ChannelOptions& channel) : connector_(channel) {
    auto started = tcp::TcpServer::start(server, home, stats_);
    OCM_ASSERT(started.is_ok());
    server_ = std::move(*started);
    address_ = server_->address();
  }
  ~TcpFixture() override { freeze_.reset(); }
  Fabric fabric() const override { return Fabric::kTcp; }
  Result<std::unique_ptr<Channel>> connect(const Credentials& who, os::Deadline deadline) override {
    return connector_.connect({Fabric::kTcp, address_, ""}, who, deadline);
  }
  void address(ExtentDescriptor& extent) override {
    extent.addresses.push_back({Fabric::kTcp, address_, ""});
  }
  void kill_home() override { server_.reset(); }
  bool freeze_home() override {
    freeze_ = std::make_unique<Freeze>(*this);
    return true;
  }

 private:
  ServerStats stats_;
  std::unique_ptr<tcp::TcpServer> server_;
  std::string address_;
  tcp::TcpConnector connector_;
  std::unique_ptr<Freeze> freeze_;
};

std::unique_ptr<FabricFixture> plain() {
  return std::make_unique<TcpFixture>(tcp::TcpServerOptions{}, tcp::ChannelOptions{});
}
/// Small frames and a window of two: every split and every wait for room is met.
std::unique_ptr<FabricFixture> narrow() {
  return std::make_unique<TcpFixture>(
      tcp::TcpServerOptions{.spin_ns = 0},
      tcp::ChannelOptions{.window_bytes = 32 * 1024, .frame_bytes = 16 * 1024});
}

/// The bytes are on a device, which answers late and in any order.
std::unique_ptr<FabricFixture> on_device() {
  auto fixture = plain();
  fixture->home.on_device();
  return fixture;
}
std::unique_ptr<FabricFixture> narrow_on_device() {
  auto fixture = narrow();
  fixture->home.on_device();
  return fixture;
}

INSTANTIATE_TEST_SUITE_P(Tcp, FabricConformance, testing::Values(plain));
INSTANTIATE_TEST_SUITE_P(TcpNarrow, FabricConformance, testing::Values(narrow));
INSTANTIATE_TEST_SUITE_P(TcpDevice, FabricConformance, testing::Values(on_device));
INSTANTIATE_TEST_SUITE_P(TcpDeviceNarrow, FabricConformance, testing::Values(narrow_on_device));

}  // namespace
}  // namespace ocm::fabric
