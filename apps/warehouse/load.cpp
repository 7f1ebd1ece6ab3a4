#include "apps/warehouse/load.h"

#include <stdio.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/warehouse/engine.h"
#include "apps/warehouse/interrupt.h"
#include "apps/warehouse/queries.h"
#include "apps/warehouse/report.h"
#include "apps/warehouse/tuning.h"
#include "base/units.h"
#include "os/clock.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::warehouse {
namespace {

constexpr uint64_t kSampleRows = 1'048'576;

/// On the first column of the first table: a key, as wide as what the queries read.
Result<Curve> tune(ocm_session* session, const LoadOptions& options, Engine& files, const std::string& read) {
  OCM_TRY_ASSIGN(std::unique_ptr<Engine> streams,
                 Engine::open(options.common.library, options.common.threads, Reads::kStreams));
  OCM_TRY_ASSIGN(Stream sample,
                 files.stream("SELECT #1 FROM (" + read + ") LIMIT " + std::to_string(kSampleRows)));
  OCM_TRY_ASSIGN(std::shared_ptr<Kept> kept, keep(std::move(sample)));
  return tune_chunk_rows(session, *streams, kept, options.writing);
}

void show_progress(const std::string& table, uint64_t rows, uint64_t bytes) {
  if (isatty(STDERR_FILENO) == 0) return;
  fprintf(stderr, "\r\033[K%s: %llu rows, %s", table.c_str(), static_cast<unsigned long long>(rows),
          format_bytes(bytes).c_str());
  fflush(stderr);
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) fputs("\r\033[K", stderr);
}

/// What the load of one table came to, printed at once.
Status tell(ocm_session* session, const LoadOptions& options, const std::string& name, uint64_t ns) {
  OCM_TRY_ASSIGN(const Table table, Table::open(session, name));
  OCM_TRY_ASSIGN(const std::vector<std::string> nodes, table.nodes());
  const ocm_table_info info = table.info();
  const double seconds = static_cast<double>(ns) / 1e9;
  if (options.common.json) {
    const nlohmann::ordered_json line{{"table", name},         {"rows", info.rows}, {"bytes", info.bytes},
                                      {"groups", info.groups}, {"nodes", nodes},    {"ms", seconds * 1e3}};
    puts(line.dump().c_str());
  } else {
    std::string where;
    for (const std::string& node : nodes) where += (where.empty() ? "" : ", ") + tools::printable(node);
    printf("%-12s %12llu rows  %10s  %4u chunks  %8.2f s  %10s  on %s\n", name.c_str(),
           static_cast<unsigned long long>(info.rows), format_bytes(info.bytes).c_str(), info.groups, seconds,
           tools::format_rate(static_cast<double>(info.bytes) / seconds).c_str(),
           where.empty() ? "no node (no rows)" : where.c_str());
  }
  fflush(stdout);
  return Status::ok();
}

}  // namespace

Status load(const LoadOptions& options) {
  std::vector<std::string> reads;
  for (const std::string& table : options.tables) {
    OCM_TRY_ASSIGN(std::string read, parquet_sql(options.parquet, table));
    reads.push_back(std::move(read));
  }
  const Common& common = options.common;
  OCM_TRY_ASSIGN(const tools::Session session, tools::open_session(tools::Globals{common.socket, "auto"}));
  OCM_TRY_ASSIGN(std::unique_ptr<Engine> files, Engine::open(common.library, common.threads, Reads::kFiles));
  const InterruptWatch watch(*files);
  Writing writing = options.writing;
  if (options.tune) {
    OCM_TRY_ASSIGN(const Curve curve, tune(session.get(), options, *files, reads.front()));
    writing.chunk_rows = curve.points[curve.chosen].chunk_rows;
    if (common.json) {
      puts(curve_json("chunk_rows", curve).c_str());
    } else {
      printf("chunks, measured on a column of %s:\n%s\n", options.tables.front().c_str(),
             curve_table(curve).c_str());
    }
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    const std::string name = common.prefix + options.tables[i];
    writing.progress = [&](uint64_t rows, uint64_t bytes) { show_progress(name, rows, bytes); };
    const uint64_t start_ns = os::now_ns();
    OCM_TRY_ASSIGN(Stream source, files->stream(reads[i]));
    const auto flow = std::make_shared<Flow>();
    const Status status = write_table(session.get(), name, timed(std::move(source), flow), writing);
    end_progress();
    OCM_TRY(status);
    OCM_TRY(tell(session.get(), options, name, os::now_ns() - start_ns));
  }
  return Status::ok();
}

}  // namespace ocm::warehouse
