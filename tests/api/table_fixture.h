// Tables of the C interface on a node inside the test's process: made, opened and read as text.
#pragma once

#include <oncilla/table.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "arrow_builder.h"
#include "embedded.h"

using namespace arrow_builder;

inline Array two_lists(std::vector<int32_t> offsets, Array items) {
  return {static_cast<int64_t>(offsets.size()) - 1, {"", bytes_of(offsets)}, {std::move(items)}, {}, 0};
}

/// "w0", "w1" ... from `first` on.
inline std::vector<std::string> distinct_words(int count, int first = 0) {
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

inline Field dictionary_field(const std::string& index) { return {index, "x", {}, {{"u", ""}}}; }

inline ocm_table_options packed_options(uint64_t group_rows, uint32_t more_flags = 0) {
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.flags = OCM_TABLE_PACK | more_flags;
  options.group_rows = group_rows;
  return options;
}

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
  static std::vector<std::string> formats_of(const ocm_table* table) {
    ArrowSchema schema;
    EXPECT_OK(ocm_table_schema_query(table, &schema));
    std::vector<std::string> formats;
    for (int64_t i = 0; i < schema.n_children; ++i) formats.emplace_back(schema.children[i]->format);
    schema.release(&schema);
    return formats;
  }
  static ocm_table_chunk chunk_of(const ocm_table* table, uint32_t group, uint32_t column) {
    ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
    EXPECT_OK(ocm_table_chunk_query(table, group, column, &chunk));
    return chunk;
  }
  static Stream one(Field field, Array array) {
    return {record({std::move(field)}), {rows({std::move(array)})}};
  }
};
