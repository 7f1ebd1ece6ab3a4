// The micro-benchmarks: what each reads, as one pipeline and operator by operator, and what must come out.
//
// Every query ends in a small answer (counts and exact sums), so that both forms are compared value by value
// and the engine can leave out nothing. select, A and C count and sum over the rows that their last operator
// gives. Source: Oncilla (Cluster '13) V-VI; TPC-H 2.4.1, 2.4.6.
#pragma once

#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

#include "apps/warehouse/engine.h"
#include "base/status.h"

namespace ocm::warehouse {

/// A table and the columns of it that are read.
struct Input {
  std::string table;  // of TPC-H, or the output of an operator before
  std::vector<std::string> columns;
};

/// One operator of the non-fused form: its output becomes the table `output` in cluster memory.
struct Operator {
  std::string output;
  std::string says;  // "σ l_shipdate < 1995-06-17"
  std::vector<Input> inputs;
  std::string sql;
};

struct Query {
  std::string name;
  std::vector<Input> inputs;  // of the fused form
  std::string sql;            // the fused form
  std::vector<Operator> operators;
  Input last;              // what the non-fused answer reads: an operator's output
  std::string answer_sql;  // over it
  Rows answer_sf1;         // at scale factor 1
};

/// All of them, in the order of the documents.
const std::vector<Query>& queries();
/// Errors: kInvalidArgument (which one is unknown, and the known ones).
Result<const Query*> find_query(std::string_view name);

/// Rows of lineitem at scale factor 1: the answers above hold for a table of that many.
inline constexpr uint64_t kLineitemRowsSf1 = 6'001'215;

/// Whether `answer` is `expected`.
/// Errors: kBadChecksum (the first cell that differs, both values).
Status compare(const Rows& answer, const Rows& expected);

/// The tables of TPC-H that the queries read.
const std::vector<std::string>& base_tables();
/// `text` as a literal of SQL: in single quotes, quotes doubled.
std::string sql_literal(std::string_view text);
/// The Parquet files of a table below a folder: DIR/TABLE/*.parquet, or DIR/TABLE.parquet, as SQL that reads
/// them. Errors: kNotFound.
Result<std::string> parquet_sql(const std::string& folder, const std::string& table);

}  // namespace ocm::warehouse
