// What daemons ask each other about replicas before one of them ends: see node/stopper.h. Values only; in messages:
// control/replica_query_wire.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace ocm::control {

struct ReplicaQuery {
  /// What a session has there, and was in no answer: does its daemon know it?
  struct Owned {
    SessionId session;
    AllocationId allocation;  // as the home knows it; a part of a sequence has its own
    std::vector<ExtentId> replicas;
    bool operator==(const Owned&) const = default;
  };
  uint32_t partition = 0;          // 0: none; tell the parts of your sessions that have a replica there
  std::vector<ExtentId> replicas;  // which of these live with you, and will?
  bool witness = false;            // or only: does this run of you go on? Then all of these "live"
  std::vector<Owned> owned;
  bool operator==(const ReplicaQuery&) const = default;
};

struct ReplicaAnswer {
  struct Sibling {
    ExtentId id;
    std::string node;
    bool operator==(const Sibling&) const = default;
  };
  /// A part with a replica where it was asked for, and its others that were not given up.
  struct Part {
    ExtentId here;
    std::vector<Sibling> others;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;
  bool incomplete = false;  // there are others that this daemon does not tell
  std::vector<ExtentId> living;
  std::optional<Incarnation> incarnation;  // of the daemon that answers
  std::vector<ExtentId> unsure;            // owned by sessions there, whose records may be older
  bool operator==(const ReplicaAnswer&) const = default;
};

}  // namespace ocm::control
