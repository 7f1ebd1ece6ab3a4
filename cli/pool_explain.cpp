// `ocm pool explain PATH`: what a durable pool is, what it holds, and what the next start of a daemon would make of it.
#include <stdio.h>

#include <vector>

#include "cli/pool.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainOptions {
  std::string path;
  bool json = false;
};

/// In bytes: of pages.
struct Use {
  uint64_t room = 0, reserved = 0, written = 0;
  uint64_t free() const { return room - std::min(room, reserved); }
};
Use use_of(const nvme::Inspection& found) {
  const uint64_t page = found.geometry.slot_bytes;
  Use out{.room = found.geometry.pages() * page, .written = found.contents.slots_taken() * page};
  for (const auto& [id, extent] : found.contents.extents())
    out.reserved += (extent.bytes + page - 1) / page * page;
  return out;
}

Json json_of(const std::string& path, const nvme::Inspection& found) {
  const Use use = use_of(found);
  Json extents = Json::array();
  for (const auto& [id, extent] : found.contents.extents()) {
    extents.push_back({{"global_address", id.address.to_string()},
                       {"generation", id.generation},
                       {"bytes", extent.bytes},
                       {"pages_written", extent.pages.size()},
                       {"named", !extent.name.empty()}});
  }
  return {{"path", path},
          {"pool", pool_name(found.identity)},
          {"cluster", found.identity.cluster},
          {"partition", found.identity.partition},
          {"page_bytes", found.geometry.slot_bytes},
          {"device_bytes", found.geometry.device_bytes},
          {"metadata_bytes", found.geometry.metadata_bytes()},
          {"room_bytes", use.room},
          {"used_bytes", use.reserved},
          {"free_bytes", use.free()},
          {"written_bytes", use.written},
          {"spare_pages", found.geometry.slots - found.geometry.pages()},
          {"starts", found.starts},
          {"next_start",
           {{"groups", found.recovery.groups},
            {"torn_blocks", found.recovery.torn_blocks},
            {"unnamed_extents", found.recovery.unnamed}}},
          {"extents", extents}};
}

void print(const std::string& path, const nvme::Inspection& found) {
  const nvme::Geometry& geometry = found.geometry;
  const Use use = use_of(found);
  const auto row = [](const char* what, const std::string& text) {
    printf("  %-12s%s\n", what, text.c_str());
  };
  const auto& extents = found.contents.extents();
  printf("%s: the pool %s\n", printable(path).c_str(), pool_name(found.identity).c_str());
  row("cluster", found.identity.cluster.empty()
                     ? "no cluster's yet; it becomes that of the first daemon that opens it"
                     : owner_text(found.identity));
  row("room", format_bytes(use.room) + ", " + counted(geometry.pages(), "page") + " of " +
                  format_bytes(geometry.slot_bytes));
  row("used", format_bytes(use.reserved) + " by " + counted(extents.size(), "extent") + ", of which " +
                  format_bytes(use.written) + " are written");
  row("free", format_bytes(use.free()));
  row("spare", counted(geometry.slots - geometry.pages(), "page") +
                   ", since a page that is written again goes to a new place first");
  row("metadata", format_bytes(geometry.metadata_bytes()));
  row("partition", std::to_string(found.identity.partition));
  row("starts", found.starts == 0 ? "no daemon has opened it yet" : std::to_string(found.starts) + " so far");
  if (!extents.empty()) {
    puts("");
    Table table({"EXTENT", ">GENERATION", ">BYTES", ">PAGES WRITTEN", "NAME"});
    for (const auto& [id, extent] : extents) {
      table.add({id.address.to_string(), std::to_string(id.generation), format_bytes(extent.bytes),
                 std::to_string(extent.pages.size()),
                 extent.name.empty() ? "none: ends at the next start" : "yes"});
    }
    table.print();
  }
  const nvme::Recovery& next = found.recovery;
  printf("\nThe next start of a daemon with it:\n");
  printf("  applies %s of changes that were promised after the last checkpoint\n",
         counted(next.groups, "group").c_str());
  if (next.torn_blocks != 0)
    printf("  drops %s of a group that was being written and was not promised\n",
           counted(next.torn_blocks, "block").c_str());
  printf("  ends %s without a name; what has one stays\n", counted(next.unnamed, "extent").c_str());
}

int run_explain(const ExplainOptions& options) {
  const auto device = nvme::FileDevice::open(options.path, nvme::FileDevice::Access::kRead);
  if (!device.is_ok()) return fail(device.status());
  const auto found = nvme::Store::inspect(*device.value());
  if (!found.is_ok()) {
    const bool is_damage = found.status().code() == Code::kBadChecksum;
    const std::string hint = is_damage ? "; `ocm pool check` says what that means" : "";
    return fail(found.status().with_message(std::string(found.status().message()) + hint), options.path);
  }
  if (options.json) {
    put_json(json_of(options.path, found.value()));
  } else {
    print(options.path, found.value());
  }
  return kExitOk;
}

}  // namespace

void add_pool_explain(Command& group) {
  auto options = std::make_shared<ExplainOptions>();
  group.add("explain", "Show what a pool is, what it holds, and what the next start would recover")
      .required_text("PATH", options->path, "Its file or block device")
      .flag("--json", options->json, "Print JSON")
      .completes("files")
      .runs([options] { return run_explain(*options); });
}

}  // namespace ocm::cli
