// What a daemon shows of itself: Prometheus text and JSON. No secret, capability or whole session id.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control.pb.h"
#include "control/founding.h"
#include "control/names.h"
#include "control/stats.h"
#include "fabric/registry/servers.h"
#include "node/metrics.h"

namespace ocm::node {

/// What a daemon can hold at most, whatever is offered.
struct Limits {
  uint64_t descriptors = 0;  // RLIMIT_NOFILE
  uint64_t wanted = 0;       // Config::descriptors_wanted()
};

/// Prometheus text format 0.0.4.
std::string prometheus_text(const Metrics& metrics, const fabric::Servers& servers, const Moved& moved,
                            const control::Stats& stats, const control::View& view, size_t names);
/// {"node", "coordinator", "nodes": [...], "fabrics": [...], "session_count", "name_count"}, and, if `names`
/// is given, "sessions": [...], "names": [...]: what only a known user may see.
/// `coordinator_error`: why none can be reached; empty if one can.
std::string status_json(const control::Stats& stats, const control::View& view, size_t name_count,
                        const control::NameList* names, const std::string& coordinator_error,
                        const Limits& limits);

/// Who coordinates, and who votes: as `ocm cluster show --json` prints it.
std::string cluster_json(const control::View& view, const std::string& coordinator_error,
                         const control::Council& council,
                         const std::vector<std::pair<control::VoterInfo, control::VoterSeen>>& voters);

/// What a stop would take, as `ocm stop-check --json` prints it.
std::string stop_check_json(const control::StopCheck& found);

}  // namespace ocm::node
