// Tables through the C interface, on a node inside the test's process.
#include <sys/wait.h>

#include <future>
#include <numeric>
#include <thread>

#include "table_fixture.h"

namespace {

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
  ASSERT_OK(ocm_table_schema_query(table, &schema));
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
  ASSERT_OK(ocm_table_schema_query(table, &schema));
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
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "t~00000000000000aa~1", 0));  // of one whose dropper died
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
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "memory", 0));
  ocm_table* none = nullptr;
  EXPECT_EQ(ocm_table_open(session, "memory", &none), OCM_PROTOCOL);
  EXPECT_EQ(ocm_table_drop(session, "memory"), OCM_INVALID_ARGUMENT);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_REPLACE;
  EXPECT_EQ(create("memory", one({"i", "x"}, values<int32_t>({1})), options), OCM_INVALID_ARGUMENT);
  ocm_allocation* memory = nullptr;
  EXPECT_OK(ocm_allocation_attach(session, "memory", OCM_ACCESS_READ, &memory));
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
  options = OCM_TABLE_OPTIONS_INIT;
  for (const int32_t none : {-2, 3, 99}) {
    options.kind = none;
    EXPECT_EQ(create("t", stream, options), OCM_INVALID_ARGUMENT) << none;
  }
  options.kind = OCM_KIND_GPU;  // which this node does not offer
  EXPECT_EQ(create("t", stream, options), OCM_UNSUPPORTED);
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