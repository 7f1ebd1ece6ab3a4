// `ocm get NAME FILE`: a name's bytes in a file, which appears when it is complete.
#include "cli/commands.h"
#include "cli/transfer.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

struct GetOptions {
  std::string name;
  std::string file;
};

Status get(const Globals& globals, const GetOptions& options) {
  OCM_TRY_ASSIGN(Session session, open_session(globals));
  ocm_allocation* attached = nullptr;
  OCM_TRY(checked(ocm_allocation_attach(session.get(), options.name.c_str(), OCM_ACCESS_READ, &attached)));
  const Allocation allocation(attached);
  const uint64_t bytes = ocm_allocation_bytes(attached);
  OCM_TRY_ASSIGN(Target target, Target::open(options.file));
  end_soon_when_interrupted(options.name + ": interrupted", target.partial());
  Progress progress("get " + options.name, bytes, Progress::Plain::kSilent);
  const Status status = get_to(target.fd(), attached, bytes, progress);
  if (!status.is_ok()) {
    progress.abandon();
    return status;
  }
  progress.finish();
  return target.commit(bytes);
}

}  // namespace

void add_get(CommandLine& line) {
  auto options = std::make_shared<GetOptions>();
  const Globals& globals = line.globals();
  line.add("get", "Get a name's bytes into a file")
      .required_text("NAME", options->name, "The published name")
      .required_text("FILE", options->file, "The file; - is stdout")
      .completes("names")
      .runs([options, &globals] {
        catch_interrupts();
        end_soon_when_interrupted(options->name + ": interrupted", {});
        const Status status = get(globals, *options);
        return status.is_ok() ? kExitOk : fail(status, options->name);
      });
}

}  // namespace ocm::cli
