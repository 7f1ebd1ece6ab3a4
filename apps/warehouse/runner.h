// Runs a query fused, operator by operator, or in parts, and says where the time and the bytes went.
#pragma once

#include <stdint.h>

#include <string>

#include "apps/warehouse/engine.h"
#include "apps/warehouse/queries.h"
#include "apps/warehouse/tables.h"
#include "base/status.h"

namespace ocm::warehouse {

/// One run of a query.
///   total_ns   from opening the tables to the answer
///   wait_ns    the engine waited in the streams' get_next: transfer that computing did not hide
///   write_ns   outputs of operators went into cluster memory (computing them not counted)
///   compute    is what remains of the total; with several threads some of it goes on behind wait and write
struct Run {
  Rows answer;
  uint64_t total_ns = 0;
  uint64_t wait_ns = 0;
  uint64_t write_ns = 0;
  uint64_t rows_read = 0;
  uint64_t bytes_read = 0;    // of all columns that were read, here or from other nodes
  uint64_t bytes_needed = 0;  // the part of them that lies on other nodes
  uint64_t bytes_moved = 0;   // that came from other nodes
  uint64_t bytes_written = 0;
  uint64_t compute_ns() const {
    return total_ns - (wait_ns + write_ns < total_ns ? wait_ns + write_ns : total_ns);
  }
};

/// The parts of a fused run, one after the other: first all columns come here, then the query runs on them.
struct Parts {
  uint64_t transfer_ns = 0;
  uint64_t compute_ns = 0;
};
/// How much of the smaller part an overlapped run of `total_ns` hid behind the larger: 0 to 1.
double hidden(const Parts& parts, uint64_t total_ns);

/// Threads: one.
class Runner {
 public:
  /// `prefix` goes before the names of base tables. `writing` is for the outputs of operators.
  Runner(ocm_session* session, Engine& engine, std::string prefix, Reading reading, Writing writing)
      : session_(session),
        engine_(engine),
        prefix_(std::move(prefix)),
        reading_(reading),
        writing_(std::move(writing)) {}

  Result<Run> fused(const Query& query);
  Result<Run> by_operator(const Query& query);
  Result<Parts> in_parts(const Query& query);

 private:
  Status run_operator(const Operator& step, Scratch& scratch, Run& run);

  ocm_session* session_;
  Engine& engine_;
  const std::string prefix_;
  const Reading reading_;
  const Writing writing_;
};

}  // namespace ocm::warehouse
