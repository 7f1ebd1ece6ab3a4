// The SQL engine: DuckDB in this process, without storage of its own. Arrow streams in, Arrow streams out.
#pragma once

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/warehouse/duckdb.h"
#include "apps/warehouse/streams.h"
#include "base/status.h"

namespace ocm::warehouse {

/// Values as text, NULL as "NULL".
using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

/// What an engine is for. Of DuckDB's scans of Arrow streams only those through its C++ interface can tell
/// the stream which columns and rows are wanted; through C the stream must give exactly what the query was
/// planned for. So an engine for streams plans to read every column of them and to filter by itself.
enum class Reads { kStreams, kFiles };

/// Threads: one at a time, aside from interrupt().
class Engine {
 public:
  /// An empty `library` is the one that the build found.
  /// Errors: kNotFound, kUnsupported (no such library, or too old a one).
  static Result<std::unique_ptr<Engine>> open(const std::string& library, uint32_t threads, Reads reads);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// "v2.0.0"
  std::string version() const { return duckdb_.library_version(); }

  /// Runs a statement to its end. Its rows, if it has any, are dropped.
  Status run(const std::string& sql);
  /// Runs a query to its end.
  Result<Rows> rows(const std::string& query);
  /// Starts a query whose batches come as they are computed. Nothing else may run until the stream is
  /// released.
  Result<Stream> stream(const std::string& query);

  /// Lets queries read `stream` as the table `name`, once. The stream stays the caller's and must live until
  /// detach(); its columns are exactly those that the query uses, for nothing is pushed into it.
  Status attach(const std::string& name, Stream& stream);
  Status detach(const std::string& name);

  /// Ends what runs, from any thread: it fails with kCancelled or kIo.
  void interrupt() { duckdb_.interrupt(connection_); }

 private:
  explicit Engine(const Duckdb& duckdb) : duckdb_(duckdb) {}

  const Duckdb duckdb_;
  DuckDatabase database_ = nullptr;
  DuckConnection connection_ = nullptr;
};

}  // namespace ocm::warehouse
