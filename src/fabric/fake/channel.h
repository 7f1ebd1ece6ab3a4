// The fake network as a fabric: a Channel for each link, and the Connector of a node.
#pragma once

#include <memory>
#include <string>

#include "fabric/fake/core.h"

namespace ocm::fabric::fake {

class FakeChannel final : public Channel {
 public:
  FakeChannel(std::shared_ptr<NetworkCore> core, std::shared_ptr<Link> link)
      : core_(std::move(core)), link_(std::move(link)) {}
  ~FakeChannel() override;

  Result<uint32_t> attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) override;
  void detach(uint32_t index) override;
  void post(Op& op) override;
  /// What is on its way finds nobody that waits for it.
  void withdraw(Op& op) override;
  void flush() override {}
  /// `now_ns` is not looked at: the network has a time of its own.
  void progress(uint64_t now_ns, uint64_t stall_ns) override;
  PollOn poll_on() override { return {}; }
  Status health() const override;
  uint32_t in_flight() const override;

 private:
  const std::shared_ptr<NetworkCore> core_;
  const std::shared_ptr<Link> link_;
};

class FakeConnector final : public Connector {
 public:
  FakeConnector(std::shared_ptr<NetworkCore> core, std::string from)
      : core_(std::move(core)), from_(std::move(from)) {}
  Fabric fabric() const override { return Fabric::kFake; }
  Result<std::unique_ptr<Channel>> connect(const FabricAddress& address, const Credentials& who,
                                           os::Deadline deadline) override;

 private:
  const std::shared_ptr<NetworkCore> core_;
  const std::string from_;
};

}  // namespace ocm::fabric::fake
