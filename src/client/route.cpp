#include "client/route.h"

#include <span>

#include "client/session.h"
#include "os/crypto.h"

namespace ocm::client {
namespace {

uint64_t random_route() {
  uint64_t route = 0;
  while (route == 0) os::fill_random(std::as_writable_bytes(std::span(&route, 1)));
  return route;
}

/// Spreads addresses evenly, also those of one size in a row: the golden ratio's multiples.
uint32_t lane_of(ExtentId extent, uint32_t lanes) {
  const auto spread = static_cast<uint32_t>((extent.address.bits() >> 12) * 0x9E3779B97F4A7C15ull >> 32);
  return static_cast<uint32_t>(uint64_t{spread} * lanes >> 32);
}

}  // namespace

Route::Route(Session& session, fabric::Connector& connector, std::string node, fabric::FabricAddress address,
             std::shared_ptr<Time> avoid_until_ns)
    : session_(session),
      connector_(connector),
      node_(std::move(node)),
      address_(std::move(address)),
      id_(random_route()),
      avoid_until_ns_(std::move(avoid_until_ns)) {}

Result<std::shared_ptr<fabric::Channel>> Route::channel(os::Deadline deadline) {
  std::lock_guard lock(mutex_);
  if (channel_ != nullptr && channel_->is_usable()) return channel_;
  channel_.reset();
  fabric::Credentials who = session_.daemon_now()->who();
  who.node = node_;
  who.route = id_;
  who.attempt = ++attempt_;
  Result<std::unique_ptr<fabric::Channel>> connected = connector_.connect(address_, who, deadline);
  if (!connected.is_ok()) {
    const Status status = connected.status();
    return status.code() == Code::kDeadline ? status.with_code(Code::kPeerLost) : status;
  }
  channel_ = std::move(*connected);
  return channel_;
}

Result<Route*> Routes::choose(const std::string& node, const fabric::FabricAddress& address,
                              ExtentId extent) {
  const std::shared_ptr<Daemon> daemon = session_.daemon_now();
  fabric::Connector* connector = connector_for(address.fabric, daemon->window_bytes());
  if (connector == nullptr) {
    return Status(Code::kUnsupported, std::string("the ") + fabric_name(address.fabric) +
                                          " fabric is not available in this program");
  }
  std::lock_guard lock(mutex_);
  const uint32_t lane = lane_of(extent, daemon->lanes());
  std::unique_ptr<Route>& route = routes_[{node, address.fabric, address.address, lane}];
  if (route == nullptr) {
    std::shared_ptr<Route::Time>& avoided = avoided_[node];
    if (avoided == nullptr) avoided = std::make_shared<Route::Time>(0);
    route = std::make_unique<Route>(session_, *connector, node,
                                    fabric::FabricAddress{address.fabric, address.address, {}}, avoided);
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
                  std::string("no ") + fabric_name(wanted) + " fabric to node " + extent.node)
        .with_node(extent.node);
  }
  for (const Fabric fabric : {Fabric::kUcx, Fabric::kTcp, Fabric::kFake}) {  // best first
    if (fabric == Fabric::kUcx && layout == Layout::kReplicated) continue;
    if (usable(fabric)) return fabric;
  }
  return Status(Code::kUnsupported, "no common fabric to node " + extent.node).with_node(extent.node);
}

}  // namespace ocm::client
