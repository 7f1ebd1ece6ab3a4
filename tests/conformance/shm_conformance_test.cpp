// The shm fabric joins: the home's memfds mapped in the same process.
#include "fabric/shm/shm_channel.h"
#include "fabric_conformance.h"

namespace ocm::fabric {
namespace {

class ShmFixture final : public FabricFixture {
 public:
  ShmFixture() {
    shm::ShmHome shared;
    shared.generations = home.generations();
    shared.slots = TestHome::kSlots;
    shared.lost = &lost_;
    shared.open = [this](const ExtentDescriptor& extent, Access access, os::Deadline) {
      return home.share(extent, access);
    };
    connector_ = std::make_unique<shm::ShmConnector>(std::move(shared));
  }
  Fabric fabric() const override { return Fabric::kShm; }
  Result<std::unique_ptr<Channel>> connect(const Credentials& who, os::Deadline deadline) override {
    return connector_->connect({}, who, deadline);
  }
  void kill_home() override { lost_ = true; }
  bool checks_keys() const override { return false; }

 private:
  std::atomic<bool> lost_{false};
  std::unique_ptr<Connector> connector_;
};

INSTANTIATE_TEST_SUITE_P(Shm, FabricConformance,
                         testing::Values([] { return std::unique_ptr<FabricFixture>(new ShmFixture); }));

}  // namespace
}  // namespace ocm::fabric
