// `ocm ls [PREFIX]`: the published names.
#include <stdio.h>
#include <string.h>

#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/placement.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LsOptions {
  std::string prefix;
  bool json = false;
  bool quiet = false;
  bool null = false;
};

void print_json(const std::vector<ocm_name_info>& names) {
  Json list = Json::array();
  for (const ocm_name_info& info : names) {
    list.push_back({{"name", info.name},
                    {"bytes", info.bytes},
                    {"kind", kind_name(static_cast<Kind>(info.kind))},
                    {"durable", info.durable},
                    {"coherent", info.coherent},
                    {"layout", layout_name(static_cast<Layout>(info.layout))},
                    {"extents", info.extents},
                    {"owner_uid", info.owner_uid},
                    {"mode", info.mode},
                    {"lost", info.lost},
                    {"replicas_missing", info.replicas_missing}});
  }
  put_json(list);
}

/// "dram", "nvme, durable", "dram, coherent".
std::string kind_text(const ocm_name_info& info) {
  std::string text = kind_name(static_cast<Kind>(info.kind));
  if (info.durable) text += ", durable";
  if (info.coherent) text += ", coherent";
  return text;
}

void print_table(const std::vector<ocm_name_info>& names) {
  Table table({"MODE", "OWNER", ">BYTES", "KIND", "LAYOUT", ">EXTENTS", "NAME"});
  for (const ocm_name_info& info : names) {
    std::string name = printable(info.name);
    if (info.lost && info.durable)
      name = colored(Color::kYellow, name + " (its node is down)");
    else if (info.lost)
      name = colored(Color::kRed, name + " (lost)");
    const std::string missing = std::to_string(info.replicas_missing);
    if (info.replicas_missing != 0)
      name = colored(Color::kYellow, name + " (degraded: " + missing + " missing)");
    table.add({mode_text(info.mode), user_name(info.owner_uid), format_bytes(info.bytes), kind_text(info),
               layout_name(static_cast<Layout>(info.layout)),
               info.replicas_missing == 0
                   ? std::to_string(info.extents)
                   : std::to_string(info.extents - std::min(info.extents, info.replicas_missing)) + " of " +
                         std::to_string(info.extents),
               name});
  }
  if (!table.is_empty()) table.print();
}

int run_ls(const Globals& globals, const LsOptions& options) {
  Result<Session> session = open_session(globals);
  if (!session.is_ok()) return fail(session.status());
  Result<std::vector<ocm_name_info>> names = list_names(session->get(), options.prefix);
  if (!names.is_ok()) return fail(names.status());
  if (options.json) {
    print_json(names.value());
  } else if (options.null) {
    for (const ocm_name_info& info : names.value()) fwrite(info.name, 1, strlen(info.name) + 1, stdout);
  } else if (options.quiet) {
    for (const ocm_name_info& info : names.value()) puts(printable(info.name).c_str());
  } else {
    print_table(names.value());
  }
  return kExitOk;
}

}  // namespace

void add_ls(CommandLine& line) {
  auto options = std::make_shared<LsOptions>();
  const Globals& globals = line.globals();
  line.add("ls", "List published names")
      .text("PREFIX", options->prefix, "", "Only names that start with this")
      .flag("--json", options->json, "Print JSON")
      .flag("-q,--quiet", options->quiet, "Names only, one per line")
      .flag("-0,--null", options->null, "Names only, as they are, each terminated by a NUL, for xargs -0")
      .completes("names")
      .runs([options, &globals] { return run_ls(globals, *options); });
}

}  // namespace ocm::cli
