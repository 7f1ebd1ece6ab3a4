// Allocations through the C interface: lengths, limits, handles, slabs, pointers.
#include <thread>

#include "embedded.h"

namespace {

using Allocation = Embedded;

TEST_F(Allocation, NullArgumentsAreInvalid) {
  ocm_allocation* allocation = nullptr;
  EXPECT_EQ(ocm_session_open(nullptr, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_session_close(nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_create(nullptr, 1, nullptr, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_create(session, 1, nullptr, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_create(session, 0, nullptr, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_free(nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_allocation_bytes(nullptr), 0u);
  EXPECT_EQ(ocm_allocation_query(nullptr, nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_put(nullptr, 0, "", 1), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_fence(nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_op_free(nullptr), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_op_wait(nullptr, 0, 0), OCM_INVALID_ARGUMENT);
  EXPECT_EQ(allocation, nullptr);
  EXPECT_STRNE(ocm_last_error(), "");
}

TEST_F(Allocation, MoreReplicasThanAnOperationFollowsAreRefused) {
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = OCM_LAYOUT_REPLICATED;
  options.extents = 65;
  ocm_allocation* allocation = nullptr;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(), "65 replicas are asked for; at most 64 are possible");
}

TEST_F(Allocation, NumbersThatNeverWereHandlesAreInvalid) {
  const uint64_t values[] = {1, 0x7fff12345678, ~uint64_t{0}, uint64_t{2} << 60};
  for (const uint64_t value : values) {
    auto* wrong = reinterpret_cast<ocm_allocation*>(value);
    EXPECT_EQ(ocm_put(wrong, 0, "x", 1), OCM_INVALID_ARGUMENT) << std::hex << value;
    EXPECT_EQ(ocm_allocation_free(wrong), OCM_INVALID_ARGUMENT) << std::hex << value;
  }
  EXPECT_EQ(ocm_put(reinterpret_cast<ocm_allocation*>(session), 0, "x", 1), OCM_INVALID_ARGUMENT);
}

TEST_F(Allocation, UnknownOptionsAreRefused) {
  ocm_allocation* allocation = nullptr;
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.kind = static_cast<ocm_kind>(9);
  EXPECT_EQ(ocm_allocation_create(session, 64, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(), "`kind` is 9, which is not a value of ocm_kind");
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = OCM_LAYOUT_SEQUENCE;
  EXPECT_EQ(ocm_allocation_create(session, 64, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ocm_last_error()).find("ocm_allocation_join"), std::string::npos);
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.extents = 3;
  EXPECT_EQ(ocm_allocation_create(session, 64, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(),
               "extents is 3, but layout is single: leave extents at 0 or 1, or use layout striped");
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = 1u << 30;
  EXPECT_EQ(ocm_allocation_create(session, 64, &options, &allocation), OCM_INVALID_ARGUMENT);
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.size = 0;
  EXPECT_EQ(ocm_allocation_create(session, 64, &options, &allocation), OCM_INVALID_ARGUMENT);
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = OCM_LAYOUT_STRIPED;
  options.chunk_bytes = 100;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_INVALID_ARGUMENT);
  EXPECT_STREQ(ocm_last_error(), "chunk_bytes is 100; it must be a multiple of 64");
  options = OCM_ALLOCATION_OPTIONS_INIT;
  options.kind = OCM_KIND_GPU;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNSUPPORTED);
  options = OCM_ALLOCATION_OPTIONS_INIT;
  const char* nodes[] = {"nowhere"};
  options.nodes = nodes;
  options.nodes_count = 1;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNKNOWN_NODE);
}

TEST_F(Allocation, CoherentSaysSoAndIsNoPieceOfASlab) {
  ocm_allocation* allocation = allocate(64, OCM_ALLOCATION_COHERENT);
  ASSERT_NE(allocation, nullptr);
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  ASSERT_OK(ocm_allocation_query(allocation, &info));
  EXPECT_TRUE(info.coherent);
  EXPECT_FALSE(info.slab || info.durable);
  uint64_t old = 1;
  ASSERT_OK(ocm_atomic_fetch_add(allocation, 8, 5, &old));
  EXPECT_EQ(old, 0u);
  uint64_t word = 0;
  ASSERT_OK(ocm_get(allocation, 8, &word, sizeof(word)));
  EXPECT_EQ(word, 5u);
  ASSERT_OK(ocm_allocation_query(allocate(64), &info));
  EXPECT_FALSE(info.coherent);
}

TEST_F(Allocation, WhatCoherentExcludesIsRefused) {
  ocm_allocation* allocation = nullptr;
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = OCM_ALLOCATION_COHERENT | OCM_ALLOCATION_DURABLE;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNSUPPORTED);
  EXPECT_NE(std::string(ocm_last_error()).find("leave COHERENT out"), std::string::npos) << ocm_last_error();
  options.flags = OCM_ALLOCATION_COHERENT;
  options.layout = OCM_LAYOUT_REPLICATED;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNSUPPORTED);
  EXPECT_NE(std::string(ocm_last_error()).find("single or striped"), std::string::npos) << ocm_last_error();
  options.layout = OCM_LAYOUT_SINGLE;
  options.kind = OCM_KIND_GPU;
  EXPECT_EQ(ocm_allocation_create(session, 4096, &options, &allocation), OCM_UNSUPPORTED);
}

TEST_F(Allocation, OlderProgramsWithShorterStructsWork) {
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.size = offsetof(ocm_allocation_options, extents);
  options.extents = 77;  // lies after what the program says it has
  ocm_allocation* allocation = nullptr;
  ASSERT_OK(ocm_allocation_create(session, 64, &options, &allocation));
  ocm_allocation_info info{};
  info.size = offsetof(ocm_allocation_info, kind);
  info.extents = 5;
  ASSERT_OK(ocm_allocation_query(allocation, &info));
  EXPECT_EQ(info.bytes, 64u);
  EXPECT_EQ(info.extents, 5u);
  EXPECT_OK(ocm_allocation_free(allocation));
}

TEST_F(Allocation, MoreThanThePoolSaysWhatIsFree) {
  ocm_allocation* allocation = nullptr;
  EXPECT_EQ(ocm_allocation_create(session, 1024 * kMiB, nullptr, &allocation), OCM_POOL_FULL);
  EXPECT_NE(std::string(ocm_last_error()).find("MiB"), std::string::npos) << ocm_last_error();
  EXPECT_EQ(ocm_allocation_create(session, ~uint64_t{0}, nullptr, &allocation), OCM_TOO_LARGE);
}

TEST_F(Allocation, FreedHandleIsRevoked) {
  for (const uint64_t bytes : {uint64_t{64}, 4 * kMiB}) {
    ocm_allocation* allocation = allocate(bytes);
    ASSERT_OK(ocm_allocation_free(allocation));
    uint8_t byte = 0;
    EXPECT_EQ(ocm_allocation_free(allocation), OCM_REVOKED);
    EXPECT_EQ(ocm_put(allocation, 0, &byte, 1), OCM_REVOKED);
    EXPECT_EQ(ocm_get(allocation, 0, &byte, 1), OCM_REVOKED);
    ocm_allocation* next = allocate(bytes);  // takes the same slot
    EXPECT_EQ(ocm_put(allocation, 0, &byte, 1), OCM_REVOKED);
    EXPECT_OK(ocm_put(next, 0, &byte, 1));
    EXPECT_OK(ocm_allocation_free(next));
  }
}

TEST_F(Allocation, TwoThreadsFreeOnce) {
  for (int round = 0; round < 200; ++round) {
    ocm_allocation* allocation = allocate(128);
    int first = 1, second = 1;
    std::thread other([&] { first = ocm_allocation_free(allocation); });
    second = ocm_allocation_free(allocation);
    other.join();
    EXPECT_EQ(first + second, OCM_OK + OCM_REVOKED);
  }
}

TEST_F(Allocation, SessionCloseRevokesItsAllocations) {
  ocm_allocation* small = allocate(64);
  ocm_allocation* large = allocate(kMiB);
  ASSERT_OK(ocm_session_close(session));
  EXPECT_EQ(ocm_allocation_free(small), OCM_REVOKED);
  uint64_t word = 0;
  EXPECT_EQ(ocm_get(large, 0, &word, 8), OCM_REVOKED);
  EXPECT_EQ(ocm_session_close(session), OCM_REVOKED);
  session = nullptr;
}

TEST_F(Allocation, OwnExtentReadsAsZeros) {
  ocm_allocation* allocation = allocate(kMiB);
  std::vector<uint8_t> bytes(kMiB, 0xFF);
  ASSERT_OK(ocm_get(allocation, 0, bytes.data(), bytes.size()));
  EXPECT_EQ(bytes, std::vector<uint8_t>(kMiB, 0));
}

TEST_F(Allocation, ZeroFlagClearsAUsedPiece) {
  const std::vector<uint8_t> dirt(1000, 0xAB);
  ocm_allocation* first = allocate(1000);
  ASSERT_OK(ocm_put(first, 0, dirt.data(), dirt.size()));
  ASSERT_OK(ocm_allocation_free(first));
  ocm_allocation* second = allocate(1000, OCM_ALLOCATION_ZERO);
  std::vector<uint8_t> bytes(1000, 0xFF);
  ASSERT_OK(ocm_get(second, 0, bytes.data(), bytes.size()));
  EXPECT_EQ(bytes, std::vector<uint8_t>(1000, 0));
}

TEST_F(Allocation, SmallOnesComeOutOfSlabs) {
  ocm_allocation_info info{};
  info.size = sizeof(info);
  ASSERT_OK(ocm_allocation_query(allocate(32 * 1024), &info));
  EXPECT_TRUE(info.slab);
  ASSERT_OK(ocm_allocation_query(allocate(32 * 1024 + 1), &info));
  EXPECT_FALSE(info.slab);
  ASSERT_OK(ocm_allocation_query(allocate(64, OCM_ALLOCATION_DEDICATED), &info));
  EXPECT_FALSE(info.slab);
  EXPECT_EQ(info.bytes, 64u);
  EXPECT_EQ(info.access, OCM_ACCESS_READ_WRITE);
}

TEST_F(Allocation, PiecesDoNotOverlap) {
  std::vector<ocm_allocation*> all;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = 1 + static_cast<uint64_t>(i) * 11 % 700;
    all.push_back(allocate(bytes));
    const std::vector<uint8_t> mine(bytes, static_cast<uint8_t>(i));
    ASSERT_OK(ocm_put(all.back(), 0, mine.data(), bytes));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<uint8_t> bytes(ocm_allocation_bytes(all[i]));
    ASSERT_OK(ocm_get(all[i], 0, bytes.data(), bytes.size()));
    ASSERT_EQ(bytes, std::vector<uint8_t>(bytes.size(), static_cast<uint8_t>(i))) << i;
    ASSERT_OK(ocm_allocation_free(all[i]));
  }
}

TEST_F(Allocation, PointerSeesPutsAndGetsSeeStores) {
  for (const uint64_t bytes : {uint64_t{256}, 2 * kMiB}) {
    ocm_allocation* allocation = allocate(bytes);
    void* pointer = nullptr;
    ASSERT_OK(ocm_allocation_map(allocation, 0, bytes, &pointer));
    ASSERT_OK(ocm_put(allocation, 3, "hello", 5));
    EXPECT_EQ(std::memcmp(static_cast<char*>(pointer) + 3, "hello", 5), 0);
    std::memcpy(static_cast<char*>(pointer) + 100, "world", 5);
    char text[5];
    ASSERT_OK(ocm_get(allocation, 100, text, 5));
    EXPECT_EQ(std::memcmp(text, "world", 5), 0);
    EXPECT_EQ(ocm_allocation_map(allocation, bytes - 1, 2, &pointer), OCM_OUT_OF_RANGE);
  }
}

TEST_F(Allocation, ExtentSaysWhereItLives) {
  ocm_extent_info info{};
  info.size = sizeof(info);
  ocm_allocation* allocation = allocate(kMiB);
  ASSERT_OK(ocm_allocation_extent_query(allocation, 0, &info));
  EXPECT_TRUE(info.local);
  EXPECT_FALSE(info.lost);
  EXPECT_EQ(info.fabric, OCM_FABRIC_SHM);
  EXPECT_STREQ(info.node, "embedded");
  EXPECT_GE(info.bytes, kMiB);
  EXPECT_EQ(ocm_allocation_extent_query(allocation, 1, &info), OCM_OUT_OF_RANGE);
}

TEST_F(Allocation, FreedMemoryIsAvailableAgain) {
  for (int i = 0; i < 20; ++i) ASSERT_OK(ocm_allocation_free(allocate(200 * kMiB)));
}

}  // namespace
