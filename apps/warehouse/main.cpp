// `warehouse`: the micro-benchmarks of the warehouse workload on tables in cluster memory, without Python.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <thread>

#include "apps/warehouse/load.h"
#include "apps/warehouse/queries.h"
#include "apps/warehouse/run.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace {

using namespace ocm::warehouse;

constexpr const char* kExamples =
    "Examples:\n"
    "  tpchgen-cli parquet -s 1 --output-dir sf1\n"
    "  warehouse load --parquet sf1 --place remote\n"
    "  warehouse run --rounds 5\n"
    "  warehouse run --queries A,B,C --fused both --check sf1 --json\n"
    "\n"
    "`ocm up --nodes 3` starts a cluster to try it on. Exit codes are those of ocm(1); 1 is also a wrong "
    "answer.";

constexpr uint64_t kChunkRowsMin = 1'024;
constexpr uint64_t kChunkRowsMax = uint64_t{1} << 30;

void add_common(CLI::App& command, Common& common) {
  command.add_option("--socket", common.socket, "The daemon's socket [$OCM_SOCKET, else as ocm finds it]");
  command.add_option("--engine", common.library, "A libduckdb.so to use [the one that the build found]");
  command.add_option("--prefix", common.prefix, "Prefix of the tables' names");
  command.add_option("--threads", common.threads, "Threads of the engine")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", common.json, "Print JSON lines");
}

/// "auto" is 0.
void add_chunk_rows(CLI::App& command, std::string& text, const char* help) {
  const auto fault = [](const std::string& given) -> std::string {
    uint64_t rows = 0;
    const bool number = CLI::detail::lexical_cast(given, rows);
    if (given == "auto" || (number && rows >= kChunkRowsMin && rows <= kChunkRowsMax)) return "";
    return given + " is neither auto nor from " + std::to_string(kChunkRowsMin) + " to " +
           std::to_string(kChunkRowsMax);
  };
  command.add_option("--chunk-rows", text, help)->check(CLI::Validator(fault, ""))->type_name("auto|N");
}
uint64_t chunk_rows_of(const std::string& text) { return text == "auto" ? 0 : std::stoull(text); }

int finish(const ocm::Status& status) {
  if (status.is_ok()) return ocm::tools::kExitOk;
  std::string text(status.message());
  std::replace(text.begin(), text.end(), '\n', ' ');
  fflush(stdout);
  fprintf(stderr, "warehouse: %s\n", ocm::tools::printable(text).c_str());
  return ocm::tools::exit_code(ocm::tools::interrupted() ? ocm::Code::kCancelled : status.code());
}

/// What CLI11 fills besides the options themselves.
struct Words {
  std::string load_place = "remote", load_chunk_rows = "auto";
  std::string fused = "both", run_chunk_rows = "auto";
};

CLI::App* add_load(CLI::App& app, LoadOptions& options, Words& words) {
  CLI::App* command = app.add_subcommand("load", "Put Parquet files into cluster memory");
  add_common(*command, options.common);
  command->add_option("--parquet", options.parquet, "Folder with TABLE.parquet or TABLE/*.parquet")
      ->required()
      ->type_name("DIR");
  command->add_option("--tables", options.tables, "Which tables")->delimiter(',')->capture_default_str();
  command->add_option("--place", words.load_place, "On this node, or on any but this one")
      ->check(CLI::IsMember({"local", "remote"}))
      ->capture_default_str();
  command->add_option("--nodes", options.writing.nodes, "On these nodes instead")->delimiter(',');
  command->add_flag("--packed", options.writing.packed,
                    "Store integers in as few bits as they need: fewer bytes to move");
  command->add_option("--replicas", options.writing.replicas, "Copies on different nodes")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->capture_default_str();
  add_chunk_rows(*command, words.load_chunk_rows,
                 "Rows in a chunk, which is moved as one; auto: by measurement");
  command->add_flag("--replace", options.writing.replace, "Replace tables that exist");
  return command;
}

CLI::App* add_run(CLI::App& app, RunOptions& options, Words& words) {
  CLI::App* command = app.add_subcommand("run", "Run the queries, check the answers, report the phases");
  add_common(*command, options.common);
  command->add_option("--queries", options.queries, "Which queries [all]")->delimiter(',');
  command->add_option("--fused", words.fused, "As one pipeline, operator by operator, or both")
      ->check(CLI::IsMember({"yes", "no", "both"}))
      ->capture_default_str();
  command->add_option("--place", options.place, "Where the tables must be; operators write there")
      ->check(CLI::IsMember({"auto", "local", "remote"}))
      ->capture_default_str();
  command->add_option("--rounds", options.rounds, "Number of rounds; the median is reported")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  add_chunk_rows(*command, words.run_chunk_rows, "Rows in arrays and in the chunks that operators write");
  command
      ->add_option("--check", options.check,
                   "Compare the answers with those from the Parquet files in this folder")
      ->type_name("DIR");
  return command;
}

int run_command(int argc, char** argv) {
  CLI::App app(
      "Select, join, A, B, C, Q1 and Q6 on tables in cluster memory, fused and operator by operator");
  app.footer(kExamples);
  app.require_subcommand(1);
  LoadOptions load_options;
  RunOptions run_options;
  Words words;
  load_options.tables = base_tables();
  load_options.common.threads = std::max(1u, std::thread::hardware_concurrency());
  run_options.common.threads = load_options.common.threads;
  const CLI::App* load_command = add_load(app, load_options, words);
  add_run(app, run_options, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? ocm::tools::kExitOk : ocm::tools::kExitUsage;
  }
  ocm::tools::set_color("auto");
  ocm::tools::catch_interrupts();
  if (load_command->parsed()) {
    load_options.writing.remote = words.load_place == "remote";
    load_options.writing.chunk_rows = chunk_rows_of(words.load_chunk_rows);
    load_options.tune = load_options.writing.chunk_rows == 0;
    return finish(load(load_options));
  }
  run_options.forms = words.fused == "both"  ? Forms::kBoth
                      : words.fused == "yes" ? Forms::kFused
                                             : Forms::kByOperator;
  run_options.chunk_rows = chunk_rows_of(words.run_chunk_rows);
  return finish(run(run_options));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const std::exception& error) {  // std::bad_alloc and the like from the standard library
    fprintf(stderr, "warehouse: %s\n", error.what());
    return ocm::tools::kExitFailure;
  }
}
