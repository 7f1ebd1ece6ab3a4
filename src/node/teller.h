// Tells one run of a node's daemon something until it has heard it.
//
// A node that the view does not show may live: a new run of the coordinator knows no node that is cut off from it. Only
// another run of its daemon proves that what the former one had is gone.
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "control/env.h"
#include "node/cluster.h"
#include "node/peers.h"

namespace ocm::node {

class Teller {
 public:
  static constexpr uint32_t kAnyRun = 0;  // no partition: whichever run there is

  Teller(Core& core, Peers& peers, const Cluster& cluster) : core_(core), peers_(peers), cluster_(cluster) {}

  static bool is_unheard(const Status& told) {
    return told.code() == Code::kPeerLost || told.code() == Code::kDeadline;
  }
  /// The run of the daemon that the view shows; kAnyRun where it shows none.
  uint32_t run_of(const std::string& node) const;
  /// The view shows another run than `run`, and than it did when that was heard of (`shown`), for it may have been
  /// behind then: what that one had is gone.
  bool is_over(const std::string& node, uint32_t run, uint32_t shown) const;
  /// Again each heartbeat, while `wanted` (empty: always) says so. The answer's status; kPeerLost: that run is over, or
  /// nobody has known the node for a day; kCancelled: not wanted any more, or this daemon drains; kLimit: too much
  /// waits already. `wanted` is to be a variable of the caller's: GCC 12 destroys a lambda in a co_await twice.
  control::Task<Status> until_heard(std::string node, uint32_t run, wire::Envelope message,
                                    std::function<bool()> wanted = {});

 private:
  Core& core_;
  Peers& peers_;
  const Cluster& cluster_;
  size_t waiting_ = 0;
};

}  // namespace ocm::node
