#include "apps/warehouse/report.h"

#include <stdio.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/output.h"

namespace ocm::warehouse {
namespace {

using Json = nlohmann::ordered_json;

std::string decimal(const char* pattern, double value) {
  std::array<char, 48> text{};
  snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

template <class Items, class Get>
std::vector<uint64_t> sorted(const Items& items, Get get) {
  std::vector<uint64_t> values;
  for (const auto& item : items) values.push_back(get(item));
  std::sort(values.begin(), values.end());
  return values;
}

/// The parts whose members are each the median of the rounds.
Parts median_parts(const std::vector<Parts>& parts) {
  const auto transfer = sorted(parts, [](const Parts& each) { return each.transfer_ns; });
  const auto compute = sorted(parts, [](const Parts& each) { return each.compute_ns; });
  return {transfer[transfer.size() / 2], compute[compute.size() / 2]};
}

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

template <class Get>
Json spread(const std::vector<Run>& runs, Get get) {
  const auto values = sorted(runs, get);
  return {{"median", ms(values[values.size() / 2])}, {"min", ms(values.front())}, {"max", ms(values.back())}};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string percent(double share) { return decimal("%.0f %%", share * 100); }

std::string bytes_or_dash(uint64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

}  // namespace

const Run& median_run(const Outcome& outcome) {
  std::vector<const Run*> order;
  for (const Run& run : outcome.runs) order.push_back(&run);
  std::sort(order.begin(), order.end(), [](const Run* a, const Run* b) { return a->total_ns < b->total_ns; });
  return *order[order.size() / 2];
}

std::string milliseconds(uint64_t ns) { return decimal("%.1f", ms(ns)); }

std::string outcomes_table(const std::vector<Outcome>& outcomes) {
  tools::Table table({"query", "form", ">total ms", ">transfer ms", ">compute ms", ">moved", ">needed",
                      ">written", ">alone: transfer", ">compute", ">hidden", "answer held against"});
  for (const Outcome& outcome : outcomes) {
    const Run& run = median_run(outcome);
    std::vector<std::string> alone{"-", "-", "-"};
    if (!outcome.parts.empty()) {
      const Parts parts = median_parts(outcome.parts);
      alone = {milliseconds(parts.transfer_ns), milliseconds(parts.compute_ns),
               run.bytes_moved == 0 ? "-" : percent(hidden(parts, run.total_ns))};
    }
    table.add({outcome.query, outcome.fused ? "fused" : "non-fused", milliseconds(run.total_ns),
               milliseconds(run.wait_ns + run.write_ns), milliseconds(run.compute_ns()),
               bytes_or_dash(run.bytes_moved), bytes_or_dash(run.bytes_needed),
               bytes_or_dash(run.bytes_written), alone[0], alone[1], alone[2],
               outcome.held.empty() ? "nothing" : joined(outcome.held)});
  }
  return table.to_string();
}

std::string outcome_json(const Outcome& outcome, const Setting& setting) {
  const Run& run = median_run(outcome);
  Json line{{"query", outcome.query},       {"form", outcome.fused ? "fused" : "non-fused"},
            {"place", setting.place},       {"engine", setting.engine},
            {"threads", setting.threads},   {"lineitem_rows", setting.lineitem_rows},
            {"rounds", outcome.runs.size()}};
  line["total_ms"] = spread(outcome.runs, [](const Run& each) { return each.total_ns; });
  line["transfer_ms"] = spread(outcome.runs, [](const Run& each) { return each.wait_ns + each.write_ns; });
  line["wait_ms"] = spread(outcome.runs, [](const Run& each) { return each.wait_ns; });
  line["write_ms"] = spread(outcome.runs, [](const Run& each) { return each.write_ns; });
  line["compute_ms"] = spread(outcome.runs, [](const Run& each) { return each.compute_ns(); });
  if (!outcome.parts.empty()) {
    const Parts parts = median_parts(outcome.parts);
    line["alone"] = {{"transfer_ms", ms(parts.transfer_ns)},
                     {"compute_ms", ms(parts.compute_ns)},
                     {"hidden", hidden(parts, run.total_ns)}};
  }
  line["rows_read"] = run.rows_read;
  line["bytes_read"] = run.bytes_read;
  line["bytes_needed"] = run.bytes_needed;
  line["bytes_moved"] = run.bytes_moved;
  line["bytes_written"] = run.bytes_written;
  line["chunk_rows"] = setting.chunk_rows;
  line["batch_rows"] = setting.reading.batch_rows;
  line["prefetch_groups"] = setting.reading.prefetch_groups;
  line["answer"] = run.answer;
  line["held_against"] = outcome.held;
  return line.dump();
}

std::string curve_table(const Curve& curve) {
  const bool chunks = curve.points.front().chunk_rows != 0;
  tools::Table table(chunks ? std::vector<std::string>{">chunk rows", ">ms", ">rate", ""}
                            : std::vector<std::string>{">prefetch", ">array rows", ">ms", ">rate", ""});
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const Point& point = curve.points[i];
    std::vector<std::string> cells{std::to_string(chunks ? point.chunk_rows : point.prefetch_groups)};
    if (!chunks) cells.push_back(std::to_string(point.batch_rows));
    const double seconds = static_cast<double>(std::max<uint64_t>(point.ns, 1)) / 1e9;
    cells.insert(cells.end(),
                 {milliseconds(point.ns), tools::format_rate(static_cast<double>(point.bytes) / seconds),
                  i == curve.chosen ? "<- chosen" : ""});
    table.add(std::move(cells));
  }
  return table.to_string();
}

std::string curve_json(const std::string& what, const Curve& curve) {
  Json points = Json::array();
  for (const Point& point : curve.points) {
    Json each;
    if (point.chunk_rows != 0) each["chunk_rows"] = point.chunk_rows;
    if (point.batch_rows != 0) each["batch_rows"] = point.batch_rows;
    if (point.prefetch_groups != 0) each["prefetch_groups"] = point.prefetch_groups;
    each["ms"] = ms(point.ns);
    each["bytes"] = point.bytes;
    points.push_back(std::move(each));
  }
  return Json{{"tuning", what}, {"points", points}, {"chosen", curve.chosen}}.dump();
}

}  // namespace ocm::warehouse
