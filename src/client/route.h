// Ways to other nodes: one channel for each node, fabric and lane, connected when first used and connected
// anew after it was lost.
//
// An extent has one route, whatever handles there are to it: operations of one thread to it stay in order,
// and one that failed with its channel is never applied after one that the next channel brought.
// Threads: any. Lifetime: routes live as long as their session; channels as long as somebody uses them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "fabric/channel.h"

namespace ocm::client {

class Session;

class Route {
 public:
  using Time = std::atomic<uint64_t>;
  /// `avoid_until_ns` is shared by the routes to the node.
  Route(Session& session, fabric::Connector& connector, std::string node, FabricAddress address,
        std::shared_ptr<Time> avoid_until_ns);

  /// The healthy channel, connected now if there is none. Errors: kPeerLost, kAuth, kLimit, kUnsupported,
  /// kDeadline (interrupted).
  Result<std::shared_ptr<fabric::Channel>> channel(os::Deadline deadline);
  const std::string& node() const { return node_; }

  /// The node failed a moment ago: what has replicas elsewhere asks those first.
  bool avoided(uint64_t now_ns) const { return now_ns < avoid_until_ns_->load(std::memory_order_relaxed); }
  void avoid_until(uint64_t at_ns) { avoid_until_ns_->store(at_ns, std::memory_order_relaxed); }

 private:
  Session& session_;
  fabric::Connector& connector_;
  const std::string node_;
  const FabricAddress address_;
  const uint64_t id_;  // at the home: a newer attempt of it ends the older one
  const std::shared_ptr<Time> avoid_until_ns_;
  std::timed_mutex mutex_;
  uint64_t attempt_ = 0;
  std::shared_ptr<fabric::Channel> channel_;
};

/// Whether the handles of an extent of another node reach it through their own daemon, which caches it, or at its home:
/// all of a session do the same, for the operations of one thread to it are in order.
struct CachedWay {
  explicit CachedWay(FabricAddress own_daemon)
      : address(std::move(own_daemon)), is_past(address.fabric == Fabric::kAny) {}
  const FabricAddress address;  // of the own daemon; kAny: it does not cache it
  std::atomic<bool> is_past;    // the home's, from now on: the own daemon did not serve it
};

class Routes {
 public:
  explicit Routes(Session& session) : session_(session) {}
  /// The extent's, made with the first handle that lives. The session outlives what it gives.
  std::shared_ptr<CachedWay> cached_way(ExtentId extent, const FabricAddress& own_daemon);
  /// The extent's lane to `node` over `address`. Errors: kUnsupported (no such fabric in this build).
  Result<Route*> choose(const std::string& node, const FabricAddress& address, ExtentId extent);
  /// Each leads to the node that it is listed for, whose routes are avoided together. Cost: all of them.
  bool is_valid() const;

 private:
  Session& session_;
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, Fabric, std::string, uint32_t>, std::unique_ptr<Route>> routes_;
  std::map<std::string, std::shared_ptr<Route::Time>> avoided_;  // by node
  std::map<ExtentId, std::weak_ptr<CachedWay>> cached_ways_;     // those that live
};

/// How an extent is to be reached. kAny: the first in rank that both sides have (fabric/entry.h), for a replica only
/// where its home can check its lease. Errors: kUnsupported.
Result<Fabric> choose_fabric(const ExtentDescriptor& extent, const std::string& own_node, Fabric wanted,
                             Layout layout);
/// The same after `refused` did not serve it, among those of lower rank that connect; kAny: there is none.
Fabric next_fabric(const ExtentDescriptor& extent, Fabric refused, Layout layout);

}  // namespace ocm::client
