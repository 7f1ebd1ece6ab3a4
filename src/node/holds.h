// Holds of the sessions here on published memory: every home is told, at the begin and at the end.
//
// A hold is one attached handle's. Its homes keep what it lists until they hear of its end, of the session's,
// or that the session's daemon is dead (control/ownership.h).
// Threads: the loop's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/home_requests.h"
#include "node/cluster.h"
#include "node/homes.h"
#include "node/sessions.h"

namespace ocm::node {

class Holds {
 public:
  Holds(Core& core, Cluster& cluster) : core_(core), cluster_(cluster), homes_(cluster.homes()) {}

  /// Asks the homes of `allocation` to keep its extents; none does after an error. Those that seem dead, or that do not
  /// answer while other replicas are held, keep theirs from when they are heard of again.
  /// Errors: kNotFound (its name was removed meanwhile), kPeerLost (a home does not answer, or all seem dead), kLimit.
  control::Task<Status> begin(std::shared_ptr<Session> session, control::HoldId id,
                              control::Allocation allocation);
  /// Of a session that was taken up and whose program has shown its holds: the homes that have not reported them are
  /// asked, for a former run of this daemon may not have reached them.
  control::Task<void> resume(std::shared_ptr<Session> session);
  /// Returns when the homes were told, or are told later because they do not answer now.
  control::Task<void> end(std::shared_ptr<Session> session, control::HoldId id);

 private:
  /// What the homes said.
  struct Answers {
    std::set<ExtentId> missing;  // not held
    std::map<std::string, control::HoldRequest> unheard;
    Status unreached;  // the first home's that did not answer
  };
  struct Requests {
    // By node; those that seem dead; those that the view shows another run of, which may be an older one.
    std::map<std::string, control::HoldRequest> now, later, gone;
  };
  Requests requests_of(const Session& session, control::HoldId id,
                       const control::Allocation& allocation) const;
  bool seems_dead(const std::string& node) const;
  control::Task<void> request_hold(std::shared_ptr<Session> session, std::string node,
                                   control::HoldRequest request, Answers& out);
  /// Without extents.
  control::HoldRequest request_of(const Session& session, control::HoldId id) const;
  /// What a node is asked for, by the session's record; none: nothing.
  std::optional<wire::Envelope> message_to(const Session& session, control::HoldId id,
                                           AllocationId allocation, const std::string& node) const;
  /// As soon as the node is heard.
  void begin_later(const std::shared_ptr<Session>& session, control::HoldId id, const std::string& node,
                   Homes::Message message);
  control::Task<void> end_at(std::shared_ptr<Session> session, std::string node, control::HoldId id);

  Core& core_;
  Cluster& cluster_;
  Homes& homes_;
};

}  // namespace ocm::node
