// A council: the daemons that vote about replicas and about the coordinator's seat (control/quorum.h), and what nodes tell
// one another about councils and about who votes. Values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"

namespace ocm::control {

/// One run of a daemon that votes.
struct VoterInfo {
  std::string name;
  Incarnation incarnation;  // zeros: of no run
  std::string address;
  bool operator==(const VoterInfo&) const = default;
};

struct Council {
  uint64_t id = 0;                // random; 0: none
  uint64_t number = 0;            // grows within a chain
  std::vector<uint64_t> chains;   // runs of the coordinator whose councils ended in this one
  std::vector<VoterInfo> voters;  // an odd number; the first is the coordinator
  std::vector<uint64_t> after;    // councils (not their chains) that ended with an earlier run's only voter
  std::vector<uint64_t> instead_of;  // chains that an operator gave up for it: control/founding.h
  bool operator==(const Council&) const = default;

  bool has(const std::string& name, const Incarnation& incarnation) const {
    return std::any_of(voters.begin(), voters.end(), [&](const VoterInfo& voter) {
      return voter.name == name && voter.incarnation == incarnation;
    });
  }
  bool has_node(const std::string& name) const {
    return std::any_of(voters.begin(), voters.end(),
                       [&](const VoterInfo& voter) { return voter.name == name; });
  }
};

/// The council's coordinator. The council has voters.
inline const VoterInfo& coordinator_of(const Council& council) {
  OCM_DASSERT(!council.voters.empty());
  return council.voters.front();
}
/// A council from outside: it has an id and an odd number of voters, 5 at most.
inline bool is_council(const Council& council) {
  constexpr size_t kVotersMax = 5;
  return council.id != 0 && council.voters.size() <= kVotersMax && council.voters.size() % 2 == 1;
}
inline size_t majority(const Council& council) { return council.voters.size() / 2 + 1; }
/// How many of `nodes` living nodes vote: odd, so that an even cluster gains nothing by one more.
inline size_t voters_for(size_t nodes) { return nodes >= 5 ? 5 : nodes >= 3 ? 3 : 1; }

/// True if a node may go from `older` to `newer` with its replicas: every council that ended in the one ended
/// in the other too.
inline bool continues(const Council& newer, const Council& older) {
  const auto has = [](const std::vector<uint64_t>& all, uint64_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  return has(newer.after, older.id) || std::all_of(older.chains.begin(), older.chains.end(),
                                                   [&](uint64_t chain) { return has(newer.chains, chain); });
}
/// True if an operator gave `older` up for `newer`, and nothing of it was continued since.
inline bool replaces(const Council& newer, const Council& older) {
  return std::any_of(older.chains.begin(), older.chains.end(), [&](uint64_t chain) {
    return std::find(newer.instead_of.begin(), newer.instead_of.end(), chain) != newer.instead_of.end();
  });
}
/// False: each coordinates a cluster of its own.
inline bool are_of_one_cluster(const Council& a, const Council& b) {
  return a.id == b.id || continues(a, b) || continues(b, a);
}

/// A former run of a daemon that votes on through what the later one remembers (Q9 of quorum.h).
struct RememberedRun {
  Incarnation incarnation;
  uint64_t council = 0;  // the number of the one that it votes in; 0: none
  bool operator==(const RememberedRun&) const = default;
};
/// Of one daemon, those that are told, and heard.
inline constexpr size_t kRememberedRunsMax = 32;

/// A run of a daemon, and the former ones that it remembers as voters.
struct VoterRun {
  Incarnation incarnation;  // zeros: of no run
  std::vector<RememberedRun> remembered;
  bool operator==(const VoterRun&) const = default;

  bool votes(const VoterInfo& voter) const { return voter.incarnation == incarnation; }
  /// Remembered: what is of a later council promises an earlier one no more.
  bool may_promise(const VoterInfo& voter, const Council& council) const {
    return votes(voter) || std::any_of(remembered.begin(), remembered.end(), [&](const auto& former) {
             return former.incarnation == voter.incarnation && former.council <= council.number;
           });
  }
};

/// Which council a node knows: its first voter is the coordinator. Without an id: none.
struct Leader {
  Council council;
  std::vector<Council> remembered;  // in which former runs of the node's daemon voted
  bool founds = false;              // an operator has it found one
  std::string node;                 // that says so
};

/// What a node tells the coordinator of councils, and of its runs.
struct VoterReport {
  std::string node;
  VoterRun run;
  Council council;                  // the newest that the node knows
  std::vector<Council> remembered;  // of its former runs: no home may know them yet
};

}  // namespace ocm::control
