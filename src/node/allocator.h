// Life of an allocation: quota, placement, reservations at the homes at once, and the way back.
//
//   plan --reserve at each home--> all made ----> held by the session
//     ^                              | one is full: release what was made, take note, plan again
//     \------------------------------/ any other failure: release what was made, tell the program
// Threads: the loop's.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "control/home_requests.h"
#include "control/placement.h"
#include "node/cluster.h"
#include "node/homes.h"
#include "node/sessions.h"

namespace ocm::node {

class Allocator {
 public:
  Allocator(Core& core, Home& home, Cluster& cluster, Sessions& sessions)
      : core_(core), home_(home), cluster_(cluster), homes_(cluster.homes()), sessions_(sessions) {}

  control::Task<Result<control::Allocation>> allocate(std::shared_ptr<Session> session,
                                                      control::PlaceRequest wanted);
  /// One handle of the program's ends. `may_be_named`: as far as it knows; then it has no name, if it is the user's.
  control::Task<Status> free(std::shared_ptr<Session> session, AllocationId id, bool may_be_named);
  /// Makes one allocation of several that the session holds; they are the session's no more.
  /// Errors: kInvalidArgument, kUnsupported, kTooLarge, kRevoked.
  Result<control::Allocation> join(Session& session, std::vector<AllocationId> ids);
  /// Tells every home that the session is over; goes on until each has heard it or is gone.
  control::Task<void> end_session(std::shared_ptr<Session> session);
  /// P6 of sessions.h: whenever a home has reported, or the program has shown something.
  control::Task<void> give_back_unclaimed(std::shared_ptr<Session> session);
  /// Called when a home has told what it has for a session that resumed.
  void on_reported(std::function<void(const std::shared_ptr<Session>&)> hook) {
    on_reported_ = std::move(hook);
  }
  /// Its program closed the connection before it had the answer to its hello: it may come again, with all it holds.
  control::Task<void> end_unless_taken_up(std::shared_ptr<Session> session);
  /// A session that resumed: asks the homes what they hold for it, and ends its `resuming`.
  control::Task<void> resume(std::shared_ptr<Session> session);
  /// A home that was not known when sessions resumed may hold something for them.
  void node_appeared(const control::NodeInfo& node);

 private:
  struct Making {
    Status status;
    ExtentDescriptor extent;
  };
  control::Task<Status> reserve_all(std::shared_ptr<Session> session, const control::Plan& plan,
                                    std::vector<std::string> nodes, AllocationId id, uint32_t flags,
                                    Kind kind, std::vector<Making>& made);
  control::Task<void> reserve(std::shared_ptr<Session> session, std::string node,
                              control::ReserveRequest request, Making& out);
  using Extents = std::vector<ExtentDescriptor>;
  /// Gives back extents of one node (at least one).
  control::Task<void> release(std::shared_ptr<Session> session, Extents extents);
  wire::Envelope release_request(const Session& session, const Extents& extents) const;
  /// Frees all that the node has of the allocation for the session, also what it may have made although its reply was not
  /// heard, as soon as it answers.
  void release_all(const std::shared_ptr<Session>& session, const std::string& node,
                   control::ReleaseRequest what);
  void release_later(const std::shared_ptr<Session>& session, const std::string& node, uint32_t run,
                     wire::Envelope message);
  control::Task<void> resume_at(std::shared_ptr<Session> session, std::string node);
  /// The same, when the node is heard again.
  control::Task<void> resume_later(std::shared_ptr<Session> session, std::string node);
  control::Task<void> end_at(std::shared_ptr<Session> session, std::string node);
  /// Nobody was told that it has a name, and nobody will be: it has none, as soon as the coordinator answers.
  void unname_if_in_doubt(const Session& session, const AllocationId& id, const HeldAllocation& held);
  /// Names of one user, one after another, so that they keep nothing of others from the coordinator.
  struct Unnaming {
    std::deque<AllocationId> waiting;
    std::set<AllocationId> known;  // these and those that are asked for now
    size_t asking = 0;             // unname()s that run
  };
  control::Task<void> unname(uint32_t uid, std::shared_ptr<Unnaming> names);

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Homes& homes_;
  Sessions& sessions_;
  std::function<void(const std::shared_ptr<Session>&)> on_reported_;
  std::map<uint32_t, std::shared_ptr<Unnaming>> unnaming_;  // by user
};

}  // namespace ocm::node
