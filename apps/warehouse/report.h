// What the app prints: tables for people, JSON lines for programs.
#pragma once

#include <string>
#include <vector>

#include "apps/warehouse/runner.h"
#include "apps/warehouse/tuning.h"

namespace ocm::warehouse {

/// All runs of one query in one form.
struct Outcome {
  std::string query;
  bool fused = true;
  std::vector<Run> runs;          // at least one
  std::vector<Parts> parts;       // of the fused form; empty where it was not measured
  std::vector<std::string> held;  // what the answer was held against: "sf1", "parquet", "fused"
};

/// What all outcomes share.
struct Setting {
  std::string place;  // "local" or "remote"
  std::string engine;
  uint32_t threads = 0;
  uint64_t lineitem_rows = 0;
  uint64_t chunk_rows = 0;  // of the tables that operators write; 0: the library's default
  Reading reading;
};

/// The run whose total is the median.
const Run& median_run(const Outcome& outcome);

/// "12.3": milliseconds.
std::string milliseconds(uint64_t ns);
std::string outcomes_table(const std::vector<Outcome>& outcomes);
/// A line of JSON without the newline.
std::string outcome_json(const Outcome& outcome, const Setting& setting);

/// The curve with the chosen point marked; only the settings that vary have a column.
std::string curve_table(const Curve& curve);
std::string curve_json(const std::string& what, const Curve& curve);

}  // namespace ocm::warehouse
