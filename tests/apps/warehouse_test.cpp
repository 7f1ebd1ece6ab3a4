// The parts of `warehouse` that need no cluster: streams, queries against the engine, choices and reports.
#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/warehouse/engine.h"
#include "apps/warehouse/queries.h"
#include "apps/warehouse/report.h"
#include "apps/warehouse/runner.h"
#include "apps/warehouse/streams.h"
#include "apps/warehouse/tuning.h"

namespace ocm::warehouse {
namespace {

std::unique_ptr<Engine> open_engine(Reads reads) {
  Result<std::unique_ptr<Engine>> engine = Engine::open("", 2, reads);
  EXPECT_TRUE(engine.is_ok()) << engine.status().to_string();
  return std::move(engine).value();
}

std::shared_ptr<Kept> kept_rows(Engine& engine, const std::string& query) {
  Result<Stream> stream = engine.stream(query);
  EXPECT_TRUE(stream.is_ok()) << stream.status().to_string();
  Result<std::shared_ptr<Kept>> kept = keep(std::move(stream).value());
  EXPECT_TRUE(kept.is_ok()) << kept.status().to_string();
  return std::move(kept).value();
}

/// What `query` gives where `t` is the kept rows.
Result<Rows> over(Engine& engine, const std::shared_ptr<Kept>& kept, const std::string& query) {
  Stream stream = again(kept);
  OCM_TRY(engine.attach("t", stream));
  Result<Rows> rows = engine.rows(query);
  OCM_TRY(engine.detach("t"));
  return rows;
}

/// A stream that gives nothing but an error.
struct Broken {
  std::shared_ptr<Kept> like;
  int schema(ArrowSchema* out) { return like->source->get_schema(like->source.get(), out); }
  int next(ArrowArray* /*out*/) { return EIO; }
  const char* error() { return "PEER_LOST: table lineitem: node n2 is lost"; }
};

// ------------------------------------------------------------------ streams

TEST(Streams, KeptBatchesAreGivenAgainAsOftenAsWanted) {
  auto engine = open_engine(Reads::kStreams);
  const auto kept = kept_rows(*engine, "SELECT range AS a, 'x' || range AS b FROM range(5000)");
  for (int i = 0; i < 2; ++i) {
    const Result<Rows> rows = over(*engine, kept, "SELECT count(*), sum(a), max(b) FROM t");
    ASSERT_TRUE(rows.is_ok()) << rows.status().to_string();
    EXPECT_EQ(*&rows.value(), (Rows{{"5000", "12497500", "x999"}}));
  }
}

TEST(Streams, AColumnMovedOutOfABatchOutlivesTheStream) {
  auto engine = open_engine(Reads::kStreams);
  Stream stream = again(kept_rows(*engine, "SELECT range AS a FROM range(10)"));
  Batch batch;
  ASSERT_EQ(stream->get_next(stream.get(), batch.get()), 0);
  ArrowArray moved = *batch->children[0];
  batch->children[0]->release = nullptr;
  batch.reset();
  stream.reset();
  EXPECT_EQ(static_cast<const int64_t*>(moved.buffers[1])[moved.offset + 9], 9);
  moved.release(&moved);
}

TEST(Streams, KeepStopsAtTheWantedRows) {
  auto engine = open_engine(Reads::kStreams);
  Result<Stream> stream = engine->stream("SELECT range AS a FROM range(100000)");
  ASSERT_TRUE(stream.is_ok());
  const Result<std::shared_ptr<Kept>> kept = keep(std::move(stream).value(), 3000);
  ASSERT_TRUE(kept.is_ok());
  int64_t rows = 0;
  for (const Batch& batch : kept.value()->batches) rows += batch->length;
  EXPECT_GE(rows, 3000);
  EXPECT_LT(rows, 3000 + kept.value()->batches.back()->length);
}

TEST(Streams, TheClockCountsRowsAndKeepsTheFirstFailure) {
  auto engine = open_engine(Reads::kStreams);
  const auto kept = kept_rows(*engine, "SELECT range AS a FROM range(5000)");
  auto flow = std::make_shared<Flow>();
  ASSERT_TRUE(keep(timed(again(kept), flow)).is_ok());
  EXPECT_EQ(flow->rows, 5000u);
  EXPECT_GT(flow->wait_ns, 0u);
  EXPECT_TRUE(flow->failure.is_ok());

  auto broken = std::make_unique<Broken>();
  broken->like = kept;
  const auto failed = keep(timed(stream_of(std::move(broken)), flow));
  EXPECT_EQ(failed.status().code(), Code::kPeerLost);
  EXPECT_EQ(flow->failure.code(), Code::kPeerLost);
  EXPECT_EQ(flow->failure.message(), "table lineitem: node n2 is lost");
}

// ------------------------------------------------------------------ engine

TEST(Engine, MissingLibraryIsToldByName) {
  const auto engine = Engine::open("/nowhere/libduckdb.so", 1, Reads::kStreams);
  EXPECT_EQ(engine.status().code(), Code::kNotFound);
  EXPECT_NE(engine.status().message().find("/nowhere/libduckdb.so"), std::string_view::npos);
}

TEST(Engine, ReadsTheRightColumnsInWhateverOrderTheQueryNamesThem) {
  auto engine = open_engine(Reads::kStreams);
  const auto kept =
      kept_rows(*engine, "SELECT range AS a, range * 10 AS b, range::VARCHAR AS c FROM range(5000)");
  const Result<Rows> rows =
      over(*engine, kept, "SELECT max(c), sum(b), sum(a) FROM t WHERE b >= 49000 AND c < '495'");
  ASSERT_TRUE(rows.is_ok()) << rows.status().to_string();
  EXPECT_EQ(rows.value(), (Rows{{"4949", "2462250", "246225"}}));
}

TEST(Engine, FiltersStreamsItself) {
  auto engine = open_engine(Reads::kStreams);
  const auto kept = kept_rows(*engine, "SELECT range AS a FROM range(5000)");
  const Result<Rows> rows = over(*engine, kept, "SELECT count(*) FROM t WHERE a < 10");
  ASSERT_TRUE(rows.is_ok()) << rows.status().to_string();
  EXPECT_EQ(rows.value(), (Rows{{"10"}}));
}

TEST(Engine, NullsAndNoRowsComeThrough) {
  auto engine = open_engine(Reads::kStreams);
  const auto kept = kept_rows(*engine, "SELECT NULL::DECIMAL(15,2) AS a, NULL::VARCHAR AS b FROM range(3)");
  EXPECT_EQ(over(*engine, kept, "SELECT a, b FROM t LIMIT 1").value(), (Rows{{"NULL", "NULL"}}));
  const auto none = kept_rows(*engine, "SELECT range AS a FROM range(0)");
  EXPECT_EQ(over(*engine, none, "SELECT count(*), sum(a) FROM t").value(), (Rows{{"0", "NULL"}}));
}

TEST(Engine, AStreamThatFailsFailsTheQuery) {
  auto engine = open_engine(Reads::kStreams);
  auto broken = std::make_unique<Broken>();
  broken->like = kept_rows(*engine, "SELECT range AS a FROM range(10)");
  auto flow = std::make_shared<Flow>();
  Stream stream = timed(stream_of(std::move(broken)), flow);
  ASSERT_TRUE(engine->attach("t", stream).is_ok());
  EXPECT_FALSE(engine->rows("SELECT sum(a) FROM t").is_ok());
  EXPECT_EQ(flow->failure.code(), Code::kPeerLost);
  ASSERT_TRUE(engine->detach("t").is_ok());
  EXPECT_EQ(engine->rows("SELECT 1").value(), (Rows{{"1"}}));  // and can be used on
}

TEST(Engine, WrongSqlSaysWhatIsWrong) {
  auto engine = open_engine(Reads::kStreams);
  const Status status = engine->run("SELECT nothing FROM nowhere");
  EXPECT_NE(status.message().find("nowhere"), std::string_view::npos) << status.to_string();
}

// ------------------------------------------------------------------ queries

/// Tables of TPC-H's shape that are small, with rows on both sides of every predicate.
std::map<std::string, std::shared_ptr<Kept>> small_tables(Engine& engine) {
  std::map<std::string, std::shared_ptr<Kept>> tables;
  tables["lineitem"] = kept_rows(
      engine,
      "SELECT range // 4 AS l_orderkey, (1000 + range * 7 % 9000)::DECIMAL(15,2) AS l_extendedprice, "
      "(range % 11 / 100)::DECIMAL(15,2) AS l_discount, (range % 50 + 1)::DECIMAL(15,2) AS l_quantity, "
      "(range % 9 / 100)::DECIMAL(15,2) AS l_tax, chr((65 + range % 3)::INT) AS l_returnflag, "
      "chr((70 + range % 2)::INT) AS l_linestatus, DATE '1992-01-01' + (range * 13 % 2500)::INT AS "
      "l_shipdate "
      "FROM range(20000)");
  tables["orders"] = kept_rows(
      engine,
      "SELECT range AS o_orderkey, range % 700 AS o_custkey, (range * 3 % 5000)::DECIMAL(15,2) AS "
      "o_totalprice, "
      "DATE '1992-01-01' + (range * 11 % 2400)::INT AS o_orderdate, (range % 2)::INT AS o_shippriority "
      "FROM range(5000)");
  tables["customer"] = kept_rows(
      engine,
      "SELECT range AS c_custkey, (range * 17 % 10000 - 900)::DECIMAL(15,2) AS c_acctbal FROM range(600)");
  return tables;
}

/// Runs one statement over `inputs`; of each table all columns that the input names, in its order.
template <class Ask>
auto asked(Engine& engine, const std::map<std::string, std::shared_ptr<Kept>>& tables,
           const std::vector<Input>& inputs, Ask ask) {
  std::deque<Stream> streams;
  for (const Input& input : inputs) {
    std::string columns;
    for (const std::string& column : input.columns) columns += (columns.empty() ? "" : ", ") + column;
    Stream whole = again(tables.at(input.table));
    EXPECT_TRUE(engine.attach("whole", whole).is_ok());
    streams.push_back(again(kept_rows(engine, "SELECT " + columns + " FROM whole")));
    EXPECT_TRUE(engine.detach("whole").is_ok());
  }
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(engine.attach(inputs[i].table, streams[i]).is_ok());
  auto result = ask();
  for (const Input& input : inputs) EXPECT_TRUE(engine.detach(input.table).is_ok());
  return result;
}

TEST(Queries, OperatorsGiveWhatThePipelineGives) {
  auto engine = open_engine(Reads::kStreams);
  const auto base = small_tables(*engine);
  for (const Query& query : queries()) {
    auto tables = base;
    const Rows fused = asked(*engine, tables, query.inputs, [&] { return engine->rows(query.sql).value(); });
    ASSERT_FALSE(fused.empty()) << query.name;
    EXPECT_EQ(std::count(fused[0].begin(), fused[0].end(), "NULL"), 0)
        << query.name << " has no rows to work on";
    for (const Operator& step : query.operators) {
      tables[step.output] = asked(*engine, tables, step.inputs, [&] { return kept_rows(*engine, step.sql); });
    }
    const Rows by_operator =
        asked(*engine, tables, {query.last}, [&] { return engine->rows(query.answer_sql).value(); });
    EXPECT_EQ(compare(by_operator, fused).to_string(), "OK") << query.name;
    EXPECT_EQ(query.answer_sf1.front().size(), fused.front().size()) << query.name;
  }
}

TEST(Queries, UnknownNameListsTheKnown) {
  const Status status = find_query("Q2").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  for (const Query& query : queries()) EXPECT_NE(status.message().find(query.name), std::string_view::npos);
  EXPECT_TRUE(find_query("Q6").is_ok());
}

TEST(Queries, CompareNamesTheCell) {
  EXPECT_TRUE(compare({{"1", "2"}}, {{"1", "2"}}).is_ok());
  const Status wrong = compare({{"1", "2"}, {"3", "4"}}, {{"1", "2"}, {"3", "5"}});
  EXPECT_EQ(wrong.code(), Code::kBadChecksum);
  EXPECT_EQ(wrong.message(), "row 2, column 2 of the answer is 4, not 5");
  EXPECT_FALSE(compare({{"1"}}, {{"1", "2"}}).is_ok());
  EXPECT_FALSE(compare({{"1", "2"}}, {{"1"}}).is_ok());
  EXPECT_FALSE(compare({}, {{"1"}}).is_ok());
}

TEST(Queries, ParquetFilesAreFoundInBothLayouts) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "warehouse it's";
  std::filesystem::create_directories(folder / "orders");
  std::ofstream(folder / "orders" / "orders.2.parquet");
  std::ofstream(folder / "orders" / "orders.1.parquet");
  std::ofstream(folder / "customer.parquet");
  const std::string base = sql_literal(folder.string());
  const std::string prefix = base.substr(0, base.size() - 1);
  EXPECT_EQ(parquet_sql(folder, "orders").value(), "SELECT * FROM read_parquet([" + prefix +
                                                       "/orders/orders.1.parquet', " + prefix +
                                                       "/orders/orders.2.parquet'])");
  EXPECT_EQ(parquet_sql(folder, "customer").value(),
            "SELECT * FROM read_parquet([" + prefix + "/customer.parquet'])");
  EXPECT_EQ(parquet_sql(folder, "lineitem").status().code(), Code::kNotFound);
  EXPECT_NE(prefix.find("it''s"), std::string::npos);
  std::filesystem::remove_all(folder);
}

// ------------------------------------------------------------------ choices and reports

TEST(Tuning, ChoosesTheFirstThatIsNotMuchSlowerThanTheFastest) {
  auto with = [](std::vector<uint64_t> times) {
    std::vector<Point> points;
    for (const uint64_t ns : times) points.push_back({.chunk_rows = 1, .ns = ns});
    return points;
  };
  EXPECT_EQ(choose(with({100})), 0u);
  EXPECT_EQ(choose(with({200, 120, 104, 100, 110})), 2u);
  EXPECT_EQ(choose(with({100, 90, 80})), 2u);
  EXPECT_EQ(choose(with({100, 100, 100})), 0u);
}

TEST(Report, HiddenIsTheShareOfTheSmallerPart) {
  EXPECT_DOUBLE_EQ(hidden({100, 50}, 150), 0);
  EXPECT_DOUBLE_EQ(hidden({100, 50}, 125), 0.5);
  EXPECT_DOUBLE_EQ(hidden({100, 50}, 100), 1);
  EXPECT_DOUBLE_EQ(hidden({100, 50}, 60), 1);
  EXPECT_DOUBLE_EQ(hidden({100, 50}, 200), 0);
  EXPECT_DOUBLE_EQ(hidden({0, 50}, 50), 0);
}

Outcome outcome_of(const std::vector<uint64_t>& totals_ns) {
  Outcome outcome{"Q6", true, {}, {}, {"sf1"}};
  for (const uint64_t ns : totals_ns) {
    Run run;
    run.answer = {{"1.5"}};
    run.total_ns = ns;
    run.wait_ns = 1'000'000;
    run.bytes_moved = run.bytes_needed = 4096;
    outcome.runs.push_back(run);
    outcome.parts.push_back({1'000'000, 2'000'000});
  }
  return outcome;
}

TEST(Report, TheMedianRunIsShown) {
  const Outcome outcome = outcome_of({9'000'000, 3'000'000, 5'000'000});
  EXPECT_EQ(median_run(outcome).total_ns, 5'000'000u);
  const std::string table = outcomes_table({outcome});
  EXPECT_NE(table.find("5.0"), std::string::npos) << table;
  EXPECT_NE(table.find("sf1"), std::string::npos) << table;
}

TEST(Report, ALineOfJsonHasEveryPhase) {
  const std::string text = outcome_json(outcome_of({3'000'000, 4'000'000, 9'000'000}), {.place = "remote"});
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line["total_ms"]["median"], 4.0);
  EXPECT_EQ(line["total_ms"]["max"], 9.0);
  EXPECT_EQ(line["transfer_ms"]["median"], 1.0);
  EXPECT_EQ(line["compute_ms"]["min"], 2.0);
  EXPECT_EQ(line["alone"]["compute_ms"], 2.0);
  EXPECT_EQ(line["bytes_moved"], 4096);
  EXPECT_EQ(line["answer"][0][0], "1.5");
  EXPECT_EQ(line["held_against"][0], "sf1");
}

TEST(Report, ACurveMarksWhatWasChosen) {
  Curve curve{{{.chunk_rows = 65'536, .bytes = 1000, .ns = 2'000'000},
               {.chunk_rows = 131'072, .bytes = 1000, .ns = 1'000'000}},
              1};
  const std::string table = curve_table(curve);
  const size_t mark = table.find("chosen");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_LT(table.find("131072"), mark);
  EXPECT_LT(table.find("65536"), table.find("131072"));
  EXPECT_EQ(nlohmann::json::parse(curve_json("chunk_rows", curve))["chosen"], 1);
}

}  // namespace
}  // namespace ocm::warehouse
