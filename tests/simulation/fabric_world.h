// A world of whole daemons (world.h) whose extents are reached over the fake network, on one virtual time,
// and the Unix socket of one of them: for the client's own session, allocations and copy engine.
//
// The fake network's time leads, and the daemons' events run in steps of it. The thread that made the world
// lives in it: its clock is virtual (each look at it takes some time, so who spins gets on), and where it
// would sleep in poll(2) the world goes on instead, the daemon's end of the socket included. So everything
// follows from the seed: what the client asks of the system is wrapped by the linker (CMakeLists.txt).
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/fake/network.h"
#include "os/fd.h"
#include "world.h"

namespace ocm::simulation {

class FabricWorld {
 public:
  /// The session's daemon coordinates and offers nothing; `homes` others do.
  FabricWorld(fabric::fake::FakeNetwork& network, uint64_t seed, size_t homes);
  ~FabricWorld();

  /// The daemon's socket, once.
  Result<os::Fd> dial();
  /// Of node 0, which the session is on.
  static std::string here() { return name_of(0); }
  static std::string name(size_t home) { return name_of(home + 1); }
  size_t homes() const { return homes_.size(); }

  // ---- faults of a home
  void kill(size_t home);
  void restart(size_t home);
  void stop(size_t home);
  void resume(size_t home);
  /// From the session's node.
  void cut(size_t home);
  void restore(size_t home);
  bool is_dead(size_t home) const;
  /// It cannot answer the session now.
  bool is_blocked(size_t home) const;
  /// Grows with every fault of the home.
  uint64_t disturbances(size_t home) const;
  /// Grows with every restart: what lived before is gone.
  uint64_t lives(size_t home) const;
  /// Homes with a fault now, or `ns` ago.
  size_t disturbed_within(uint64_t ns) const;

  /// What did not hold in the world, a line each.
  std::string violations();

  /// The clock of the thread that lives here.
  uint64_t look_at_clock() { return network_.now_ns() + (looked_ns_ += kLookNs); }
  /// poll(2) of that thread: the world goes on until a descriptor is ready.
  int poll(pollfd* fds, nfds_t count, uint64_t timeout_ns);

 private:
  struct Home {
    bool dead = false;
    int stops = 0, cuts = 0;
    uint64_t disturbances = 0, lives = 0, disturbed_ns = 0;
  };
  static constexpr uint64_t kTickNs = 5'000'000, kPumpNs = 200'000, kLookNs = 100;

  /// The world's time becomes the network's.
  void catch_up();
  void tick();
  void join_network(size_t node);
  static bool is_blocked(const Home& home) { return home.dead || home.stops > 0 || home.cuts > 0; }
  Home& disturb(size_t home);

  /// Takes what the program sent.
  void serve();
  Task<void> answer(wire::Envelope request);

  fabric::fake::FakeNetwork& network_;
  World world_;
  uint64_t caught_up_ns_ = 0;
  uint64_t looked_ns_ = 0;
  std::vector<Home> homes_;
  os::Fd door_;  // the daemon's end
  std::shared_ptr<node::Program> program_;
  std::string in_;
  size_t under_way_ = 0;  // requests
};

}  // namespace ocm::simulation
