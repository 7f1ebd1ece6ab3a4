// `ocm cluster`: whom the cluster's coordinator is, and who votes; and how to found one where nobody can become it.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/http.h"
#include "cli/json_output.h"
#include "cli/node_status.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowOptions {
  std::string http;
  bool json = false;
};
struct FoundOptions {
  std::string node, http;
  bool yes = false;
  bool json = false;
};

std::string text(const Json& found, const char* key) {
  const auto it = found.find(key);
  return it != found.end() && it->is_string() ? printable(it->get<std::string>()) : "";
}
uint64_t number(const Json& found, const char* key) {
  const auto it = found.find(key);
  return it != found.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

Result<Json> fetch(const Globals& globals, const std::string& asked) {
  OCM_TRY_ASSIGN(const std::string address, http_address(globals, asked));
  const Result<std::string> body = http_get(address, "/cluster");
  if (!body.is_ok() && body.status().code() == Code::kPeerLost) {
    return Status(Code::kNoDaemon,
                  "no daemon answers at " + address + "; name its socket with --socket or OCM_SOCKET");
  }
  if (!body.is_ok()) return body.status();
  Json found = Json::parse(body.value(), nullptr, false);
  if (!found.is_object() || !found.contains("council"))
    return Status(Code::kProtocol, "/cluster is not what a daemon says");
  return found;
}

void print(const Json& found) {
  const std::string coordinator = text(found, "coordinator");
  if (!coordinator.empty())
    printf("coordinator  %s\n", coordinator.c_str());
  else
    printf("coordinator  %s: %s\n", colored(Color::kRed, "none").c_str(), text(found, "why").c_str());
  const Json council = found.value("council", Json::object());
  const Json voters = council.value("voters", Json::array());
  if (voters.empty()) {
    puts("council      none is known");
    return;
  }
  printf("council      number %zu, %zu of %zu voters must agree\n",
         static_cast<size_t>(number(council, "number")), voters.size() / 2 + 1, voters.size());
  for (const Json& voter : voters) {
    if (!voter.is_object()) continue;
    printf("  %-10s %-21s %s\n", text(voter, "node").c_str(), text(voter, "address").c_str(),
           text(voter, "state").c_str());
  }
}

int run_show(const Globals& globals, const ShowOptions& options) {
  const Result<Json> found = fetch(globals, options.http);
  if (!found.is_ok()) return fail(found.status());
  options.json ? put_json(found.value()) : print(found.value());
  return text(found.value(), "coordinator").empty() ? kExitNoCluster : kExitOk;
}

void explain(const std::string& node) {
  fprintf(stderr,
          "Founding at %s gives up the council that is, for good:\n"
          "  - %s becomes the coordinator, alone; other nodes follow it, and vote with it later.\n"
          "  - What the voters knew of replicas is gone: nodes free all their replicas once they have heard "
          "of no\n"
          "    other coordinator for ten failure deadlines. Bytes that are not replicated stay.\n"
          "  - If a majority of the voters lives where %s does not reach it, there are two clusters.\n"
          "Make sure that the daemons of the voters that do not answer are stopped (ocm cluster show).\n",
          node.c_str(), node.c_str(), node.c_str());
}

int run_found(const Globals& globals, const FoundOptions& options) {
  if (const Status known = check_asked_node(options.node); !known.is_ok()) return fail(known);
  if (!options.yes) {
    explain(options.node);
    print_error("nothing was done; add --yes to found the cluster at " + options.node);
    return kExitUsage;
  }
  const Result<std::string> http = http_address(globals, options.http);
  if (!http.is_ok()) return fail(http.status());
  constexpr uint64_t kPatienceNs = 60'000'000'000;  // the daemon has deadlines of its own
  const Result<std::string> body =
      http_post(http.value(), "/cluster/found?node=" + options.node, kPatienceNs);
  if (!body.is_ok()) return fail(body.status());
  if (options.json)
    put_json({{"founded_at", options.node}});
  else
    printf("founded the cluster at %s: it becomes the coordinator within a second\n", options.node.c_str());
  return kExitOk;
}

void add_show(Command& group, const Globals& globals) {
  auto options = std::make_shared<ShowOptions>();
  group.add("show", "Show the coordinator, and who votes for it")
      .text("--http", options->http, "PATH", kHttpSocketHelp)
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_show(globals, *options); });
}

void add_found(Command& group, const Globals& globals) {
  auto options = std::make_shared<FoundOptions>();
  group.add("found", "Found the cluster anew, where a majority of its voters is gone for good")
      .required_text("--node", options->node, "The node that becomes the coordinator")
      .flag("--yes", options->yes, "Do it: without this, only say what it does")
      .text("--http", options->http, "PATH", kHttpSocketHelp)
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_found(globals, *options); });
}

}  // namespace

void add_cluster(CommandLine& line) {
  Command group = line.add("cluster", "Show the cluster's coordinator and voters, or found it anew");
  add_show(group, line.globals());
  add_found(group, line.globals());
}

}  // namespace ocm::cli
