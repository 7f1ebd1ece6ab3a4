// The requests that a daemon answers: from the programs of this host, and from other daemons.
// Their sockets are at the doors (node/doors.h).
// Threads: the loop's.
#pragma once

#include <functional>
#include <memory>

#include "control/turns.h"
#include "control/user_rate.h"
#include "node/allocator.h"
#include "node/cached_extents.h"
#include "node/copier.h"
#include "node/events.h"
#include "node/handlers.h"
#include "node/holds.h"
#include "node/pager.h"
#include "node/pages.h"
#include "node/remaker.h"
#include "node/stopper.h"

namespace ocm::node {

/// A connected program, as the kernel and its hello tell it.
struct Program {
  uint32_t uid = 0, pid = 0;
  std::function<void()> proved;  // called when its hello was accepted
  std::shared_ptr<Session> session;
};

using ProgramHandlers = Handlers<std::shared_ptr<Session>>;

class Service {
 public:
  Service(Core& core, Home& home, Cluster& cluster, Sessions& sessions, Allocator& allocator, Holds& holds,
          Copier& copier, Remaker& remaker, Stopper& stopper, Pages& pages);

  control::Task<control::Reply> program_request(std::shared_ptr<Program> program, wire::Envelope request);
  /// Its connection has closed: so does its session.
  void program_ended(const std::shared_ptr<Program>& program);
  /// The daemon is told to stop, and takes no new connections: the others hear that it leaves, `close_doors` ends the
  /// connections. Programs may go on at the next daemon, so other homes keep what they have there.
  control::Task<void> drain(std::function<void()> close_doors);
  /// `node`: who asks, as it proved.
  control::Task<control::Reply> peer_request(std::string node, wire::Envelope request);
  /// A node, or another run of its daemon, is in the view.
  void node_appeared(const control::NodeInfo& node);
  const Events& events() const { return events_; }

 private:
  control::Task<control::Reply> hello(std::shared_ptr<Program> program, wire::SessionHello request);
  // service_handlers.cpp
  void enter_programs();
  void enter_peers();
  control::Task<control::Reply> allocate(std::shared_ptr<Session> session, wire::AllocateRequest request);
  control::Task<control::Reply> free(std::shared_ptr<Session> session, wire::FreeRequest request);
  control::Reply join(Session& session, const wire::JoinRequest& request);
  control::Task<control::Reply> list_names(std::shared_ptr<Session> session, wire::Envelope request);
  void rest_after(const wire::Envelope& reply, control::Turns::Turn turn);
  control::Task<control::Reply> stats(std::shared_ptr<Session> session, std::string node);
  control::Task<control::Reply> resolve(std::shared_ptr<Session> session, wire::ResolveRequest request);
  control::Reply restore(const std::shared_ptr<Session>& session, const wire::SessionRestore& shown);
  control::Task<control::Reply> reserve(wire::ReserveRequest request);
  /// The allocation is the session's: with what its program shows the next run of this daemon. `is_record`: it is what the
  /// session has on record.
  control::Reply allocation_reply(const Session& session, const Result<control::Allocation>& made,
                                  bool is_record) const;

  control::Task<control::Reply> publish(std::shared_ptr<Session> session, wire::PublishRequest request);
  control::Task<control::Reply> attach(std::shared_ptr<Session> session, wire::AttachRequest request);
  control::Task<control::Reply> remove_name(std::shared_ptr<Session> session, wire::Envelope request);
  /// Asks the coordinator; the requests of one user take turns. Errors: kQueueFull (its turn did not come in time), and the
  /// coordinator's.
  control::Task<Result<wire::Envelope>> ask_of_names(std::shared_ptr<Session> session,
                                                     wire::Envelope request);
  /// The same, repeated until there is an answer, at least once more: a request without an answer may have been executed,
  /// and the coordinator says so when it is asked again. Errors: as above, kNoCoordinator.
  control::Task<Result<wire::Envelope>> ask_until_answered(std::shared_ptr<Session> session,
                                                           wire::Envelope request,
                                                           bool* unanswered = nullptr);
  enum class Asked { kNobody, kOtherRuns, kAll };
  /// Gives up the replicas of it whose nodes are dead, so that its name does not wait for them; also those that nodes which
  /// are asked have not: where they run another daemon, or all. Not of parts that have no other replica. Until `until_ns`.
  /// True if it gave up any.
  control::Task<bool> give_up_gone(std::shared_ptr<Session> session, AllocationId id, Asked asked,
                                   uint64_t until_ns);
  control::Task<control::Reply> lost_replica(std::shared_ptr<Session> session,
                                             wire::LostReplicaRequest request, uint64_t until_ns = 0);
  /// Each replica that is given up is copied again: a user has few of those given up whose node lives.
  /// Returns when the node is not alive, too. Errors: kLimit.
  control::Task<Status> allow_loss(uint32_t uid, std::string node);
  /// What the program freed while this daemon was away, and what homes have for it that it does not have (P6).
  control::Task<void> give_back(std::shared_ptr<Session> session);
  control::Task<void> give_back_once(std::shared_ptr<Session> session);

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Sessions& sessions_;
  Allocator& allocator_;
  Holds& holds_;
  Copier& copier_;
  Remaker& remaker_;
  Stopper& stopper_;
  Watches watches_{core_, home_, cluster_};
  Events events_{core_, cluster_, sessions_, remaker_, watches_};
  CachedExtents cached_{core_, home_, cluster_};
  Pagers pagers_{core_, home_};
  /// From this host's programs, whose sessions are open.
  ProgramHandlers programs_{"not a request of a program"};
  PeerHandlers peers_{"not a request of a daemon"};
  uint64_t published_ = 0;  // requests to publish of this run
  Pages& pages_;
  static constexpr uint64_t kLossesEachDeadline = 4;
  static constexpr size_t kNameReadsAtOnce = 4, kNameChangesAtOnce = 16;
  static_assert(kLossesEachDeadline > 0 && kNameReadsAtOnce > 0 && kNameChangesAtOnce > 0);
  /// A long answer keeps the loops of both daemons busy for some 20 ns a byte: its turn lasts so much longer that one user
  /// takes a seventh of their time at most.
  static constexpr uint64_t kRestNsPerByte = 600;
  /// Give-ups of one user that the voters are asked for at once: as many as one session may ask for.
  static constexpr size_t kLossesAtOnce = 256;
  control::Turns losses_under_way_{core_.env, kLossesAtOnce};
  /// Making them keeps the loop busy for milliseconds, and they take memory until they are answered.
  static constexpr size_t kManyExtents = 64, kManyExtentsAtOnce = 2;
  control::Turns many_extents_{core_.env, kManyExtentsAtOnce};
  /// Figures of a node have a record for each session of who asks, and are asked of other nodes on links that all share.
  static constexpr size_t kStatsAtOnce = 2;
  control::Turns stats_{core_.env, kStatsAtOnce};
  /// What one user asks of the coordinator, whose one thread all share: what it answers at once, and what it has to tell
  /// homes for, which may take a failure deadline.
  control::Turns name_reads_{core_.env, kNameReadsAtOnce}, name_changes_{core_.env, kNameChangesAtOnce};
  control::UserRate losses_{core_.config.failure_deadline_ns() / kLossesEachDeadline};
};

}  // namespace ocm::node
