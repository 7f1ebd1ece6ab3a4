#include "client/route.h"

#include "client/session.h"

namespace ocm::client {

Result<std::shared_ptr<fabric::Channel>> Route::channel(os::Deadline deadline) {
  std::lock_guard lock(mutex_);
  if (channel_ != nullptr && channel_->health().is_ok()) return channel_;
  channel_.reset();
  Result<std::unique_ptr<fabric::Channel>> connected =
      connector_.connect(address_, session_.daemon_now()->who(), deadline);
  if (!connected.is_ok()) {
    const Status status = connected.status();
    const Code code = status.code() == Code::kDeadline ? Code::kPeerLost : status.code();
    return Status(code, "node " + node_ + ": " + std::string(status.message()));
  }
  channel_ = std::move(*connected);
  return channel_;
}

Result<Route*> Routes::choose(const std::string& node, const fabric::FabricAddress& address) {
  const std::shared_ptr<Daemon> daemon = session_.daemon_now();
  fabric::Connector* connector = connector_for(address.fabric, daemon->window_bytes());
  if (connector == nullptr) {
    return Status(Code::kUnsupported, std::string("the ") + fabric_name(address.fabric) +
                                          " fabric is not available in this program");
  }
  std::lock_guard lock(mutex_);
  const uint32_t lane = next_lane_++ % daemon->lanes();
  std::unique_ptr<Route>& route = routes_[{node, address.fabric, address.address, lane}];
  if (route == nullptr) {
    route = std::make_unique<Route>(session_, *connector, node,
                                    fabric::FabricAddress{address.fabric, address.address, {}});
  }
  return route.get();
}

Result<Fabric> choose_fabric(const fabric::ExtentDescriptor& extent, const std::string& own_node,
                             Fabric wanted, Layout layout) {
  const bool own = extent.node == own_node;
  if (wanted == Fabric::kShm || (wanted == Fabric::kAny && own)) {
    if (own) return Fabric::kShm;
    return Status(Code::kUnsupported, "shm reaches only this node, and the extent is on " + extent.node);
  }
  const auto usable = [&extent](Fabric fabric) {
    return extent.address_for(fabric) != nullptr && connector_for(fabric, 0) != nullptr;
  };
  if (wanted != Fabric::kAny) {
    if (usable(wanted)) return wanted;
    return Status(Code::kUnsupported,
                  std::string("no ") + fabric_name(wanted) + " fabric to node " + extent.node);
  }
  for (const Fabric fabric : {Fabric::kUcx, Fabric::kTcp}) {  // best first
    if (fabric == Fabric::kUcx && layout == Layout::kReplicated) continue;
    if (usable(fabric)) return fabric;
  }
  return Status(Code::kUnsupported, "no common fabric to node " + extent.node);
}

}  // namespace ocm::client
