// A world of whole daemons (world.h) whose extents are reached over the fake network, on one virtual time,
// and the Unix socket of one of them: for the client's own session, allocations and copy engine.
//
// The fake network's time leads. The daemons' events run in steps of it, under its mutex, in whichever thread
// moves it: the test's, or the socket's while a request is under way.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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
  void mend(size_t home);
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

 private:
  struct Home {
    bool dead = false;
    int stops = 0, cuts = 0;
    uint64_t disturbances = 0, lives = 0, disturbed_ns = 0;
  };
  static constexpr uint64_t kTickNs = 5'000'000;

  /// The world's time becomes the network's. Under the network's mutex.
  void catch_up();
  void tick();
  void join_network(size_t node);
  bool is_blocked_locked(const Home& home) const { return home.dead || home.stops > 0 || home.cuts > 0; }
  Home& disturb(size_t home);

  void serve(os::Fd socket);
  Task<void> answer(std::shared_ptr<node::Program> program, wire::Envelope request);

  fabric::fake::FakeNetwork& network_;
  World world_;
  uint64_t caught_up_ns_ = 0;
  mutable std::mutex mutex_;  // guards homes_, answers_: scheduled faults run in either thread
  std::vector<Home> homes_;
  std::deque<control::Reply> answers_;
  std::thread door_;
};

}  // namespace ocm::simulation
