// Tables through the C interface, on a node inside the test's process.
#include <oncilla/table.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include "arrow_builder.h"
#include "embedded.h"

namespace {

using namespace arrow_builder;

class Table : public Embedded {
 protected:
  int create(const std::string& name, Stream stream, ocm_table_options options = OCM_TABLE_OPTIONS_INIT) {
    ArrowArrayStream source;
    export_stream(std::move(stream), &source);
    const int number = ocm_table_create(session, name.c_str(), &source, &options);
    EXPECT_EQ(source.release, nullptr);
    return number;
  }
  int append(const std::string& name, Stream stream, ocm_table_options options = OCM_TABLE_OPTIONS_INIT) {
    ArrowArrayStream source;
    export_stream(std::move(stream), &source);
    const int number = ocm_table_append(session, name.c_str(), &source, &options);
    EXPECT_EQ(source.release, nullptr);
    return number;
  }
  ocm_table* open(const std::string& name) {
    ocm_table* table = nullptr;
    EXPECT_OK(ocm_table_open(session, name.c_str(), &table));
    return table;
  }
  /// Every row of the scan as text.
  std::vector<std::string> read(ocm_table* table, ocm_scan_options options = OCM_SCAN_OPTIONS_INIT) {
    ArrowArrayStream stream;
    EXPECT_OK(ocm_table_scan(table, &options, &stream));
    std::vector<std::string> rows;
    ArrowSchema schema;
    EXPECT_EQ(stream.get_schema(&stream, &schema), 0);
    while (true) {
      ArrowArray array;
      const int error = stream.get_next(&stream, &array);
      EXPECT_EQ(error, 0) << stream.get_last_error(&stream);
      if (error != 0 || array.release == nullptr) break;
      for (int64_t row = 0; row < array.length; ++row) rows.push_back(show(schema, array, row));
      array.release(&array);
    }
    schema.release(&schema);
    stream.release(&stream);
    return rows;
  }
  std::vector<std::string> read(const std::string& name, ocm_scan_options options = OCM_SCAN_OPTIONS_INIT) {
    ocm_table* table = open(name);
    std::vector<std::string> rows = read(table, options);
    EXPECT_OK(ocm_table_close(table));
    return rows;
  }
  uint64_t used() {
    uint64_t bytes = 0;
    const auto visit = [](const ocm_node_info* info, void* context) {
      *static_cast<uint64_t*>(context) += info->used_bytes[OCM_KIND_DRAM];
      return true;
    };
    EXPECT_OK(ocm_node_list(session, visit, &bytes));
    return bytes;
  }
  /// Pages come back a moment after their memory was freed.
  bool comes_back_to(uint64_t bytes) {
    constexpr int kTriesMax = 1000;
    for (int tried = 0; tried < kTriesMax && used() != bytes; ++tried) ::usleep(10'000);
    return used() == bytes;
  }
  static Stream one(Field field, Array array) {
    return {record({std::move(field)}), {rows({std::move(array)})}};
  }
};

TEST_F(Table, GivesBackWhatWasPut) {
  Stream stream{record({{"l", "key"}, {"u", "name"}}),
                {rows({values<int64_t>({1, 2, 3}), texts({"one", "", "three"}, "101")}),
                 rows({values<int64_t>({4, 5}), texts({"four", "five"})})}};
  ASSERT_OK(create("numbers", stream));
  EXPECT_EQ(read("numbers"),
            (std::vector<std::string>{"{1,'one'}", "{2,null}", "{3,'three'}", "{4,'four'}", "{5,'five'}"}));
  ocm_table* table = open("numbers");
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_EQ(info.rows, 5u);
  EXPECT_EQ(info.columns, 2u);
  EXPECT_EQ(info.groups, 1u);
  EXPECT_EQ(info.bytes_moved, 0u);
  EXPECT_OK(ocm_table_close(table));
}

Array two_lists(std::vector<int32_t> offsets, Array items) {
  return {static_cast<int64_t>(offsets.size()) - 1, {"", bytes_of(offsets)}, {std::move(items)}, {}, 0};
}

/// Each type: a field, an array, and its rows as text.
struct Example {
  Field field;
  Array array;
  std::vector<std::string> rows;
};
std::vector<Example> examples() {
  Array colors = values<int8_t>({1, 0, 1}, "101");
  colors.dictionary.push_back(texts({"red", "green"}));
  Array map =
      two_lists({0, 1, 1, 3}, Array{3, {""}, {texts({"a", "b", "c"}), values<int32_t>({1, 2, 3})}, {}, 0});
  return {
      {{"c", "x"}, values<int8_t>({-1, 2}), {"{-1}", "{2}"}},
      {{"C", "x"}, values<uint8_t>({255}), {"{255}"}},
      {{"s", "x"}, values<int16_t>({-300}), {"{-300}"}},
      {{"S", "x"}, values<uint16_t>({65535}), {"{65535}"}},
      {{"i", "x"}, values<int32_t>({1, 2, 3}, "010"), {"{null}", "{2}", "{null}"}},
      {{"I", "x"}, values<uint32_t>({4'000'000'000}), {"{4000000000}"}},
      {{"l", "x"}, values<int64_t>({INT64_MIN}), {"{-9223372036854775808}"}},
      {{"L", "x"}, values<uint64_t>({7}), {"{7}"}},
      {{"e", "x"}, values<uint16_t>({0x3C00}), {"{x003c}"}},
      {{"f", "x"}, values<float>({1.5F}), {"{1.500000}"}},
      {{"g", "x"}, values<double>({-2.25}), {"{-2.250000}"}},
      {{"b", "x"}, {3, {bits_of("101"), bits_of("110")}}, {"{true}", "{null}", "{false}"}},
      {{"tdD", "x"}, values<int32_t>({19000}), {"{19000}"}},
      {{"ttn", "x"}, values<int64_t>({86'000}), {"{86000}"}},
      {{"tsu:UTC", "x"}, values<int64_t>({1}), {"{1}"}},
      {{"tDs", "x"}, values<int64_t>({1}), {"{1}"}},
      {{"tiM", "x"}, values<int32_t>({14}), {"{14}"}},
      {{"tiD", "x"}, values<int64_t>({14}), {"{14}"}},
      {{"tin", "x"}, values<int64_t>({1, 2}), {}},
      {{"d:9,2,32", "x"}, values<int32_t>({-995}), {"{-995}"}},
      {{"d:18,2,64", "x"}, values<int64_t>({-995}), {"{-995}"}},
      {{"d:38,2", "x"},
       {1, {"", std::string(15, '\1') + '\2'}, {}, {}, 0},
       {"{x01010101010101010101010101010102}"}},
      {{"w:3", "x"}, {2, {"", "abcdef"}, {}, {}, 0}, {"{x616263}", "{x646566}"}},
      {{"w:0", "x"}, {2, {"", ""}, {}, {}, 0}, {"{x}", "{x}"}},
      {{"u", "x"}, texts({"", "two", "gone"}, "110"), {"{''}", "{'two'}", "{null}"}},
      {{"z", "x"}, texts({std::string("\xff\0\xfe", 3)}), {std::string("{'\xff\0\xfe'}", 7)}},
      {{"U", "x"}, texts<int64_t>({"large"}), {"{'large'}"}},
      {{"Z", "x"}, texts<int64_t>({""}), {"{''}"}},
      {{"vu", "x"},
       views({"short", "longer than twelve bytes"}),
       {"{'short'}", "{'longer than twelve bytes'}"}},
      {{"n", "x"}, {2, {}, {}, {}, 2}, {"{null}", "{null}"}},
      {{"i", "x"}, values<int32_t>({1, 2}, "00"), {"{null}", "{null}"}},
      {{"+s", "x", {{"i", "a"}, {"u", "b"}}},
       {2, {bits_of("01")}, {values<int32_t>({1, 2}), texts({"p", "q"})}},
       {"{null}", "{{2,'q'}}"}},
      {{"+l", "x", {{"i", "item"}}}, two_lists({0, 2, 2}, values<int32_t>({5, 6})), {"{[5,6]}", "{[]}"}},
      {{"+L", "x", {{"i", "item"}}},
       {1, {"", bytes_of(std::vector<int64_t>{0, 2})}, {values<int32_t>({5, 6})}, {}, 0},
       {"{[5,6]}"}},
      {{"+w:2", "x", {{"i", "item"}}},
       {2, {bits_of("10")}, {values<int32_t>({1, 2, 3, 4})}},
       {"{[1,2]}", "{null}"}},
      {{"+l", "x", {{"+l", "item", {{"u", "item"}}}}},
       two_lists({0, 2}, two_lists({0, 1, 3}, texts({"a", "b", "c"}))),
       {"{[['a'],['b','c']]}"}},
      {{"+m", "x", {{"+s", "entries", {{"u", "key", {}, {}, 0}, {"i", "value"}}, {}, 0}}},
       map,
       {"{[{'a',1}]}", "{[]}", "{[{'b',2},{'c',3}]}"}},
      {{"c", "x", {}, {{"u", ""}}}, colors, {"{'green'}", "{null}", "{'green'}"}},
      {{"+l", "x", {{"c", "item", {}, {{"u", ""}}}}},
       two_lists({0, 3}, colors),
       {"{['green',null,'green']}"}},
  };
}

TEST_F(Table, EveryTypeComesBack) {
  ocm_scan_options moved = OCM_SCAN_OPTIONS_INIT;
  moved.flags = OCM_SCAN_MOVE | OCM_SCAN_VALIDATE;
  for (Example& example : examples()) {
    SCOPED_TRACE(example.field.format);
    if (example.field.format == "tin")
      example.array.length = 1, example.rows = {"{x01000000000000000200000000000000}"};
    ASSERT_OK(create("t", one(example.field, example.array)));
    EXPECT_EQ(read("t"), example.rows);
    EXPECT_EQ(read("t", moved), example.rows);
    ASSERT_OK(ocm_table_drop(session, "t"));
  }
}

TEST_F(Table, ZeroRowsAndZeroColumnsAreFine) {
  ASSERT_OK(create("no_rows", {record({{"i", "x"}, {"u", "y"}}), {}}));
  EXPECT_TRUE(read("no_rows").empty());
  ASSERT_OK(create("empty_batch", one({"u", "x"}, texts({}))));
  EXPECT_TRUE(read("empty_batch").empty());
  Array rows_only = rows({});
  rows_only.length = 3;
  ASSERT_OK(create("no_columns", {record({}), {rows_only}}));
  EXPECT_EQ(read("no_columns").size(), 3u);
}

TEST_F(Table, GroupsAndBatchesAreCutWhereAsked) {
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.group_rows = 300;
  ASSERT_OK(create("t", {record({{"l", "x"}}), {rows({values(all)}), rows({values(all)})}}, options));
  ocm_table* table = open("t");
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_EQ(info.groups, 7u);
  EXPECT_EQ(info.bytes, 16'000u);
  ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
  ASSERT_OK(ocm_table_chunk_query(table, 3, 0, &chunk));
  EXPECT_EQ(chunk.first_row, 900u);
  EXPECT_EQ(chunk.rows, 300u);
  EXPECT_EQ(chunk.bounds, OCM_BOUND_INT);
  EXPECT_EQ(chunk.minimum.integer, 0);
  EXPECT_EQ(chunk.maximum.integer, 999);
  EXPECT_TRUE(chunk.local);
  EXPECT_EQ(ocm_table_chunk_query(table, 7, 0, &chunk), OCM_OUT_OF_RANGE);
  const uint32_t wanted[] = {1, 6};
  ocm_scan_options some = OCM_SCAN_OPTIONS_INIT;
  some.groups = wanted;
  some.groups_count = 2;
  some.batch_rows = 7;
  const std::vector<std::string> rows = read(table, some);
  ASSERT_EQ(rows.size(), 500u);
  EXPECT_EQ(rows[0], "{300}");
  EXPECT_EQ(rows[300], "{800}");
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, ColumnsComeInTheWantedOrder) {
  ASSERT_OK(create("t", {record({{"i", "a"}, {"i", "b"}, {"i", "c"}}),
                         {rows({values<int32_t>({1}), values<int32_t>({2}), values<int32_t>({3})})}}));
  const uint32_t wanted[] = {2, 0};
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.columns = wanted;
  options.columns_count = 2;
  EXPECT_EQ(read("t", options), (std::vector<std::string>{"{3,1}"}));
  ocm_table* table = open("t");
  ArrowArrayStream stream;
  const uint32_t outside[] = {3};
  options.columns = outside;
  options.columns_count = 1;
  EXPECT_EQ(ocm_table_scan(table, &options, &stream), OCM_OUT_OF_RANGE);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, OnlyWantedChunksAreMoved) {
  std::vector<int64_t> all(1000, 5);
  ASSERT_OK(create("t", {record({{"l", "a"}, {"l", "b"}}), {rows({values(all), values(all)})}}));
  ocm_table* table = open("t");
  const uint32_t wanted[] = {1};
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.columns = wanted;
  options.columns_count = 1;
  options.flags = OCM_SCAN_MOVE;
  EXPECT_EQ(read(table, options).size(), 1000u);
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_EQ(info.bytes_moved, 8000u);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, TheCacheKeepsWhatWasMoved) {
  std::vector<int64_t> all(1000, 5);
  ASSERT_OK(create("t", {record({{"l", "a"}, {"l", "b"}}), {rows({values(all), values(all)})}}));
  ASSERT_OK(ocm_table_cache_limit(session, 9000));
  ocm_table* table = open("t");
  const auto read_column = [&](uint32_t column) {
    ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
    options.columns = &column;
    options.columns_count = 1;
    options.flags = OCM_SCAN_MOVE | OCM_SCAN_CACHE;
    EXPECT_EQ(read(table, options).size(), 1000u);
    ocm_table_info info = OCM_TABLE_INFO_INIT;
    EXPECT_OK(ocm_table_query(table, &info));
    return info.bytes_moved;
  };
  EXPECT_EQ(read_column(0), 8000u);
  EXPECT_EQ(read_column(0), 8000u);
  EXPECT_EQ(read_column(1), 16'000u);  // the other one leaves
  EXPECT_EQ(read_column(0), 24'000u);
  ocm_table_cache_info info = OCM_TABLE_CACHE_INFO_INIT;
  ASSERT_OK(ocm_table_cache_query(session, &info));
  EXPECT_EQ(info.limit_bytes, 9000u);
  EXPECT_EQ(info.used_bytes, 8000u);
  EXPECT_EQ(info.hits, 1u);
  EXPECT_EQ(info.misses, 3u);
  ASSERT_OK(ocm_table_cache_clear(session));
  ASSERT_OK(ocm_table_cache_query(session, &info));
  EXPECT_EQ(info.used_bytes, 0u);
  EXPECT_EQ(read_column(0), 32'000u);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, CompactStoresNarrowerForms) {
  std::vector<std::string> words;
  std::string money;
  for (int i = 0; i < 1000; ++i) {
    words.push_back("word " + std::to_string(i % 5));
    const int64_t digits[2] = {i, 0};
    money.append(reinterpret_cast<const char*>(digits), 16);
  }
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_COMPACT;
  options.group_rows = 400;
  const Stream stream{record({{"u", "word"}, {"d:15,2", "money"}}),
                      {rows({texts(words), Array{1000, {"", money}, {}, {}, 0}})}};
  ASSERT_OK(create("t", stream, options));
  ocm_table* table = open("t");
  ArrowSchema schema;
  ASSERT_OK(ocm_table_schema(table, &schema));
  EXPECT_STREQ(schema.children[0]->format, "c");
  EXPECT_STREQ(schema.children[0]->dictionary->format, "u");
  EXPECT_STREQ(schema.children[1]->format, "d:15,2,64");
  schema.release(&schema);
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_LT(info.bytes, 9100u);  // one dictionary, for three groups
  EXPECT_OK(ocm_table_close(table));
  EXPECT_EQ(read("t")[999], "{'word 4',999}");
  ASSERT_OK(append("t", stream));  // as it was before
  EXPECT_EQ(read("t").size(), 2000u);
  EXPECT_EQ(read("t")[1999], "{'word 4',999}");
}

/// 1000 equal strings, then distinct ones.
Stream late_strings(int distinct) {
  std::vector<std::string> first(1000, "same"), later;
  for (int i = 0; i < distinct; ++i) later.push_back("other " + std::to_string(i));
  return {record({{"u", "x"}}), {rows({texts(first)}), rows({texts(later)})}};
}

TEST_F(Table, AnIndexThatBecomesTooNarrowIsWidened) {
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_COMPACT;
  options.group_rows = 500;
  ASSERT_OK(create("t", late_strings(1000), options));
  ocm_table* table = open("t");
  ArrowSchema schema;
  ASSERT_OK(ocm_table_schema(table, &schema));
  EXPECT_STREQ(schema.children[0]->format, "i");
  schema.release(&schema);
  ocm_scan_options validate = OCM_SCAN_OPTIONS_INIT;
  validate.flags = OCM_SCAN_VALIDATE;
  const std::vector<std::string> rows = read(table, validate);
  ASSERT_EQ(rows.size(), 2000u);
  EXPECT_EQ(rows[999], "{'same'}");
  EXPECT_EQ(rows[1999], "{'other 999'}");
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, AppendedStringsThatOutnumberTheIndexSayWhatToDo) {
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_COMPACT;
  ASSERT_OK(create("t", late_strings(20), options));
  const uint64_t before = used();
  EXPECT_EQ(append("t", late_strings(5000)), OCM_TOO_LARGE);
  EXPECT_NE(std::string(ocm_last_error()).find("column `x`"), std::string::npos) << ocm_last_error();
  EXPECT_TRUE(comes_back_to(before));
  EXPECT_EQ(read("t").size(), 1020u);
}

// ---------------------------------------------------------------- packed

constexpr int64_t kPackedRows = 10'000;

/// Columns that are packed but for the last two, each with nulls but the first.
Stream packable() {
  std::vector<int64_t> keys, money, reals;
  std::vector<int32_t> days;
  std::vector<int8_t> small, colors;
  std::vector<uint64_t> same(kPackedRows, INT64_MAX);
  std::vector<std::string> words;
  std::string validity;
  for (int64_t i = 0; i < kPackedRows; ++i) {
    keys.push_back(i - 5000);
    money.push_back(i * 7919 % 100'000);
    days.push_back(static_cast<int32_t>(18'000 + i / 10));
    small.push_back(static_cast<int8_t>(i % 30 - 15));
    colors.push_back(static_cast<int8_t>(i % 5 == 0 ? -100 : i % 3));
    reals.push_back(i);
    words.push_back("word " + std::to_string(i % 5));
    validity += i % 5 == 0 ? '0' : '1';
  }
  Array named = values(colors, validity);
  named.dictionary.push_back(texts({"red", "green", "blue"}));
  return {record({{"l", "key"},
                  {"d:12,2,64", "money"},
                  {"tdD", "day"},
                  {"c", "small"},
                  {"L", "same"},
                  {"c", "color", {}, {{"u", ""}}},
                  {"g", "real"},
                  {"u", "word"}}),
          {rows({values(keys), values(money, validity), values(days, validity), values(small, validity),
                 values(same, validity), named, values(reals, validity), texts(words, validity)})}};
}

ocm_table_options packed_options(uint64_t group_rows, uint32_t more_flags = 0) {
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_PACK | more_flags;
  options.group_rows = group_rows;
  return options;
}

std::vector<std::string> formats_of(const ocm_table* table) {
  ArrowSchema schema;
  EXPECT_OK(ocm_table_schema(table, &schema));
  std::vector<std::string> formats;
  for (int64_t i = 0; i < schema.n_children; ++i) formats.emplace_back(schema.children[i]->format);
  schema.release(&schema);
  return formats;
}

ocm_table_chunk chunk_of(const ocm_table* table, uint32_t group, uint32_t column) {
  ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
  EXPECT_OK(ocm_table_chunk_query(table, group, column, &chunk));
  return chunk;
}

TEST_F(Table, PackedColumnsTakeFewerBytesAndNothingElseIsSeenOfThem) {
  ocm_table_options plain_options = OCM_TABLE_OPTIONS_INIT;
  plain_options.group_rows = 3000;
  ASSERT_OK(create("plain", packable(), plain_options));
  ASSERT_OK(create("packed", packable(), packed_options(3000)));
  ocm_table *plain = open("plain"), *packed = open("packed");
  EXPECT_EQ(formats_of(packed), formats_of(plain));
  for (uint32_t group = 0; group < 4; ++group) {
    for (uint32_t column = 0; column < 8; ++column) {
      SCOPED_TRACE(std::to_string(group) + ", " + std::to_string(column));
      const ocm_table_chunk a = chunk_of(plain, group, column), b = chunk_of(packed, group, column);
      EXPECT_EQ(a.rows, b.rows);
      EXPECT_EQ(a.nulls, b.nulls);
      EXPECT_EQ(a.bounds, b.bounds);
      EXPECT_EQ(a.minimum.integer, b.minimum.integer);
      EXPECT_EQ(a.maximum.integer, b.maximum.integer);
      if (column < 6) {
        EXPECT_LT(b.bytes, a.bytes);
      } else {
        EXPECT_EQ(b.bytes, a.bytes);
      }
    }
  }
  // 3000 keys of 12 bits in three blocks; equal values are their bitmap alone.
  EXPECT_EQ(chunk_of(packed, 0, 0).bytes, 3u * 128 * 12);
  EXPECT_EQ(chunk_of(packed, 0, 4).bytes, 3000u / 8);
  EXPECT_EQ(chunk_of(packed, 0, 4).maximum.integer, INT64_MAX);
  EXPECT_OK(ocm_table_close(plain));
  EXPECT_OK(ocm_table_close(packed));
}

TEST_F(Table, PackedColumnsAreTheSameInBatchesOfAnyLength) {
  ASSERT_OK(create("plain", packable()));
  const std::vector<std::string> wanted = read("plain");
  for (const uint64_t group_rows : {0, 3000, 1024, 1025}) {
    ASSERT_OK(create("packed", packable(), packed_options(group_rows)));
    for (const uint32_t flags : {0u, uint32_t{OCM_SCAN_MOVE}, uint32_t{OCM_SCAN_VALIDATE}}) {
      for (const uint64_t batch_rows : {0, 1, 7, 1000, 1024, 1'000'000}) {
        if (batch_rows == 1 && group_rows != 3000) continue;  // slow, and no different
        ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
        options.batch_rows = batch_rows;
        options.flags = flags;
        EXPECT_EQ(read("packed", options), wanted) << group_rows << " " << batch_rows << " " << flags;
      }
    }
    ASSERT_OK(ocm_table_drop(session, "packed"));
  }
}

TEST_F(Table, PackedColumnsAreChosenAndMovedAlone) {
  ASSERT_OK(create("t", packable(), packed_options(3000)));
  ocm_table* table = open("t");
  const uint32_t wanted[] = {5, 2}, groups[] = {1, 3};
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.columns = wanted;
  options.columns_count = 2;
  options.groups = groups;
  options.groups_count = 2;
  options.batch_rows = 999;
  options.flags = OCM_SCAN_MOVE;
  const std::vector<std::string> rows = read(table, options);
  ASSERT_EQ(rows.size(), 4000u);
  EXPECT_EQ(rows[0], "{null,null}");
  EXPECT_EQ(rows[1], "{'green',18300}");    // 3001
  EXPECT_EQ(rows[2999], "{'blue',18599}");  // 5999
  EXPECT_EQ(rows[3999], "{'red',18999}");   // 9999
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  uint64_t bytes = 0;
  for (const uint32_t group : groups) {
    for (const uint32_t column : wanted) bytes += chunk_of(table, group, column).bytes;
  }
  // What is moved is packed: padded to 64 bytes, the one dictionary once.
  EXPECT_LT(info.bytes_moved, bytes + 8 * 64);
  EXPECT_LT(info.bytes_moved, 4000u * 3);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, BatchesOfPackedColumnsAreShorterUnlessAskedFor) {
  std::vector<int64_t> numbers(200'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Stream stream{record({{"l", "a"}, {"g", "b"}}), {rows({values(numbers), values(numbers)})}};
  ASSERT_OK(create("t", stream, packed_options(0)));
  ocm_table* table = open("t");
  const auto first_batch = [&](uint32_t column, uint64_t batch_rows) {
    ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
    options.columns = &column;
    options.columns_count = 1;
    options.batch_rows = batch_rows;
    ArrowArrayStream scan;
    EXPECT_OK(ocm_table_scan(table, &options, &scan));
    ArrowArray array;
    EXPECT_EQ(scan.get_next(&scan, &array), 0);
    const int64_t length = array.length;
    array.release(&array);
    scan.release(&scan);
    return length;
  };
  EXPECT_EQ(first_batch(0, 0), 32'768);
  EXPECT_EQ(first_batch(0, 100'000), 100'000);
  EXPECT_EQ(first_batch(1, 0), 131'072);  // which is not widened
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, PackedArraysOutliveTheirStreamAndTable) {
  ASSERT_OK(create("t", packable(), packed_options(3000)));
  ocm_table* table = open("t");
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, nullptr, &stream));
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  stream.release(&stream);
  ASSERT_OK(ocm_table_drop(session, "t"));
  ASSERT_OK(ocm_table_close(table));
  ASSERT_OK(create("other", packable(), packed_options(3000)));
  (void)read("other");  // uses what is given back
  const ArrowArray& keys = *array.children[0];
  for (int64_t i = 0; i < array.length; ++i)
    ASSERT_EQ(static_cast<const int64_t*>(keys.buffers[1])[keys.offset + i], i - 5000);
  array.release(&array);
}

TEST_F(Table, AColumnOfEqualValuesIsNothingButItsCatalogue) {
  const Stream stream = one({"l", "x"}, values(std::vector<int64_t>(5000, -42)));
  ASSERT_OK(create("t", stream, packed_options(2000)));
  ASSERT_OK(append("t", stream));
  ocm_table* table = open("t");
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_EQ(info.bytes, 0u);
  EXPECT_TRUE(chunk_of(table, 1, 0).local);
  EXPECT_OK(ocm_table_close(table));
  ocm_scan_options moved = OCM_SCAN_OPTIONS_INIT;
  moved.flags = OCM_SCAN_MOVE | OCM_SCAN_VALIDATE | OCM_SCAN_CACHE;
  EXPECT_EQ(read("t", moved), std::vector<std::string>(10'000, "{-42}"));
}

TEST_F(Table, AppendedRowsArePackedAsTheTableIs) {
  const auto bytes_of_last = [&](const char* name) {
    ocm_table* table = open(name);
    ocm_table_info info = OCM_TABLE_INFO_INIT;
    EXPECT_OK(ocm_table_query(table, &info));
    const uint64_t bytes = chunk_of(table, info.groups - 1, 0).bytes;
    EXPECT_OK(ocm_table_close(table));
    return bytes;
  };
  constexpr uint64_t kPlainBytes = kPackedRows * 8, kPackedBytes = 10 * 128 * 14;
  ASSERT_OK(create("packed", packable(), packed_options(0)));
  ASSERT_OK(append("packed", packable()));
  EXPECT_EQ(bytes_of_last("packed"), kPackedBytes);
  EXPECT_EQ(read("packed").size(), 2u * kPackedRows);
  // Also where nothing of the first segment could be packed.
  ASSERT_OK(create("empty", {packable().field, {}}, packed_options(0)));
  ASSERT_OK(append("empty", packable()));
  EXPECT_EQ(bytes_of_last("empty"), kPackedBytes);
  // A plain table stays plain, unless the append asks for more.
  ASSERT_OK(create("plain", packable()));
  ASSERT_OK(append("plain", packable()));
  EXPECT_EQ(bytes_of_last("plain"), kPlainBytes);
  ASSERT_OK(append("plain", packable(), packed_options(0)));
  EXPECT_EQ(bytes_of_last("plain"), kPackedBytes);
  const std::vector<std::string> three = read("plain");
  ASSERT_EQ(three.size(), 3u * kPackedRows);
  EXPECT_TRUE(std::equal(three.begin(), three.begin() + kPackedRows, three.begin() + 2 * kPackedRows));
}

TEST_F(Table, APackedIndexOutsideOfItsDictionaryIsFoundOut) {
  Array colors = values<int8_t>(std::vector<int8_t>(3000, 1));
  colors.dictionary.push_back(texts({"red", "green", "blue"}));
  ASSERT_OK(create("t", one({"c", "x", {}, {{"u", ""}}}, colors), packed_options(0)));
  ocm_scan_options validate = OCM_SCAN_OPTIONS_INIT;
  validate.flags = OCM_SCAN_VALIDATE;
  EXPECT_EQ(read("t", validate), std::vector<std::string>(3000, "{'green'}"));
  ocm_allocation* segment = nullptr;
  ASSERT_OK(ocm_attach(session, "t", OCM_ACCESS_READ_WRITE, &segment));
  const uint32_t threes = ~uint32_t{0};  // 16 values of 2 bits, in the third block
  ASSERT_OK(ocm_put(segment, 2 * 256, &threes, sizeof(threes)));
  ocm_table* table = open("t");
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, &validate, &stream));
  ArrowArray array;
  EXPECT_NE(stream.get_next(&stream, &array), 0);
  const std::string error = stream.get_last_error(&stream);
  EXPECT_NE(error.find("outside of its dictionary"), std::string::npos) << error;
  EXPECT_NE(error.find("column `x`"), std::string::npos) << error;
  stream.release(&stream);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, APackedIndexThatBecomesTooNarrowStaysAsItIs) {
  // Groups of 20 strings (packed), of 100 (7 bits of 8: not packed), and of more than 127.
  std::vector<std::string> words;
  for (int i = 0; i < 6000; ++i) {
    const int distinct = i < 2000 ? 20 : i < 4000 ? 100 : 500;
    words.push_back("word " + std::to_string(i % distinct));
  }
  std::string validity(6000, '1');
  for (size_t i = 0; i < validity.size(); i += 9) validity[i] = '0';
  const Stream stream = one({"u", "x"}, texts(words, validity));
  ASSERT_OK(create("t", stream, packed_options(2000, OCM_TABLE_COMPACT)));
  ocm_table* table = open("t");
  EXPECT_EQ(formats_of(table), (std::vector<std::string>{"i"}));
  EXPECT_LT(chunk_of(table, 0, 0).bytes, 2000u);  // of 32 bits, in 5
  EXPECT_GT(chunk_of(table, 1, 0).bytes, 8000u);  // was widened
  EXPECT_LT(chunk_of(table, 2, 0).bytes, 250 + 2u * 128 * 9 + 500 * 13);
  EXPECT_OK(ocm_table_close(table));
  ocm_scan_options validate = OCM_SCAN_OPTIONS_INIT;
  validate.flags = OCM_SCAN_VALIDATE;
  validate.batch_rows = 777;
  const std::vector<std::string> rows = read("t", validate);
  ASSERT_EQ(rows.size(), words.size());
  for (size_t i = 0; i < rows.size(); ++i)
    ASSERT_EQ(rows[i], validity[i] == '1' ? "{'" + words[i] + "'}" : "{null}") << i;
}

TEST_F(Table, EveryTypeComesBackPacked) {
  for (Example& example : examples()) {
    if (example.field.format == "tin") continue;
    SCOPED_TRACE(example.field.format);
    // Many times the same, so that there is something to pack.
    Stream stream = one(example.field, example.array);
    stream.batches.resize(1500, stream.batches[0]);
    std::vector<std::string> wanted;
    for (int i = 0; i < 1500; ++i) wanted.insert(wanted.end(), example.rows.begin(), example.rows.end());
    ASSERT_OK(create("t", stream, packed_options(0)));
    EXPECT_EQ(read("t"), wanted);
    ASSERT_OK(ocm_table_drop(session, "t"));
  }
}

// ---------------------------------------------------------------- indices of given dictionaries

/// "w0", "w1" ... from `first` on.
std::vector<std::string> distinct_words(int count, int first = 0) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.push_back("w" + std::to_string(first + i));
  return words;
}

/// Rows that use every word of their dictionary in turn; every ninth is null where asked, with an index of
/// garbage.
template <class Index>
Array in_turn(size_t rows, const std::vector<std::string>& words, bool nulls = false) {
  std::vector<Index> indices;
  std::string validity;
  for (size_t row = 0; row < rows; ++row) {
    const bool null = nulls && row % 9 == 0;
    indices.push_back(null ? std::numeric_limits<Index>::max() : static_cast<Index>(row % words.size()));
    validity += null ? '0' : '1';
  }
  Array array = values(indices, nulls ? validity : "");
  array.dictionary.push_back(texts(words));
  return array;
}
/// What is read of them.
void add_in_turn(size_t rows, const std::vector<std::string>& words, bool nulls,
                 std::vector<std::string>& out) {
  for (size_t row = 0; row < rows; ++row)
    out.push_back(nulls && row % 9 == 0 ? "{null}" : "{'" + words[row % words.size()] + "'}");
}

Field dictionary_field(const std::string& index) { return {index, "x", {}, {{"u", ""}}}; }

ocm_table_options compact_options(uint64_t group_rows = 0) {
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_COMPACT;
  options.group_rows = group_rows;
  return options;
}

TEST_F(Table, CompactMakesTheIndexOfADictionaryAsNarrowAsItsValuesAllow) {
  const auto index_of = [&](const std::string& given, Array array, const ocm_table_options& options) {
    const int64_t rows = array.length;
    EXPECT_OK(create("t", one(dictionary_field(given), std::move(array)), options));
    ocm_table* table = open("t");
    const std::string format = formats_of(table).at(0);
    EXPECT_EQ(read(table).size(), static_cast<size_t>(rows));
    EXPECT_OK(ocm_table_close(table));
    EXPECT_OK(ocm_table_drop(session, "t"));
    return format;
  };
  const ocm_table_options compact = compact_options();
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, distinct_words(127)), compact), "c");
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, distinct_words(128)), compact), "s");
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, distinct_words(32'767)), compact), "s");
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, distinct_words(32'768)), compact), "i");
  EXPECT_EQ(index_of("s", in_turn<int16_t>(10, distinct_words(5)), compact), "c");
  EXPECT_EQ(index_of("S", in_turn<uint16_t>(10, distinct_words(40'000)), compact), "S");
  EXPECT_EQ(index_of("S", in_turn<uint16_t>(10, distinct_words(1000)), compact), "S");
  EXPECT_EQ(index_of("C", in_turn<uint8_t>(10, distinct_words(5)), compact), "C");
  EXPECT_EQ(index_of("C", in_turn<uint8_t>(10, distinct_words(200)), compact), "C");
  EXPECT_EQ(index_of("L", in_turn<uint64_t>(10, distinct_words(5)), compact), "c");
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, std::vector<std::string>(130, "same")), compact), "c");
  EXPECT_EQ(index_of("i", in_turn<int32_t>(10, distinct_words(5)), OCM_TABLE_OPTIONS_INIT), "i");
  Array with_null = in_turn<int32_t>(10, distinct_words(128));
  with_null.dictionary[0] = texts(distinct_words(128), std::string(127, '1') + '0');
  EXPECT_EQ(index_of("i", with_null, compact), "s");
  Array of_numbers = values<int32_t>({0, 1, 1});
  of_numbers.dictionary.push_back(values<double>({1.5, 2.5}));
  ASSERT_OK(create("t", one({"i", "x", {}, {{"g", ""}}}, of_numbers), compact));
  EXPECT_EQ(read("t"), (std::vector<std::string>{"{1.500000}", "{2.500000}", "{2.500000}"}));
}

TEST_F(Table, AnIndexThatWasMadeNarrowIsWidenedAsFarAsItWasGiven) {
  const auto widens_to = [&](const std::string& wanted, const std::string& given, auto index,
                             uint32_t flags) {
    using Index = decltype(index);
    SCOPED_TRACE(given + ", flags " + std::to_string(flags));
    // Groups of 5 values (packed where asked), of 100 (never packed in 8 bits), of 500 and of 5 again.
    Stream stream{record({dictionary_field(given)}), {}};
    std::vector<std::string> rows_wanted;
    for (const int count : {5, 100, 500, 5}) {
      const std::vector<std::string> words = distinct_words(count, count * 7);
      stream.batches.push_back(rows({in_turn<Index>(2000, words, count != 500)}));
      add_in_turn(2000, words, count != 500, rows_wanted);
    }
    ocm_table_options options = compact_options(2000);
    options.flags |= flags;
    ASSERT_OK(create("t", stream, options));
    ocm_table* table = open("t");
    EXPECT_EQ(formats_of(table), std::vector<std::string>{wanted});
    uint64_t dictionary_bytes = 101 * sizeof(int32_t);
    for (const std::string& word : distinct_words(100, 700)) dictionary_bytes += word.size();
    const uint64_t index_bytes = std::min(sizeof(Index), sizeof(int32_t));
    EXPECT_EQ(chunk_of(table, 1, 0).bytes, 2000 / 8 + 2000 * index_bytes + dictionary_bytes);
    ocm_scan_options scan = OCM_SCAN_OPTIONS_INIT;
    scan.flags = OCM_SCAN_VALIDATE;
    EXPECT_EQ(read(table, scan), rows_wanted);
    scan.flags = OCM_SCAN_MOVE;
    EXPECT_EQ(read(table, scan), rows_wanted);
    EXPECT_OK(ocm_table_close(table));
    ASSERT_OK(ocm_table_drop(session, "t"));
  };
  for (const uint32_t flags : {0u, uint32_t{OCM_TABLE_PACK}}) {
    widens_to("s", "s", int16_t{}, flags);
    widens_to("S", "S", uint16_t{}, flags);
    widens_to("i", "i", int32_t{}, flags);
    widens_to("I", "I", uint32_t{}, flags);
    widens_to("i", "l", int64_t{}, flags);
    widens_to("i", "L", uint64_t{}, flags);
  }
}

TEST_F(Table, OneRowWithALargeDictionaryWidensTheIndexToo) {
  const Stream stream{record({dictionary_field("i")}),
                      {rows({in_turn<int32_t>(2000, distinct_words(5))}),
                       rows({in_turn<int32_t>(1, distinct_words(500, 1000))})}};
  ASSERT_OK(create("t", stream, compact_options(2000)));
  ocm_table* table = open("t");
  EXPECT_EQ(formats_of(table), std::vector<std::string>{"i"});
  const std::vector<std::string> all = read(table);
  ASSERT_EQ(all.size(), 2001u);
  EXPECT_EQ(all[1999], "{'w4'}");
  EXPECT_EQ(all[2000], "{'w1000'}");
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, AppendedIndicesOfAnyWidthTakeTheTables) {
  for (const uint32_t flags : {0u, uint32_t{OCM_TABLE_PACK}}) {
    for (const int first : {5, 1000}) {
      SCOPED_TRACE(std::to_string(first) + ", flags " + std::to_string(flags));
      ocm_table_options options = compact_options();
      options.flags |= flags;
      std::vector<std::string> wanted;
      ASSERT_OK(
          create("t", one(dictionary_field("i"), in_turn<int32_t>(2000, distinct_words(first))), options));
      add_in_turn(2000, distinct_words(first), false, wanted);
      const auto add = [&](const std::string& format, auto index, int count) {
        const std::vector<std::string> words = distinct_words(count, 9000);
        ASSERT_OK(append("t", one(dictionary_field(format), in_turn<decltype(index)>(1500, words, true))));
        add_in_turn(1500, words, true, wanted);
      };
      add("c", int8_t{}, 127);
      add("C", uint8_t{}, 127);
      add("i", int32_t{}, 127);
      add("l", int64_t{}, 100);
      add("S", uint16_t{}, first == 5 ? 3 : 20'000);
      ASSERT_OK(append("t", one({"u", "x"}, texts({"a", "b", "a"}))));
      wanted.insert(wanted.end(), {"{'a'}", "{'b'}", "{'a'}"});
      ocm_table* table = open("t");
      EXPECT_EQ(formats_of(table), std::vector<std::string>{first == 5 ? "c" : "s"});
      ocm_scan_options validate = OCM_SCAN_OPTIONS_INIT;
      validate.flags = OCM_SCAN_VALIDATE;
      EXPECT_EQ(read(table, validate), wanted);
      EXPECT_OK(ocm_table_close(table));
      ASSERT_OK(ocm_table_drop(session, "t"));
    }
  }
}

TEST_F(Table, AnAppendedDictionaryThatOutnumbersTheIndexSaysWhatToDo) {
  ASSERT_OK(
      create("t", one(dictionary_field("i"), in_turn<int32_t>(10, distinct_words(5))), compact_options()));
  const uint64_t before = used();
  for (const size_t rows : {1000, 2, 1}) {
    EXPECT_EQ(append("t", one(dictionary_field("i"), in_turn<int32_t>(rows, distinct_words(200)))),
              OCM_TOO_LARGE);
    const std::string error = ocm_last_error();
    EXPECT_NE(error.find("column `x`"), std::string::npos) << error;
    EXPECT_NE(error.find("more values than the table's index can number"), std::string::npos) << error;
    EXPECT_NE(error.find("wider index"), std::string::npos) << rows << ": " << error;
  }
  EXPECT_TRUE(comes_back_to(before));
  EXPECT_EQ(read("t").size(), 10u);
}

TEST_F(Table, DictionariesThatFitApartAndNotTogetherCutRowGroups) {
  // Few rows each: what is cut is no more than that.
  Stream stream{record({dictionary_field("i")}), {}};
  std::vector<std::string> wanted;
  for (int i = 0; i < 3; ++i) {
    const std::vector<std::string> words = distinct_words(100, i * 100);
    stream.batches.push_back(rows({in_turn<int32_t>(10, words)}));
    add_in_turn(10, words, false, wanted);
  }
  const auto groups_of = [&](const char* name) {
    ocm_table* table = open(name);
    ocm_table_info info = OCM_TABLE_INFO_INIT;
    EXPECT_OK(ocm_table_query(table, &info));
    EXPECT_OK(ocm_table_close(table));
    return info.groups;
  };
  // Of a table that is there.
  const std::vector<std::string> before{"{'w0'}", "{'w1'}"};
  ASSERT_OK(
      create("fixed", one(dictionary_field("i"), in_turn<int32_t>(2, distinct_words(2))), compact_options()));
  ASSERT_OK(append("fixed", stream));
  EXPECT_EQ(groups_of("fixed"), 4u);
  std::vector<std::string> all = before;
  all.insert(all.end(), wanted.begin(), wanted.end());
  EXPECT_EQ(read("fixed"), all);
  // Where the index was given that narrow.
  Stream given{record({dictionary_field("c")}), {}};
  for (int i = 0; i < 3; ++i)
    given.batches.push_back(rows({in_turn<int8_t>(10, distinct_words(100, i * 100))}));
  ASSERT_OK(create("given", given));
  EXPECT_EQ(groups_of("given"), 3u);
  EXPECT_EQ(read("given"), wanted);
  ASSERT_OK(append("given", stream));
  EXPECT_EQ(groups_of("given"), 6u);
  // All together fit an index that is not decided yet.
  ASSERT_OK(create("free", stream, compact_options()));
  EXPECT_EQ(groups_of("free"), 1u);
  EXPECT_EQ(read("free"), wanted);
  // One of them does not fit even alone: nothing is kept.
  stream.batches.push_back(rows({in_turn<int32_t>(10, distinct_words(200, 1000))}));
  EXPECT_EQ(append("fixed", stream), OCM_TOO_LARGE);
  EXPECT_NE(std::string(ocm_last_error()).find("wider index"), std::string::npos) << ocm_last_error();
  EXPECT_EQ(read("fixed"), all);
}

constexpr int32_t kListRows = 1000;
constexpr int32_t kEntries = 10;

/// Rows of ten entries each.
Array lists_of(Array items) {
  std::vector<int32_t> offsets;
  for (int32_t row = 0; row <= kListRows; ++row) offsets.push_back(row * kEntries);
  return two_lists(offsets, std::move(items));
}
/// What is read of lists whose entries are the words in turn.
void add_lists(const std::vector<std::string>& words, std::vector<std::string>& out) {
  for (size_t row = 0; row < kListRows; ++row) {
    std::string text;
    for (size_t i = 0; i < kEntries; ++i)
      text += (i > 0 ? ",'" : "'") + words[(row * kEntries + i) % words.size()] + "'";
    out.push_back("{[" + text + "]}");
  }
}

TEST_F(Table, DictionariesInListsThatDoNotFitTogetherCutRowGroupsByRows) {
  const auto field = [](const Field& item) { return Field{"+l", "x", {item}}; };
  const Field words_in_8{"c", "item", {}, {{"u", ""}}}, words_in_32{"i", "item", {}, {{"u", ""}}};
  const auto indexed_lists = [](int count, int first) {
    return lists_of(in_turn<int32_t>(kListRows * kEntries, distinct_words(count, first)));
  };
  std::vector<std::string> wanted;
  ASSERT_OK(create(
      "t", one(field(words_in_8), lists_of(in_turn<int8_t>(kListRows * kEntries, distinct_words(5))))));
  add_lists(distinct_words(5), wanted);
  ASSERT_OK(append("t", {record({field(words_in_32)}),
                         {rows({indexed_lists(100, 100)}), rows({indexed_lists(100, 200)})}}));
  add_lists(distinct_words(100, 100), wanted);
  add_lists(distinct_words(100, 200), wanted);
  EXPECT_EQ(read("t"), wanted);
  ocm_table* table = open("t");
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(table, &info));
  EXPECT_EQ(info.groups, 3u);
  EXPECT_OK(ocm_table_close(table));
  // A dictionary that does not fit alone.
  EXPECT_EQ(append("t", one(field(words_in_32), indexed_lists(200, 0))), OCM_TOO_LARGE);
  EXPECT_EQ(append("t", {record({field(words_in_32)}),
                         {rows({indexed_lists(100, 0)}), rows({indexed_lists(200, 100)})}}),
            OCM_TOO_LARGE);
  EXPECT_NE(std::string(ocm_last_error()).find("column `x`"), std::string::npos) << ocm_last_error();
  EXPECT_EQ(read("t"), wanted);
}

TEST_F(Table, StringsInListsThatOutnumberTheIndexCutRowGroupsByRows) {
  const auto field = [](const Field& item) { return Field{"+l", "x", {item}}; };
  const Field words_in_8{"c", "item", {}, {{"u", ""}}}, plain{"u", "item"};
  // 1000 rows of 10: for each hundred rows another hundred words.
  std::vector<std::string> all;
  for (int i = 0; i < kListRows * kEntries; ++i)
    all.push_back("w" + std::to_string(i / 1000 * 100 + i % 100));
  ASSERT_OK(create(
      "t", one(field(words_in_8), lists_of(in_turn<int8_t>(kListRows * kEntries, distinct_words(5))))));
  std::vector<std::string> wanted;
  add_lists(distinct_words(5), wanted);
  ASSERT_OK(
      append("t", {record({field(plain)}), {rows({lists_of(texts(all))}), rows({lists_of(texts(all))})}}));
  add_lists(all, wanted);
  add_lists(all, wanted);
  EXPECT_EQ(read("t"), wanted);
  // One row has more than the index numbers.
  EXPECT_EQ(append("t", one(field(plain), two_lists({0, 1, 201}, texts(distinct_words(201))))),
            OCM_TOO_LARGE);
  EXPECT_EQ(read("t"), wanted);
}

TEST_F(Table, ADictionaryThatRowGroupsShareIsMovedOnce) {
  // Buffers of whole 64 bytes, which have no padding.
  constexpr uint64_t kGroups = 8, kRows = 2048;
  std::vector<std::string> words = distinct_words(16'383);
  for (std::string& word : words) word.resize(64, '.');
  const Array array = in_turn<int32_t>(kGroups * kRows, words);
  const Array same = [&] {
    Array made = values(std::vector<int32_t>(kGroups * kRows, 0));
    made.dictionary.push_back(texts({std::string(64 * 3, 'x')}));
    return made;
  }();
  Field first = dictionary_field("i"), second = dictionary_field("i");
  second.name = "y";
  const Stream stream{record({first, second}), {rows({array, same})}};
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  for (const uint32_t flags : {0u, uint32_t{OCM_TABLE_PACK}}) {
    options.flags = flags;
    options.group_rows = kRows;
    ASSERT_OK(create("t", stream, options));
    const std::vector<std::string> wanted = read("t");
    ASSERT_EQ(wanted.size(), kGroups * kRows);
    for (const uint32_t prefetch_groups : {0, 1, 2, 3, 100}) {
      SCOPED_TRACE("flags " + std::to_string(flags) + ", ahead " + std::to_string(prefetch_groups));
      ocm_table* table = open("t");
      ocm_scan_options moved = OCM_SCAN_OPTIONS_INIT;
      moved.flags = OCM_SCAN_MOVE;
      moved.prefetch_groups = prefetch_groups;
      EXPECT_EQ(read(table, moved), wanted);
      ocm_table_info info = OCM_TABLE_INFO_INIT;
      ASSERT_OK(ocm_table_query(table, &info));
      const uint64_t padding = 64 - 2 * sizeof(int32_t);  // of the one word's offsets
      EXPECT_EQ(info.bytes_moved, info.bytes + padding);
      EXPECT_OK(ocm_table_close(table));
    }
    ASSERT_OK(ocm_table_drop(session, "t"));
  }
}

TEST_F(Table, AReaderSeesAllOfAnAppendOrNothing) {
  const Field x{"i", "x"};
  ASSERT_OK(create("t", one(x, values<int32_t>({1}))));
  ocm_table* before = open("t");
  ASSERT_OK(append("t", one(x, values<int32_t>({2, 3}))));
  ASSERT_OK(append("t", one(x, values<int32_t>({4}))));
  EXPECT_EQ(read(before), (std::vector<std::string>{"{1}"}));
  EXPECT_EQ(read("t"), (std::vector<std::string>{"{1}", "{2}", "{3}", "{4}"}));
  ocm_table* after = open("t");
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(after, &info));
  EXPECT_EQ(info.segments, 3u);
  EXPECT_EQ(info.rows, 4u);
  ocm_table_info old = OCM_TABLE_INFO_INIT;
  ASSERT_OK(ocm_table_query(before, &old));
  EXPECT_EQ(info.id, old.id);
  ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
  ASSERT_OK(ocm_table_chunk_query(after, 2, 0, &chunk));
  EXPECT_EQ(chunk.first_row, 3u);
  EXPECT_OK(ocm_table_close(before));
  EXPECT_OK(ocm_table_close(after));
  EXPECT_EQ(append("t", one({"l", "x"}, values<int64_t>({2}))), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(append("absent", one(x, values<int32_t>({2}))), OCM_NOT_FOUND);
}

TEST_F(Table, ADroppedTableLivesUntilItsReadersEnd) {
  const uint64_t before = used();
  const Field x{"i", "x"};
  ASSERT_OK(create("t", one(x, values<int32_t>({1, 2, 3}))));
  ASSERT_OK(append("t", one(x, values<int32_t>({4}))));
  ocm_table* table = open("t");
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, nullptr, &stream));
  ASSERT_OK(ocm_table_drop(session, "t"));
  ocm_table* none = nullptr;
  EXPECT_EQ(ocm_table_open(session, "t", &none), OCM_NOT_FOUND);
  EXPECT_EQ(ocm_table_drop(session, "t"), OCM_NOT_FOUND);
  ASSERT_OK(ocm_table_close(table));
  EXPECT_EQ(ocm_table_close(table), OCM_REVOKED);
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  stream.release(&stream);
  EXPECT_EQ(static_cast<const int32_t*>(array.children[0]->buffers[1])[2], 3);
  EXPECT_GT(used(), before);
  array.release(&array);
  EXPECT_TRUE(comes_back_to(before));
}

TEST_F(Table, AReplacedTableIsAnotherOne) {
  ASSERT_OK(ocm_publish(allocate(kMiB), "t~00000000000000aa~1", 0));  // of one whose dropper died
  ASSERT_OK(create("t", one({"i", "x"}, values<int32_t>({1}))));
  ASSERT_OK(append("t", one({"i", "x"}, values<int32_t>({2}))));
  EXPECT_EQ(create("t", one({"u", "y"}, texts({"new"}))), OCM_EXISTS);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_REPLACE;
  ASSERT_OK(create("t", one({"u", "y"}, texts({"new"})), options));
  EXPECT_EQ(read("t"), (std::vector<std::string>{"{'new'}"}));
  std::vector<std::string> names;
  const auto visit = [](const ocm_name_info* info, void* context) {
    static_cast<std::vector<std::string>*>(context)->push_back(info->name);
    return true;
  };
  ASSERT_OK(ocm_name_list(session, "t", visit, &names));
  EXPECT_EQ(names, (std::vector<std::string>{"t"}));
}

TEST_F(Table, WhatIsNoTableIsLeftAlone) {
  ASSERT_OK(ocm_publish(allocate(kMiB), "memory", 0));
  ocm_table* none = nullptr;
  EXPECT_EQ(ocm_table_open(session, "memory", &none), OCM_PROTOCOL);
  EXPECT_EQ(ocm_table_drop(session, "memory"), OCM_INVALID_ARGUMENT);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_REPLACE;
  EXPECT_EQ(create("memory", one({"i", "x"}, values<int32_t>({1})), options), OCM_INVALID_ARGUMENT);
  ocm_allocation* memory = nullptr;
  EXPECT_OK(ocm_attach(session, "memory", OCM_ACCESS_READ, &memory));
}

TEST_F(Table, ALoadThatFailsLeavesNothing) {
  const uint64_t before = used();
  std::vector<int64_t> all(100'000, 7);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.group_rows = 50'000;
  Stream stream{record({{"l", "x"}}), {rows({values(all)}), rows({values(all)})}, 0, 1};
  EXPECT_EQ(create("t", stream, options), OCM_IO);
  EXPECT_NE(std::string(ocm_last_error()).find("the disk is on fire"), std::string::npos) << ocm_last_error();
  Array bad = texts({"x"});
  bad.buffers[1][7] = -1;  // the second offset is negative
  EXPECT_EQ(create("t", {record({{"u", "name"}}), {rows({texts({"fine"})}), rows({bad})}}),
            OCM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ocm_last_error()).find("column `name`"), std::string::npos) << ocm_last_error();
  EXPECT_EQ(create("t", one({"+us:0", "u"}, {})), OCM_UNSUPPORTED);
  options.progress = [](uint64_t rows, uint64_t, void*) { return rows < 100'000; };
  EXPECT_EQ(create("t", {record({{"l", "x"}}), {rows({values(all)}), rows({values(all)})}}, options),
            OCM_CANCELLED);
  ocm_table* none = nullptr;
  EXPECT_EQ(ocm_table_open(session, "t", &none), OCM_NOT_FOUND);
  EXPECT_TRUE(comes_back_to(before));
}

TEST_F(Table, AFullPoolSaysWhatIsMissing) {
  const uint64_t before = used();
  std::vector<int64_t> all(4'000'000, 7);
  Stream stream{record({{"l", "x"}}), {}};
  for (int i = 0; i < 10; ++i) stream.batches.push_back(rows({values(all)}));
  EXPECT_EQ(create("t", std::move(stream)), OCM_POOL_FULL);
  const std::string text = ocm_last_error();
  for (const char* part : {"table t", "were stored", "needs", "free of 256 MiB", "nothing was kept"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_TRUE(comes_back_to(before));
}

TEST_F(Table, BadArgumentsAreRefused) {
  const Stream stream = one({"i", "x"}, values<int32_t>({1}));
  EXPECT_EQ(create("a~b", stream), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(create("a/b", stream), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(create("", stream), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(create(std::string(201, 'x'), stream), OCM_TOO_LARGE);
  EXPECT_OK(create(std::string(200, 'x'), stream));
  EXPECT_OK(append(std::string(200, 'x'), stream));
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = 1u << 30;
  EXPECT_EQ(create("t", stream, options), OCM_INVALID_ARGUMENT);
  options = OCM_TABLE_OPTIONS_INIT;
  const char* nodes[] = {"nowhere"};
  options.nodes = nodes;
  options.nodes_count = 1;
  EXPECT_EQ(create("t", stream, options), OCM_UNKNOWN_NODE);
  options = OCM_TABLE_OPTIONS_INIT;
  options.replicas = 2;
  EXPECT_EQ(create("t", stream, options), OCM_POOL_FULL);
  EXPECT_EQ(ocm_table_create(session, "t", nullptr, nullptr), OCM_INVALID_ARGUMENT);
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  EXPECT_EQ(ocm_table_query(nullptr, &info), OCM_INVALID_ARGUMENT);
}

TEST_F(Table, TheLastReleaseCallsBackOnce) {
  ASSERT_OK(
      create("t", {record({{"i", "a"}, {"i", "b"}}), {rows({values<int32_t>({1}), values<int32_t>({2})})}}));
  ocm_table* table = open("t");
  int calls = 0;
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.released = [](void* context) { ++*static_cast<int*>(context); };
  options.context = &calls;
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, &options, &stream));
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  ArrowArray child = *array.children[1];  // moved out
  array.children[1]->release = nullptr;
  stream.release(&stream);
  EXPECT_OK(ocm_table_close(table));
  array.release(&array);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(static_cast<const int32_t*>(child.buffers[1])[0], 2);
  child.release(&child);
  EXPECT_EQ(calls, 1);
}

TEST_F(Table, AClosedSessionEndsItsScansAndNotTheProcess) {
  std::vector<int64_t> all(1000, 5);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.group_rows = 10;
  ASSERT_OK(create("t", {record({{"l", "a"}}), {rows({values(all)})}}, options));
  ocm_table* table = open("t");
  ocm_scan_options moved = OCM_SCAN_OPTIONS_INIT;
  moved.flags = OCM_SCAN_MOVE;
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, &moved, &stream));
  ArrowArray array;
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  ASSERT_OK(ocm_session_close(session));
  session = nullptr;
  EXPECT_EQ(static_cast<const int64_t*>(array.children[0]->buffers[1])[9], 5);  // memory of its own
  array.release(&array);
  EXPECT_NE(stream.get_next(&stream, &array), 0);
  EXPECT_NE(std::string(stream.get_last_error(&stream)).find("session was closed"), std::string::npos);
  stream.release(&stream);
  EXPECT_OK(ocm_table_close(table));
}

TEST_F(Table, ASessionMayCloseWhileAnotherThreadScans) {
  constexpr size_t kGroups = 24, kRows = 4096;
  const std::vector<std::string> words = distinct_words(1000);
  Stream stream{record({dictionary_field("i"), {"l", "k"}}), {}};
  std::vector<int64_t> keys(kGroups * kRows);
  std::iota(keys.begin(), keys.end(), 0);
  stream.batches = {rows({in_turn<int32_t>(kGroups * kRows, words), values(keys)})};
  // The session closes once so many batches were read.
  for (size_t read_before = 0; read_before <= kGroups; ++read_before) {
    for (const uint32_t flags : {0u, uint32_t{OCM_TABLE_PACK}}) {
      SCOPED_TRACE(std::to_string(read_before) + ", flags " + std::to_string(flags));
      if (session == nullptr) SetUp();
      ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
      options.flags = flags;
      options.group_rows = kRows;
      ASSERT_OK(create("t", stream, options));
      ocm_table* table = open("t");
      ocm_scan_options moved = OCM_SCAN_OPTIONS_INIT;
      moved.flags = OCM_SCAN_MOVE;
      ArrowArrayStream scan;
      ASSERT_OK(ocm_table_scan(table, &moved, &scan));
      std::promise<void> there;
      std::vector<ArrowArray> arrays;
      std::string error;
      std::thread reader([&] {
        if (read_before == 0) there.set_value();
        while (true) {
          ArrowArray array;
          if (scan.get_next(&scan, &array) != 0) error = scan.get_last_error(&scan);
          if (!error.empty() || array.release == nullptr) break;
          arrays.push_back(array);
          if (arrays.size() == read_before) there.set_value();
        }
        if (arrays.size() < read_before) there.set_value();
      });
      there.get_future().wait();
      EXPECT_OK(ocm_session_close(session));
      session = nullptr;
      reader.join();
      if (!error.empty()) {
        EXPECT_NE(error.find("session was closed"), std::string::npos) << error;
      } else {
        EXPECT_EQ(arrays.size(), kGroups);
      }
      EXPECT_GE(arrays.size(), read_before);
      int64_t row = 0;
      for (ArrowArray& array : arrays) {
        const ArrowArray &indices = *array.children[0], &numbers = *array.children[1];
        for (int64_t i = 0; i < array.length; ++i, ++row) {
          ASSERT_EQ(static_cast<const int64_t*>(numbers.buffers[1])[numbers.offset + i], row);
          ASSERT_EQ(static_cast<const int32_t*>(indices.buffers[1])[indices.offset + i], row % 1000);
        }
        EXPECT_EQ(indices.dictionary->length, 1000);
        array.release(&array);
      }
      scan.release(&scan);
      EXPECT_OK(ocm_table_close(table));
    }
  }
}

TEST_F(Table, AChildOfAForkHasNoTables) {
  ASSERT_OK(create("t", one({"i", "x"}, values<int32_t>({1, 2, 3}))));
  ocm_table* table = open("t");
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, nullptr, &stream));
  const pid_t child = fork();
  if (child == 0) {
    ArrowArray array;
    ocm_table_info info = OCM_TABLE_INFO_INIT;
    const bool refused =
        ocm_table_query(table, &info) == OCM_INVALID_ARGUMENT && stream.get_next(&stream, &array) != 0;
    stream.release(&stream);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  stream.release(&stream);
  EXPECT_OK(ocm_table_close(table));
}

}  // namespace
