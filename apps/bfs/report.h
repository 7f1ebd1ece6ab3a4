// What was measured, as tables for people and as one line of JSON for each subject.
#pragma once

#include <string>
#include <vector>

#include "bfs/kron.h"
#include "bfs/shoc.h"

namespace ocm::bfs {

/// SHOC's runs at one place.
struct ShocSeries {
  std::string place;  // "arrays" is the limit
  std::vector<Phases> runs;
};

void print_shoc(uint32_t vertices, const std::vector<ShocSeries>& series);
void print_shoc_json(uint32_t vertices, unsigned threads, const std::vector<ShocSeries>& series);

void print_kron(const KronOptions& options, const KronReport& report);
void print_kron_json(const KronOptions& options, unsigned threads, const KronReport& report);

}  // namespace ocm::bfs
