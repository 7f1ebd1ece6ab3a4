// `ocm up`: a cluster of daemons on this machine.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/commands.h"
#include "tools/exit_code.h"
#include "tools/local_cluster.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

struct UpFlags : UpOptions {
  double timeout_seconds = 20;
  bool json = false;
};

void print_json(const ClusterRecord& cluster) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const NodeRecord& node : cluster.nodes) {
    nodes.push_back({{"name", node.name},
                     {"pid", node.process.pid},
                     {"socket", node.socket},
                     {"control", node.control},
                     {"data", node.data},
                     {"http", node.http},
                     {"log", node.log()}});
  }
  const nlohmann::ordered_json out{
      {"directory", cluster.directory}, {"socket", cluster.nodes.front().socket}, {"nodes", nodes}};
  puts(out.dump(2).c_str());
}

void print_table(const ClusterRecord& cluster, uint64_t dram_bytes) {
  Table table({"NODE", ">PID", ">DRAM", "CONTROL", "DATA", "HTTP"});
  for (const NodeRecord& node : cluster.nodes) {
    table.add({node.name, std::to_string(node.process.pid), format_bytes(dram_bytes), node.control, node.data,
               node.http});
  }
  table.print();
  printf(
      "\nAll alive; logs and sockets are in %s. Programs find the cluster with\n\n  export OCM_SOCKET=%s\n",
      cluster.directory.c_str(), cluster.nodes.front().socket.c_str());
}

int run_up(UpFlags& options) {
  catch_interrupts();
  if (options.directory.empty()) options.directory = default_cluster_dir();
  options.timeout_ns = static_cast<uint64_t>(options.timeout_seconds * 1e9);
  Result<ClusterRecord> cluster = start_cluster(options);
  if (!cluster.is_ok()) return fail(cluster.status());
  if (options.json) {
    print_json(cluster.value());
  } else {
    print_table(cluster.value(), options.dram_bytes);
  }
  return kExitOk;
}

}  // namespace

void add_up(CommandLine& line) {
  auto options = std::make_shared<UpFlags>();
  line.add("up", "Start a cluster on this machine")
      .number("-n,--nodes", options->nodes, 1, 64, "How many nodes")
      .bytes("--dram", options->dram_bytes, "Memory that each node offers")
      .text("-d,--dir", options->directory, "DIR",
            "Cluster directory [$XDG_RUNTIME_DIR/oncilla or /tmp/oncilla-UID]")
      .text("--config", options->config, "FILE", "An oncillad.toml that every node reads first")
      .choice("--log-level", options->log_level, {"debug", "info", "warn", "error"}, "What the daemons log")
      .seconds("--timeout", options->timeout_seconds, "How long to wait until all are alive")
      .flag("--json", options->json, "Print JSON")
      .runs([options] { return run_up(*options); });
}

}  // namespace ocm::cli
