// What this host's programs are told unasked (control/event_queue.h): which of their allocations are revoked, or go on
// elsewhere, and which nodes die, drain, fall silent or are back. A program that never asks costs nothing: with its first
// request its session begins to watch what it holds (node/watches.h).
//
// Invariants
//   E1 a program is told of allocations that its own session holds, and of no others.
//   E2 an allocation is called revoked once the cluster says so: its home freed its bytes, and nobody has others.
// Threads: the loop's.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "control/event_queue.h"
#include "node/cluster.h"
#include "node/remaker.h"
#include "node/sessions.h"
#include "node/watches.h"

namespace ocm::node {

/// A session's.
struct EventStream {
  explicit EventStream(control::Env& env) : changed(env) {}
  uint64_t id = 0;
  control::EventQueue queue;
  control::Signal changed;
  uint64_t requests = 0;                     // the newest one waits, no other
  std::unordered_set<AllocationId> revoked;  // that it was told of, and still holds
  std::map<AllocationId, size_t> ending;     // so many handles are being given back, perhaps the last
  struct HeldBack {
    AllocationId id;
    control::EventKind kind;
    ExtentId extent;
  };
  std::vector<HeldBack> held_back;  // of those: told if others stay
  std::deque<std::pair<AllocationId, ExtentId>> to_settle, unheard;
  size_t settling = 0;  // how many at once
  uint64_t wait = 1;    // heartbeats, until what is unheard is asked for again
  bool asks_again = false;
};

class Events {
 public:
  Events(Core& core, Cluster& cluster, Sessions& sessions, Remaker& remaker, Watches& watches);

  /// Answers when there is something that the program has not received, or at the end of its patience.
  control::Task<control::Reply> answer(std::shared_ptr<Session> session, wire::EventsRequest request);
  /// The program frees a handle, perhaps the last one: until ended() it is told nothing of that allocation, for what the end
  /// of its hold frees is no news to it.
  static void ends(Session& session, const AllocationId& id);
  /// It did. Where handles are left, they are told of what came meanwhile.
  void ended(Session& session, const AllocationId& id);
  /// Its connection is closed: nobody waits.
  void program_ended(const Session& session);
  /// The view is another one.
  void look();
  /// O(events).
  bool is_valid() const;

 private:
  struct Node {
    control::EventKind kind = control::EventKind::kNodeAlive;
    uint32_t partition = 0;
    bool operator==(const Node&) const = default;
  };
  class Held;
  void begin(const std::shared_ptr<Session>& session);
  void on_news(const SessionId& session, ExtentId id, Watches::News what);
  void put(Session& session, control::EventKind kind, const AllocationId& id, const ExtentId& extent);
  void put_node(EventStream& stream, const std::string& name, const Node& node);
  /// What became of the parts of extents that are over.
  control::Task<void> settle(std::shared_ptr<Session> session);
  control::Task<void> settle_one(std::shared_ptr<Session> session, AllocationId id, ExtentId extent);
  void settle_more(const std::shared_ptr<Session>& session);
  /// Nobody who answers knows.
  control::Task<void> ask_again(std::shared_ptr<Session> session);
  Node state_of(const control::NodeInfo& node) const;

  Core& core_;
  Cluster& cluster_;
  Sessions& sessions_;
  Remaker& remaker_;
  Watches& watches_;
  std::map<std::string, Node> nodes_;          // as the programs were told
  std::map<std::string, uint32_t> unreached_;  // runs of daemons that this one does not reach
};

}  // namespace ocm::node
