// A table's handle that one thread closes while others use it.
#include <oncilla/table.h>

#include <thread>
#include <vector>

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

TEST_F(TableHandle, ATableIsToldFromWhatAProgramJoined) {
  ArrowArrayStream source;
  export_stream({record({{"l", "x"}}), {rows({values(std::vector<int64_t>{1, 2, 3})})}}, &source);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  ASSERT_OK(ocm_table_create(session, "t", &source, &options));
  ocm_allocation* segment = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "t", OCM_ACCESS_READ, &segment));
  EXPECT_EQ(ocm_table_test(segment), 1);
  const uint64_t bytes = ocm_allocation_bytes(segment);

  ocm_allocation_options dedicated = OCM_ALLOCATION_OPTIONS_INIT;
  dedicated.flags = OCM_ALLOCATION_DEDICATED;
  std::vector<char> copy(bytes);
  ASSERT_OK(ocm_get(segment, 0, copy.data(), bytes));
  ocm_allocation *part = nullptr, *joined = nullptr;
  ASSERT_OK(ocm_allocation_create(session, bytes, &dedicated, &part));
  ASSERT_OK(ocm_put(part, 0, copy.data(), bytes));
  EXPECT_EQ(ocm_table_test(part), 0) << "the same bytes, in one extent";
  ASSERT_OK(ocm_allocation_join(session, &part, 1, &joined));
  EXPECT_EQ(ocm_table_test(joined), 1);
  copy[bytes - 64] ^= 1;
  ASSERT_OK(ocm_put(joined, 0, copy.data(), bytes));
  EXPECT_EQ(ocm_table_test(joined), 0) << "the footer's first byte is another";
  ASSERT_OK(ocm_allocation_free(joined));
  ASSERT_OK(ocm_allocation_free(segment));
  EXPECT_EQ(ocm_table_test(segment), OCM_REVOKED);
  EXPECT_EQ(ocm_table_test(nullptr), OCM_INVALID_ARGUMENT);
}

}  // namespace
