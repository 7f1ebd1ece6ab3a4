// What a stop of this node would take, and a stop that waits until it takes no last copy.
//
// A replica here is a last copy if the loss of all others of its part is decided, or if no home of another
// one says that the replica lives there and that it is not about to stop itself. The parts are known from the
// names' records here and from the daemons of the sessions that own replicas here, or that hold what has no name any more.
//
// Invariants
//   S1 a daemon says that it is about to stop before it asks others: two homes of a part that are told to stop at the
//      same time both wait, and neither counts on the other.
//   S2 what nobody could tell is not safe: it is counted apart, and a stop waits for it.
//   S3 a daemon ends by itself only while no voter counts on its home (R11 of control/loss.h), and after it has looked once
//      more: what it takes for a copy elsewhere may have been given up for its sake a moment ago.
//   S4 what this home heard is lost is no copy, whatever record has it: its home may hear that later, and frees it then.
//   S5 the only voter ends only where at most one other node is left, also of those that are about to stop: nobody else could
//      make a council. What has just taken the seat alone waits until the others had the time to be heard.
// Threads: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/replica_query.h"
#include "control/stats.h"
#include "node/cluster.h"
#include "node/home.h"
#include "node/peers.h"
#include "node/sessions.h"

namespace ocm::node {

class Stopper {
 public:
  Stopper(Core& core, Home& home, Cluster& cluster, Sessions& sessions)
      : core_(core), home_(home), cluster_(cluster), homes_(cluster.homes()), sessions_(sessions) {}

  /// Of this node, with the names that `uid` may read, of 0 all. Takes up to two failure deadlines. Users without
  /// privileges share one look in each heartbeat, for it walks all replicas and asks all of their homes.
  control::Task<control::StopCheck> check(uint32_t uid);
  /// Takes no new extents from now on, and calls `then` once a stop takes no last copy.
  control::Task<void> wait(std::function<void()> then);
  /// Calls `then` once it has logged what a stop takes, half a failure deadline later at most.
  control::Task<void> tell(std::function<void()> then);
  /// Of another daemon that looks at what its stop would take.
  control::ReplicaAnswer answer(const control::ReplicaQuery& query) const;
  /// A home has something for a session here that its records do not have.
  using Unknown =
      std::function<void(const std::shared_ptr<Session>&, const AllocationId&, std::vector<ExtentId>)>;
  void on_unknown(Unknown hook) { on_unknown_ = std::move(hook); }

 private:
  using Part = control::ReplicaAnswer::Part;
  using Sibling = control::ReplicaAnswer::Sibling;
  struct Found {
    std::vector<ExtentId> last, unknown;
    std::set<std::string> unheard;  // nodes
  };
  /// Those of `allocation` with a living replica in `partition`.
  static void add_parts(const control::Allocation& allocation, uint32_t partition, std::vector<Part>& out);
  void add_parts_of_sessions(uint32_t partition, std::vector<Part>& out, bool& incomplete) const;
  void answer_owned(const control::ReplicaQuery& query, control::ReplicaAnswer& out) const;
  /// Of what sessions have here, and nobody's record: what their daemons cannot rule out.
  control::Task<std::set<ExtentId>> ask_owners(std::set<ExtentId> owned);
  control::Task<Found> look();
  /// What is told of it.
  struct Seen {
    struct Named {
      std::string name;
      uint32_t mode = 0, owner_uid = 0;
      uint64_t bytes = 0;
    };
    control::StopCheck figures;  // without names
    std::vector<Named> named;
  };
  control::Task<std::shared_ptr<const Seen>> see();
  struct Checked {
    explicit Checked(control::Env& env) : done(env) {}
    control::Signal done;
    std::optional<control::StopCheck> found;
  };
  control::Task<void> check_into(std::shared_ptr<Checked> out);
  /// S3. `found`: of the last look. True: it may end now.
  control::Task<bool> may_end(control::StopCheck& found);
  control::Task<std::shared_ptr<const Seen>> see_for_all();
  control::Task<void> ask(std::string node, control::ReplicaQuery query, Result<control::ReplicaAnswer>& out);
  /// Why the copies are not made, or are not yet. `held`: so many of the last copies have no name any more.
  std::string what_it_waits_for(const control::StopCheck& found, size_t held) const;

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Homes& homes_;
  Sessions& sessions_;
  Unknown on_unknown_;
  std::shared_ptr<const Seen> seen_;
  uint64_t seen_ns_ = 0;
  bool seeing_ = false;
  control::Signal seeing_ended_{core_.env};
};

}  // namespace ocm::node
