// `ocm doctor`: what is wrong with this machine and its cluster, and how to fix it.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "cli/check.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  std::string http;
  std::string token_file;
  bool json = false;
};

const char* verdict_name(Verdict verdict) {
  return verdict == Verdict::kOk ? "OK" : verdict == Verdict::kWarn ? "WARN" : "FAIL";
}

void print_json(const std::vector<Check>& checks, bool failed) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"check", check.name},
                    {"verdict", verdict_name(check.verdict)},
                    {"found", check.found},
                    {"fix", check.fix}});
  }
  put_json(Json{{"ok", !failed}, {"checks", list}});
}

void print_table(const std::vector<Check>& checks) {
  Table table({"", "CHECK", "FOUND"});
  for (const Check& check : checks) {
    const Color color = check.verdict == Verdict::kOk     ? Color::kGreen
                        : check.verdict == Verdict::kWarn ? Color::kYellow
                                                          : Color::kRed;
    table.add({colored(color, verdict_name(check.verdict)), check.name, check.found});
    if (!check.fix.empty()) table.add({"", "", "-> " + check.fix});
  }
  table.print();
}

int run_doctor(const Globals& globals, const DoctorOptions& options) {
  std::vector<Check> checks = check_machine();
  for (Check& check : check_cluster(globals, options.http, options.token_file))
    checks.push_back(std::move(check));
  bool failed = false;
  for (const Check& check : checks) failed = failed || check.verdict == Verdict::kFail;
  if (options.json) {
    print_json(checks, failed);
  } else {
    print_table(checks);
  }
  return failed ? kExitFailure : kExitOk;
}

}  // namespace

void add_doctor(CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  const Globals& globals = line.globals();
  line.add("doctor", "Find what is wrong with this machine and its cluster")
      .text("--http", options->http, "HOST:PORT", "The daemon's HTTP interface [as for `ocm top`]")
      .text("--token-file", options->token_file, "FILE",
            "The cluster's token [that of `ocm up`, beside the socket, or /etc/oncilla/token]")
      .flag("--json", options->json, "Print JSON")
      .runs([options, &globals] { return run_doctor(globals, *options); });
}

}  // namespace ocm::cli
