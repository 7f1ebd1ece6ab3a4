// A cluster on this machine: `ocm up`, `ocm down` and `ocm demo`.
//
// DIR holds everything: cluster.json (who runs), token (0600), lock, and one folder for each node with
// its socket and its log. DIR is 0700. A folder that holds no cluster.json is never removed. One that others could
// have made or written is not believed, by root neither: its record says which socket to trust and what to kill.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/process.h"

namespace ocm::tools {

struct NodeRecord {
  std::string name;
  Process process;
  std::string directory;
  std::string socket;
  std::string control;
  std::string data;
  std::string http;
  std::string log() const { return directory + "/oncillad.log"; }
};
struct ClusterRecord {
  std::string directory;
  std::vector<NodeRecord> nodes;  // the first is the coordinator
  bool any_running() const;
};

struct UpOptions {
  std::string directory;
  uint32_t nodes = 1;
  uint64_t dram_bytes = uint64_t{1} << 30;
  std::string config;  // a TOML file that every node reads first; empty: none
  std::string log_level = "info";
  uint64_t timeout_ns = 20'000'000'000;
  bool dies_with_parent = false;
};

/// $XDG_RUNTIME_DIR/oncilla, else /tmp/oncilla-UID.
std::string default_cluster_dir();
/// Errors: kNotFound (no cluster there), kPermission (others could have written what is there), kIo (its record
/// cannot be read).
Result<ClusterRecord> read_cluster(const std::string& directory);
/// Starts the daemons and waits until each of them sees all alive. On an error nothing is left.
/// Errors: kExists (one runs there), kInvalidArgument (the folder is something else), kPermission (it is another's, or
/// others may write there), kDeadline, kIo, kCancelled.
Result<ClusterRecord> start_cluster(const UpOptions& options);
/// SIGTERM, SIGKILL after `grace_ns`, then removes the folder. Gives how many had to be killed.
/// Errors: kNotFound, kPermission.
Result<int> stop_cluster(const std::string& directory, uint64_t grace_ns = 5'000'000'000);

}  // namespace ocm::tools
