// The node's part in the council that decides about replicas (control/quorum.h): it votes where it is a
// voter, asks for its own lease, asks for the loss of others' replicas, and convenes the council if it is the
// coordinator.
//
// Threads: the loop's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/quorum.h"
#include "control/rpc.h"
#include "node/home.h"
#include "node/peers.h"

namespace ocm::node {

class Quorum {
 public:
  Quorum(Core& core, Home& home, Peers& peers);

  /// `coordinator_run`: not 0 at the coordinator. The lease runs when this returns if the node votes alone.
  void start(uint64_t coordinator_run);

  bool handles(const wire::Envelope& request) const;
  control::Reply answer(const wire::Envelope& request);

  /// A council that came with a view.
  void saw(const wire::Council& council);
  /// For heartbeats and views: the newest that this node knows.
  const wire::Council& newest() const;

  /// Of a heartbeat. The coordinator only, as the next.
  void reported(const wire::NodeView& node, const wire::Council& council);
  /// Looks after the council; `nodes` are the living ones, this one among them.
  control::Task<void> convene(std::vector<wire::Voter> nodes);

  /// Returns once nobody can read the replica any more. Errors: kDeadline.
  control::Task<Status> lose(ExtentId id, uint64_t give_up_ns);

 private:
  using Answers = std::vector<wire::Envelope>;

  control::Task<void> keep_lease();
  void ask_round();
  control::Task<void> ask(wire::Voter voter, wire::Envelope request);
  void granted(const std::string& voter, uint64_t council_id, uint64_t sent_ns,
               const wire::LeaseGranted& vote);
  void renew();
  void start_over(const wire::Council& council);
  /// The same request to all voters of a council; gives the answers of those that agreed.
  control::Task<Answers> ask_all(wire::Council council, wire::Envelope request);
  control::Task<bool> seal(wire::Council base, wire::VoterState& state);
  control::Task<void> install();
  bool is_self(const wire::Voter& voter) const { return voter.name() == self_.name(); }
  uint64_t patience_ns() const { return core_.config.failure_deadline_ns() / 3; }

  Core& core_;
  Home& home_;
  Peers& peers_;
  wire::Voter self_;
  std::optional<control::Voter> voter_;
  control::LeaseHolder holder_;
  std::optional<control::Convener> convener_;
  std::set<std::string> asking_;                               // voters that have not answered yet
  std::map<std::string, std::vector<wire::ExtentRef>> freed_;  // to be echoed, by voter
  uint64_t stranger_since_ns_ = 0;
  const uint64_t started_ns_ = core_.now_ns();
  std::map<std::string, std::pair<std::string, wire::Council>> reported_;  // name -> incarnation, council
  bool convening_ = false;
  bool sealing_ = false;  // a voter may be sealed for a council that was not made yet
};

}  // namespace ocm::node
