// Former names of the C interface: the same functions.
#include <oncilla/table.h>

#include "embedded.h"

namespace {

using FormerNames = Embedded;

TEST_F(FormerNames, DoWhatTheFunctionsDo) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_put(mine, 7, "hello", 5));
  ASSERT_OK(ocm_publish(mine, "greeting", 0644));
  EXPECT_EQ(ocm_publish(mine, "greeting", 0644), OCM_EXISTS);
  ocm_allocation* theirs = nullptr;
  ASSERT_OK(ocm_attach(session, "greeting", OCM_ACCESS_READ, &theirs));
  void* bytes = nullptr;
  ASSERT_OK(ocm_allocation_pointer(theirs, 7, 5, &bytes));
  EXPECT_EQ(std::memcmp(bytes, "hello", 5), 0);
  ocm_extent_info was = OCM_EXTENT_INFO_INIT, is = OCM_EXTENT_INFO_INIT;
  ASSERT_OK(ocm_allocation_extent(theirs, 0, &was));
  ASSERT_OK(ocm_allocation_extent_query(theirs, 0, &is));
  EXPECT_EQ(was.global_address, is.global_address);
  EXPECT_EQ(ocm_allocation_extent(theirs, 1, &was), OCM_OUT_OF_RANGE);
  ArrowSchema schema;
  EXPECT_EQ(ocm_table_schema(nullptr, &schema), OCM_INVALID_ARGUMENT);
  ASSERT_OK(ocm_name_remove(session, "greeting"));
}

}  // namespace
