#include "apps/warehouse/tuning.h"

#include <algorithm>
#include <array>

#include "os/clock.h"

namespace ocm::warehouse {
namespace {

constexpr int kRounds = 3;
constexpr double kTolerance = 1.05;
constexpr std::array<uint64_t, 5> kChunkRows{65'536, 131'072, 262'144, 524'288, 1'048'576};
constexpr std::array<uint64_t, 2> kBatchRows{32'768, 131'072};
constexpr std::array<uint32_t, 3> kPrefetchGroups{1, 2, 4};

/// Reads one column through the engine.
Result<uint64_t> read_ns(Engine& engine, const Table& table, const std::string& column,
                         const Reading& reading) {
  const uint64_t start_ns = os::now_ns();
  OCM_TRY_ASSIGN(Stream scan, table.scan({column}, reading));
  auto flow = std::make_shared<Flow>();
  Stream stream = timed(std::move(scan), flow);
  OCM_TRY(engine.attach("tuning", stream));
  const Result<Rows> sum = engine.rows("SELECT sum(" + column + ") FROM tuning");
  const uint64_t ns = os::now_ns() - start_ns;
  OCM_TRY(engine.detach("tuning"));
  OCM_TRY(flow->failure);
  OCM_TRY(sum.status());
  return ns;
}

/// Each point once in every round, so that a slow moment hits all of them.
Status measure(Engine& engine, const std::vector<const Table*>& tables, const std::string& column,
               std::vector<Point>& points) {
  std::vector<std::vector<uint64_t>> rounds(points.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < points.size(); ++i) {
      const Reading reading{points[i].batch_rows, points[i].prefetch_groups};
      OCM_TRY_ASSIGN(const uint64_t ns, read_ns(engine, *tables[i], column, reading));
      rounds[i].push_back(ns);
    }
  }
  for (size_t i = 0; i < points.size(); ++i) {
    std::sort(rounds[i].begin(), rounds[i].end());
    points[i].ns = rounds[i][kRounds / 2];
    OCM_TRY_ASSIGN(const Table::Needed needed, tables[i]->needed({column}));
    points[i].bytes = needed.bytes;
  }
  return Status::ok();
}

uint64_t rows_of(const Kept& kept) {
  uint64_t rows = 0;
  for (const Batch& batch : kept.batches) rows += static_cast<uint64_t>(batch->length);
  return rows;
}

}  // namespace

size_t choose(const std::vector<Point>& points) {
  OCM_ASSERT(!points.empty());
  const auto fastest = std::min_element(points.begin(), points.end(),
                                        [](const Point& a, const Point& b) { return a.ns < b.ns; });
  const double enough_ns = static_cast<double>(fastest->ns) * kTolerance;
  const auto chosen = std::find_if(points.begin(), points.end(), [&](const Point& point) {
    return static_cast<double>(point.ns) <= enough_ns;
  });
  return static_cast<size_t>(chosen - points.begin());
}

Result<Curve> tune_chunk_rows(ocm_session* session, Engine& engine, const std::shared_ptr<Kept>& sample,
                              const Writing& writing) {
  Schema schema;
  if (const int error = sample->source->get_schema(sample->source.get(), schema.get()); error != 0) {
    return stream_error(sample->source.get(), error, "");
  }
  const std::string column = schema->children[0]->name;
  Curve curve;
  Scratch scratch(session);
  std::vector<Table> tables;
  for (const uint64_t rows : kChunkRows) {
    if (rows > rows_of(*sample) && !tables.empty()) break;
    Writing sized = writing;
    sized.chunk_rows = rows;
    sized.progress = nullptr;
    const std::string name = scratch.add("tuning");
    OCM_TRY(write_table(session, name, again(sample), sized));
    OCM_TRY_ASSIGN(Table table, Table::open(session, name));
    tables.push_back(std::move(table));
    curve.points.push_back({.chunk_rows = rows});
  }
  std::vector<const Table*> pointers;
  for (const Table& table : tables) pointers.push_back(&table);
  OCM_TRY(measure(engine, pointers, column, curve.points));
  curve.chosen = choose(curve.points);
  return curve;
}

Result<Curve> tune_reading(Engine& engine, const Table& table, const std::string& column) {
  Curve curve;
  for (const uint32_t prefetch : kPrefetchGroups) {
    for (const uint64_t batch : kBatchRows) {
      curve.points.push_back({.batch_rows = batch, .prefetch_groups = prefetch});
    }
  }
  OCM_TRY(measure(engine, std::vector<const Table*>(curve.points.size(), &table), column, curve.points));
  curve.chosen = choose(curve.points);
  return curve;
}

}  // namespace ocm::warehouse
