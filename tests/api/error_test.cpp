// The last error's fields: which node and which subject a failed call was about.
#include <oncilla/table.h>

#include <thread>

#include "embedded.h"

namespace {

using LastError = Embedded;

ocm_error_info info_now() {
  ocm_error_info info = OCM_ERROR_INFO_INIT;
  EXPECT_EQ(ocm_last_error_info(&info), OCM_OK);
  return info;
}

TEST_F(LastError, NamesTheAllocation) {
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_attach(session, "missing", OCM_ACCESS_READ, &allocation), OCM_NOT_FOUND);
  const ocm_error_info info = info_now();
  EXPECT_EQ(info.status, OCM_NOT_FOUND);
  EXPECT_EQ(info.subject_kind, OCM_SUBJECT_ALLOCATION);
  EXPECT_STREQ(info.subject, "missing");
  EXPECT_STREQ(info.node, "");
}

TEST_F(LastError, NamesTheNode) {
  const char* nodes[] = {"nobody"};
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.nodes = nodes;
  options.nodes_count = 1;
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNKNOWN_NODE);
  EXPECT_STREQ(info_now().node, "nobody");
}

TEST_F(LastError, NamesTheOption) {
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = OCM_LAYOUT_STRIPED;
  options.chunk_bytes = 100;
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(info_now().subject_kind, OCM_SUBJECT_OPTION);
  EXPECT_STREQ(info_now().subject, "chunk_bytes");
}

TEST_F(LastError, NamesTheTable) {
  ocm_table* table = nullptr;
  ASSERT_EQ(ocm_table_open(session, "orders", &table), OCM_NOT_FOUND);
  EXPECT_EQ(info_now().subject_kind, OCM_SUBJECT_TABLE);
  EXPECT_STREQ(info_now().subject, "orders");
}

TEST_F(LastError, AnAllocationThatIsNoTableIsNamedAsAnAllocation) {
  ocm_allocation* small = allocate(8);
  ASSERT_OK(ocm_allocation_publish(small, "small", 0));
  ocm_table* table = nullptr;
  ASSERT_EQ(ocm_table_open(session, "small", &table), OCM_PROTOCOL);
  EXPECT_EQ(info_now().subject_kind, OCM_SUBJECT_ALLOCATION);
  EXPECT_STREQ(info_now().subject, "small");
  ASSERT_OK(ocm_name_remove(session, "small"));
}

TEST_F(LastError, NamesTheHandle) {
  EXPECT_EQ(ocm_put(nullptr, 0, "x", 1), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(info_now().subject_kind, OCM_SUBJECT_HANDLE);
  EXPECT_STREQ(info_now().subject, "allocation");
}

TEST_F(LastError, ALaterErrorKeepsNothingOfTheFormer) {
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_attach(session, "missing", OCM_ACCESS_READ, &allocation), OCM_NOT_FOUND);
  EXPECT_EQ(ocm_allocation_attach(session, nullptr, OCM_ACCESS_READ, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(info_now().status, OCM_INVALID_ARGUMENT);
  EXPECT_EQ(info_now().subject_kind, OCM_SUBJECT_NONE);
  EXPECT_STREQ(info_now().subject, "");
}

TEST_F(LastError, IsEachThreadsOwn) {
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_attach(session, "missing", OCM_ACCESS_READ, &allocation), OCM_NOT_FOUND);
  std::thread([] {
    const ocm_error_info info = info_now();
    EXPECT_EQ(info.status, OCM_OK);
    EXPECT_STREQ(info.node, "");
    EXPECT_STREQ(info.subject, "");
  }).join();
  EXPECT_STREQ(info_now().subject, "missing");
}

TEST_F(LastError, ABadStructIsRefusedAndChangesNothing) {
  ocm_allocation* allocation = nullptr;
  ASSERT_EQ(ocm_allocation_attach(session, "missing", OCM_ACCESS_READ, &allocation), OCM_NOT_FOUND);
  ocm_error_info bad = OCM_ERROR_INFO_INIT;
  bad.size = 0;
  EXPECT_EQ(ocm_last_error_info(&bad), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_last_error_info(nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(info_now().subject, "missing");
  ocm_error_info short_one{};  // a program that was built with an older header
  short_one.size = offsetof(ocm_error_info, node);
  short_one.node = "mine";
  EXPECT_OK(ocm_last_error_info(&short_one));
  EXPECT_EQ(short_one.status, OCM_NOT_FOUND);
  EXPECT_STREQ(short_one.node, "mine");
}

}  // namespace
