// Tables in cluster memory as the app uses them: opened by name, scanned by column names, written from a
// stream.
#pragma once

#include <stdint.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/warehouse/streams.h"
#include "base/status.h"
#include "oncilla/table.h"

namespace ocm::warehouse {

/// Where tables go, and how they are cut.
struct Writing {
  bool remote = false;             // on any node but the session's own; else on that one only
  std::vector<std::string> nodes;  // by name, in the order of use; they go before `remote`
  uint64_t chunk_rows = 0;         // of a row group; 0: the library's default
  uint32_t replicas = 1;
  bool packed = false;
  bool replace = false;
  /// Rows and bytes so far, after each row group. May be empty.
  std::function<void(uint64_t rows, uint64_t bytes)> progress;
};

/// How a scan reads; zeros are the library's defaults.
struct Reading {
  uint64_t batch_rows = 0;
  uint32_t prefetch_groups = 0;
};

/// Stores `source` under `name`.
/// Errors: those of ocm_table_create; kCancelled after Ctrl-C.
Status write_table(ocm_session* session, const std::string& name, Stream source, const Writing& writing);

/// A table in cluster memory, opened: a snapshot. Streams from it outlive it; the session must outlive both.
class Table {
 public:
  static Result<Table> open(ocm_session* session, const std::string& name);

  /// A stream of the named columns, in that order.
  /// Errors: kNotFound (no such column: which one, of which table).
  Result<Stream> scan(const std::vector<std::string>& columns, const Reading& reading) const;

  const std::string& name() const { return name_; }
  ocm_table_info info() const;
  /// What a scan of the columns needs: bytes that lie on other nodes, and bytes in all.
  struct Needed {
    uint64_t remote_bytes = 0;
    uint64_t bytes = 0;
  };
  Result<Needed> needed(const std::vector<std::string>& columns) const;
  /// Of all columns.
  Result<Needed> needed() const;
  /// The nodes that it lies on, each once, in the order of its row groups.
  Result<std::vector<std::string>> nodes() const;

 private:
  struct Closer {
    void operator()(ocm_table* table) const { ocm_table_close(table); }
  };
  Result<std::vector<uint32_t>> indices(const std::vector<std::string>& columns) const;

  std::string name_;
  std::unique_ptr<ocm_table, Closer> table_;
  Schema schema_;
};

/// The tables that a non-fused query writes; dropped at the end, whatever happened.
class Scratch {
 public:
  explicit Scratch(ocm_session* session) : session_(session) {}
  ~Scratch() { drop(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// The name in the cluster of this query's table `output`, which is to be written now.
  std::string add(const std::string& output);
  /// The same of one that was added; empty if it was not.
  std::string find(const std::string& output) const;
  void drop();

 private:
  ocm_session* session_;
  std::vector<std::pair<std::string, std::string>> names_;  // output, name in the cluster
};

}  // namespace ocm::warehouse
