// A network inside the process, on virtual time: nodes that serve extents, links between them, and faults on
// order. With one thread everything that happens follows from the seed.
//
//   message --latency (+ delay)--> at the home: in order of its extent, once --> applied --> reply, the same
//   way
//
// A message waits while its nodes are cut from each other or its receiver is stopped, and goes on after; a
// killed node loses everything. So a cut or a stop shorter than the caller's patience is only a delay.
//
// Invariants
//   N1 Messages of one extent on one link are applied in the order posted, each once.
//   N2 A link that failed stays failed. What it sent may still be applied, until the same session has connected to
//      that home again: then never.
// Threads: any; one mutex. Ownership: directories outlive the network, the network outlives its connectors;
// channels keep what they need.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fabric/channel.h"
#include "fabric/fake/faults.h"
#include "fabric/served.h"

namespace ocm::fabric::fake {

class NetworkCore;

class FakeNetwork {
 public:
  explicit FakeNetwork(uint64_t seed, NetworkOptions options = {});
  ~FakeNetwork();

  /// A node that serves `directory` (null: a client only). A name that was killed comes back with it, empty
  /// of links. `clock`: of its leases.
  void add_node(const std::string& name, ExtentDirectory* directory,
                std::function<uint64_t()> clock = os::now_ns);
  /// The node is gone: its links break at once for those who can reach it.
  void kill(const std::string& name);
  /// The node does nothing until resume(); what is sent to it waits.
  void stop(const std::string& name);
  void resume(const std::string& name);
  /// Nothing passes between two nodes until restore().
  void cut(const std::string& a, const std::string& b);
  void restore(const std::string& a, const std::string& b);
  void set_faults(const Faults& faults);

  uint64_t now_ns() const;
  /// Everything due in the next `ns` happens, in order.
  void advance(uint64_t ns);
  /// Runs `what` in `delay_ns` of virtual time; it may call everything here that does not move time.
  void schedule(uint64_t delay_ns, std::function<void()> what);
  NetworkCounts counts() const;
  /// N2, and that everything under way is counted once. Cost: all of it.
  bool is_valid() const;

  /// Connects from node `from`; FabricAddress.address is the name of the node to reach.
  std::unique_ptr<Connector> connector(const std::string& from);

 private:
  const std::shared_ptr<NetworkCore> core_;
};

}  // namespace ocm::fabric::fake
