#include "apps/warehouse/engine.h"

#include <errno.h>
#include <string.h>

#include <string_view>

#ifndef OCM_DUCKDB_LIBRARY
#define OCM_DUCKDB_LIBRARY ""
#define OCM_DUCKDB_PYTHON ""
#endif

namespace ocm::warehouse {
namespace {

std::string text_of(const char* text, const char* otherwise) {
  return text != nullptr && *text != '\0' ? text : otherwise;
}

/// A running query as an Arrow stream. Owns the result.
class Running {
 public:
  Running(const Duckdb& duckdb, const DuckResult& result)
      : duckdb_(duckdb), result_(result), options_(duckdb.result_get_arrow_options(&result_)) {}
  ~Running() {
    duckdb_.destroy_arrow_options(&options_);
    duckdb_.destroy_result(&result_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  int schema(ArrowSchema* out) {
    const uint64_t count = duckdb_.column_count(&result_);
    std::vector<DuckType> types(count);
    std::vector<const char*> names(count);
    for (uint64_t i = 0; i < count; ++i) {
      types[i] = duckdb_.column_logical_type(&result_, i);
      names[i] = duckdb_.column_name(&result_, i);
    }
    const int result = noted(duckdb_.to_arrow_schema(options_, types.data(), names.data(), count, out));
    for (DuckType& type : types) duckdb_.destroy_logical_type(&type);
    return result;
  }

  int next(ArrowArray* out) {
    *out = {};
    DuckChunk chunk = duckdb_.fetch_chunk(result_);
    if (chunk == nullptr) {
      error_ = text_of(duckdb_.result_error(&result_), "");
      return error_.empty() ? 0 : EIO;
    }
    const int result = noted(duckdb_.data_chunk_to_arrow(options_, chunk, out));
    duckdb_.destroy_data_chunk(&chunk);
    return result;
  }

  const char* error() const { return error_.c_str(); }

 private:
  int noted(DuckErrorData data) {
    if (data == nullptr) return 0;
    const bool failed = duckdb_.error_data_has_error(data);
    if (failed) error_ = text_of(duckdb_.error_data_message(data), "the engine gave no reason");
    duckdb_.destroy_error_data(&data);
    return failed ? EIO : 0;
  }

  const Duckdb& duckdb_;
  DuckResult result_;
  DuckArrowOptions options_;
  std::string error_;
};

/// Cell `row` of a utf8 column with 32-bit offsets.
std::string text_cell(const ArrowArray& column, int64_t row) {
  const int64_t at = column.offset + row;
  const auto* valid = static_cast<const uint8_t*>(column.buffers[0]);
  if (valid != nullptr && (valid[at / 8] >> (at % 8) & 1) == 0) return "NULL";
  const auto* offsets = static_cast<const int32_t*>(column.buffers[1]);
  return {static_cast<const char*>(column.buffers[2]) + offsets[at],
          static_cast<size_t>(offsets[at + 1] - offsets[at])};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const std::string& library, uint32_t threads, Reads reads) {
  const bool found = library.empty();
  OCM_TRY_ASSIGN(const Duckdb duckdb,
                 load_duckdb(found ? OCM_DUCKDB_LIBRARY : library, found ? OCM_DUCKDB_PYTHON : ""));
  std::unique_ptr<Engine> engine(new Engine(duckdb));
  if (duckdb.open(nullptr, &engine->database_) != 0 ||
      duckdb.connect(engine->database_, &engine->connection_) != 0) {
    return Status(Code::kNoMemory, "DuckDB cannot open a database in memory");
  }
  OCM_TRY(engine->run("SET threads = " + std::to_string(threads)));
  // Plain strings, and decimals as wide as their digits need.
  OCM_TRY(engine->run("SET arrow_output_version = '1.5'"));
  OCM_TRY(engine->run("SET produce_arrow_string_view = false"));
  if (reads == Reads::kStreams) {
    OCM_TRY(engine->run("SET disabled_optimizers = 'unused_columns,filter_pushdown,join_filter_pushdown'"));
    OCM_TRY(engine->run("SET preserve_insertion_order = false"));
  }
  return engine;
}

Engine::~Engine() {
  if (connection_ != nullptr) duckdb_.disconnect(&connection_);
  if (database_ != nullptr) duckdb_.close(&database_);
}

Result<Stream> Engine::stream(const std::string& query) {
  DuckStatement statement = nullptr;
  DuckPending pending = nullptr;
  DuckResult result{};
  Status status;
  if (duckdb_.prepare(connection_, query.c_str(), &statement) != 0) {
    status =
        Status(Code::kIo, text_of(duckdb_.prepare_error(statement), "DuckDB cannot prepare a statement"));
  } else if (duckdb_.pending_prepared_streaming(statement, &pending) != 0) {
    status = Status(Code::kIo, text_of(duckdb_.pending_error(pending), "DuckDB cannot start a statement"));
  } else if (duckdb_.execute_pending(pending, &result) != 0) {
    status = Status(Code::kIo, text_of(duckdb_.result_error(&result), "DuckDB cannot run a statement"));
    duckdb_.destroy_result(&result);
  }
  if (pending != nullptr) duckdb_.destroy_pending(&pending);
  if (statement != nullptr) duckdb_.destroy_prepare(&statement);
  OCM_TRY(status);
  return stream_of(std::make_unique<Running>(duckdb_, result));
}

Status Engine::run(const std::string& sql) {
  OCM_TRY_ASSIGN(Stream result, stream(sql));
  while (true) {
    Batch batch;
    const int error = result->get_next(result.get(), batch.get());
    if (error != 0) return stream_error(result.get(), error, "DuckDB");
    if (!batch) return Status::ok();
  }
}

Result<Rows> Engine::rows(const std::string& query) {
  OCM_TRY_ASSIGN(Stream result, stream("SELECT COLUMNS(*)::VARCHAR FROM (" + query + ")"));
  Rows rows;
  while (true) {
    Batch batch;
    const int error = result->get_next(result.get(), batch.get());
    if (error != 0) return stream_error(result.get(), error, "DuckDB");
    if (!batch) return rows;
    for (int64_t row = 0; row < batch->length; ++row) {
      Row& cells = rows.emplace_back();
      for (int64_t i = 0; i < batch->n_children; ++i) cells.push_back(text_cell(*batch->children[i], row));
    }
  }
}

Status Engine::attach(const std::string& name, Stream& stream) {
  if (duckdb_.arrow_scan(connection_, name.c_str(), stream.get()) == 0) return Status::ok();
  return Status(Code::kIo, "DuckDB cannot read the stream of table " + name);
}

Status Engine::detach(const std::string& name) { return run("DROP VIEW IF EXISTS \"" + name + "\""); }

}  // namespace ocm::warehouse
