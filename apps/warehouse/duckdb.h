// The few functions of DuckDB's C interface that the app calls, found in a library at run time.
//
// Source: https://duckdb.org/docs/stable/clients/c/api. The PyPI wheel's module exports all of it but ships
// no header; a stand-alone libduckdb.so serves as well.
#pragma once

#include <stdint.h>

#include <string>

#include "base/status.h"
#include "oncilla/table.h"

namespace ocm::warehouse {

using DuckDatabase = struct DuckDatabaseOpaque*;
using DuckConnection = struct DuckConnectionOpaque*;
using DuckStatement = struct DuckStatementOpaque*;
using DuckPending = struct DuckPendingOpaque*;
using DuckChunk = struct DuckChunkOpaque*;
using DuckType = struct DuckTypeOpaque*;
using DuckArrowOptions = struct DuckArrowOptionsOpaque*;
using DuckErrorData = struct DuckErrorDataOpaque*;
using DuckState = int;  // 0 is success
/// Passed by value in the C interface, hence its exact shape.
struct DuckResult {
  uint64_t deprecated[3];
  void* deprecated_columns;
  char* deprecated_error;
  void* internal;
};

/// name, then its type.
#define OCM_DUCKDB_FUNCTIONS(X)                                                                        \
  X(library_version, const char*())                                                                    \
  X(open, DuckState(const char*, DuckDatabase*))                                                       \
  X(close, void(DuckDatabase*))                                                                        \
  X(connect, DuckState(DuckDatabase, DuckConnection*))                                                 \
  X(disconnect, void(DuckConnection*))                                                                 \
  X(interrupt, void(DuckConnection))                                                                   \
  X(prepare, DuckState(DuckConnection, const char*, DuckStatement*))                                   \
  X(prepare_error, const char*(DuckStatement))                                                         \
  X(destroy_prepare, void(DuckStatement*))                                                             \
  X(pending_prepared_streaming, DuckState(DuckStatement, DuckPending*))                                \
  X(pending_error, const char*(DuckPending))                                                           \
  X(execute_pending, DuckState(DuckPending, DuckResult*))                                              \
  X(destroy_pending, void(DuckPending*))                                                               \
  X(result_error, const char*(DuckResult*))                                                            \
  X(destroy_result, void(DuckResult*))                                                                 \
  X(fetch_chunk, DuckChunk(DuckResult))                                                                \
  X(destroy_data_chunk, void(DuckChunk*))                                                              \
  X(column_count, uint64_t(DuckResult*))                                                               \
  X(column_name, const char*(DuckResult*, uint64_t))                                                   \
  X(column_logical_type, DuckType(DuckResult*, uint64_t))                                              \
  X(destroy_logical_type, void(DuckType*))                                                             \
  X(result_get_arrow_options, DuckArrowOptions(DuckResult*))                                           \
  X(destroy_arrow_options, void(DuckArrowOptions*))                                                    \
  X(to_arrow_schema, DuckErrorData(DuckArrowOptions, DuckType*, const char**, uint64_t, ArrowSchema*)) \
  X(data_chunk_to_arrow, DuckErrorData(DuckArrowOptions, DuckChunk, ArrowArray*))                      \
  X(error_data_has_error, bool(DuckErrorData))                                                         \
  X(error_data_message, const char*(DuckErrorData))                                                    \
  X(destroy_error_data, void(DuckErrorData*))                                                          \
  X(arrow_scan, DuckState(DuckConnection, const char*, ArrowArrayStream*))

/// Each of them as a pointer: `duckdb.open` is duckdb_open. Never unloaded.
struct Duckdb {
#define OCM_DUCKDB_POINTER(name, type) \
  using name##_type = type;            \
  name##_type* name = nullptr;
  OCM_DUCKDB_FUNCTIONS(OCM_DUCKDB_POINTER)
#undef OCM_DUCKDB_POINTER
};

/// Loads `library`; `python` (may be empty) first, for a wheel's module refers to the interpreter's symbols,
/// although none of it runs.
/// Errors: kNotFound (what the loader says), kUnsupported (a function is missing: which one).
Result<Duckdb> load_duckdb(const std::string& library, const std::string& python);

}  // namespace ocm::warehouse
