// `ocm status`: nodes, pools, use and names.
#include <stdio.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/node_status.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Totals {
  uint64_t pool_bytes = 0;
  uint64_t used_bytes = 0;
  size_t alive = 0;
};

Totals total(const std::vector<ocm_node_info>& nodes) {
  Totals totals;
  for (const ocm_node_info& node : nodes) {
    if (node.state == OCM_NODE_DEAD) continue;
    for (const PoolOf& pool : pools_of(node)) {
      totals.pool_bytes += pool.offered;
      totals.used_bytes += pool.used;
    }
    totals.alive += node.state == OCM_NODE_ALIVE ? 1 : 0;
  }
  return totals;
}

Json to_json(const ocm_node_info& node) {
  Json pools = Json::object();
  for (const PoolOf& pool : pools_of(node)) {
    if (pool.offered != 0) pools[pool.kind] = {{"bytes_total", pool.offered}, {"bytes_used", pool.used}};
  }
  return {{"name", node.name},
          {"partition", node.partition},
          {"state", state_name(node.state)},
          {"self", node.self},
          {"coordinator", node.coordinator},
          {"pools", pools},
          {"sessions", node.sessions},
          {"extents", node.extents},
          {"heartbeat_age_ns", node.heartbeat_age_ns}};
}

void print_table(const std::vector<ocm_node_info>& nodes) {
  Table table({"NODE", "STATE", "KIND", ">OFFERED", ">USED", ">", ">FREE", ">EXTENTS", ">SESSIONS", ">HEARD",
               "ROLE"});
  for (const ocm_node_info& node : nodes) {
    std::string role = node.coordinator ? "coordinator" : "";
    if (node.self) role += role.empty() ? "this node" : ", this node";
    bool first = true;
    for (const auto& [kind, offered, used] : pools_of(node)) {
      table.add({first ? colored(Color::kBold, node.name) : "", first ? state_text(node.state) : "", kind,
                 format_bytes(offered), format_bytes(used), percent(used, offered),
                 format_bytes(offered - std::min(used, offered)), first ? std::to_string(node.extents) : "",
                 first ? std::to_string(node.sessions) : "",
                 first ? format_ns(static_cast<double>(node.heartbeat_age_ns)) : "", first ? role : ""});
      first = false;
    }
  }
  table.print();
}

/// Null: none can be reached.
const ocm_node_info* coordinator_of(const std::vector<ocm_node_info>& nodes) {
  const auto it =
      std::find_if(nodes.begin(), nodes.end(), [](const ocm_node_info& node) { return node.coordinator; });
  return it == nodes.end() ? nullptr : &*it;
}

/// The nodes that make replicas again, or would if there were room.
std::vector<PeerView> nodes_that_miss_replicas(const NodeStatus& status) {
  std::vector<PeerView> out = status.peers;
  std::erase_if(out, [](const PeerView& node) { return missing_replicas_text(node).empty(); });
  return out;
}

int run_status(const Globals& globals, bool json) {
  Result<Session> session = open_session(globals);
  if (!session.is_ok()) return fail(session.status());
  Result<std::vector<ocm_node_info>> nodes = list_nodes(session->get());
  if (!nodes.is_ok()) return fail(nodes.status());
  Result<std::vector<ocm_name_info>> names = list_names(session->get(), "");
  const Totals totals = total(nodes.value());
  size_t degraded = 0, lost = 0;
  for (size_t i = 0; names.is_ok() && i < names->size(); ++i) {
    lost += (*names)[i].lost ? 1 : 0;
    degraded += (*names)[i].replicas_missing != 0 ? 1 : 0;
  }
  // Empty if the daemon's HTTP socket does not answer.
  const Result<std::string> http = http_address(globals, "");
  const Result<NodeStatus> fetched = http.is_ok() ? fetch_node_status(http.value()) : http.status();
  const NodeStatus status = fetched.is_ok() ? fetched.value() : NodeStatus{};
  const std::vector<PeerView> missing = nodes_that_miss_replicas(status);
  const ocm_node_info* coordinator = coordinator_of(nodes.value());
  const int code = coordinator == nullptr ? kExitNoCluster : kExitOk;

  if (json) {
    Json list = Json::array();
    for (const ocm_node_info& node : nodes.value()) list.push_back(to_json(node));
    Json out{{"version", ocm_version()},
             {"nodes", list},
             {"coordinator", coordinator == nullptr ? Json(nullptr) : Json(coordinator->name)},
             {"alive", totals.alive},
             {"bytes_total", totals.pool_bytes},
             {"bytes_used", totals.used_bytes}};
    if (names.is_ok()) {
      out["names"] = names->size();
      out["names_degraded"] = degraded;
      out["names_lost"] = lost;
    } else {
      out["names"] = nullptr;
      out["error"] = names.status().to_string();
    }
    Json copies = Json::array();
    for (const PeerView& node : missing) {
      copies.push_back({{"node", node.name},
                        {"parts", node.replicas_waiting},
                        {"replicas_left", node.replicas_left},
                        {"replicas_wanted", node.replicas_wanted},
                        {"replica_copy_bytes", node.copy_bytes},
                        {"replica_copy_bytes_done", node.copy_bytes_done}});
    }
    out["replicas_missing"] = copies;
    put_json(out);
    return code;
  }
  print_table(nodes.value());
  printf("\n%zu of %zu nodes alive, %s of %s used", totals.alive, nodes->size(),
         format_bytes(totals.used_bytes).c_str(), format_bytes(totals.pool_bytes).c_str());
  if (names.is_ok()) {
    printf(", %zu published name%s\n", names->size(), names->size() == 1 ? "" : "s");
    if (degraded != 0) printf("%zu degraded: a replica is missing (ocm ls shows which)\n", degraded);
    if (lost != 0) printf("%zu lost: bytes were on a node that is gone (ocm ls shows which)\n", lost);
  } else {
    printf("\n");
    print_error("the published names cannot be listed now: " + std::string(names.status().message()));
  }
  for (const PeerView& node : missing) printf("%s\n", missing_replicas_text(node).c_str());
  if (coordinator == nullptr) {
    puts(nodes->size() == 1 ? "alone: no coordinator"
                            : "no coordinator: of the other nodes nothing new is known");
  } else if (is_alone(status)) {
    puts("alone: coordinator of its own cluster, 1 node");
  }
  return code;
}

}  // namespace

void add_status(CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  const Globals& globals = line.globals();
  line.add("status", "Show nodes, pools, use and names")
      .flag("--json", *json, "Print JSON")
      .runs([json, &globals] { return run_status(globals, *json); });
}

}  // namespace ocm::cli
