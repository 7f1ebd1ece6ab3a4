// oncillad: one node of the cluster.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "node/node.h"

int main(int argc, char** argv) {
  using ocm::node::Config;
  Config config;
  CLI::App app{"One node of an Oncilla cluster"};
  app.add_option("--node-name", config.name);
  app.add_option("--run-dir", config.run_dir);
  app.add_option("--control-listen", config.control_listen);
  app.add_option("--data-listen", config.data_listen);
  app.add_option("--http-listen", config.http_listen);
  app.add_option("--coordinator", config.coordinator);
  app.add_option("--token-file", config.token_file);
  std::string dram;
  app.add_option("--dram", dram);
  app.add_option("--failure-deadline-ms", config.failure_deadline_ms);
  app.add_option("--heartbeat-ms", config.heartbeat_ms);
  CLI11_PARSE(app, argc, argv);
  if (!dram.empty()) {
    const auto bytes = ocm::parse_bytes(dram);
    if (!bytes.is_ok()) return 2;
    config.dram_bytes = bytes.value();
  }
  ocm::log::configure(config.log_level, config.log_format);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  auto node = ocm::node::Node::start(config);
  if (!node.is_ok()) {
    std::fprintf(stderr, "oncillad: %s\n", node.status().to_string().c_str());
    return 1;
  }
  int signal = 0;
  ::sigwait(&stop, &signal);
  node.value()->stop();
  return 0;
}
