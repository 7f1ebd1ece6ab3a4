// `ocm stop-check NODE`: what a stop of a node's daemon would take; its exit code is for scripts.
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

struct StopCheckOptions {
  std::string node, http;
  bool all = false;
  bool json = false;
};

uint64_t number(const Json& found, const char* key) {
  const auto it = found.find(key);
  return it != found.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}
std::string text(const Json& found, const char* key) {
  const auto it = found.find(key);
  return it != found.end() && it->is_string() ? printable(it->get<std::string>()) : "";
}
bool is_set(const Json& found, const char* key) {
  const auto it = found.find(key);
  return it != found.end() && it->is_boolean() && it->get<bool>();
}

std::string parts(uint64_t count) { return std::to_string(count) + (count == 1 ? " part" : " parts"); }

void print(const Json& found) {
  const std::string node = text(found, "node");
  const uint64_t last = number(found, "last_parts"), unknown = number(found, "unknown_parts");
  const uint64_t single = number(found, "unreplicated_extents");
  if (last != 0) {
    printf("%s: a stop of %s loses %s (%s): the last copies of replicated bytes\n",
           colored(Color::kRed, "unsafe").c_str(), node.c_str(), parts(last).c_str(),
           format_bytes(number(found, "last_bytes")).c_str());
  } else if (unknown != 0) {
    printf("%s: whether %s has last copies could not be found out\n",
           colored(Color::kYellow, "unknown").c_str(), node.c_str());
  } else {
    printf("%s: a stop of %s takes no last copy of replicated bytes\n",
           colored(Color::kGreen, "safe").c_str(), node.c_str());
  }
  if (unknown != 0) {
    printf("  %s (%s) of which the other copies are not known\n", parts(unknown).c_str(),
           format_bytes(number(found, "unknown_bytes")).c_str());
  }
  const Json names = found.value("names", Json::array());
  for (const Json& name : names) {
    if (!name.is_object()) continue;
    printf("  %s: %s, %s\n", text(name, "name").c_str(), parts(number(name, "parts")).c_str(),
           format_bytes(number(name, "bytes")).c_str());
  }
  if (number(found, "name_count") > names.size()) {
    printf("  and %zu names more\n", static_cast<size_t>(number(found, "name_count") - names.size()));
  }
  for (const Json& each : found.value("not_heard", Json::array())) {
    if (each.is_string()) printf("  node %s does not answer\n", printable(each.get<std::string>()).c_str());
  }
  const std::string waits_for = text(found, "waits_for");
  if (!waits_for.empty()) printf("  %s\n", waits_for.c_str());
  if (single != 0) {
    printf("not replicated, and lost with it: %zu extents (%s)\n", static_cast<size_t>(single),
           format_bytes(number(found, "unreplicated_bytes")).c_str());
  }
  if (number(found, "sessions") != 0) {
    printf("sessions there, which end: %zu\n", static_cast<size_t>(number(found, "sessions")));
  }
  if (is_set(found, "coordinator"))
    puts(is_set(found, "hands_over") ? "it is the coordinator, and hands the role over to another node"
                                     : "it is the coordinator: no names and no new members until it is back");
  if (is_set(found, "stopping")) printf("it was told to stop, and waits\n");
}

int run_stop_check(const Globals& globals, const StopCheckOptions& options) {
  for (const char letter : options.node) {
    if (static_cast<unsigned char>(letter) <= ' ' || letter == '?' || letter == '\x7f')
      return fail(Status(Code::kUnknownNode, "no node named " + printable(options.node)));
  }
  constexpr uint64_t kHelloNs = 3'000'000'000;
  constexpr uint64_t kPatienceNs = 60'000'000'000;  // for other nodes the daemon has deadlines of its own
  const Result<std::string> http = http_address(globals, options.http);
  if (!http.is_ok()) return fail(http.status());
  const std::string& address = http.value();
  if (!http_get(address, "/healthz", kHelloNs).is_ok()) {  // also one that stands still
    return fail(Status(Code::kNoDaemon,
                       "no daemon answers at " + address + "; name its socket with --socket or OCM_SOCKET"));
  }
  Result<std::string> body = http_get(address, "/stop-check?node=" + options.node, kPatienceNs);
  if (!body.is_ok()) return fail(body.status());
  const Json found = Json::parse(body.value(), nullptr, false);
  if (!found.is_object() || text(found, "node") != options.node || !found.contains("safe")) {
    return fail(Status(Code::kProtocol, "/stop-check is not what a daemon says"));
  }
  if (options.json) {
    put_json(found);
  } else {
    print(found);
  }
  if (number(found, "last_parts") != 0) return kExitUnsafe;
  if (options.all && number(found, "unreplicated_extents") != 0) return kExitUnsafe;
  return is_set(found, "safe") ? kExitOk : kExitLost;
}

}  // namespace

void add_stop_check(CommandLine& line) {
  auto options = std::make_shared<StopCheckOptions>();
  const Globals& globals = line.globals();
  line.add("stop-check", "Show which data stopping a node's daemon would remove")
      .required_text("NODE", options->node, "The node")
      .text("--http", options->http, "PATH",
            "The local daemon's HTTP socket [http.sock beside the daemon's socket]")
      .flag("--all", options->all, "Also fail if anything there is not replicated")
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_stop_check(globals, *options); });
}

}  // namespace ocm::cli
