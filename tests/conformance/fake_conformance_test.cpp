// The fake fabric joins: a network of two nodes, with and without faults that must not be noticed.
#include "fabric/fake/network.h"
#include "fabric_conformance.h"

namespace ocm::fabric {
namespace {

class FakeFixture final : public FabricFixture {
 public:
  explicit FakeFixture(fake::NetworkOptions options) : network_(1, options) {
    network_.add_node("here", nullptr);
    network_.add_node("home", &home);
    connector_ = network_.connector("here");
  }
  Fabric fabric() const override { return Fabric::kFake; }
  Result<std::unique_ptr<Channel>> connect(const Credentials& who, os::Deadline deadline) override {
    return connector_->connect({Fabric::kFake, "home", ""}, who, deadline);
  }
  void kill_home() override {
    network_.kill("home");
    network_.advance(1'000'000);
  }
  bool freeze_home() override {
    network_.stop("home");
    return true;
  }

 private:
  fake::FakeNetwork network_;
  std::unique_ptr<Connector> connector_;
};

INSTANTIATE_TEST_SUITE_P(Fake, FabricConformance,
                         testing::Values([] { return std::unique_ptr<FabricFixture>(new FakeFixture({})); }));
INSTANTIATE_TEST_SUITE_P(FakeWithFaults, FabricConformance, testing::Values([] {
                           fake::NetworkOptions options;
                           options.faults = {
                               .duplicate_ppm = 100'000, .delay_ppm = 200'000, .delay_ns_max = 1'000'000};
                           return std::unique_ptr<FabricFixture>(new FakeFixture(options));
                         }));

}  // namespace
}  // namespace ocm::fabric
