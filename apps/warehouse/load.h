// `warehouse load`: Parquet files into tables in cluster memory, streamed.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

#include "apps/warehouse/tables.h"
#include "base/status.h"

namespace ocm::warehouse {

struct Common {
  std::string socket;   // --socket; empty: as `ocm` finds it
  std::string library;  // --engine; empty: the one that the build found
  std::string prefix;   // before the names of tables
  uint32_t threads = 0;
  bool json = false;
};

struct LoadOptions {
  Common common;
  std::string parquet;  // a folder
  std::vector<std::string> tables;
  Writing writing;
  bool tune = true;  // choose writing.chunk_rows by measurement
};
Status load(const LoadOptions& options);

}  // namespace ocm::warehouse
