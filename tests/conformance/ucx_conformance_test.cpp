// The ucx fabric joins, over the transports of UCX that every machine has.
#include "fabric/ucx/channel.h"
#include "fabric/ucx/server.h"
#include "fabric_conformance.h"

namespace ocm::fabric {
namespace {

class UcxFixture final : public FabricFixture {
 public:
  explicit UcxFixture(const ucx::Settings& settings) : tcp_(settings.tls == "tcp") {
#if defined(__SANITIZE_THREAD__)
    skip_reason_ = "libucx is not built for the thread sanitizer";
    return;
#endif
    auto connector = ucx::make_connector(settings);
    if (!connector.is_ok()) {
      skip_reason_ = connector.status().to_string();
      return;
    }
    connector_ = std::move(*connector);
    ucx::ServerOptions options;
    options.settings = settings;
    auto server = ucx::UcxServer::start(options, home, stats_);
    EXPECT_TRUE(server.is_ok()) << server.status().to_string();
    server_ = std::move(*server);
    address_ = server_->address();
    home.on_revoke = [this](const ExtentId& id) {
      if (server_ != nullptr) server_->revoke(id);
    };
  }
  ~UcxFixture() override {
    freeze_.reset();
    server_.reset();
  }
  std::string skip_reason() override { return skip_reason_; }
  Fabric fabric() const override { return Fabric::kUcx; }
  Result<std::unique_ptr<Channel>> connect(const Credentials& who, os::Deadline deadline) override {
    return connector_->connect({Fabric::kUcx, address_, ""}, who, deadline);
  }
  void kill_home() override { server_.reset(); }
  bool freeze_home() override {
    // libucp 1.13 aborts a home that answers over tcp to a client that went away: Settings::allow_emulated.
    if (tcp_) return false;
    freeze_ = std::make_unique<Freeze>(*this);
    return true;
  }

 private:
  const bool tcp_;
  std::string skip_reason_;
  ServerStats stats_;
  std::string address_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<ucx::UcxServer> server_;
  std::unique_ptr<Freeze> freeze_;
};

INSTANTIATE_TEST_SUITE_P(UcxTcp, FabricConformance, testing::Values([] {
                           return std::unique_ptr<FabricFixture>(new UcxFixture({"tcp", "lo", true}));
                         }));
INSTANTIATE_TEST_SUITE_P(
    UcxShm, FabricConformance, testing::Values([] {
      return std::unique_ptr<FabricFixture>(new UcxFixture({"posix,sysv,cma,self", "", true}));
    }));

}  // namespace
}  // namespace ocm::fabric
