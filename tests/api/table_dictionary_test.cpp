// Indices of dictionaries that were given: made narrow, widened, and cut into row groups where they do not fit.
#include <limits>
#include <numeric>

#include "table_fixture.h"

namespace {

/// What is read of them.
void add_in_turn(size_t rows, const std::vector<std::string>& words, bool nulls,
                 std::vector<std::string>& out) {
  for (size_t row = 0; row < rows; ++row)
    out.push_back(nulls && row % 9 == 0 ? "{null}" : "{'" + words[row % words.size()] + "'}");
}

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

}  // namespace
