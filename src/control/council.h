// A council: the daemons that vote about replicas and about the coordinator's seat (control/quorum.h). Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace ocm::control {

/// One run of a daemon that votes.
struct VoterInfo {
  std::string name;
  Incarnation incarnation;
  std::string address;
  bool operator==(const VoterInfo&) const = default;
};

struct Council {
  uint64_t id = 0;                // random; 0: none
  uint64_t number = 0;            // grows within a chain
  std::vector<uint64_t> chains;   // runs of the coordinator whose councils ended in this one
  std::vector<VoterInfo> voters;  // an odd number; the first is the coordinator
  std::vector<uint64_t> after;    // councils (not their chains) that ended with an earlier run's only voter
  bool operator==(const Council&) const = default;
};

/// A former run of a daemon that votes on through what the later one remembers (Q9 of quorum.h).
struct RememberedRun {
  Incarnation incarnation;
  uint64_t council = 0;  // the number of the one that it votes in; 0: none
  bool operator==(const RememberedRun&) const = default;
};

}  // namespace ocm::control
