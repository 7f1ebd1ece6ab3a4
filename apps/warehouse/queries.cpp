#include "apps/warehouse/queries.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace ocm::warehouse {
namespace {

Query select_query() {
  return {
      .name = "select",
      .inputs = {{"lineitem", {"l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"}}},
      .sql =
          "SELECT count(*), sum(l_orderkey), sum(l_extendedprice), sum(l_discount) FROM lineitem "
          "WHERE l_shipdate < DATE '1995-06-17'",
      .operators = {{"selected",
                     "σ l_shipdate < 1995-06-17",
                     {{"lineitem", {"l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"}}},
                     "SELECT * FROM lineitem WHERE l_shipdate < DATE '1995-06-17'"},
                    {"projected",
                     "π l_orderkey, l_extendedprice, l_discount",
                     {{"selected", {"l_orderkey", "l_extendedprice", "l_discount"}}},
                     "SELECT l_orderkey, l_extendedprice, l_discount FROM selected"}},
      .last = {"projected", {"l_orderkey", "l_extendedprice", "l_discount"}},
      .answer_sql = "SELECT count(*), sum(l_orderkey), sum(l_extendedprice), sum(l_discount) FROM projected",
      .answer_sf1 = {{"2993683", "8982211152474", "114544407617.75", "149677.87"}},
  };
}

Query join_query() {
  return {
      .name = "join",
      .inputs = {{"lineitem", {"l_orderkey", "l_extendedprice"}}, {"orders", {"o_orderkey", "o_totalprice"}}},
      .sql =
          "SELECT count(*), sum(l_extendedprice), sum(o_totalprice) FROM lineitem "
          "JOIN orders ON l_orderkey = o_orderkey",
      .operators = {{"joined",
                     "lineitem ⋈ orders",
                     {{"lineitem", {"l_orderkey", "l_extendedprice"}},
                      {"orders", {"o_orderkey", "o_totalprice"}}},
                     "SELECT l_orderkey, l_extendedprice, o_totalprice FROM lineitem "
                     "JOIN orders ON l_orderkey = o_orderkey"}},
      .last = {"joined", {"l_extendedprice", "o_totalprice"}},
      .answer_sql = "SELECT count(*), sum(l_extendedprice), sum(o_totalprice) FROM joined",
      .answer_sf1 = {{"6001215", "229577310901.20", "1134436101880.19"}},
  };
}

Query a_query() {
  const std::vector<std::string> all{"l_orderkey", "l_extendedprice", "l_discount", "l_quantity",
                                     "l_shipdate"};
  const std::vector<std::string> kept{"l_orderkey", "l_extendedprice", "l_discount"};
  return {
      .name = "A",
      .inputs = {{"lineitem", all}},
      .sql =
          "SELECT count(*), sum(l_orderkey), sum(l_extendedprice), sum(l_discount) FROM lineitem "
          "WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_quantity < 24",
      .operators =
          {{"since",
            "σ l_shipdate >= 1994-01-01",
            {{"lineitem", all}},
            "SELECT * FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'"},
           {"within",
            "σ l_shipdate < 1995-01-01",
            {{"since", all}},
            "SELECT * FROM since WHERE l_shipdate < DATE '1995-01-01'"},
           {"few", "σ l_quantity < 24", {{"within", all}}, "SELECT * FROM within WHERE l_quantity < 24"},
           {"projected",
            "π l_orderkey, l_extendedprice, l_discount",
            {{"few", kept}},
            "SELECT l_orderkey, l_extendedprice, l_discount FROM few"}},
      .last = {"projected", kept},
      .answer_sql = "SELECT count(*), sum(l_orderkey), sum(l_extendedprice), sum(l_discount) FROM projected",
      .answer_sf1 = {{"417809", "1252055770674", "7518090308.67", "20899.40"}},
  };
}

Query b_query() {
  return {
      .name = "B",
      .inputs = {{"lineitem", {"l_orderkey", "l_extendedprice"}},
                 {"orders", {"o_orderkey", "o_custkey", "o_totalprice"}},
                 {"customer", {"c_custkey", "c_acctbal"}}},
      .sql =
          "SELECT count(*), sum(l_extendedprice), sum(o_totalprice), sum(c_acctbal) FROM lineitem "
          "JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey",
      .operators = {{"ordered",
                     "lineitem ⋈ orders",
                     {{"lineitem", {"l_orderkey", "l_extendedprice"}},
                      {"orders", {"o_orderkey", "o_custkey", "o_totalprice"}}},
                     "SELECT l_extendedprice, o_custkey, o_totalprice FROM lineitem "
                     "JOIN orders ON l_orderkey = o_orderkey"},
                    {"joined",
                     "... ⋈ customer",
                     {{"ordered", {"l_extendedprice", "o_custkey", "o_totalprice"}},
                      {"customer", {"c_custkey", "c_acctbal"}}},
                     "SELECT l_extendedprice, o_totalprice, c_acctbal FROM ordered "
                     "JOIN customer ON o_custkey = c_custkey"}},
      .last = {"joined", {"l_extendedprice", "o_totalprice", "c_acctbal"}},
      .answer_sql = "SELECT count(*), sum(l_extendedprice), sum(o_totalprice), sum(c_acctbal) FROM joined",
      .answer_sf1 = {{"6001215", "229577310901.20", "1134436101880.19", "27011238247.68"}},
  };
}

Query c_query() {
  const std::vector<std::string> lineitem{"l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"};
  const std::vector<std::string> orders{"o_orderkey", "o_orderdate", "o_shippriority"};
  return {
      .name = "C",
      .inputs = {{"lineitem", lineitem}, {"orders", orders}},
      .sql =
          "SELECT count(*), sum(l_extendedprice * (1 - l_discount)), min(o_orderdate), max(o_orderdate), "
          "sum(o_shippriority) "
          "FROM (SELECT * FROM lineitem WHERE l_shipdate > DATE '1995-03-15') "
          "JOIN (SELECT * FROM orders WHERE o_orderdate < DATE '1995-03-15') ON l_orderkey = o_orderkey",
      .operators = {{"late",
                     "σ l_shipdate > 1995-03-15 (lineitem)",
                     {{"lineitem", lineitem}},
                     "SELECT l_orderkey, l_extendedprice, l_discount FROM lineitem "
                     "WHERE l_shipdate > DATE '1995-03-15'"},
                    {"early",
                     "σ o_orderdate < 1995-03-15 (orders)",
                     {{"orders", orders}},
                     "SELECT * FROM orders WHERE o_orderdate < DATE '1995-03-15'"},
                    {"joined",
                     "⋈",
                     {{"late", {"l_orderkey", "l_extendedprice", "l_discount"}}, {"early", orders}},
                     "SELECT l_extendedprice, l_discount, o_orderdate, o_shippriority FROM late "
                     "JOIN early ON l_orderkey = o_orderkey"},
                    {"projected",
                     "π l_extendedprice * (1 - l_discount), o_orderdate, o_shippriority",
                     {{"joined", {"l_extendedprice", "l_discount", "o_orderdate", "o_shippriority"}}},
                     "SELECT l_extendedprice * (1 - l_discount) AS revenue, o_orderdate, o_shippriority "
                     "FROM joined"}},
      .last = {"projected", {"revenue", "o_orderdate", "o_shippriority"}},
      .answer_sql =
          "SELECT count(*), sum(revenue), min(o_orderdate), max(o_orderdate), sum(o_shippriority) "
          "FROM projected",
      .answer_sf1 = {{"151331", "5506910820.8323", "1994-11-15", "1995-03-14", "0"}},
  };
}

Query q1_query() {
  const std::vector<std::string> read{"l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice",
                                      "l_discount",   "l_tax",        "l_shipdate"};
  const std::vector<std::string> summed{"l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice",
                                        "l_discount",   "disc_price",   "charge"};
  const std::string computed =
      "SELECT l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount, "
      "l_extendedprice * (1 - l_discount) AS disc_price, "
      "l_extendedprice * (1 - l_discount) * (1 + l_tax) AS charge FROM ";
  const std::string grouped =
      "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
      "sum(disc_price), sum(charge), round(avg(l_quantity), 6), "
      "round(avg(l_extendedprice), 6), round(avg(l_discount), 6), count(*) FROM ";
  const std::string ordered = " GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus";
  return {
      .name = "Q1",
      .inputs = {{"lineitem", read}},
      .sql = grouped + "(" + computed + "lineitem WHERE l_shipdate <= DATE '1998-09-02')" + ordered,
      .operators = {{"selected",
                     "σ l_shipdate <= 1998-09-02",
                     {{"lineitem", read}},
                     "SELECT * EXCLUDE (l_shipdate) FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'"},
                    {"computed",
                     "π disc_price, charge",
                     {{"selected", {read.begin(), read.end() - 1}}},
                     computed + "selected"}},
      .last = {"computed", summed},
      .answer_sql = grouped + "computed" + ordered,
      .answer_sf1 = {{"A", "F", "37734107.00", "56586554400.73", "53758257134.8700", "55909065222.827692",
                      "25.522006", "38273.129735", "0.049985", "1478493"},
                     {"N", "F", "991417.00", "1487504710.38", "1413082168.0541", "1469649223.194375",
                      "25.516472", "38284.467761", "0.050093", "38854"},
                     {"N", "O", "74476040.00", "111701729697.74", "106118230307.6056", "110367043872.497010",
                      "25.502227", "38249.117989", "0.049997", "2920374"},
                     {"R", "F", "37719753.00", "56568041380.90", "53741292684.6040", "55889619119.831932",
                      "25.505794", "38250.854626", "0.050009", "1478870"}},
  };
}

Query q6_query() {
  return {
      .name = "Q6",
      .inputs = {{"lineitem", {"l_extendedprice", "l_discount", "l_quantity", "l_shipdate"}}},
      .sql =
          "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' "
          "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
      .operators = {{"selected",
                     "σ l_shipdate, l_discount, l_quantity",
                     {{"lineitem", {"l_extendedprice", "l_discount", "l_quantity", "l_shipdate"}}},
                     "SELECT l_extendedprice, l_discount FROM lineitem WHERE "
                     "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
                     "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"},
                    {"computed",
                     "π l_extendedprice * l_discount",
                     {{"selected", {"l_extendedprice", "l_discount"}}},
                     "SELECT l_extendedprice * l_discount AS revenue FROM selected"}},
      .last = {"computed", {"revenue"}},
      .answer_sql = "SELECT sum(revenue) FROM computed",
      .answer_sf1 = {{"123141078.2283"}},
  };
}

}  // namespace

const std::vector<Query>& queries() {
  static const std::vector<Query> all{select_query(), join_query(), a_query(), b_query(),
                                      c_query(),      q1_query(),   q6_query()};
  return all;
}

Result<const Query*> find_query(std::string_view name) {
  std::string known;
  for (const Query& query : queries()) {
    if (query.name == name) return &query;
    known += (known.empty() ? "" : ", ") + query.name;
  }
  return Status(Code::kInvalidArgument, "no query " + std::string(name) + "; there are " + known);
}

Status compare(const Rows& answer, const Rows& expected) {
  if (answer.size() != expected.size()) {
    return Status(Code::kBadChecksum, "the answer has " + std::to_string(answer.size()) + " rows, not " +
                                          std::to_string(expected.size()));
  }
  for (size_t row = 0; row < answer.size(); ++row) {
    for (size_t i = 0; i < std::max(answer[row].size(), expected[row].size()); ++i) {
      const std::string found = i < answer[row].size() ? answer[row][i] : "missing";
      const std::string wanted = i < expected[row].size() ? expected[row][i] : "missing";
      if (found == wanted) continue;
      return Status(Code::kBadChecksum, "row " + std::to_string(row + 1) + ", column " +
                                            std::to_string(i + 1) + " of the answer is " + found + ", not " +
                                            wanted);
    }
  }
  return Status::ok();
}

const std::vector<std::string>& base_tables() {
  static const std::vector<std::string> names{"lineitem", "orders", "customer"};
  return names;
}

std::string sql_literal(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) out += letter == '\'' ? "''" : std::string(1, letter);
  return out + "'";
}

Result<std::string> parquet_sql(const std::string& folder, const std::string& table) {
  const std::filesystem::path root(folder);
  std::error_code ignored;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(root / table, ignored)) {
    if (entry.path().extension() == ".parquet") files.push_back(entry.path().string());
  }
  if (const auto single = root / (table + ".parquet");
      files.empty() && std::filesystem::exists(single, ignored)) {
    files.push_back(single.string());
  }
  if (files.empty()) {
    return Status(Code::kNotFound, "no Parquet files of table " + table + " in " + folder + "; looked for " +
                                       table + ".parquet and " + table +
                                       "/*.parquet. `tpchgen-cli parquet -s 1` makes them");
  }
  std::sort(files.begin(), files.end());
  std::string list;
  for (const std::string& file : files) list += (list.empty() ? "" : ", ") + sql_literal(file);
  return "SELECT * FROM read_parquet([" + list + "])";
}

}  // namespace ocm::warehouse
