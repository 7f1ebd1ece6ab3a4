// The numbered invariants of control/quorum.h, loss.h, leases.h, names.h and remake.h, as far as they can be
// seen in what the daemons of a world hold at one moment: asked every 10 ms of virtual time, some of them
// less often.
//
// Others are asserted elsewhere: R3 to R5 and R8 by the model checkers (tests/model); G1, G3 and G4 of the fence, P1 to P6
// of a put to replicas and N5 and N7 of names by tests/unit and by schedules of the simulation, for they are about one call.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control.pb.h"

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
  void voters_are_of_their_councils();         // Q3, Q5
  void councils_continue();                    // Q6
  void losses_agree();                         // R1, R2
  void homes_are_valid();                      // T1 to T3, T5, L1, L2, L4, L5
  void names_are_valid();                      // N1, N6
  void removed_names_stay_away();              // N2
  void replicas_have_what_was_acknowledged();  // M1, M2
  void former_replicas_are_silent();           // M3

  void violate(const std::string& what);
  /// Of the same run as when it was made; null if there is none.
  Daemon* home_of(const Memory& memory, size_t piece) const;

  World& world_;
  uint64_t round_ = 0;
  std::set<std::string> told_;
  struct Followed {
    wire::Council council;
    uint64_t votes_in = 0;
    std::set<uint64_t> voted_in;
    std::vector<ExtentId> replicas;
  };
  std::map<uint64_t, Followed> followed_;  // by the daemon's run
};

}  // namespace ocm::simulation
