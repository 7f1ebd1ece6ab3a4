// What a home is asked for: extents, to take them back, to keep them for a reader, and what became of a name. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/allocation.h"
#include "control/ownership.h"

namespace ocm::control {

/// An extent, for a session.
struct ReserveRequest {
  SessionId session;
  std::string owner_node;  // whose daemon it is; empty: the request names no owner
  Incarnation owner_incarnation;
  AllocationId allocation;
  uint64_t bytes_total = 0;
  Kind kind = kDefaultKind;  // as asked: maybe none that this node knows
  uint32_t flags = 0;
  uint32_t uid = 0;
  bool replicated = false;
};

/// Extents are given back.
struct ReleaseRequest {
  SessionId session;  // zeros: by the holder of the capability
  ExtentId extent;    // address 0: every extent of the allocation that the session holds here
  Capability capability;
  AllocationId allocation;              // zeros: of a program
  std::vector<ExtentId> more;           // of the session, each as if in a request of its own
  std::vector<AllocationId> parts;      // with address 0: of these, too, which were joined into it
  bool holders_keep = false;            // it is freed, but who holds it reads it until the last hold ends
  std::vector<std::string> instead_of;  // if given: one of these had it (Title::owner()); others keep it
};

/// The extents stay, also when their name ends, until the hold or its session does.
struct HoldRequest {
  Ownership::HeldBy by;
  std::vector<ExtentId> extents;
};

/// What a home has for a session.
struct SessionExtents {
  struct Owned {
    AllocationId allocation;  // as the home knows it; a part of a sequence has its own
    ExtentDescriptor extent;  // without addresses: thousands fit into a message, and the program knows them
  };
  std::vector<Owned> extents;
  std::vector<HoldId> holds;
};

/// A program gives its allocation a name; as its daemon asks the coordinator.
struct PublishRequest {
  std::string name;
  uint32_t mode = 0;
  Allocation allocation;
  SessionId session;
  std::string owner_node;
  Incarnation owner_incarnation;
  uint64_t order = 0;  // of the daemon's requests to publish; the same where one is asked again
};

/// What became of a name: its homes own the extents for it, or free them, or give them back to the session.
struct NameChange {
  Allocation allocation;
  bool remove = false;  // without extents: remember that it was removed
  bool undo = false;    // publishing failed elsewhere: back to the session
  SessionId session;    // with `undo`: whose it was, if owner_node is not empty
  std::string owner_node;
  Incarnation owner_incarnation;
  uint64_t attempt = 0;          // random: an undo ends this attempt, also where it comes first
  bool former = false;           // its extents are replicas that were given up: newer records do without them
  uint64_t coordinator_run = 0;  // that says so
};

}  // namespace ocm::control
