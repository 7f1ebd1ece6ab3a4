// `ocm cache`: what the nodes' page caches have and did, and how much memory one may take.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/http.h"
#include "cli/json_output.h"
#include "cli/node_status.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CacheShowOptions {
  std::string http;
  bool json = false;
};
struct CacheResizeOptions {
  std::string node, http;
  uint64_t bytes = 0;
  bool json = false;
};

Json to_json(const ClusterStatus& cluster) {
  Json nodes = Json::array();
  for (const auto& [name, status] : cluster.nodes) {
    const CacheLoad& c = status.cache;
    if (!c.is_there) {
      nodes.push_back({{"node", name}, {"cache", nullptr}});
      continue;
    }
    nodes.push_back({{"node", name},
                     {"cache",
                      {{"bytes_limit", c.bytes_limit},
                       {"bytes_used", c.bytes_used},
                       {"bytes_dirty", c.bytes_dirty},
                       {"accesses", c.served},
                       {"hits", c.hits()},
                       {"missed", c.missed},
                       {"upgraded", c.upgraded},
                       {"failed", c.failed},
                       {"pages_from_home", c.from_home},
                       {"pages_from_other", c.from_other},
                       {"pages_supplied", c.supplied},
                       {"pages_invalidated", c.invalidated},
                       {"pages_evicted", c.evicted},
                       {"pages_cleaned", c.cleaned},
                       {"pages_loaded_by_pointer", c.mapped_loads},
                       {"pages_stored_by_pointer", c.mapped_stores},
                       {"pages_withdrawn", c.withdrawn},
                       {"device_reads", c.device_reads},
                       {"device_writes", c.device_writes},
                       {"device_errors", c.device_errors},
                       {"pages_lost", c.lost}}}});
  }
  return {{"nodes", nodes}};
}

void print(const ClusterStatus& cluster) {
  Table table({"NODE", ">LIMIT", ">USED", ">DIRTY", ">ACCESSES", ">HITS", ">FROM HOME", ">FROM OTHERS",
               ">SUPPLIED", ">BY POINTER", ">DEVICE READS", ">WRITES", ">LOST"});
  for (const PeerView& peer : cluster.entry.peers) {
    const auto status = cluster.nodes.find(peer.name);
    const std::string name = colored(Color::kBold, printable(peer.name));
    if (status == cluster.nodes.end() || !status->second.cache.is_there) {
      const std::string none = status == cluster.nodes.end() ? "?" : "-";
      table.add({name, none, none, none, none, none, none, none, none, none, none, none, none});
      continue;
    }
    const CacheLoad& c = status->second.cache;
    const std::string lost = std::to_string(c.lost);
    table.add({name, format_bytes(c.bytes_limit), format_bytes(c.bytes_used), format_bytes(c.bytes_dirty),
               std::to_string(c.served), c.served == 0 ? "-" : percent(c.hits(), c.served),
               std::to_string(c.from_home), std::to_string(c.from_other), std::to_string(c.supplied),
               std::to_string(c.mapped_loads + c.mapped_stores), std::to_string(c.device_reads),
               std::to_string(c.device_writes), c.lost == 0 ? lost : colored(Color::kRed, lost)});
  }
  fputs(table.to_string().c_str(), stdout);
}

int run_cache_show(const Globals& globals, const CacheShowOptions& options) {
  const Result<std::string> http = http_address(globals, options.http);
  if (!http.is_ok()) return fail(http.status());
  const Result<ClusterStatus> cluster = fetch_cluster_status(http.value());
  if (!cluster.is_ok()) return fail(cluster.status());
  options.json ? put_json(to_json(cluster.value())) : print(cluster.value());
  return kExitOk;
}

int run_cache_resize(const Globals& globals, const CacheResizeOptions& options) {
  if (const Status known = check_asked_node(options.node); !known.is_ok()) return fail(known);
  const Result<std::string> http = http_address(globals, options.http);
  if (!http.is_ok()) return fail(http.status());
  std::string path = "/cache?bytes=" + std::to_string(options.bytes);
  if (!options.node.empty()) path += "&node=" + options.node;
  constexpr uint64_t kPatienceNs = 60'000'000'000;  // the daemon has deadlines of its own
  const Result<std::string> body = http_post(http.value(), path, kPatienceNs);
  if (!body.is_ok()) return fail(body.status());
  if (options.json) {
    put_json({{"node", options.node.empty() ? Json() : Json(options.node)}, {"bytes", options.bytes}});
  } else {
    printf("the cache of %s takes %s from now on, until the daemon is started again\n",
           options.node.empty() ? "this node" : options.node.c_str(), format_bytes(options.bytes).c_str());
  }
  return kExitOk;
}

void add_cache_show(Command& group, const Globals& globals) {
  auto options = std::make_shared<CacheShowOptions>();
  group.add("show", "Show what each node caches, and how often that was enough")
      .text("--http", options->http, "PATH", kHttpSocketHelp)
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_cache_show(globals, *options); });
}

void add_cache_resize(Command& group, const Globals& globals) {
  auto options = std::make_shared<CacheResizeOptions>();
  group.add("resize", "Change the memory that a node's page cache may take")
      .required_bytes("BYTES", options->bytes, "The most that it takes, 256MiB")
      .text("--node", options->node, "NODE", "The node [this one]")
      .text("--http", options->http, "PATH", kHttpSocketHelp)
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_cache_resize(globals, *options); });
}

}  // namespace

void add_cache(CommandLine& line) {
  Command group = line.add("cache", "Show the nodes' page caches, or change how much memory one takes");
  add_cache_show(group, line.globals());
  add_cache_resize(group, line.globals());
}

}  // namespace ocm::cli
