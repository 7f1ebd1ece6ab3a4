// What a session's program is to be told unasked, until it has received it. Pure.
//
// It is a state and no log: of an allocation, or of a node, there is one event, the newest. So a program that reads slowly, or
// not at all, loses nothing, and keeps no more here than it holds allocations and the cluster has nodes. What it asks for
// again, because an answer was lost, it gets again; another stream means that it starts from what is so now.
//
// Invariants
//   U1 numbers grow; what was given is given again until a later request says that it was received.
//   U2 there is one event of a subject, and none of an allocation that its program gave back.
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "base/ids.h"

namespace ocm::control {

/// Same numbers as `ocm_event_kind`.
enum class EventKind : uint32_t {
  kResync = 1,
  kRevoked = 2,
  kMoved = 3,
  kUnwatched = 4,
  kNodeAlive = 5,
  kNodeSuspect = 6,
  kNodeDead = 7,
  kNodeDraining = 8
};

struct Event {
  uint64_t number = 0;
  EventKind kind = EventKind::kResync;
  AllocationId allocation{};  // zeros: of a node
  std::string name;           // the allocation's, if it had one
  std::string node;
  uint32_t partition = 0;  // the run of the node's daemon
};

class EventQueue {
 public:
  /// Of an allocation, or of a node where it has no allocation.
  void put(Event event) {
    const auto [at, fresh] = newest_.try_emplace(subject_of(event.allocation, event.node), 0);
    if (!fresh) waiting_.erase(at->second);
    at->second = event.number = ++number_;
    waiting_.emplace_hint(waiting_.end(), event.number, std::move(event));
    OCM_DASSERT(waiting_.size() == newest_.size());  // U2
  }
  /// Its program has given it back.
  void forget(const AllocationId& allocation) { remove(subject_of(allocation, {})); }
  /// Everything up to `number` was received.
  void received(uint64_t number) {
    while (!waiting_.empty() && waiting_.begin()->first <= number) {
      const Event& event = waiting_.begin()->second;
      remove(subject_of(event.allocation, event.node));
    }
  }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  /// The oldest first.
  std::vector<Event> first(size_t most) {
    std::vector<Event> out;
    for (const auto& [number, event] : waiting_) {
      if (out.size() == most) break;
      out.push_back(event);
    }
    if (fault::at(fault::Point::kEventsForgotten) && !out.empty())
      received(out.back().number);  // U1 is broken
    return out;
  }
  bool is_valid() const {
    if (waiting_.size() != newest_.size()) return false;
    for (const auto& [number, event] : waiting_) {
      const auto at = newest_.find(subject_of(event.allocation, event.node));
      if (number != event.number || number > number_ || at == newest_.end() || at->second != number)
        return false;
    }
    return true;
  }

 private:
  static std::string subject_of(const AllocationId& allocation, const std::string& node) {
    if (allocation == AllocationId()) return "node " + node;
    return std::string(reinterpret_cast<const char*>(allocation.bytes.data()), allocation.bytes.size());
  }
  void remove(const std::string& subject) {
    const auto at = newest_.find(subject);
    if (at == newest_.end()) return;
    waiting_.erase(at->second);
    newest_.erase(at);
  }

  uint64_t number_ = 0;
  std::map<uint64_t, Event> waiting_;
  std::unordered_map<std::string, uint64_t> newest_;  // by subject
};

}  // namespace ocm::control
