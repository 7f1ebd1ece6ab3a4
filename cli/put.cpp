// `ocm put FILE NAME`: a file's bytes under a name.
//
// The name appears, or changes, when every byte is there: the bytes go into an allocation of their own,
// which takes the name at the end. Only --in-place writes into what programs have attached.
#include <stdio.h>
#include <unistd.h>

#include <optional>

#include "base/ids.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/placement.h"
#include "cli/transfer.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

struct PutOptions {
  Placement placement;
  std::string file;
  std::string name;
  bool in_place = false;
  bool replace = false;
};

Result<std::optional<ocm_name_info>> find_name(ocm_session* session, const std::string& name) {
  OCM_TRY_ASSIGN(const std::vector<ocm_name_info> names, list_names(session, name));
  for (const ocm_name_info& info : names) {
    if (info.name == name) return std::optional<ocm_name_info>(info);
  }
  return std::optional<ocm_name_info>();
}

/// The placement of an allocation that has the name already: the same nodes, kind, layout and mode.
Result<Placement> placement_of(ocm_session* session, const ocm_name_info& name) {
  ocm_allocation* attached = nullptr;
  OCM_TRY(checked(ocm_allocation_attach(session, name.name, OCM_ACCESS_READ, &attached)));
  const Allocation owner(attached);
  ocm_allocation_info info{};
  info.size = sizeof(info);
  OCM_TRY(checked(ocm_allocation_query(attached, &info)));
  if (info.layout == OCM_LAYOUT_SEQUENCE) {
    return Status(Code::kUnsupported,
                  "the name is a sequence of extents, which `put` does not make: give --replace "
                  "to place the file again, or --in-place");
  }
  Placement placement;
  placement.layout = layout_name(static_cast<Layout>(info.layout));
  placement.kind = kind_name(static_cast<Kind>(info.kind));
  placement.durable = info.durable;
  placement.coherent = info.coherent;
  placement.chunk_bytes = info.layout == OCM_LAYOUT_STRIPED ? info.chunk_bytes : 0;
  placement.extents = info.extents;
  char mode[8];
  snprintf(mode, sizeof(mode), "%04o", name.mode & 0606u);
  placement.mode = mode;
  for (uint32_t i = 0; i < info.extents; ++i) {
    ocm_extent_info extent{};
    extent.size = sizeof(extent);
    OCM_TRY(checked(ocm_allocation_extent_query(attached, i, &extent)));
    placement.nodes.emplace_back(extent.node);
  }
  return placement;
}

Status fill(ocm_allocation* allocation, const Source& source, const PutOptions& options) {
  Progress progress("put " + options.name, source.bytes, Progress::Plain::kSilent);
  const Status status = put_from(source.fd.get(), allocation, source.bytes, progress);
  if (status.is_ok()) {
    progress.finish();
  } else {
    progress.abandon();
  }
  return status;
}

Status put_in_place(ocm_session* session, const Source& source, const PutOptions& options) {
  ocm_allocation* attached = nullptr;
  OCM_TRY(checked(ocm_allocation_attach(session, options.name.c_str(), OCM_ACCESS_READ_WRITE, &attached)));
  const Allocation allocation(attached);
  const char* in_part = "; as --in-place asks, the name holds a part of the new bytes now";
  end_soon_when_interrupted(options.name + ": interrupted" + in_part, {});
  const Status status = fill(attached, source, options);
  if (status.is_ok()) return status;
  const Status told = status.with_message(std::string(status.message()) + in_part);
  if (status.code() == Code::kCancelled)
    print_error(printable(options.name + ": " + std::string(told.message())));
  return told;
}

Status put_new(ocm_session* session, const Source& source, const PutOptions& options,
               const Placement& placement, bool taken) {
  OCM_TRY_ASSIGN(const uint32_t mode, placement.mode_bits());
  std::vector<const char*> pointers;
  const ocm_allocation_options wanted = placement.options(pointers);
  ocm_allocation* made = nullptr;
  Status status = checked(ocm_allocation_create(session, source.bytes, &wanted, &made));
  if (status.code() == Code::kPoolFull && taken) {
    return Status(status.code(),
                  std::string(status.message()) +
                      "; the old bytes stay until the new are there: --in-place needs no more memory");
  }
  OCM_TRY(status);
  const Allocation allocation(made);  // freed unless it gets the name
  OCM_TRY(fill(made, source, options));
  OCM_TRY(check_interrupt());
  end_soon_when_interrupted(options.name + ": interrupted; look whether the name is there", {});
  if (taken) OCM_TRY(checked(ocm_name_remove(session, options.name.c_str())));
  status = checked(ocm_allocation_publish(made, options.name.c_str(), mode));
  if (!status.is_ok() && taken) {
    return Status(status.code(), std::string(status.message()) +
                                     "; the old bytes were removed already, so put the file once more");
  }
  return status;
}

Status put(const Globals& globals, const PutOptions& options) {
  OCM_TRY(check_name(options.name));
  OCM_TRY(options.placement.mode_bits().status());
  OCM_TRY_ASSIGN(Session session, open_session(globals));
  uint64_t most_bytes = 0;
  bool has_joined = false;  // else the daemon knows itself alone
  OCM_TRY_ASSIGN(const auto nodes, list_nodes(session.get()));
  for (const ocm_node_info& node : nodes) {
    has_joined = has_joined || node.coordinator;
    for (const uint64_t bytes : node.pool_bytes) most_bytes += bytes;
  }
  if (!has_joined) most_bytes = UINT64_MAX;
  OCM_TRY_ASSIGN(const Source source, open_source(options.file, most_bytes));
  OCM_TRY_ASSIGN(const std::optional<ocm_name_info> old, find_name(session.get(), options.name));
  if (!old.has_value() || options.replace) {
    return put_new(session.get(), source, options, options.placement, old.has_value());
  }
  if (old->bytes != source.bytes) {
    return Status(Code::kExists, "the name holds " + std::to_string(old->bytes) + " bytes and " +
                                     options.file + " has " + std::to_string(source.bytes) +
                                     "; give --replace to let the file's length count");
  }
  if (options.in_place) return put_in_place(session.get(), source, options);
  if (old->owner_uid != geteuid()) {
    return Status(Code::kExists, "the name belongs to uid " + std::to_string(old->owner_uid) +
                                     "; give --in-place to leave it his, or --replace to make it yours");
  }
  OCM_TRY_ASSIGN(const Placement placement, placement_of(session.get(), *old));
  return put_new(session.get(), source, options, placement, true);
}

}  // namespace

void add_put(CommandLine& line) {
  auto options = std::make_shared<PutOptions>();
  const Globals& globals = line.globals();
  Command command = line.add("put", "Put a file under a name");
  command.required_text("FILE", options->file, "The file; - is stdin")
      .required_text("NAME", options->name, "The name; allocated if there is none");
  options->placement.add_to(command);
  command
      .flag("--in-place", options->in_place,
            "Write into the existing allocation, while programs have it attached")
      .flag("--replace", options->replace, "Allow a different length and placement")
      .completes("files")
      .runs([options, &globals] {
        catch_interrupts();
        end_soon_when_interrupted(options->name + ": interrupted", {});
        if (options->in_place && options->replace)
          return fail(Status(Code::kInvalidArgument, "--in-place and --replace exclude each other"));
        const Status status = put(globals, *options);
        return status.is_ok() ? kExitOk : fail(status, options->name);
      });
}

}  // namespace ocm::cli
