// `ocm down`: stops what `ocm up` started and removes its directory.
#include <stdio.h>

#include "cli/commands.h"
#include "tools/exit_code.h"
#include "tools/local_cluster.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

struct DownOptions {
  std::string directory;
  double grace_seconds = 5;
};

int run_down(const DownOptions& options) {
  const std::string directory = options.directory.empty() ? default_cluster_dir() : options.directory;
  Result<int> killed = stop_cluster(directory, static_cast<uint64_t>(options.grace_seconds * 1e9));
  if (!killed.is_ok()) return fail(killed.status());
  if (killed.value() > 0) {
    print_error(std::to_string(killed.value()) + " daemon(s) did not end in time and were killed");
  }
  printf("stopped the cluster in %s and removed it\n", directory.c_str());
  return kExitOk;
}

}  // namespace

void add_down(CommandLine& line) {
  auto options = std::make_shared<DownOptions>();
  line.add("down", "Stop the cluster that `ocm up` started")
      .text("-d,--dir", options->directory, "DIR", "Cluster directory [as for `ocm up`]")
      .seconds("--grace", options->grace_seconds, "How long a daemon may take before it is killed")
      .runs([options] { return run_down(*options); });
}

}  // namespace ocm::cli
