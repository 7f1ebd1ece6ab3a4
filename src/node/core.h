// What the parts of a node share: configuration, its environment, the node's name and secrets.
//
// Threads: written before the loop runs, read afterwards; `lease_until_ns` by any.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/log_limiter.h"
#include "control/env.h"
#include "control/membership.h"
#include "control/ownership.h"
#include "control/parts.h"
#include "control/tls.h"
#include "node/config.h"
#include "node/metrics.h"
#include "oncilla/oncilla.h"
#include "os/secret.h"
#include "wire/convert.h"
#include "wire/version.h"

#define OCM_NODE_TEXT_(x) #x
#define OCM_NODE_TEXT(x) OCM_NODE_TEXT_(x)

namespace ocm::node {

/// Root and the daemon's own user: no limit of a single user is theirs.
inline bool is_privileged(uint32_t uid) { return uid == 0 || uid == ::geteuid(); }
/// What all others have together, of what is counted by uid.
template <class ByUid>
uint64_t of_users(const ByUid& by_uid) {
  uint64_t out = 0;
  for (const auto& [uid, count] : by_uid) out += is_privileged(uid) ? 0 : count;
  return out;
}

inline constexpr char kVersion[] = OCM_NODE_TEXT(OCM_VERSION_MAJOR) "." OCM_NODE_TEXT(
    OCM_VERSION_MINOR) "." OCM_NODE_TEXT(OCM_VERSION_PATCH);

/// Where what a voter knows outlives its daemon (Q9 of control/quorum.h).
class VoterStore {
 public:
  enum class Of { kThisRun, kFormerRuns };
  virtual ~VoterStore() = default;
  /// What was saved last, also by a former run, and what was appended to it since; empty: nothing.
  virtual std::vector<std::string> load(Of of) = 0;
  /// It is there when this returns. Empty, or false: nothing is.
  virtual bool save(Of of, const std::string& bytes) = 0;
  /// To what this run saved last. False: save() must follow, for nothing more can be appended.
  virtual bool append(Of of, const std::string& bytes) = 0;
};

struct Core {
  Core(Config c, control::Env& environment)
      : config(std::move(c)), env(environment), began_ns(environment.now_ns()) {}

  const Config config;
  control::Env& env;
  const uint64_t began_ns;
  std::string name;
  control::Incarnation incarnation;
  uint32_t partition = 0;
  std::string host_id;
  wire::Versions versions = wire::kControlVersions;
  os::Secret token;
  std::shared_ptr<control::TlsContext> tls;  // null: plain
  std::unique_ptr<VoterStore> voter_store;   // null: none
  std::string control_address;               // as others reach it; empty when embedded
  std::string http_address;
  bool coordinates = false;              // [cluster] coordinator stands for this node
  std::vector<std::string> other_seeds;  // of [cluster] seeds, but this node's
  bool founds = false;                   // the first of them is this node's
  std::vector<FabricAddress> addresses;  // of the data servers
  /// Replicas are served until then: renewed by the council's votes (node/quorum.h).
  /// In the table that programs of this host map too.
  std::atomic<uint64_t>* lease_until_ns = nullptr;
  control::Signal lease_renewed{env};  // the loop's
  bool draining = false;
  bool stopping = false;  // told to stop, and waits (node/stopper.h): takes nothing new
  Metrics metrics;
  log::Limiter limiter;  // of the lines that others can cause; the loop's

  uint64_t now_ns() const { return env.now_ns(); }
  /// What looks at something once in each period sleeps until then: an idle daemon wakes once for all that look.
  uint64_t until_next_ns(uint64_t period_ns) const {
    OCM_DASSERT(period_ns > 0);
    return period_ns - (now_ns() - began_ns) % period_ns;
  }
  /// The coordinator's role passes on to other nodes (control/seat.h).
  bool passes_on() const { return !config.seeds.empty(); }
  uint64_t deadline_ns() const { return now_ns() + config.failure_deadline_ns(); }
};

using wire::id_field;
using wire::id_of;
using wire::read_id;
using wire::ref_of;
inline bool is_in(const std::vector<ExtentId>& ids, ExtentId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}
static_assert(static_cast<uint32_t>(control::NodeState::kAlive) == uint32_t{OCM_NODE_ALIVE} &&
              static_cast<uint32_t>(control::NodeState::kSuspect) == uint32_t{OCM_NODE_SUSPECT} &&
              static_cast<uint32_t>(control::NodeState::kDead) == uint32_t{OCM_NODE_DEAD} &&
              static_cast<uint32_t>(control::NodeState::kDraining) == uint32_t{OCM_NODE_DRAINING});

}  // namespace ocm::node
