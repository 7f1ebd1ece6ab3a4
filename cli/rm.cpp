// `ocm rm NAME...`: removes names and frees their memory.
#include "cli/commands.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

struct RmOptions {
  std::vector<std::string> names;
  bool force = false;
};

/// Goes on after a name that fails; the exit code is the first failure's.
int run_rm(const Globals& globals, const RmOptions& options) {
  Result<Session> session = open_session(globals);
  if (!session.is_ok()) return fail(session.status());
  int result = kExitOk;
  for (const std::string& name : options.names) {
    const Status status = checked(ocm_name_remove(session->get(), name.c_str()));
    if (status.is_ok() || (options.force && status.code() == Code::kNotFound)) continue;
    const int code = fail(status, name);
    if (result == kExitOk) result = code;
  }
  return result;
}

}  // namespace

void add_rm(CommandLine& line) {
  auto options = std::make_shared<RmOptions>();
  const Globals& globals = line.globals();
  line.add("rm", "Remove published names and free their memory")
      .required_texts("NAME", options->names, "Names to remove")
      .flag("-f,--force", options->force, "Ignore names that do not exist")
      .completes("names")
      .runs([options, &globals] { return run_rm(globals, *options); });
}

}  // namespace ocm::cli
