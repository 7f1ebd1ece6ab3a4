// client: handles of what has no replicas follow it to another home, and ask no more than they must.
#include <gtest/gtest.h>

#include "client/allocation.h"
#include "client/atomics.h"
#include "client/session.h"
#include "client/transfer.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using test::ScriptedDaemon;

constexpr uint64_t kPiece = 64;

class Moved : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = ScriptedDaemon::kBytes;
  enum Slot : uint32_t { kBefore = 1, kAfter, kOther };

  void SetUp() override {
    before = daemon.place(kBefore, before_memory);
    after = daemon.place(kAfter, after_memory, 1);
    daemon.slab_bytes = kBytes;
    SessionOptions options;
    options.dial = daemon.dial_once();
    options.program = "test";
    session = Session::open(std::move(options)).value();
  }
  void TearDown() override { session.reset(); }

  static wire::Allocation single(const wire::ExtentDescriptor& extent) {
    wire::Allocation out = ScriptedDaemon::replicated({extent});
    out.set_layout(static_cast<uint32_t>(Layout::kSingle));
    return out;
  }
  static wire::Allocation striped(const wire::ExtentDescriptor& first, const wire::ExtentDescriptor& second) {
    wire::Allocation out = ScriptedDaemon::replicated({first, second});
    out.set_layout(static_cast<uint32_t>(Layout::kStriped));
    out.set_bytes_total(2 * kBytes);
    out.set_chunk_bytes(64);
    return out;
  }
  void create(Allocation& allocation, uint64_t length, wire::Allocation granted) {
    AllocationOptions wanted;
    if (length > kPiece) wanted.flags = kDedicated;
    wanted.layout = static_cast<Layout>(granted.layout());
    daemon.allocation = std::move(granted);
    ASSERT_TRUE(allocation.create(*session, length, wanted).is_ok());
  }
  /// From now on the daemon knows the extent as moved.
  void move(wire::Allocation now) {
    daemon.freeze(kBefore);
    daemon.on_resolve = [this, now = std::move(now)](const wire::ResolveRequest& request,
                                                     wire::Envelope& reply) {
      ++asked;
      silent = request.silent();
      EXPECT_EQ(request.allocation_id(), std::string(16, 'a'));
      *reply.mutable_allocation() = now;
    };
  }
  void refuse(Code code) {
    daemon.on_resolve = [this, code](const wire::ResolveRequest&, wire::Envelope& reply) {
      ++asked;
      reply.set_code(static_cast<int>(code));
    };
  }
  Status put(Allocation& allocation, uint64_t offset = 0) {
    return transfer(*session,
                    Runs::one({End{&allocation, offset}, End{nullptr, 0, bytes.data()}, bytes.size()}),
                    bytes.size());
  }
  Status get(Allocation& allocation) {
    std::vector<std::byte> read(bytes.size());
    return transfer(*session, Runs::one({End{nullptr, 0, read.data()}, End{&allocation}, read.size()}),
                    read.size());
  }
  static bool holds(const ScriptedDaemon::Memory& memory, uint64_t at, std::span<const std::byte> expected) {
    return std::memcmp(memory.mapping.data() + at, expected.data(), expected.size()) == 0;
  }

  ScriptedDaemon daemon;
  ScriptedDaemon::Memory before_memory = daemon.make_memory(), after_memory = daemon.make_memory(),
                         other_memory = daemon.make_memory();
  wire::ExtentDescriptor before, after;
  std::unique_ptr<Session> session;
  std::vector<std::byte> bytes = std::vector<std::byte>(kPiece, std::byte{7});
  std::atomic<int> asked{0};
  std::atomic<bool> silent{false};
};

TEST_F(Moved, ASingleExtentIsFollowedAndNotUsedDirectlyAnyMore) {
  Allocation allocation;
  create(allocation, kBytes, single(before));
  ASSERT_NE(allocation.open_directly(), nullptr);
  move(single(after));
  EXPECT_EQ(allocation.direct_now(0, 8, true), nullptr);
  EXPECT_TRUE(put(allocation).is_ok());
  EXPECT_TRUE(holds(after_memory, 0, bytes));
  EXPECT_EQ(allocation.open_directly(), nullptr);
  EXPECT_EQ(allocation.direct_now(0, 8, true), nullptr);
  EXPECT_EQ(allocation.pointer(0, 8).value(), allocation.extent(0).open().value());
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(allocation.free().is_ok());
}

TEST_F(Moved, APointerAndAtomicsFollow) {
  for (const int what : {0, 1, 2, 3}) {
    Allocation allocation;
    daemon.thaw(kBefore);
    create(allocation, kBytes, single(before));
    ASSERT_NE(allocation.open_directly(), nullptr);
    move(single(after));
    if (what == 0) {
      EXPECT_TRUE(allocation.pointer(0, kBytes).is_ok());
    }
    if (what == 1) {
      EXPECT_TRUE(atomic(allocation, fabric::OpCode::kFetchAdd, 8, 1, 0).is_ok());
    }
    if (what == 2) {
      EXPECT_TRUE(put_notify(allocation, 64, bytes.data(), 64, 8, 1).is_ok());
    }
    if (what == 3) {
      EXPECT_EQ(wait_at_least(allocation, 8, 2, os::Deadline::after_ns(1)).value(), 2u);
    }
    EXPECT_EQ(allocation.extent(0).descriptor().id.generation, kAfter + 1);
    EXPECT_TRUE(allocation.free().is_ok());
  }
  EXPECT_EQ(asked, 4);
}

TEST_F(Moved, OneStripeIsFollowedAndTheOthersStay) {
  Allocation allocation;
  const auto other = daemon.place(kOther, other_memory);
  create(allocation, 2 * kBytes, striped(other, before));
  const Extent* const kept = &allocation.extent(0);
  move(striped(other, after));
  bytes.assign(128, std::byte{7});
  EXPECT_TRUE(put(allocation).is_ok());
  EXPECT_TRUE(holds(other_memory, 0, std::span(bytes).first(64)));
  EXPECT_TRUE(holds(after_memory, 0, std::span(bytes).first(64)));
  EXPECT_EQ(&allocation.extent(0), kept);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(allocation.free().is_ok());
}

TEST_F(Moved, PiecesOfASlabFollowIt) {
  Allocation first, second;
  create(first, kPiece, single(before));
  ASSERT_TRUE(second.create(*session, kPiece, {}).is_ok());
  ASSERT_TRUE(first.slab() && second.slab());
  move(single(after));
  EXPECT_TRUE(put(first).is_ok());
  EXPECT_TRUE(put(second).is_ok());
  EXPECT_TRUE(holds(after_memory, first.base(), bytes));
  EXPECT_TRUE(holds(after_memory, second.base(), bytes));
  Allocation third;
  ASSERT_TRUE(third.create(*session, kPiece, {}).is_ok());
  EXPECT_EQ(third.extent(0).descriptor().id.generation, kAfter + 1) << "cut out of the slab where it is now";
  for (Allocation* one : {&first, &second, &third}) EXPECT_TRUE(one->free().is_ok());
}

TEST_F(Moved, WhatWasFreedIsAskedForOnce) {
  Allocation allocation;
  create(allocation, kBytes, single(before));
  daemon.freeze(kBefore);
  refuse(Code::kRevoked);
  EXPECT_EQ(put(allocation).code(), Code::kRevoked);
  EXPECT_EQ(get(allocation).code(), Code::kRevoked);
  EXPECT_EQ(atomic(allocation, fabric::OpCode::kFetchAdd, 8, 1, 0).status().code(), Code::kRevoked);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(allocation.free().is_ok());
}

TEST_F(Moved, WhatNobodyCanTellIsNotRevoked) {
  Allocation allocation;
  create(allocation, kBytes, single(before));
  daemon.freeze(kBefore);
  refuse(Code::kPeerLost);
  EXPECT_EQ(put(allocation).code(), Code::kPeerLost);
  EXPECT_EQ(atomic(allocation, fabric::OpCode::kFetchAdd, 8, 1, 0).status().code(), Code::kPeerLost);
  move(single(after));
  EXPECT_TRUE(put(allocation).is_ok()) << "it is asked about again";
  EXPECT_TRUE(allocation.free().is_ok());
}

}  // namespace
}  // namespace ocm::client
