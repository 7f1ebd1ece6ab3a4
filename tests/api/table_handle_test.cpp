// A table's handle that one thread closes while others use it.
#include <oncilla/table.h>

#include <thread>

#include "arrow_builder.h"
#include "embedded.h"

namespace {

using namespace arrow_builder;

class TableHandle : public Embedded {};

TEST_F(TableHandle, IsUsedUntilItIsClosedByAnotherThread) {
  const std::vector<int64_t> rows_of_it{1, 2, 3};
  ArrowArrayStream source;
  export_stream({record({{"l", "x"}}), {rows({values(rows_of_it)})}}, &source);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  ASSERT_OK(ocm_table_create(session, "t", &source, &options));
  for (int round = 0; round < 300; ++round) {
    ocm_table* table = nullptr;
    ASSERT_OK(ocm_table_open(session, "t", &table));
    const auto use = [table](int* last) {
      ocm_table_info info = OCM_TABLE_INFO_INIT;
      do {
        *last = ocm_table_query(table, &info);
      } while (*last == OCM_OK);
    };
    int first = 0, second = 0;
    std::thread one([&] { use(&first); }), two([&] { use(&second); });
    EXPECT_OK(ocm_table_close(table));
    one.join();
    two.join();
    EXPECT_EQ(first, OCM_REVOKED);
    EXPECT_EQ(second, OCM_REVOKED);
  }
}

}  // namespace
