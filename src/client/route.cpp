#include "client/route.h"

#include <algorithm>
#include <span>

#include "client/session.h"
#include "fabric/registry/registry.h"
#include "memory/registry/registry.h"
#include "os/crypto.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

uint64_t random_route() {
  uint64_t route = 0;
  while (route == 0) os::fill_random(std::as_writable_bytes(std::span(&route, 1)));
  return route;
}

/// Spreads addresses evenly, also those of one size in a row: the golden ratio's multiples.
uint32_t lane_of(ExtentId extent, uint32_t lanes) {
  OCM_DASSERT(lanes > 0);
  const auto spread = static_cast<uint32_t>((extent.address.bits() >> 12) * 0x9E3779B97F4A7C15ull >> 32);
  return static_cast<uint32_t>(uint64_t{spread} * lanes >> 32);
}

bool leads_to(const fabric::Entry& entry, const ExtentDescriptor& extent, bool own) {
  // A kind that this library does not know is no reason to fail: the network leads to it.
  if (entry.traits.own_node) return own && memory::traits_of(extent.kind).mapped && !extent.unmapped;
  return extent.address_for(entry.fabric) != nullptr && fabric::connector_of(entry, {}) != nullptr;
}

/// The first of `from` that leads to the extent; a replica's home must check its lease. kAny: none does.
Fabric best_fabric(const ExtentDescriptor& extent, bool own, Layout layout,
                   std::span<const fabric::Entry* const> from) {
  for (const fabric::Entry* entry : from) {
    if (layout == Layout::kReplicated && !entry->traits.home_checks) continue;
    if (leads_to(*entry, extent, own)) return entry->fabric;
  }
  return Fabric::kAny;
}

}  // namespace

Route::Route(Session& session, fabric::Connector& connector, std::string node, FabricAddress address,
             std::shared_ptr<Time> avoid_until_ns)
    : session_(session),
      connector_(connector),
      node_(std::move(node)),
      address_(std::move(address)),
      id_(random_route()),
      avoid_until_ns_(std::move(avoid_until_ns)) {}

Result<std::shared_ptr<fabric::Channel>> Route::channel(os::Deadline deadline) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!os::lock_unless_interrupted(lock)) return os::interrupted();
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

Result<Route*> Routes::choose(const std::string& node, const FabricAddress& address, ExtentId extent) {
  const std::shared_ptr<Daemon> daemon = session_.daemon_now();
  const fabric::Entry* entry = fabric::find_entry(address.fabric);
  fabric::Connector* connector = entry == nullptr ? nullptr : fabric::connector_of(*entry, daemon->fabrics());
  if (connector == nullptr) {
    return Status(Code::kUnsupported, std::string("the ") + fabric_name(address.fabric) +
                                          " fabric is not available in this program");
  }
  std::lock_guard lock(mutex_);
  const Setting* lanes = entry->setting(fabric::kLanes);
  const uint64_t lanes_count = lanes == nullptr ? 1 : daemon->fabrics().get(entry->fabric, *lanes);
  const uint32_t lane = lane_of(extent, static_cast<uint32_t>(lanes_count));
  std::unique_ptr<Route>& route = routes_[{node, address.fabric, address.address, lane}];
  if (route == nullptr) {
    std::shared_ptr<Route::Time>& avoided = avoided_[node];
    if (avoided == nullptr) avoided = std::make_shared<Route::Time>(0);
    route = std::make_unique<Route>(session_, *connector, node,
                                    FabricAddress{address.fabric, address.address, {}}, avoided);
  }
  return route.get();
}

std::shared_ptr<CachedWay> Routes::cached_way(ExtentId extent, const FabricAddress& own_daemon) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<CachedWay>& known = cached_ways_[extent];
  if (std::shared_ptr<CachedWay> way = known.lock()) return way;
  const std::shared_ptr<CachedWay> way(new CachedWay(own_daemon), [this, extent](CachedWay* it) {
    delete it;
    const std::lock_guard ending(mutex_);
    const auto at = cached_ways_.find(extent);
    if (at != cached_ways_.end() && at->second.expired()) cached_ways_.erase(at);
  });
  known = way;
  return way;
}

bool Routes::is_valid() const {
  std::lock_guard lock(mutex_);
  return std::all_of(routes_.begin(), routes_.end(), [this](const auto& one) {
    const std::string& node = std::get<0>(one.first);
    return one.second != nullptr && one.second->node() == node && avoided_.contains(node);
  });
}

Result<Fabric> choose_fabric(const ExtentDescriptor& extent, const std::string& own_node, Fabric wanted,
                             Layout layout) {
  const bool own = extent.node == own_node;
  if (wanted == Fabric::kAny) {
    const Fabric best = best_fabric(extent, own, layout, fabric::entries_by_rank());
    if (best != Fabric::kAny) return best;
    return Status(Code::kUnsupported, "no common fabric to node " + extent.node).with_node(extent.node);
  }
  const fabric::Entry* entry = fabric::find_entry(wanted);
  if (entry != nullptr && leads_to(*entry, extent, own)) return wanted;
  if (entry != nullptr && entry->traits.own_node) {
    std::string why = "the extent is on " + extent.node;
    if (own) why = std::string("memory of kind ") + kind_name(extent.kind) + " is not mapped by programs";
    if (own && extent.unmapped)
      why = "the extent has no file that programs map: it is coherent, or its node has few descriptors left";
    return Status(Code::kUnsupported, std::string(entry->name()) + " reaches only this node, and " + why);
  }
  return Status(Code::kUnsupported,
                std::string("no ") + fabric_name(wanted) + " fabric to node " + extent.node)
      .with_node(extent.node);
}

Fabric next_fabric(const ExtentDescriptor& extent, Fabric refused, Layout layout) {
  std::span<const fabric::Entry* const> rest = fabric::entries_by_rank();
  while (!rest.empty() && rest.front()->fabric != refused) rest = rest.subspan(1);
  return rest.empty() ? Fabric::kAny : best_fabric(extent, false, layout, rest.subspan(1));
}

}  // namespace ocm::client
