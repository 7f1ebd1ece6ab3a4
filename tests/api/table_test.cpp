// Tables through the C interface, on a node inside the test's process.
#include <oncilla/table.h>

#include <algorithm>
#include <functional>

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

}  // namespace
