// The numbered invariants of control/quorum.h, loss.h, ownership.h, names.h and remake.h, as far as they can be
// seen in what the daemons of a world hold at one moment: asked every 10 ms of virtual time, some of them
// less often.
//
// Others are held elsewhere. R3 to R5 and R8 are about what a voter knew when it answered: the model checkers walk them
// (tests/model/loss_model.cpp, mutations included). T5 is asserted until the cursor has been around once, and by
// tests/unit/extent_table_test.cpp beyond. N5 and N7 are about one request: tests/unit/names_test.cpp, and the schedule "a failed
// publish leaks". G1 and G3 are about threads, of which the simulation has none: tests/unit/tcp_fence_test.cpp, under
// ThreadSanitizer. P1 to P6 of client/operation.h are the library's, which tests/simulation/hour_test.cpp runs with a
// shadow of every byte. L3 is a cost, not a state. Q9 is about what is found after a restart: the schedules of restarts, and
// tests/unit/voter_test.cpp and voter_memory_test.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/council.h"

namespace ocm::simulation {

class World;
class Daemon;
struct Memory;

class Invariants {
 public:
  explicit Invariants(World& world) : world_(world) {}
  /// What does not hold is a violation of the world, each once.
  void check();

 private:
  void lost_replicas_are_not_served();         // Q1
  void leases_stand_on_votes();                // Q2
  void one_council_votes();                    // Q4
  void voters_are_of_their_councils();         // Q3, Q5, Q7, Q8
  void councils_continue();                    // Q6
  void losses_agree();                         // R1, R2
  void homes_are_valid();                      // T1 to T3, T5, L1, L2, L4 to L6; G2; P3 of sessions
  void generations_are_new();                  // T4
  void names_are_valid();                      // N1, N6
  void removed_names_stay_away();              // N2
  void replicas_have_what_was_acknowledged();  // M1, M2
  void former_replicas_are_silent();           // M3

  /// A former replica whose home does not lead, and may not know yet that its part was made again: nothing is acknowledged
  /// without the one that follows it there, before that home's lease ends (M10).
  bool may_be_read_yet(const Memory& memory, size_t piece) const;
  void violate(const std::string& what);
  /// Of the same run as when it was made; null if there is none.
  Daemon* home_of(const Memory& memory, size_t piece) const;

  World& world_;
  uint64_t round_ = 0;
  std::set<std::string> told_;
  struct Followed {
    control::Council council;
    uint64_t votes_in = 0;
    std::vector<control::Council> voted_in;
    std::vector<ExtentId> replicas;
  };
  std::map<uint64_t, Followed> followed_;     // by the daemon's run
  std::map<ExtentId, std::string> made_for_;  // allocation id
};

}  // namespace ocm::simulation
