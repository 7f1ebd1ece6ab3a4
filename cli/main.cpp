// `ocm`: a cluster from the command line.
#include <exception>

#include "cli/commands.h"
#include "cli/standard_streams.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

int run(int argc, char** argv) {
  try {
    CommandLine line;
    add_up(line);
    add_down(line);
    add_status(line);
    add_stop_check(line);
    add_top(line);
    add_alloc(line);
    add_ls(line);
    add_rm(line);
    add_put(line);
    add_get(line);
    add_bench(line);
    add_doctor(line);
    add_pool(line);
    add_cache(line);
    add_cluster(line);
    add_demo(line);
    add_completion(line);
    return line.run(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail(
        Status(Code::kNoMemory, "the system gives this program no memory for that: request less at once"));
  } catch (const std::exception& error) {  // of the standard library
    print_error(error.what());
    return kExitFailure;
  }
}

}  // namespace
}  // namespace ocm::cli

int main(int argc, char** argv) {
  using namespace ocm::cli;
  open_standard_streams();
  const int code = run(argc, argv);
  return finish_output() || code != kExitOk ? code : kExitFailure;
}
