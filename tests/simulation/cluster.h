// A cluster on the fake network: homes that hold extents, and one daemon that grants them to a session over a
// real control connection. The session, its allocations and its copy engine are the client's own code.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fabric/fake/network.h"
#include "fabric/served.h"
#include "os/fd.h"

namespace ocm::wire {
class Envelope;
}

namespace ocm::simulation {

/// One node's extents, in buffers.
class Home final : public fabric::ExtentDirectory {
 public:
  explicit Home(uint32_t partition) : partition_(partition) {}
  std::shared_ptr<fabric::ServedExtent> make(uint64_t bytes);
  void revoke(ExtentId id);
  void clear();
  Result<std::shared_ptr<fabric::ServedExtent>> open(ExtentId id) override;
  std::array<std::byte, 32> session_key(const SessionId& session) override;

 private:
  const uint32_t partition_;
  std::mutex mutex_;
  std::map<GlobalAddress, std::shared_ptr<fabric::ServedExtent>> extents_;
  uint64_t next_offset_ = 4096;
  uint32_t next_generation_ = 1;
};

/// Threads: the faults are the simulation's thread's; serve() is the daemon's own.
class Cluster {
 public:
  /// Nodes n0, n1, ...; the session is on node "here", which offers nothing.
  Cluster(fabric::fake::FakeNetwork& network, size_t nodes);
  ~Cluster();

  /// The daemon's socket.
  Result<os::Fd> dial();

  static std::string name(size_t node) { return "n" + std::to_string(node); }
  size_t nodes() const { return nodes_.size(); }

  // ---- faults
  void kill(size_t node);
  void restart(size_t node);
  void stop(size_t node);
  void resume(size_t node);
  void cut(size_t node);
  void mend(size_t node);
  bool is_dead(size_t node) const { return nodes_[node].dead; }
  /// It cannot answer the session now.
  bool is_blocked(size_t node) const {
    return nodes_[node].dead || nodes_[node].stops > 0 || nodes_[node].cuts > 0;
  }
  /// Grows with every fault of the node.
  uint64_t disturbances(size_t node) const { return nodes_[node].disturbances; }
  /// Grows with every restart: what lived before is gone.
  uint64_t lives(size_t node) const { return nodes_[node].lives; }

 private:
  struct Node {
    std::unique_ptr<Home> home;
    bool dead = false;
    int stops = 0, cuts = 0;
    uint64_t disturbances = 0, lives = 0;
  };
  struct Granted {
    std::vector<std::pair<size_t, ExtentId>> extents;
  };

  void serve(os::Fd socket);
  void answer(const wire::Envelope& request, wire::Envelope& reply);
  void allocate(const wire::Envelope& request, wire::Envelope& reply);
  Status copy(const wire::Envelope& request);

  fabric::fake::FakeNetwork& network_;
  mutable std::mutex mutex_;  // guards nodes_ while serve() runs; the simulation's thread alone writes
  std::vector<Node> nodes_;
  std::map<std::string, Granted> granted_;
  std::thread daemon_;
};

}  // namespace ocm::simulation
