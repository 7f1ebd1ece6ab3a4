#include "apps/warehouse/run.h"

#include <stdio.h>

#include <algorithm>

#include "apps/warehouse/engine.h"
#include "apps/warehouse/interrupt.h"
#include "apps/warehouse/queries.h"
#include "apps/warehouse/report.h"
#include "apps/warehouse/runner.h"
#include "apps/warehouse/tuning.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::warehouse {
namespace {

constexpr uint64_t kTuningRows = 1'048'576;
constexpr const char* kTuningColumn = "l_extendedprice";

/// Where the tables are. Errors: kInvalidArgument (not where `wanted` says: which table, and where it is).
Result<std::string> place_of(ocm_session* session, const RunOptions& options) {
  std::string place = "local";
  for (const std::string& name : base_tables()) {
    OCM_TRY_ASSIGN(const Table table, Table::open(session, options.common.prefix + name));
    if (table.info().rows == 0) continue;
    OCM_TRY_ASSIGN(const Table::Needed needed, table.needed());
    const bool wrong = (options.place == "local" && needed.remote_bytes != 0) ||
                       (options.place == "remote" && needed.remote_bytes != needed.bytes);
    if (wrong) {
      OCM_TRY_ASSIGN(const std::vector<std::string> nodes, table.nodes());
      std::string where;
      for (const std::string& node : nodes) where += (where.empty() ? "" : ", ") + node;
      return Status(Code::kInvalidArgument,
                    "table " + table.name() + " is on " + where + ", which is not all " + options.place +
                        "; load it with --place " + options.place + ", or leave --place out here");
    }
    if (needed.remote_bytes != 0) place = "remote";
  }
  return place;
}

/// Answers of the engine over the Parquet files, by query.
Result<std::vector<Rows>> answers_of_files(const RunOptions& options,
                                           const std::vector<const Query*>& wanted) {
  OCM_TRY_ASSIGN(std::unique_ptr<Engine> files,
                 Engine::open(options.common.library, options.common.threads, Reads::kFiles));
  const InterruptWatch watch(*files);
  for (const std::string& name : base_tables()) {
    OCM_TRY_ASSIGN(const std::string read, parquet_sql(options.check, name));
    OCM_TRY(files->run("CREATE VIEW " + name + " AS " + read));
  }
  std::vector<Rows> answers;
  for (const Query* query : wanted) {
    OCM_TRY_ASSIGN(Rows rows, files->rows(query->sql));
    answers.push_back(std::move(rows));
  }
  return answers;
}

/// Everything of one `warehouse run`.
class Session {
 public:
  Session(const RunOptions& options, std::vector<const Query*> wanted, ocm_session* session, Engine& engine)
      : options_(options), wanted_(std::move(wanted)), session_(session), engine_(engine) {}

  Status prepare() {
    OCM_TRY_ASSIGN(setting_.place, place_of(session_, options_));
    setting_.engine = "DuckDB " + engine_.version();
    setting_.threads = options_.common.threads;
    OCM_TRY_ASSIGN(const Table lineitem, Table::open(session_, options_.common.prefix + "lineitem"));
    setting_.lineitem_rows = lineitem.info().rows;
    if (!options_.check.empty()) {
      OCM_TRY_ASSIGN(expected_, answers_of_files(options_, wanted_));
    }
    writing_.remote = setting_.place == "remote";
    return tune(lineitem);
  }

  Status measure() {
    Runner runner(session_, engine_, options_.common.prefix, setting_.reading, writing_);
    for (const Query* query : wanted_) {
      if (options_.forms != Forms::kByOperator) outcomes_.push_back({query->name, true, {}, {}, {}});
      if (options_.forms != Forms::kFused) outcomes_.push_back({query->name, false, {}, {}, {}});
    }
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      for (Outcome& outcome : outcomes_) OCM_TRY(once(runner, outcome));
    }
    return Status::ok();
  }

  void report() const {
    if (!options_.common.json) {
      fputs(outcomes_table(outcomes_).c_str(), stdout);
      return;
    }
    for (const Outcome& outcome : outcomes_) puts(outcome_json(outcome, setting_).c_str());
  }

 private:
  void show(const char* what, const char* explained, const Curve& curve) const {
    if (options_.common.json) {
      puts(curve_json(what, curve).c_str());
    } else {
      printf("%s\n%s\n", explained, curve_table(curve).c_str());
    }
  }

  Status tune(const Table& lineitem) {
    if (options_.chunk_rows != 0) {
      writing_.chunk_rows = options_.chunk_rows;
      setting_.reading.batch_rows = options_.chunk_rows;
      setting_.chunk_rows = options_.chunk_rows;
      return Status::ok();
    }
    OCM_TRY_ASSIGN(const Curve reading, tune_reading(engine_, lineitem, kTuningColumn));
    const Point& chosen = reading.points[reading.chosen];
    setting_.reading = {chosen.batch_rows, chosen.prefetch_groups};
    show("reading", "arrays and prefetch, measured on a column of lineitem as it is stored:", reading);
    if (options_.forms == Forms::kFused) return Status::ok();
    OCM_TRY_ASSIGN(Stream scan, lineitem.scan({kTuningColumn}, {}));
    OCM_TRY_ASSIGN(std::shared_ptr<Kept> sample, keep(std::move(scan), kTuningRows));
    OCM_TRY_ASSIGN(const Curve chunks, tune_chunk_rows(session_, engine_, sample, writing_));
    writing_.chunk_rows = setting_.chunk_rows = chunks.points[chunks.chosen].chunk_rows;
    show("chunk_rows", "chunks of the tables that operators write, measured on the same column:", chunks);
    return Status::ok();
  }

  Status once(Runner& runner, Outcome& outcome) {
    OCM_TRY(tools::check_interrupt());
    const auto at = std::find_if(wanted_.begin(), wanted_.end(),
                                 [&](const Query* query) { return query->name == outcome.query; });
    const Query& query = **at;
    Result<Run> run = outcome.fused ? runner.fused(query) : runner.by_operator(query);
    OCM_TRY(named(query, run.status()));
    outcome.held.clear();
    OCM_TRY(check(query, static_cast<size_t>(at - wanted_.begin()), run->answer, outcome));
    outcome.runs.push_back(std::move(run).value());
    if (!outcome.fused) return Status::ok();
    Result<Parts> parts = runner.in_parts(query);
    OCM_TRY(named(query, parts.status()));
    outcome.parts.push_back(*parts);
    return Status::ok();
  }

  static Status named(const Query& query, const Status& status) {
    if (status.is_ok()) return status;
    return Status(status.code(), "query " + query.name + ": " + std::string(status.message()));
  }

  Status check(const Query& query, size_t index, const Rows& answer, Outcome& outcome) {
    auto held = [&](const char* against, const Rows& expected) {
      outcome.held.push_back(against);
      return named(query, compare(answer, expected));
    };
    if (setting_.lineitem_rows == kLineitemRowsSf1) OCM_TRY(held("sf1", query.answer_sf1));
    if (!expected_.empty()) OCM_TRY(held("parquet", expected_[index]));
    for (const Outcome& other : outcomes_) {
      if (other.query != query.name || other.fused == outcome.fused || other.runs.empty()) continue;
      OCM_TRY(held(outcome.fused ? "non-fused" : "fused", other.runs.front().answer));
    }
    return Status::ok();
  }

  const RunOptions& options_;
  const std::vector<const Query*> wanted_;
  ocm_session* session_;
  Engine& engine_;
  Setting setting_;
  Writing writing_;
  std::vector<Rows> expected_;  // by query; empty without --check
  std::vector<Outcome> outcomes_;
};

}  // namespace

Status run(const RunOptions& options) {
  std::vector<const Query*> wanted;
  for (const std::string& name : options.queries) {
    OCM_TRY_ASSIGN(const Query* query, find_query(name));
    wanted.push_back(query);
  }
  if (wanted.empty()) {
    for (const Query& query : queries()) wanted.push_back(&query);
  }
  const Common& common = options.common;
  OCM_TRY_ASSIGN(const tools::Session session, tools::open_session(tools::Globals{common.socket, "auto"}));
  OCM_TRY_ASSIGN(std::unique_ptr<Engine> engine,
                 Engine::open(common.library, common.threads, Reads::kStreams));
  const InterruptWatch watch(*engine);
  Session all(options, std::move(wanted), session.get(), *engine);
  OCM_TRY(all.prepare());
  OCM_TRY(all.measure());
  all.report();
  return Status::ok();
}

}  // namespace ocm::warehouse
