// What this node's voter knows, kept for the next run of the daemon, and what former runs knew, answered for them: Q9 of
// control/quorum.h.
//
//   run 1   [council 4: decided, promised]         restarts
//   run 2   remembers run 1                        council 5, chosen with run 2, was not heard of here; restarts
//   run 3   remembers runs 1 and 2: ends council 4 again, installs 5 for run 2, and ends it
//
// A run is forgotten when its council is over and the home came to one in which this run votes, or for newer ones.
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/quorum.h"
#include "node/core.h"

namespace ocm::node {

class VoterMemory {
 public:
  explicit VoterMemory(Core& core) : core_(core) {}

  /// What former runs left. `voter`: of this run.
  void start(const control::Voter& voter);
  /// Before `voter` answers, and often: appends what is new, or saves all again where that is too much. What could not be
  /// saved is tried again after a failure deadline.
  void keep(const control::Voter& voter);
  /// The former runs, the newest last.
  std::vector<control::RememberedRun> runs() const;
  bool remembers(const control::Incarnation& run) const;
  /// In which they vote.
  std::vector<control::Council> councils() const;
  /// As the voters of former runs answer, once all votes of theirs are over. Nothing: it is for the voter of this run.
  std::optional<Result<control::CouncilPromise>> seal(const control::SealRequest& request);
  std::optional<Status> accept(const control::Proposal& proposal);
  std::optional<Status> install(const control::MadeCouncil& made);
  void home_came_to(const control::Council& council);
  /// Each former run is there once, and there are not too many; O(runs * runs).
  bool is_valid() const;

 private:
  control::Voter* voter_in(uint64_t council);
  /// Errors: kPeerLost (a vote of a former run may still run).
  Status may_answer() const;
  void keep_former();
  /// True: it is there. False: nothing is.
  bool save(VoterStore::Of of, const std::string& bytes);
  void save_all(const control::Voter& voter);
  bool append_changes(const control::Voter& voter);

  Core& core_;
  uint64_t started_ns_ = 0;
  std::vector<control::Voter> former_;  // the newest last
  std::vector<control::Voter::MemoryKey> saved_former_;
  control::Voter::MemoryKey saved_;
  size_t saved_bytes_ = 0, appended_bytes_ = 0;
  uint64_t tried_ns_ = 0;  // to save it
  bool unsaved_ = false;   // nothing is there
  bool refused_ = false;   // the disk took nothing
};

}  // namespace ocm::node
