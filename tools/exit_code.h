// What `ocm` and the applications exit with: one number for each thing that a script would act on. Documented in ocm(1).
#pragma once

#include "base/status.h"

namespace ocm::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure =
    1;  // anything without a number of its own; doctor found a FAIL, pool check damage
inline constexpr int kExitUsage = 2;      // the command line is wrong
inline constexpr int kExitNoCluster = 3;  // no daemon, or no coordinator, to be reached
inline constexpr int kExitNotFound = 4;   // no such name, node, file, pool or cluster
inline constexpr int kExitExists = 5;     // the name is taken, a cluster runs there already, a pool is in use
inline constexpr int kExitFull = 6;       // no room: pool, quota or a limit
inline constexpr int kExitPermission = 7;     // not allowed
inline constexpr int kExitLost = 8;           // a node or bytes were lost, or the deadline passed
inline constexpr int kExitUnsafe = 9;         // stop-check: a stop would take the last copy of something
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

inline int exit_code(Code code) {
  switch (code) {
    case Code::kOk: return kExitOk;
    case Code::kInvalidArgument:
    case Code::kTooLarge: return kExitUsage;
    case Code::kNoDaemon:
    case Code::kDraining:
    case Code::kNoCoordinator: return kExitNoCluster;
    case Code::kNotFound:
    case Code::kUnknownNode: return kExitNotFound;
    case Code::kExists: return kExitExists;
    case Code::kPoolFull:
    case Code::kQuota:
    case Code::kLimit:
    case Code::kNoFds:
    case Code::kNoMemory: return kExitFull;
    case Code::kPermission:
    case Code::kAuth: return kExitPermission;
    case Code::kDeadline:
    case Code::kPeerLost:
    case Code::kLost:
    case Code::kRevoked: return kExitLost;
    case Code::kCancelled: return kExitInterrupted;
    default: return kExitFailure;
  }
}

}  // namespace ocm::tools
