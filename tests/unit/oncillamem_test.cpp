// capi/oncillamem: what each offset of the 2013 interface means, and that no argument crashes it.
#include "oncilla/oncillamem.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "oncilla/oncilla.h"
#include "oncilla_double.h"

namespace ocm::testing {
namespace {

using Transfers = std::vector<std::string>;

class Oncillamem : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("OCM_QUIET", "1", 1);
    unsetenv("OCM_NO_EMBEDDED");
    oncilla_double() = {};
    ASSERT_EQ(ocm_init(), 0);
  }
  void TearDown() override {
    while (ocm_tini() == 0) {
    }
    EXPECT_EQ(oncilla_double().sessions, 0);
    EXPECT_EQ(oncilla_double().allocations, 0);
  }

  static ocm_alloc_t make(int kind, uint64_t local_bytes, uint64_t remote_bytes = 0) {
    ocm_alloc_params params{};
    params.local_alloc_bytes = local_bytes;
    params.rem_alloc_bytes = remote_bytes;
    std::memcpy(&params.kind, &kind, sizeof(kind));  // as C does: any number
    return ocm_alloc(&params);
  }
  static char* local(ocm_alloc_t allocation) {
    void* buffer = nullptr;
    size_t length = 0;
    EXPECT_EQ(ocm_localbuf(allocation, &buffer, &length), 0);
    return static_cast<char*>(buffer);
  }
  static void fill(ocm_alloc_t allocation, const char* text) {
    std::memcpy(local(allocation), text, std::strlen(text));
  }
  static std::string text(ocm_alloc_t allocation, size_t offset, size_t length) {
    return std::string(local(allocation) + offset, length);
  }
  static ocm_params offsets(uint64_t src, uint64_t dest, uint64_t src_2, uint64_t dest_2, uint64_t bytes,
                            int op_flag = 1) {
    return {src, dest, src_2, dest_2, bytes, op_flag};
  }
  // The remote bytes of a pair, by a read into the start of its local buffer.
  static std::string remote_text(ocm_alloc_t allocation, uint64_t offset, size_t length) {
    ocm_params params = offsets(0, offset, 0, 0, length, 0);
    EXPECT_EQ(ocm_copy_onesided(allocation, &params), 0);
    return text(allocation, 0, length);
  }
  static void write_remote(ocm_alloc_t allocation, uint64_t offset, const char* bytes) {
    fill(allocation, bytes);
    ocm_params params = offsets(0, offset, 0, 0, std::strlen(bytes));
    EXPECT_EQ(ocm_copy_onesided(allocation, &params), 0);
  }
};

TEST_F(Oncillamem, NumbersOfKindsAreThoseOf2013) {
  EXPECT_EQ(OCM_LOCAL_HOST, 1);
  EXPECT_EQ(OCM_REMOTE_RMA, 3);
  EXPECT_EQ(OCM_REMOTE_RDMA, 5);
  EXPECT_EQ(OCM_REMOTE_GPU, 7);
}

TEST_F(Oncillamem, StructsHaveTheLayoutOf2013) {
  EXPECT_EQ(sizeof(ocm_params), 48u);
  EXPECT_EQ(offsetof(ocm_params, bytes), 32u);
  EXPECT_EQ(offsetof(ocm_params, op_flag), 40u);
  EXPECT_EQ(sizeof(ocm_alloc_params), 24u);
  EXPECT_EQ(offsetof(ocm_alloc_params, kind), 16u);
}

TEST_F(Oncillamem, InitFallsBackToAnEmbeddedNode) {
  EXPECT_EQ(oncilla_double().open_flags, static_cast<uint32_t>(OCM_SESSION_EMBEDDED_FALLBACK));
}

TEST_F(Oncillamem, InitWithNoEmbeddedNeedsADaemon) {
  ASSERT_EQ(ocm_tini(), 0);
  setenv("OCM_NO_EMBEDDED", "1", 1);
  oncilla_double().open_status = OCM_NO_DAEMON;
  EXPECT_EQ(ocm_init(), OCM_NO_DAEMON);
  EXPECT_EQ(oncilla_double().open_flags, 0u);
}

TEST_F(Oncillamem, SessionEndsWithTheLastTini) {
  ASSERT_EQ(ocm_init(), 0);
  EXPECT_EQ(oncilla_double().sessions, 1);
  EXPECT_EQ(ocm_tini(), 0);
  EXPECT_EQ(oncilla_double().sessions, 1);
  EXPECT_EQ(ocm_tini(), 0);
  EXPECT_EQ(oncilla_double().sessions, 0);
  EXPECT_LT(ocm_tini(), 0);
}

TEST_F(Oncillamem, TiniFreesWhatWasHeld) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 64, 64);
  ASSERT_EQ(ocm_tini(), 0);
  EXPECT_EQ(oncilla_double().allocations, 0);
  EXPECT_LT(ocm_free(pair), 0);
}

TEST_F(Oncillamem, LocalKindsAreLocalAndKeepTheirKind) {
  for (enum ocm_kind kind : {OCM_LOCAL_HOST, OCM_LOCAL_RMA, OCM_LOCAL_RDMA}) {
    ocm_alloc_t allocation = make(kind, 100);
    ASSERT_NE(allocation, nullptr);
    EXPECT_FALSE(ocm_is_remote(allocation));
    EXPECT_EQ(ocm_alloc_kind(allocation), kind);
    size_t length = 0;
    EXPECT_LT(ocm_remote_sz(allocation, &length), 0);
  }
  EXPECT_EQ(oncilla_double().allocations, 0);
}

TEST_F(Oncillamem, RemoteKindsAreAPairOnAnotherNode) {
  for (enum ocm_kind kind : {OCM_REMOTE_RMA, OCM_REMOTE_RDMA}) {
    ocm_alloc_t pair = make(kind, 100, 300);
    ASSERT_NE(pair, nullptr);
    EXPECT_TRUE(ocm_is_remote(pair));
    EXPECT_EQ(ocm_alloc_kind(pair), kind);
    EXPECT_TRUE(oncilla_double().create_flags & OCM_ALLOCATION_REMOTE);
    void* buffer = nullptr;
    size_t length = 0;
    EXPECT_EQ(ocm_localbuf(pair, &buffer, &length), 0);
    EXPECT_EQ(length, 100u);
    EXPECT_EQ(ocm_remote_sz(pair, &length), 0);
    EXPECT_EQ(length, 300u);
  }
}

TEST_F(Oncillamem, RemoteOnANodeAloneIsAPairThere) {
  oncilla_double().other_nodes = false;
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 16);
  ASSERT_NE(pair, nullptr);
  EXPECT_TRUE(ocm_is_remote(pair));
  EXPECT_FALSE(oncilla_double().create_flags & OCM_ALLOCATION_REMOTE);
}

TEST_F(Oncillamem, RemoteDoesNotFallBackWhenOtherNodesAreFull) {
  oncilla_double().create_status = OCM_POOL_FULL;
  EXPECT_EQ(make(OCM_REMOTE_RDMA, 16, 16), nullptr);
}

TEST_F(Oncillamem, LocalBufferIsPageAlignedAndZero) {
  ocm_alloc_t allocation = make(OCM_LOCAL_HOST, 10000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(local(allocation)) % static_cast<uintptr_t>(getpagesize()), 0u);
  EXPECT_EQ(text(allocation, 0, 10000), std::string(10000, '\0'));
}

TEST_F(Oncillamem, GpuKindsAreRefusedWithASentence) {
  unsetenv("OCM_QUIET");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(make(OCM_LOCAL_GPU, 64), nullptr);
  EXPECT_EQ(make(OCM_REMOTE_GPU, 64, 64), nullptr);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("ocm_alloc: UNSUPPORTED: this build has no GPU"),
            std::string::npos);
}

TEST_F(Oncillamem, AllocRefusesUnknownKindsAndEmptyBuffers) {
  EXPECT_EQ(make(0, 64, 64), nullptr);
  EXPECT_EQ(make(8, 64, 64), nullptr);
  EXPECT_EQ(make(OCM_LOCAL_HOST, 0), nullptr);
  EXPECT_EQ(make(OCM_REMOTE_RDMA, 0, 64), nullptr);
  EXPECT_EQ(make(OCM_REMOTE_RDMA, 64, 0), nullptr);
  EXPECT_EQ(make(OCM_LOCAL_HOST, UINT64_MAX), nullptr);
}

TEST_F(Oncillamem, FailedRemoteBufferLeavesNothing) {
  oncilla_double().create_status = OCM_QUOTA;
  EXPECT_EQ(make(OCM_REMOTE_RDMA, 64, 64), nullptr);
  EXPECT_EQ(oncilla_double().allocations, 0);
}

TEST_F(Oncillamem, OnesidedWritesAndReadsWithSourceLocalAndDestinationRemote) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 32, 64);
  fill(pair, "....abcd");
  ocm_params params = offsets(4, 40, 99, 99, 4);
  ASSERT_EQ(ocm_copy_onesided(pair, &params), 0);
  params = offsets(16, 40, 99, 99, 4, 0);
  ASSERT_EQ(ocm_copy_onesided(pair, &params), 0);
  EXPECT_EQ(text(pair, 16, 4), "abcd");
  EXPECT_EQ(oncilla_double().transfers, (Transfers{"put 40 4", "get 40 4"}));
}

TEST_F(Oncillamem, OnesidedNeedsARemoteBuffer) {
  ocm_alloc_t allocation = make(OCM_LOCAL_HOST, 32);
  ocm_params params = offsets(0, 0, 0, 0, 4);
  EXPECT_LT(ocm_copy_onesided(allocation, &params), 0);
}

TEST_F(Oncillamem, CopyLocalToLocal) {
  ocm_alloc_t source = make(OCM_LOCAL_HOST, 16);
  ocm_alloc_t target = make(OCM_LOCAL_RDMA, 16);
  fill(source, "..abcd");
  ocm_params params = offsets(2, 8, 99, 99, 4);
  ASSERT_EQ(ocm_copy(target, source, &params), 0);
  EXPECT_EQ(text(target, 8, 4), "abcd");
}

TEST_F(Oncillamem, CopyWithinOneLocalBufferMayOverlap) {
  ocm_alloc_t allocation = make(OCM_LOCAL_HOST, 16);
  fill(allocation, "abcdefgh");
  ocm_params params = offsets(0, 2, 0, 0, 8);
  ASSERT_EQ(ocm_copy(allocation, allocation, &params), 0);
  EXPECT_EQ(text(allocation, 0, 10), "ababcdefgh");
}

TEST_F(Oncillamem, CopyLocalToRemoteGoesThroughTheTargetsLocalBuffer) {
  ocm_alloc_t source = make(OCM_LOCAL_HOST, 16);
  ocm_alloc_t target = make(OCM_REMOTE_RDMA, 32, 64);
  fill(source, "..abcd");
  ocm_params params = offsets(2, 8, 10, 48, 4);
  ASSERT_EQ(ocm_copy(target, source, &params), 0);
  EXPECT_EQ(text(target, 8, 4), "abcd");
  EXPECT_EQ(remote_text(target, 48, 2), "cd");
}

TEST_F(Oncillamem, CopyRemoteToLocalGoesThroughTheSourcesLocalBuffer) {
  ocm_alloc_t source = make(OCM_REMOTE_RMA, 32, 64);
  ocm_alloc_t target = make(OCM_LOCAL_HOST, 32);
  write_remote(source, 20, "abcd");
  ocm_params params = offsets(4, 20, 99, 99, 4);
  ASSERT_EQ(ocm_copy(target, source, &params), 0);
  EXPECT_EQ(text(source, 4, 4), "abcd");
  EXPECT_EQ(text(target, 20, 4), "abcd");
}

TEST_F(Oncillamem, CopyRemoteToRemoteDoesNotTouchTheLocalBuffers) {
  ocm_alloc_t source = make(OCM_REMOTE_RDMA, 32, 64);
  ocm_alloc_t target = make(OCM_REMOTE_RMA, 32, 64);
  write_remote(source, 20, "abcd");
  fill(source, "WXYZ");
  fill(target, "wxyz");
  ocm_params params = offsets(20, 60, 99, 99, 4);
  ASSERT_EQ(ocm_copy(target, source, &params), 0);
  EXPECT_EQ(oncilla_double().transfers.back(), "copy 60 20 4");
  EXPECT_EQ(text(source, 0, 4), "WXYZ");
  EXPECT_EQ(text(target, 0, 4), "wxyz");
  EXPECT_EQ(remote_text(target, 60, 4), "abcd");
}

TEST_F(Oncillamem, CopyWithinOneRemoteBufferMayOverlapEitherWay) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 16);
  write_remote(pair, 0, "abcdefgh");
  ocm_params params = offsets(0, 2, 0, 0, 8);
  ASSERT_EQ(ocm_copy(pair, pair, &params), 0);
  EXPECT_EQ(remote_text(pair, 0, 10), "ababcdefgh");
  params = offsets(2, 1, 0, 0, 8);
  ASSERT_EQ(ocm_copy(pair, pair, &params), 0);
  EXPECT_EQ(remote_text(pair, 0, 10), "aabcdefghh");
}

TEST_F(Oncillamem, LargeOverlapIsMovedPieceByPieceFromTheFarEnd) {
  oncilla_double().moves_bytes = false;
  const uint64_t piece = 4u << 20;
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 100 * piece);
  ocm_params params = offsets(0, 8, 0, 0, piece + 1);
  ASSERT_EQ(ocm_copy(pair, pair, &params), 0);
  EXPECT_EQ(oncilla_double().transfers, (Transfers{"get 1 4194304", "put 9 4194304", "get 0 1", "put 8 1"}));
}

TEST_F(Oncillamem, ReadExchangesTheTwoAndLeavesTheStruct) {
  ocm_alloc_t here = make(OCM_LOCAL_HOST, 16);
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 32, 64);
  fill(here, "..abcd");
  ocm_params params = offsets(2, 8, 8, 48, 4, 0);
  const ocm_params before = params;
  ASSERT_EQ(ocm_copy(here, pair, &params), 0);
  const auto fields = [](const ocm_params& of) {
    return std::tuple(of.src_offset, of.dest_offset, of.src_offset_2, of.dest_offset_2, of.bytes, of.op_flag);
  };
  EXPECT_EQ(fields(params), fields(before));
  EXPECT_EQ(remote_text(pair, 48, 4), "abcd");
  // The same call again does the same: in 2013 it copied the other way.
  ASSERT_EQ(ocm_copy(here, pair, &params), 0);
  EXPECT_EQ(oncilla_double().transfers.back(), "put 48 4");
}

TEST_F(Oncillamem, CopyInAndOutMoveTheWholeLocalBuffer) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 6, 64);
  char in[] = "abcdef";
  ASSERT_EQ(ocm_copy_in(pair, in), 0);
  EXPECT_EQ(text(pair, 0, 6), "abcdef");
  char out[8] = "xxxxxxx";
  ASSERT_EQ(ocm_copy_out(out, pair), 0);
  EXPECT_STREQ(out, "abcdefx");
  EXPECT_TRUE(oncilla_double().transfers.empty());
}

TEST_F(Oncillamem, OverrunsOfAnyBufferMoveNothing) {
  ocm_alloc_t small = make(OCM_LOCAL_HOST, 8);
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 32);
  ocm_alloc_t other = make(OCM_REMOTE_RDMA, 16, 32);
  fill(small, "abcdefgh");
  const ocm_params to_remote[] = {
      offsets(5, 0, 0, 0, 4),           // leaves the source
      offsets(0, 13, 0, 0, 4),          // leaves the target's local buffer
      offsets(0, 0, 13, 0, 4),          // the same, of the second step
      offsets(0, 0, 0, 29, 4),          // leaves the remote buffer
      offsets(0, 0, 0, UINT64_MAX, 4),  // overflows
      offsets(UINT64_MAX - 1, 0, 0, 0, 4),
      offsets(0, 0, 0, 0, UINT64_MAX),
  };
  for (ocm_params params : to_remote) EXPECT_EQ(ocm_copy(pair, small, &params), OCM_OUT_OF_RANGE);
  const ocm_params to_local[] = {offsets(0, 5, 0, 0, 4), offsets(13, 0, 0, 0, 4), offsets(0, 29, 0, 0, 4)};
  for (ocm_params params : to_local) EXPECT_EQ(ocm_copy(small, pair, &params), OCM_OUT_OF_RANGE);
  const ocm_params to_other[] = {offsets(29, 0, 0, 0, 4), offsets(0, 29, 0, 0, 4)};
  for (ocm_params params : to_other) EXPECT_EQ(ocm_copy(other, pair, &params), OCM_OUT_OF_RANGE);
  const ocm_params onesided[] = {offsets(13, 0, 0, 0, 4), offsets(0, 29, 0, 0, 4), offsets(17, 0, 0, 0, 0)};
  for (ocm_params params : onesided) {
    EXPECT_EQ(ocm_copy_onesided(pair, &params), OCM_OUT_OF_RANGE);
    params.op_flag = 0;
    EXPECT_EQ(ocm_copy_onesided(pair, &params), OCM_OUT_OF_RANGE);
  }
  EXPECT_TRUE(oncilla_double().transfers.empty());
  EXPECT_EQ(text(pair, 0, 16), std::string(16, '\0'));
}

TEST_F(Oncillamem, LengthsAboveFourGiBAreNotCut) {
  oncilla_double().moves_bytes = false;
  const uint64_t bytes = (5ull << 30) + 3;
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, bytes, 2 * bytes);
  ASSERT_NE(pair, nullptr);
  size_t length = 0;
  ASSERT_EQ(ocm_remote_sz(pair, &length), 0);
  EXPECT_EQ(length, 2 * bytes);
  ocm_params params = offsets(0, bytes, 0, 0, bytes);
  EXPECT_EQ(ocm_copy_onesided(pair, &params), 0);
  params = offsets(1, bytes + 1, 0, 0, bytes);
  EXPECT_EQ(ocm_copy_onesided(pair, &params), OCM_OUT_OF_RANGE);
  EXPECT_EQ(oncilla_double().transfers, (Transfers{"put 5368709123 5368709123"}));
}

TEST_F(Oncillamem, TransferErrorsArePassedOn) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 16);
  ocm_alloc_t here = make(OCM_LOCAL_HOST, 16);
  oncilla_double().transfer_status = OCM_PEER_LOST;
  ocm_params params = offsets(0, 0, 0, 0, 4);
  EXPECT_EQ(ocm_copy_onesided(pair, &params), OCM_PEER_LOST);
  EXPECT_EQ(ocm_copy(pair, here, &params), OCM_PEER_LOST);
  EXPECT_EQ(ocm_copy(here, pair, &params), OCM_PEER_LOST);
}

TEST_F(Oncillamem, FreedAndMadeUpHandlesAreErrors) {
  ocm_alloc_t freed = make(OCM_REMOTE_RDMA, 16, 16);
  ASSERT_EQ(ocm_free(freed), 0);
  EXPECT_EQ(oncilla_double().allocations, 0);
  ocm_alloc_t next = make(OCM_REMOTE_RDMA, 16, 16);
  EXPECT_NE(freed, next);
  char bytes[16];
  for (ocm_alloc_t bad : {freed, ocm_alloc_t(nullptr), reinterpret_cast<ocm_alloc_t>(bytes)}) {
    ocm_params params = offsets(0, 0, 0, 0, 4);
    void* buffer = nullptr;
    size_t length = 0;
    EXPECT_LT(ocm_free(bad), 0);
    EXPECT_LT(ocm_localbuf(bad, &buffer, &length), 0);
    EXPECT_LT(ocm_remote_sz(bad, &length), 0);
    EXPECT_FALSE(ocm_is_remote(bad));
    EXPECT_EQ(ocm_alloc_kind(bad), 0);
    EXPECT_LT(ocm_copy_in(bad, bytes), 0);
    EXPECT_LT(ocm_copy_out(bytes, bad), 0);
    EXPECT_LT(ocm_copy(bad, next, &params), 0);
    EXPECT_LT(ocm_copy(next, bad, &params), 0);
    EXPECT_LT(ocm_copy_onesided(bad, &params), 0);
  }
}

TEST_F(Oncillamem, NullArgumentsAreErrors) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 16);
  void* buffer = nullptr;
  size_t length = 0;
  EXPECT_EQ(ocm_alloc(nullptr), nullptr);
  EXPECT_LT(ocm_localbuf(pair, nullptr, &length), 0);
  EXPECT_LT(ocm_localbuf(pair, &buffer, nullptr), 0);
  EXPECT_LT(ocm_remote_sz(pair, nullptr), 0);
  EXPECT_LT(ocm_copy_in(pair, nullptr), 0);
  EXPECT_LT(ocm_copy_out(nullptr, pair), 0);
  EXPECT_LT(ocm_copy(pair, pair, nullptr), 0);
  EXPECT_LT(ocm_copy_onesided(pair, nullptr), 0);
}

TEST_F(Oncillamem, CallsWithoutInitAreErrors) {
  ocm_alloc_t before = make(OCM_LOCAL_HOST, 16);
  ASSERT_EQ(ocm_tini(), 0);
  EXPECT_EQ(make(OCM_LOCAL_HOST, 16), nullptr);
  EXPECT_LT(ocm_free(before), 0);
}

TEST_F(Oncillamem, ForkedChildStartsWithoutASession) {
  ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 16, 16);
  const pid_t child = fork();
  if (child == 0) _exit(ocm_free(pair) < 0 && ocm_tini() < 0 && ocm_init() == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ocm_free(pair), 0);
}

TEST_F(Oncillamem, ThreadsMayAllocateCopyAndFreeAtOnce) {
  ocm_alloc_t shared = make(OCM_REMOTE_RDMA, 64, 64);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(ocm_init(), 0);
        ocm_alloc_t own = make(OCM_REMOTE_RDMA, 64, 64);
        ocm_params params = offsets(t * 8, t * 8, 0, 0, 8);
        EXPECT_EQ(ocm_copy_onesided(shared, &params), 0);
        EXPECT_EQ(ocm_copy(own, shared, &params), 0);
        EXPECT_EQ(ocm_free(own), 0);
        EXPECT_EQ(ocm_tini(), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(oncilla_double().allocations, 1);
}

TEST_F(Oncillamem, OneFreeOfManyWins) {
  for (int i = 0; i < 100; ++i) {
    ocm_alloc_t pair = make(OCM_REMOTE_RDMA, 64, 64);
    int results[2] = {1, 1};
    std::thread other([&] { results[1] = ocm_free(pair); });
    results[0] = ocm_free(pair);
    other.join();
    EXPECT_EQ((results[0] == 0) + (results[1] == 0), 1);
  }
}

}  // namespace
}  // namespace ocm::testing
