// A scan: wanted columns and row groups as an Arrow stream, what is remote fetched ahead.
#pragma once

#include "table/export.h"

namespace ocm::table {

struct ScanPlan {
  std::vector<uint32_t> columns;
  std::vector<uint32_t> groups;
  uint64_t batch_rows = 0;
  uint32_t prefetch_groups = 0;
  uint32_t flags = 0;
};

/// Reads the caller's options. Errors: kOutOfRange, kInvalidArgument.
Result<ScanPlan> plan_scan(const Table& table, const ocm_scan_options& options);

/// Fills `stream`, which keeps `life`.
void start_scan(std::shared_ptr<ScanLife> life, ScanPlan plan, ArrowArrayStream* stream);

}  // namespace ocm::table
