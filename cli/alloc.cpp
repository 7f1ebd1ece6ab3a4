// `ocm alloc NAME BYTES`: memory under a name, which outlives this program.
#include <stdio.h>

#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/placement.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AllocOptions {
  Placement placement;
  std::string name;
  uint64_t bytes = 0;
  bool json = false;
};

Result<std::vector<ocm_extent_info>> extents_of(const ocm_allocation* allocation) {
  ocm_allocation_info info{};
  info.size = sizeof(info);
  OCM_TRY(checked(ocm_allocation_query(allocation, &info)));
  std::vector<ocm_extent_info> extents(info.extents);
  for (uint32_t i = 0; i < info.extents; ++i) {
    extents[i].size = sizeof(ocm_extent_info);
    OCM_TRY(checked(ocm_allocation_extent_query(allocation, i, &extents[i])));
  }
  return extents;
}

void print(const AllocOptions& options, const std::vector<ocm_extent_info>& extents) {
  if (options.json) {
    Json list = Json::array();
    for (const ocm_extent_info& extent : extents) {
      list.push_back({{"node", extent.node},
                      {"global_address", GlobalAddress(extent.global_address).to_string()},
                      {"bytes", extent.bytes},
                      {"generation", extent.generation},
                      {"fabric", fabric_name(static_cast<Fabric>(extent.fabric))}});
    }
    puts(Json{{"name", options.name}, {"bytes", options.bytes}, {"extents", list}}.dump(2).c_str());
    return;
  }
  printf("%s: %s, %s, %s\n", options.name.c_str(), format_bytes(options.bytes).c_str(),
         kind_name(options.placement.kind_asked()), options.placement.layout.c_str());
  Table table({"NODE", "GLOBAL ADDRESS", ">BYTES", "FABRIC"});
  for (const ocm_extent_info& extent : extents) {
    table.add({extent.node, GlobalAddress(extent.global_address).to_string(), format_bytes(extent.bytes),
               fabric_name(static_cast<Fabric>(extent.fabric))});
  }
  table.print();
}

Status alloc(const Globals& globals, const AllocOptions& options) {
  if (options.bytes == 0) return Status(Code::kInvalidArgument, "BYTES is 0; ask for one byte at least");
  OCM_TRY(check_name(options.name));
  OCM_TRY_ASSIGN(const uint32_t mode, options.placement.mode_bits());
  OCM_TRY_ASSIGN(Session session, open_session(globals));
  std::vector<const char*> pointers;
  const ocm_allocation_options wanted = options.placement.options(pointers);
  ocm_allocation* made = nullptr;
  OCM_TRY(checked(ocm_allocation_create(session.get(), options.bytes, &wanted, &made)));
  Allocation allocation(made);  // frees it again if it cannot be published
  OCM_TRY_ASSIGN(const std::vector<ocm_extent_info> extents, extents_of(made));
  OCM_TRY(checked(ocm_allocation_publish(made, options.name.c_str(), mode)));
  print(options, extents);
  return Status::ok();
}

}  // namespace

void add_alloc(CommandLine& line) {
  auto options = std::make_shared<AllocOptions>();
  const Globals& globals = line.globals();
  Command command = line.add("alloc", "Allocate memory and publish it under a name");
  command.required_text("NAME", options->name, "The name, 1 to 255 bytes without '/'");
  command.required_bytes("BYTES", options->bytes, "How much, such as 64MiB");
  options->placement.add_to(command);
  command.flag("--json", options->json, "Print JSON").runs([options, &globals] {
    const Status status = alloc(globals, *options);
    return status.is_ok() ? kExitOk : fail(status, options->name);
  });
}

}  // namespace ocm::cli
