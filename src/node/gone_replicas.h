// Has the council give up replicas whose nodes are gone, or came back without them: of what nobody writes, nobody else would
// notice that it has one less.
//
// Invariants
//   G1 a replica is given up here only where its node is gone for [replicas] again_after_ms, came back without its bytes, or
//      is asked for it and has it not: since it freed some, or did not tell of it when the session's daemon had restarted.
//      A writer that cannot reach it, and a publish that is told REVOKED, ask earlier.
//   G2 one that takes long, because no voter or no other home of its part answers, keeps none of others from being given up
//      (control/give_up_order.h), nor parts from being made again.
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/give_up_order.h"
#include "control/parts.h"
#include "node/cluster.h"
#include "node/home.h"
#include "node/sessions.h"

namespace ocm::node {

class GoneReplicas {
 public:
  /// Whether a node has a replica. Errors: kRevoked (it has not), kPeerLost.
  using IsThere = std::function<control::Task<Status>(std::string node, ExtentId replica)>;

  GoneReplicas(Core& core, Home& home, Cluster& cluster, Sessions& sessions, IsThere is_there)
      : core_(core), home_(home), cluster_(cluster), sessions_(sessions), is_there_(std::move(is_there)) {}
  void start() { core_.env.spawn(run()); }
  /// The sessions have more than before: some of it may be gone.
  void look_again() { again_ = true; }
  /// Of sessions here: parts with replicas on nodes that are gone, not given up yet.
  const control::Shortage& away() const { return away_; }

 private:
  struct Gone {
    std::vector<ExtentId> part;
    ExtentId replica;
    std::string node;
    control::ToGiveUp turn;
    control::LossKnown known;
    bool may_be_there = false;  // its node is to be asked first
    bool is_missing = false;    // the same, for its session misses it
    bool was_lost = false;      // as its owner knows
  };
  using GoneSince = std::map<uint32_t, uint64_t>;  // runs of daemons, by partition
  /// Of a node: NodeInfo's replicas_freed_before and orphans_freed.
  using Freed = std::pair<uint32_t, uint32_t>;
  struct Look {
    std::map<uint32_t, Freed> freed;  // freed_some()
    GoneSince gone_since_ns;
    std::map<std::pair<bool, uint32_t>, size_t> waiting;  // hopeless, of the user
    std::set<ExtentId> parts;                             // that wait, by their first extent
    bool misses = false;                                  // its session does: some may be there
  };

  control::Task<void> run();
  /// What waits is then what there is now.
  void look();
  /// `session`: that owns it; null: it is a name's.
  void look_at(const control::Allocation& allocation, const Session* session, uint32_t uid, Look& at);
  /// Of the part that is these extents.
  void look_at_part(std::span<const control::PlacedExtent* const> extents, const Session* session,
                    uint32_t uid, Look& at);
  /// Asks for as many of those that wait as may be asked for at once.
  void begin_next();
  control::Task<void> give_up(Gone one);
  /// True if the council did.
  control::Task<bool> is_given_up(const Gone& one);
  void not_missing(const ExtentId& replica);
  /// Nobody answered for it: neither voters nor, as far as this daemon can tell, a home of its part.
  void note_silent(const Gone& one);
  /// Keeps the extent's home among the silent ones until it answers, or is gone.
  control::Task<void> until_it_answers(ExtentId extent);
  bool gone_for_long(const control::PlacedExtent& extent, GoneSince& gone_since_ns) const;
  /// The view has shown another run of its daemon for two failure deadlines, which the coordinator hears: there is one
  /// daemon of a name.
  bool is_over(const control::PlacedExtent& extent, GoneSince& gone_since_ns) const;
  /// Its run of the daemon is in the view, and lives as far as that tells.
  bool seems_to_live(ExtentId replica) const;
  /// Nodes in the view that freed replicas, all or those of some sessions, since they were asked last: by partition.
  std::map<uint32_t, Freed> freed_some() const;

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Sessions& sessions_;
  const IsThere is_there_;
  std::vector<Gone> waiting_;
  std::map<ExtentId, control::ToGiveUp> under_way_;
  std::map<ExtentId, uint64_t> failed_until_ns_;   // nobody answered: hopeless for so long, in the same view
  std::set<uint32_t> silent_;                      // homes by partition: without them no part has hope
  std::map<uint32_t, uint64_t> no_room_until_ns_;  // by uid: its losses are not asked for until then
  GoneSince gone_since_ns_;
  control::Shortage away_;                              // when the sessions were looked at last
  std::set<ExtentId> given_up_;                         // asked for already
  std::set<ExtentId> there_;                            // so their nodes said, since these freed some
  std::map<uint32_t, Freed> freed_asked_, freed_seen_;  // by partition: when its node is, and was, asked last
  std::pair<uint64_t, uint64_t> looked_at_{};           // the coordinator's run and the epoch
  bool again_ = false;                                  // to be looked at again, though no node came or went
  bool misses_ = false;                                 // Look::misses
  bool asks_lost_ = false;  // for replicas, too, of which it knows that they were given up
};

}  // namespace ocm::node
