#include "apps/warehouse/runner.h"

#include <algorithm>
#include <deque>

#include "os/clock.h"

namespace ocm::warehouse {
namespace {

using os::now_ns;

/// The tables that one statement reads, attached to the engine. Detached at the end, when the statement's own
/// stream must be gone.
class Attached {
 public:
  explicit Attached(Engine& engine) : engine_(engine) {}
  ~Attached() {
    for (const Source& source : sources_) static_cast<void>(engine_.detach(source.name));
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  /// `stored` in the cluster is `input.table` in SQL.
  Status add(ocm_session* session, const Input& input, const std::string& stored, const Reading& reading) {
    OCM_TRY_ASSIGN(Table table, Table::open(session, stored));
    OCM_TRY_ASSIGN(Stream scan, table.scan(input.columns, reading));
    OCM_TRY_ASSIGN(const Table::Needed needed, table.needed(input.columns));
    auto flow = std::make_shared<Flow>();
    sources_.push_back({input.table, std::move(table), timed(std::move(scan), flow), flow, needed});
    return engine_.attach(input.table, sources_.back().stream);
  }

  /// What a statement came to: the failure of a source rather than what the engine made of it.
  Status judged(const Status& status) const {
    for (const Source& source : sources_) {
      if (!status.is_ok() && !source.flow->failure.is_ok()) return source.flow->failure;
    }
    return status;
  }

  /// Ends the streams and adds to `run` what passed through them.
  void account(Run& run) {
    for (Source& source : sources_) {
      static_cast<void>(engine_.detach(source.name));
      source.stream.reset();
      run.wait_ns += source.flow->wait_ns;
      run.rows_read += source.flow->rows;
      run.bytes_read += source.needed.bytes;
      run.bytes_needed += source.needed.remote_bytes;
      run.bytes_moved += source.table.info().bytes_moved;
    }
    sources_.clear();
  }

 private:
  struct Source {
    std::string name;
    Table table;
    Stream stream;
    std::shared_ptr<Flow> flow;
    Table::Needed needed;
  };
  Engine& engine_;
  std::deque<Source> sources_;  // their streams keep their addresses
};

}  // namespace

double hidden(const Parts& parts, uint64_t total_ns) {
  const uint64_t smaller = std::min(parts.transfer_ns, parts.compute_ns);
  const uint64_t sum = parts.transfer_ns + parts.compute_ns;
  if (smaller == 0 || total_ns >= sum) return 0;
  return std::min(1.0, static_cast<double>(sum - total_ns) / static_cast<double>(smaller));
}

Result<Run> Runner::fused(const Query& query) {
  Run run;
  const uint64_t start_ns = now_ns();
  Attached attached(engine_);
  for (const Input& input : query.inputs) {
    OCM_TRY(attached.add(session_, input, prefix_ + input.table, reading_));
  }
  Result<Rows> answer = engine_.rows(query.sql);
  OCM_TRY(attached.judged(answer.status()));
  run.total_ns = now_ns() - start_ns;
  run.answer = std::move(answer).value();
  attached.account(run);
  return run;
}

Status Runner::run_operator(const Operator& step, Scratch& scratch, Run& run) {
  Attached attached(engine_);
  for (const Input& input : step.inputs) {
    const std::string written = scratch.find(input.table);
    OCM_TRY(attached.add(session_, input, written.empty() ? prefix_ + input.table : written, reading_));
  }
  Result<Stream> output = engine_.stream(step.sql);
  OCM_TRY(attached.judged(output.status()));
  auto computed = std::make_shared<Flow>();
  Writing writing = writing_;
  uint64_t bytes = 0;
  writing.progress = [&](uint64_t /*rows*/, uint64_t so_far) { bytes = so_far; };
  const uint64_t start_ns = now_ns();
  const Status stored =
      write_table(session_, scratch.add(step.output), timed(std::move(output).value(), computed), writing);
  OCM_TRY(attached.judged(stored));
  run.write_ns += now_ns() - start_ns - computed->wait_ns;
  run.bytes_written += bytes;
  attached.account(run);
  return Status::ok();
}

Result<Run> Runner::by_operator(const Query& query) {
  Run run;
  Scratch scratch(session_);
  const uint64_t start_ns = now_ns();
  for (const Operator& step : query.operators) OCM_TRY(run_operator(step, scratch, run));
  Attached attached(engine_);
  OCM_TRY(attached.add(session_, query.last, scratch.find(query.last.table), reading_));
  Result<Rows> answer = engine_.rows(query.answer_sql);
  OCM_TRY(attached.judged(answer.status()));
  run.total_ns = now_ns() - start_ns;
  run.answer = std::move(answer).value();
  attached.account(run);
  return run;
}

Result<Parts> Runner::in_parts(const Query& query) {
  Parts parts;
  const uint64_t start_ns = now_ns();
  std::deque<Stream> streams;
  for (const Input& input : query.inputs) {
    OCM_TRY_ASSIGN(const Table table, Table::open(session_, prefix_ + input.table));
    OCM_TRY_ASSIGN(Stream scan, table.scan(input.columns, reading_));
    OCM_TRY_ASSIGN(std::shared_ptr<Kept> kept, keep(timed(std::move(scan), std::make_shared<Flow>())));
    streams.push_back(again(std::move(kept)));
  }
  parts.transfer_ns = now_ns() - start_ns;
  const uint64_t arrived_ns = now_ns();
  for (size_t i = 0; i < streams.size(); ++i) OCM_TRY(engine_.attach(query.inputs[i].table, streams[i]));
  const Result<Rows> answer = engine_.rows(query.sql);
  parts.compute_ns = now_ns() - arrived_ns;
  for (const Input& input : query.inputs) OCM_TRY(engine_.detach(input.table));
  OCM_TRY(answer.status());
  return parts;
}

}  // namespace ocm::warehouse
