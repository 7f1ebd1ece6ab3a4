// Chunk sizes by measurement: one column, read by the engine as the queries read, under a few settings.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

#include "apps/warehouse/engine.h"
#include "apps/warehouse/tables.h"
#include "base/status.h"

namespace ocm::warehouse {

/// One setting and what it came to.
struct Point {
  uint64_t chunk_rows = 0;       // rows of a row group, which is moved by one vectored get
  uint64_t batch_rows = 0;       // rows of an array that the engine is given
  uint32_t prefetch_groups = 0;  // row groups moved ahead of the engine
  uint64_t bytes = 0;
  uint64_t ns = 0;  // the median of the rounds
};
struct Curve {
  std::vector<Point> points;
  size_t chosen = 0;
};

/// The first of the points (which go from little memory in flight to much) that is at most 5 % slower than
/// the fastest: a larger chunk must be worth its memory. There is at least one point.
size_t choose(const std::vector<Point>& points);

/// Rows in a row group: `sample` is written as a table for each size and read back.
Result<Curve> tune_chunk_rows(ocm_session* session, Engine& engine, const std::shared_ptr<Kept>& sample,
                              const Writing& writing);
/// Arrays and prefetch for a table as it is.
Result<Curve> tune_reading(Engine& engine, const Table& table, const std::string& column);

}  // namespace ocm::warehouse
