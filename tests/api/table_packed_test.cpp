// Packed columns through the C interface: fewer bytes, and nothing else is seen of them.
#include <numeric>

#include "table_fixture.h"

namespace {

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
  ASSERT_OK(ocm_allocation_attach(session, "t", OCM_ACCESS_READ_WRITE, &segment));
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

}  // namespace
