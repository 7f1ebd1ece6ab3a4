#include "bfs/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

namespace ocm::bfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kShocRatioMax = 1.3;
constexpr double kShareMax = 0.15;  // of the edges' bytes, going up and down
double ratio_max(Direction direction) { return direction == Direction::kTopDown ? 1.6 : 2.0; }

/// Millions of edges in a second that GAPBS 1.5 reaches on two cores of the kind this was written on.
std::optional<double> reference_mteps(Direction direction, unsigned scale) {
  const bool down = direction == Direction::kTopDown;
  if (scale == 20) return down ? 103 : 980;
  if (scale == 22) return down ? 71 : 814;
  return {};
}

const char* name_of(Direction direction) {
  return direction == Direction::kTopDown ? "top-down" : "optimising";
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double harmonic_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += 1 / value;
  return static_cast<double>(values.size()) / sum;
}

/// The median of the ratios of runs that belong together.
double paired_ratio(const std::vector<double>& ours, const std::vector<double>& limit) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / limit[i]);
  return median(ratios);
}

std::vector<double> totals(const ShocSeries& series) {
  std::vector<double> all;
  for (const Phases& run : series.runs) all.push_back(run.total());
  return all;
}

std::vector<double> of_phase(const ShocSeries& series, size_t phase) {
  std::vector<double> all;
  for (const Phases& run : series.runs) all.push_back(run.seconds[phase]);
  return all;
}

Json spread(const std::vector<double>& values) {
  return {{"median", median(values)},
          {"min", *std::min_element(values.begin(), values.end())},
          {"max", *std::max_element(values.begin(), values.end())}};
}

double moved_per_root(const Series& series) {
  return static_cast<double>(series.moved.bytes) / static_cast<double>(series.seconds.size());
}
double share_of(const Series& series, const KronReport& report) {
  return moved_per_root(series) / (4.0 * static_cast<double>(report.edges_kept));
}
const Series& limit_of(const Series& series, const KronReport& report) {
  return *std::find_if(report.series.begin(), report.series.end(),
                       [&](const Series& each) { return each.direction == series.direction; });
}

}  // namespace

void print_shoc(uint32_t vertices, const std::vector<ShocSeries>& series) {
  printf("SHOC: a two-way tree of %u vertices, medians of %zu runs in ms\n\n  %-16s", vertices,
         series.front().runs.size(), "PLACE");
  for (const char* name : Phases::kNames) printf("%15s", name);
  printf("%10s%9s%8s\n", "total", "ratio", "goal");
  for (const ShocSeries& each : series) {
    printf("  %-16s", each.place.c_str());
    for (size_t phase = 0; phase < Phases::kNames.size(); ++phase)
      printf("%15.3f", median(of_phase(each, phase)) * 1e3);
    printf("%10.3f", median(totals(each)) * 1e3);
    if (&each != &series.front())
      printf("%9.2f%8.1f", paired_ratio(totals(each), totals(series.front())), kShocRatioMax);
    puts("");
  }
  puts("");
}

void print_shoc_json(uint32_t vertices, unsigned threads, const std::vector<ShocSeries>& series) {
  for (const ShocSeries& each : series) {
    Json line{{"bench", "bfs"},      {"graph", "shoc"},    {"vertices", vertices},
              {"place", each.place}, {"threads", threads}, {"runs", each.runs.size()}};
    for (size_t phase = 0; phase < Phases::kNames.size(); ++phase)
      line["seconds"][Phases::kNames[phase]] = spread(of_phase(each, phase));
    line["seconds"]["total"] = spread(totals(each));
    if (&each != &series.front()) {
      const double ratio = paired_ratio(totals(each), totals(series.front()));
      line["ratio"] = ratio;
      line["ratio_max"] = kShocRatioMax;
      line["ratio_met"] = ratio <= kShocRatioMax;
    }
    puts(line.dump().c_str());
  }
}

void print_kron(const KronOptions& options, const KronReport& report) {
  printf(
      "Kronecker, scale %u, edge factor %u: %llu vertices, %llu edges, %.0f MB in both directions,\n"
      "%u first neighbours of each vertex local; %zu roots; built in %.1f s\n\n",
      options.scale, options.edge_factor, static_cast<unsigned long long>(report.vertices),
      static_cast<unsigned long long>(report.edges_generated), static_cast<double>(report.edges_kept) * 4e-6,
      options.first_neighbours, report.series.front().seconds.size(), report.build_seconds);
  printf("  %-12s%-16s%11s%10s%10s%9s%8s%13s%9s%8s%8s\n", "DIRECTION", "PLACE", "median ms", "MTEPS", "GAPBS",
         "ratio", "goal", "moved/root", "share", "goal", "valid");
  for (const Series& each : report.series) {
    const Series& limit = limit_of(each, report);
    printf("  %-12s%-16s%11.3f%10.0f", name_of(each.direction), each.place.c_str(),
           median(each.seconds) * 1e3, harmonic_mean(each.teps) / 1e6);
    const auto reference = reference_mteps(each.direction, options.scale);
    if (reference)
      printf("%10.0f", *reference);
    else
      printf("%10s", "-");
    if (&each == &limit) {
      printf("%9s%8s%13s%9s%8s", "1", "", "-", "", "");
    } else {
      printf("%9.2f%8.1f%10.2f MB%7.1f %%", paired_ratio(each.seconds, limit.seconds),
             ratio_max(each.direction), moved_per_root(each) / 1e6, share_of(each, report) * 100);
      if (each.direction == Direction::kOptimising)
        printf("%6.0f %%", kShareMax * 100);
      else
        printf("%8s", "");
    }
    if (options.validate) printf("%8u", each.validated);
    puts("");
  }
  puts("");
}

void print_kron_json(const KronOptions& options, unsigned threads, const KronReport& report) {
  for (const Series& each : report.series) {
    const Series& limit = limit_of(each, report);
    Json line{{"bench", "bfs"},
              {"graph", "kron"},
              {"scale", options.scale},
              {"edge_factor", options.edge_factor},
              {"seed", options.seed},
              {"edges_generated", report.edges_generated},
              {"edges_kept", report.edges_kept},
              {"first_neighbours", options.first_neighbours},
              {"direction", name_of(each.direction)},
              {"place", each.place},
              {"threads", threads},
              {"roots", each.seconds.size()},
              {"validated", each.validated},
              {"seconds", spread(each.seconds)},
              {"mteps_harmonic_mean", harmonic_mean(each.teps) / 1e6}};
    if (const auto reference = reference_mteps(each.direction, options.scale)) {
      line["mteps_gapbs_reference"] = *reference;
      line["ratio_to_gapbs"] = *reference * 1e6 / harmonic_mean(each.teps);
    }
    if (&each != &limit) {
      const double ratio = paired_ratio(each.seconds, limit.seconds);
      line["ratio"] = ratio;
      line["ratio_max"] = ratio_max(each.direction);
      line["ratio_met"] = ratio <= ratio_max(each.direction);
      line["moved_bytes_per_root"] = moved_per_root(each);
      line["moved_segments_per_root"] = each.moved.segments / each.seconds.size();
      line["moved_share"] = share_of(each, report);
      if (each.direction == Direction::kOptimising) {
        line["moved_share_max"] = kShareMax;
        line["moved_share_met"] = share_of(each, report) <= kShareMax;
      }
    }
    puts(line.dump().c_str());
  }
}

}  // namespace ocm::bfs
