// `warehouse run`: the queries on tables in cluster memory, in rounds, each answer checked.
#pragma once

#include <string>
#include <vector>

#include "apps/warehouse/load.h"

namespace ocm::warehouse {

enum class Forms { kFused, kByOperator, kBoth };

struct RunOptions {
  Common common;
  std::vector<std::string> queries;  // empty: all
  Forms forms = Forms::kBoth;
  std::string place = "auto";  // "auto", "local" or "remote": where the tables are, and operators write
  uint32_t rounds = 3;
  uint64_t chunk_rows = 0;  // 0: by measurement
  std::string check;        // a folder of Parquet files that answers are held against; empty: none
};
/// Errors: kBadChecksum (a wrong answer: of which query, and where), and those of tables and the engine.
Status run(const RunOptions& options);

}  // namespace ocm::warehouse
