// Names and the cluster through the C interface.
#include <unistd.h>

#include "embedded.h"

namespace {

using Name = Embedded;

bool collect(const ocm_name_info* info, void* context) {
  static_cast<std::vector<ocm_name_info>*>(context)->push_back(*info);
  return true;
}

TEST_F(Name, PublishedIsAttachedByName) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_put(mine, 7, "hello", 5));
  ASSERT_OK(ocm_allocation_publish(mine, "greeting", 0));
  ocm_allocation_info info{};
  info.size = sizeof(info);
  ASSERT_OK(ocm_allocation_query(mine, &info));
  EXPECT_TRUE(info.published);
  EXPECT_EQ(info.owner_uid, getuid());
  EXPECT_EQ(info.mode, 0600u);
  EXPECT_EQ(info.own_uid, getuid());
  ocm_allocation* theirs = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "greeting", OCM_ACCESS_READ_WRITE, &theirs));
  char text[5];
  ASSERT_OK(ocm_get(theirs, 7, text, 5));
  EXPECT_EQ(std::memcmp(text, "hello", 5), 0);
  ASSERT_OK(ocm_put(theirs, 7, "HELLO", 5));
  ASSERT_OK(ocm_get(mine, 7, text, 5));
  EXPECT_EQ(std::memcmp(text, "HELLO", 5), 0);
  EXPECT_OK(ocm_allocation_free(mine));
  EXPECT_OK(ocm_get(theirs, 7, text, 5));  // detaching does not remove
}

TEST_F(Name, APieceOfASlabMovesToItsOwnExtent) {
  ocm_allocation* mine = allocate(100);
  ASSERT_OK(ocm_put(mine, 0, "small", 5));
  ASSERT_OK(ocm_allocation_publish(mine, "small", 0));
  ocm_allocation_info info{};
  info.size = sizeof(info);
  ASSERT_OK(ocm_allocation_query(mine, &info));
  EXPECT_FALSE(info.slab);
  char text[5];
  ASSERT_OK(ocm_get(mine, 0, text, 5));
  EXPECT_EQ(std::memcmp(text, "small", 5), 0);
}

TEST_F(Name, APieceWhosePointerWasTakenStays) {
  ocm_allocation* mine = allocate(100);
  void* pointer = nullptr;
  ASSERT_OK(ocm_allocation_map(mine, 0, 100, &pointer));
  EXPECT_EQ(ocm_allocation_publish(mine, "held", 0), OCM_UNSUPPORTED);
}

TEST_F(Name, ReadOnlyAttachmentRefusesWrites) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_allocation_publish(mine, "constant", 0));
  ocm_allocation* reader = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "constant", OCM_ACCESS_READ, &reader));
  uint64_t word = 5;
  EXPECT_OK(ocm_get(reader, 0, &word, 8));
  EXPECT_EQ(ocm_put(reader, 0, &word, 8), OCM_PERMISSION);
  EXPECT_EQ(ocm_atomic_fetch_add(reader, 0, 1, nullptr), OCM_PERMISSION);
  EXPECT_EQ(ocm_put_notify(reader, 0, &word, 8, 8, 1), OCM_PERMISSION);
  EXPECT_EQ(ocm_copy(ocm_place_in(reader, 0), ocm_place_in(mine, 0), 8), OCM_PERMISSION);
  EXPECT_EQ(ocm_allocation_publish(reader, "again", 0), OCM_PERMISSION);
  void* pointer = nullptr;
  ASSERT_OK(ocm_allocation_map(reader, 0, 8, &pointer));
  EXPECT_DEATH(*static_cast<volatile char*>(pointer) = 1, "");
}

TEST_F(Name, TakenNamesExist) {
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "one", 0));
  EXPECT_EQ(ocm_allocation_publish(allocate(kMiB), "one", 0), OCM_EXISTS);
}

TEST_F(Name, BadNamesAreRefused) {
  ocm_allocation* mine = allocate(kMiB);
  EXPECT_EQ(ocm_allocation_publish(mine, "", 0), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_publish(mine, "a/b", 0), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_publish(mine, "\xC0\x80", 0), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_publish(mine, nullptr, 0), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_publish(mine, std::string(256, 'x').c_str(), 0), OCM_TOO_LARGE);
  EXPECT_STREQ(ocm_last_error(), "the name has 256 bytes; at most 255 are allowed");
  EXPECT_EQ(ocm_allocation_publish(mine, "m", 01777), OCM_INVALID_ARGUMENT);
  EXPECT_OK(ocm_allocation_publish(mine, std::string(255, 'x').c_str(), 0));
  ocm_allocation* none = nullptr;
  EXPECT_EQ(ocm_allocation_attach(session, "absent", OCM_ACCESS_READ, &none), OCM_NOT_FOUND);
  EXPECT_EQ(ocm_name_remove(session, "absent"), OCM_NOT_FOUND);
}

TEST_F(Name, RemovedMemoryIsRevoked) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_allocation_publish(mine, "gone", 0));
  ocm_allocation* theirs = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "gone", OCM_ACCESS_READ_WRITE, &theirs));
  ASSERT_OK(ocm_name_remove(session, "gone"));
  uint64_t word = 0;
  EXPECT_EQ(ocm_get(theirs, 0, &word, 8), OCM_REVOKED);
  EXPECT_EQ(ocm_put(mine, 0, &word, 8), OCM_REVOKED);
  EXPECT_EQ(ocm_atomic_swap(mine, 0, 1, nullptr), OCM_REVOKED);
  EXPECT_OK(ocm_allocation_free(theirs));
}

ocm_access held(ocm_access access) { return static_cast<ocm_access>(access | OCM_ACCESS_HOLD); }

TEST_F(Name, HeldMemoryOutlivesItsName) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_put(mine, 0, "12345678", 8));
  ASSERT_OK(ocm_allocation_publish(mine, "held", 0));
  ocm_allocation *holder = nullptr, *second = nullptr, *plain = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "held", held(OCM_ACCESS_READ), &holder));
  ASSERT_OK(ocm_allocation_attach(session, "held", held(OCM_ACCESS_READ_WRITE), &second));
  ASSERT_OK(ocm_allocation_attach(session, "held", OCM_ACCESS_READ, &plain));
  ASSERT_OK(ocm_name_remove(session, "held"));
  ocm_allocation* late = nullptr;
  EXPECT_EQ(ocm_allocation_attach(session, "held", held(OCM_ACCESS_READ), &late), OCM_NOT_FOUND);
  char bytes[8];
  for (ocm_allocation* handle : {holder, second, plain, mine}) EXPECT_OK(ocm_get(handle, 0, bytes, 8));
  EXPECT_OK(ocm_allocation_free(holder));
  EXPECT_OK(ocm_put(second, 0, "abcdefgh", 8));
  EXPECT_OK(ocm_get(plain, 0, bytes, 8));
  EXPECT_EQ(std::memcmp(bytes, "abcdefgh", 8), 0);
  EXPECT_OK(ocm_allocation_free(second));
  EXPECT_EQ(ocm_get(plain, 0, bytes, 8), OCM_REVOKED);
}

TEST_F(Name, AHoldThatEndsLeavesTheName) {
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "kept", 0));
  ocm_allocation* handle = nullptr;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(ocm_allocation_attach(session, "kept", held(OCM_ACCESS_READ), &handle));
    EXPECT_OK(ocm_allocation_free(handle));
  }
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  ASSERT_OK(ocm_allocation_attach(session, "kept", held(OCM_ACCESS_READ), &handle));
  ASSERT_OK(ocm_allocation_query(handle, &info));
  EXPECT_EQ(info.access, OCM_ACCESS_READ);
}

TEST_F(Name, HoldAloneIsNoAccess) {
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "kept", 0));
  ocm_allocation* handle = nullptr;
  EXPECT_EQ(ocm_allocation_attach(session, "kept", OCM_ACCESS_HOLD, &handle), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_attach(session, "absent", held(OCM_ACCESS_READ), &handle), OCM_NOT_FOUND);
}

TEST_F(Name, AHandleThatEndsLeavesTheOthersOfItsAllocation) {
  ocm_allocation* mine = allocate(kMiB);
  ASSERT_OK(ocm_allocation_publish(mine, "shared", 0));
  ocm_allocation *one = nullptr, *other = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "shared", OCM_ACCESS_READ, &one));
  ASSERT_OK(ocm_allocation_attach(session, "shared", OCM_ACCESS_READ, &other));
  EXPECT_OK(ocm_allocation_free(one));
  EXPECT_OK(ocm_allocation_free(mine));
  char byte = 0;
  EXPECT_OK(ocm_get(other, 0, &byte, 1));
}

TEST_F(Name, ListGivesThePrefix) {
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "a.one", 0));
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "a.two", 0));
  ASSERT_OK(ocm_allocation_publish(allocate(kMiB), "b", 0));
  std::vector<ocm_name_info> names;
  ASSERT_OK(ocm_name_list(session, "a.", collect, &names));
  EXPECT_EQ(names.size(), 2u);
  names.clear();
  ASSERT_OK(ocm_name_list(session, nullptr, collect, &names));
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].bytes, kMiB);
  EXPECT_EQ(names[0].extents, 1u);
  EXPECT_EQ(ocm_name_list(session, "", nullptr, nullptr), OCM_INVALID_ARGUMENT);
}

TEST_F(Name, NodesShowThemselves) {
  std::vector<ocm_node_info> nodes;
  const auto visit = [](const ocm_node_info* info, void* context) {
    static_cast<std::vector<ocm_node_info>*>(context)->push_back(*info);
    return true;
  };
  (void)allocate(16 * kMiB);
  ASSERT_OK(ocm_node_list(session, visit, &nodes));
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_TRUE(nodes[0].self);
  EXPECT_EQ(nodes[0].state, OCM_NODE_ALIVE);
  EXPECT_EQ(nodes[0].pool_bytes[OCM_KIND_DRAM], 256 * kMiB);
  EXPECT_GE(nodes[0].used_bytes[OCM_KIND_DRAM], 16 * kMiB);
}

TEST_F(Name, TheEndOfOneIsAnEventOfTheirHandles) {
  ocm_allocation* mine = allocate(4096, OCM_ALLOCATION_DEDICATED);
  ASSERT_OK(ocm_allocation_publish(mine, "ends", 0));
  ocm_allocation* other = nullptr;
  ASSERT_OK(ocm_allocation_attach(session, "ends", OCM_ACCESS_READ, &other));
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  ASSERT_OK(ocm_allocation_query(other, &info));
  ocm_event event = OCM_EVENT_INIT;
  EXPECT_EQ(ocm_event_next(session, 1'000'000, &event), OCM_DEADLINE);
  EXPECT_EQ(ocm_event_next(session, 1, nullptr), OCM_INVALID_ARGUMENT);
  event.size = 0;
  EXPECT_EQ(ocm_event_next(session, 1, &event), OCM_INVALID_ARGUMENT);
  event = OCM_EVENT_INIT;
  ASSERT_OK(ocm_name_remove(session, "ends"));
  ASSERT_OK(ocm_event_next(session, 10'000'000'000, &event));
  EXPECT_EQ(event.kind, OCM_EVENT_REVOKED);
  EXPECT_STREQ(event.name, "ends");
  EXPECT_EQ(std::memcmp(event.allocation, info.id, sizeof(info.id)), 0);
  EXPECT_EQ(ocm_event_next(session, 1'000'000, &event), OCM_DEADLINE) << "it is one allocation";
}

}  // namespace
