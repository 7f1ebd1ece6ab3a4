// client: a handle follows the replicas that the cluster made again, and its operations end well.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <future>

#include "client/allocation.h"
#include "client/session.h"
#include "client/transfer.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using test::ScriptedDaemon;

/// [A B], with the spare C and the second id of B.
class Remade : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = ScriptedDaemon::kBytes;
  enum Slot : uint32_t { kA = 1, kB, kC, kBAgain, kOther };

  void SetUp() override {
    a = daemon.place(kA, a_memory);
    b = daemon.place(kB, b_memory);
    daemon.allocation = ScriptedDaemon::replicated({a, b});
    SessionOptions options;
    options.dial = daemon.dial_once();
    options.program = "test";
    session = Session::open(std::move(options)).value();
    AllocationOptions wanted;
    wanted.layout = Layout::kReplicated;
    ASSERT_TRUE(allocation.create(*session, kBytes, wanted).is_ok());
  }
  void TearDown() override {
    if (allocation.session() != nullptr) {
      EXPECT_TRUE(allocation.free().is_ok());
    }
    session.reset();
  }

  /// What the daemon says once the part was made again.
  wire::Allocation made_again(uint32_t remade = 1) {
    return ScriptedDaemon::replicated(
        {daemon.place(kBAgain, b_memory, remade), daemon.place(kC, c_memory, remade)});
  }
  static Reply reply_of(wire::Allocation allocation) {
    Reply reply{std::make_shared<wire::Envelope>(), {}};
    *reply.message->mutable_allocation() = std::move(allocation);
    return reply;
  }
  Result<bool> rebind(wire::Allocation said) {
    return allocation.rebind(session->daemon_now(), reply_of(std::move(said)));
  }
  Runs put_of(std::byte* from) { return Runs::one({End{&allocation}, End{nullptr, 0, from}, bytes.size()}); }
  Status put() { return transfer(*session, put_of(bytes.data()), bytes.size()); }
  Status get(std::vector<std::byte>& to) {
    return transfer(*session, Runs::one({End{nullptr, 0, to.data()}, End{&allocation}, to.size()}),
                    to.size());
  }
  static bool holds(const ScriptedDaemon::Memory& memory, const std::vector<std::byte>& expected) {
    return std::memcmp(memory.mapping.data(), expected.data(), expected.size()) == 0;
  }
  /// A died and its loss is known.
  void lose_a() {
    daemon.freeze(kA);
    allocation.extent(0).mark_lost();
  }

  ScriptedDaemon daemon;
  ScriptedDaemon::Memory a_memory = daemon.make_memory(), b_memory = daemon.make_memory(),
                         c_memory = daemon.make_memory();
  wire::ExtentDescriptor a, b;
  std::unique_ptr<Session> session;
  Allocation allocation;
  std::vector<std::byte> bytes = std::vector<std::byte>(64, std::byte{7});
  std::atomic<int> asked{0};
};

// ---- the binding

TEST_F(Remade, ExtentsWithTheSameIdAreTheSame) {
  const Binding* before = allocation.binding();
  EXPECT_FALSE(rebind(ScriptedDaemon::replicated({a, b})).value());
  EXPECT_EQ(allocation.binding(), before);
}

TEST_F(Remade, OtherIdsAreNewExtentsAndOldOnesStay) {
  Extent& old = allocation.extent(1);
  const Binding* before = allocation.binding();
  EXPECT_TRUE(rebind(made_again()).value());
  EXPECT_EQ(allocation.extent(0).descriptor().id.generation, kBAgain + 1);
  EXPECT_EQ(allocation.extent(1).descriptor().id.generation, kC + 1);
  EXPECT_EQ(&(*before)[1], &old);
  EXPECT_EQ(old.descriptor().id.generation, kB + 1);
}

TEST_F(Remade, AnExtentThatChangesItsPlaceIsTheSame) {
  Extent& kept = allocation.extent(1);
  EXPECT_TRUE(rebind(ScriptedDaemon::replicated({b, daemon.place(kC, c_memory)})).value());
  EXPECT_EQ(&allocation.extent(0), &kept);
}

TEST_F(Remade, LostAndVacantPlacesAreLost) {
  wire::Allocation said = ScriptedDaemon::replicated({a, b});
  said.mutable_extents(0)->set_vacant(true);
  EXPECT_TRUE(rebind(said).value());
  EXPECT_TRUE(allocation.extent(0).lost());
  EXPECT_FALSE(allocation.extent(1).lost());
  EXPECT_FALSE(rebind(said).value()) << "it was known";
}

TEST_F(Remade, AnotherAllocationIsRefusedAndNothingChanges) {
  const Binding* before = allocation.binding();
  wire::Allocation other = made_again();
  other.set_allocation_id(std::string(16, 'b'));
  wire::Allocation longer = made_again();
  longer.set_bytes_total(kBytes - 64);
  wire::Allocation fewer = made_again();
  fewer.mutable_extents()->RemoveLast();
  wire::Allocation smaller = made_again();
  smaller.mutable_extents(1)->set_bytes(kBytes - 1);
  wire::Allocation sequence = made_again();
  sequence.set_layout(static_cast<uint32_t>(Layout::kSequence));
  wire::Allocation no_slot = made_again();
  no_slot.mutable_extents(1)->set_slot(ScriptedDaemon::kSlots);
  no_slot.mutable_extents(0)->set_lost(true);
  for (const wire::Allocation& said : {other, longer, fewer, smaller, sequence, no_slot}) {
    EXPECT_EQ(rebind(said).status().code(), Code::kProtocol);
    EXPECT_EQ(allocation.binding(), before);
  }
  EXPECT_FALSE(allocation.extent(0).lost());
}

TEST_F(Remade, AnOlderAnswerIsNotBelieved) {
  ASSERT_TRUE(rebind(made_again(2)).value());
  const Binding* now = allocation.binding();
  EXPECT_FALSE(rebind(ScriptedDaemon::replicated({a, b})).value());
  EXPECT_EQ(allocation.binding(), now);
}

TEST_F(Remade, OfASequenceOnlyThePartThatWasMadeAgainChanges) {
  const auto d_memory = daemon.make_memory();
  wire::Allocation table = ScriptedDaemon::replicated({a, b});
  table.set_layout(static_cast<uint32_t>(Layout::kSequence));
  table.set_replicated_parts(true);
  table.set_bytes_total(kBytes + 128);
  table.add_part_bytes(kBytes);
  table.add_part_bytes(128);
  wire::ExtentDescriptor& last = *table.add_extents() = daemon.place(kOther, d_memory, 0, 1);
  daemon.allocation = table;
  Allocation attached;
  ASSERT_TRUE(attached.attach(*session, "table", Access::kRead, true).is_ok());
  Extent& kept = attached.extent(2);
  daemon.freeze(kA);
  daemon.freeze(kB);
  std::memcpy(b_memory.mapping.data(), bytes.data(), bytes.size());
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    ++asked;
    table.clear_extents();
    *table.add_extents() = daemon.place(kBAgain, b_memory, 1);
    *table.add_extents() = daemon.place(kC, c_memory, 1);
    *table.add_extents() = daemon.place(kOther, d_memory, 0, 1);
    *reply.mutable_allocation() = table;
  };
  std::vector<std::byte> read(64);
  const Runs runs = Runs::one({End{nullptr, 0, read.data()}, End{&attached}, read.size()});
  EXPECT_TRUE(transfer(*session, runs, read.size()).is_ok());
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(&attached.extent(2), &kept);
  EXPECT_EQ(kept.descriptor().bytes, last.bytes());
  EXPECT_TRUE(attached.free().is_ok());
}

// ---- operations

TEST_F(Remade, APutToAFrozenReplicaGoesToThePartThatWasMadeAgain) {
  lose_a();
  daemon.freeze(kB);
  std::string id;
  uint64_t address = 0;
  daemon.on_resolve = [&](const wire::ResolveRequest& request, wire::Envelope& reply) {
    ++asked;
    id = request.allocation_id();
    address = request.extent().address();
    *reply.mutable_allocation() = made_again();
  };
  const Status status = put();
  EXPECT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(id, std::string(16, 'a'));
  EXPECT_EQ(address, b.address());
  EXPECT_TRUE(holds(b_memory, bytes));
  EXPECT_TRUE(holds(c_memory, bytes));
}

TEST_F(Remade, AllRunsOfAPutStartOver) {
  lose_a();
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = made_again();
  };
  std::vector<Segment> segments;
  for (uint64_t i = 0; i < 40; ++i) segments.push_back({i * 64, bytes.data(), bytes.size()});
  daemon.freeze(kB);
  ASSERT_TRUE(
      transfer(*session, Runs::vectored(&allocation, true, segments.data(), 40, true), 40 * 64).is_ok());
  const std::vector<std::byte> all(40 * 64, std::byte{7});
  EXPECT_TRUE(holds(b_memory, all));
  EXPECT_TRUE(holds(c_memory, all));
}

TEST_F(Remade, AGetOfAFrozenReplicaReadsThePartThatWasMadeAgain) {
  lose_a();
  daemon.freeze(kB);
  std::memcpy(b_memory.mapping.data(), bytes.data(), bytes.size());
  std::memcpy(c_memory.mapping.data(), bytes.data(), bytes.size());
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = made_again();
  };
  std::vector<std::byte> read(64);
  EXPECT_TRUE(get(read).is_ok());
  EXPECT_EQ(read, bytes);
}

TEST_F(Remade, AReplicaThatWasThawedIsUsedAsItWas) {
  lose_a();
  daemon.freeze(kB);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    daemon.thaw(kB);
    *reply.mutable_allocation() = ScriptedDaemon::replicated({a, b});
  };
  EXPECT_TRUE(put().is_ok());
  EXPECT_TRUE(holds(b_memory, bytes));
}

TEST_F(Remade, ARefusalLeavesTheFirstFailure) {
  lose_a();
  daemon.freeze(kB);
  for (const Code code :
       {Code::kRevoked, Code::kNotFound, Code::kUnsupported, Code::kProtocol, Code::kPeerLost}) {
    asked = 0;
    daemon.on_resolve = [&, code](const wire::ResolveRequest&, wire::Envelope& reply) {
      ++asked;
      reply.set_code(static_cast<int>(code));
    };
    // REVOKED is final: what no daemon could say yet is not.
    EXPECT_EQ(put().code(), code == Code::kPeerLost ? Code::kPeerLost : Code::kRevoked) << code_name(code);
    EXPECT_EQ(asked, 1);
  }
}

TEST_F(Remade, AReplicaThatStaysFrozenIsAskedForEightTimesAndIsNotRevoked) {
  lose_a();
  daemon.freeze(kB);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    ++asked;
    *reply.mutable_allocation() = ScriptedDaemon::replicated({a, b});
  };
  const Status status = put();
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_NE(status.message().find("nothing of it answers now"), std::string_view::npos);
  EXPECT_EQ(asked, 8);
  std::vector<std::byte> read(64);
  EXPECT_EQ(get(read).code(), Code::kPeerLost);
}

TEST_F(Remade, WhenEveryReplicaIsLostTheDaemonIsAskedOnce) {
  lose_a();
  allocation.extent(1).mark_lost();
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = ++asked == 1 ? made_again() : ScriptedDaemon::replicated({a, b});
  };
  EXPECT_TRUE(put().is_ok());
  allocation.extent(0).mark_lost();
  allocation.extent(1).mark_lost();
  EXPECT_EQ(put().code(), Code::kLost);
  EXPECT_EQ(asked, 2);
}

TEST_F(Remade, ALossThatCannotBeConfirmedMayBeOneThatWasRepaired) {
  daemon.freeze(kA);
  daemon.on_lost_replica = [&](wire::Envelope& reply) { reply.set_code(static_cast<int>(Code::kRevoked)); };
  std::atomic<bool> asked_living{false};
  daemon.on_resolve = [&](const wire::ResolveRequest& request, wire::Envelope& reply) {
    if (request.extent().address() == b.address()) asked_living = true;
    daemon.freeze(kB);
    *reply.mutable_allocation() = made_again();
  };
  EXPECT_TRUE(put().is_ok());
  EXPECT_TRUE(asked_living);
  EXPECT_TRUE(holds(b_memory, bytes));
  EXPECT_TRUE(holds(c_memory, bytes));
}

TEST_F(Remade, ALossThatCannotBeConfirmedAndWasNotRepairedEndsThePut) {
  daemon.freeze(kA);
  std::atomic<int> confirmations{0};
  daemon.on_lost_replica = [&](wire::Envelope& reply) {
    ++confirmations;
    reply.set_code(static_cast<int>(Code::kPeerLost));
  };
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = ScriptedDaemon::replicated({a, b});
  };
  const Status status = put();
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_NE(status.message().find("could not be confirmed"), std::string_view::npos);
  EXPECT_EQ(confirmations, 1);
}

TEST_F(Remade, WithoutADaemonNothingIsRevoked) {
  ASSERT_TRUE(put().is_ok());  // both are mapped
  daemon.freeze(kA);
  session->daemon_now()->control().fail(Status(Code::kNoDaemon, "it was killed"));
  EXPECT_EQ(put().code(), Code::kPeerLost);
}

class RemadeSoon : public Remade {
 protected:
  void SetUp() override {
    daemon.failure_deadline_ns = 100'000'000;
    Remade::SetUp();
  }
};

TEST_F(RemadeSoon, ADaemonThatDoesNotAnswerIsGivenOneTime) {
  daemon.freeze(kA);
  std::promise<void> go;
  daemon.on_lost_replica = [gate = go.get_future().share()](wire::Envelope& reply) {
    gate.wait();
    reply.set_code(static_cast<int>(Code::kPeerLost));
  };
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    ++asked;
    reply.set_code(static_cast<int>(Code::kPeerLost));
  };
  EXPECT_EQ(put().code(), Code::kPeerLost);
  go.set_value();
  EXPECT_TRUE(allocation.free().is_ok());  // answered after all that came before
  EXPECT_EQ(asked, 0) << "the put waited for another answer after that of the loss did not come";
}

TEST_F(RemadeSoon, WhatADaemonSaysTooLateOfAPartFreesNothing) {
  lose_a();
  daemon.freeze(kB);
  std::promise<void> go;
  daemon.on_resolve = [&, gate = go.get_future().share()](const wire::ResolveRequest&,
                                                          wire::Envelope& reply) {
    gate.wait();
    *reply.mutable_allocation() = daemon.allocation;
  };
  EXPECT_EQ(put().code(), Code::kPeerLost) << "no answer within its time";
  go.set_value();
  for (int i = 0; i < 3; ++i) {
    wire::Envelope request;
    request.mutable_cluster();
    (void)session->call(request);
  }
  EXPECT_EQ(daemon.freed, 0) << "the answer told of memory that the program has";
}

TEST_F(Remade, AStartedPutWaitsForNobodyAndKeepsItsBuffer) {
  lose_a();
  daemon.freeze(kB);
  std::promise<void> go;
  daemon.on_resolve = [&, gate = go.get_future().share()](const wire::ResolveRequest&,
                                                          wire::Envelope& reply) {
    gate.wait();
    *reply.mutable_allocation() = made_again();
  };
  Operation operation;
  operation.start(*session, put_of(bytes.data()), false, bytes.size());
  EXPECT_FALSE(operation.step());
  EXPECT_FALSE(operation.locally_done()) << "it may be put again";
  EXPECT_NE(allocation.busy(), 0u) << "what is started now comes after it";
  go.set_value();
  EXPECT_TRUE(operation.wait(false, os::Deadline::never()).is_ok());
  EXPECT_EQ(allocation.busy(), 0u);
  EXPECT_TRUE(holds(c_memory, bytes));
}

TEST_F(Remade, OperationsThatFailedTogetherStartOverTogether) {
  lose_a();
  daemon.freeze(kB);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = ++asked == 1 ? made_again() : ScriptedDaemon::replicated({a, b});
  };
  std::array<Operation, 4> operations;
  for (Operation& one : operations) one.start(*session, put_of(bytes.data()), false, bytes.size());
  for (Operation& one : operations) EXPECT_TRUE(one.wait(false, os::Deadline::never()).is_ok());
  EXPECT_TRUE(holds(c_memory, bytes));
}

TEST_F(Remade, WhatOneThreadStartedStartsOverInThatOrder) {
  lose_a();
  daemon.freeze(kB);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    // The first one's first answer lets the second one overtake it, if that can be.
    *reply.mutable_allocation() = ++asked == 1 ? ScriptedDaemon::replicated({a, b}) : made_again();
  };
  std::vector<std::byte> newer(64, std::byte{9});
  Operation first, second;
  first.start(*session, put_of(bytes.data()), false, bytes.size());
  session->under_way().enter(first);
  second.start(*session, put_of(newer.data()), false, newer.size());
  EXPECT_TRUE(second.wait(false, os::Deadline::never()).is_ok());
  EXPECT_TRUE(first.done());
  EXPECT_TRUE(first.wait(false, os::Deadline::never()).is_ok());
  session->under_way().leave(first);
  EXPECT_TRUE(holds(b_memory, newer));
  EXPECT_TRUE(holds(c_memory, newer));
}

TEST_F(Remade, APointerToAFrozenReplicaIsOneToThePartThatWasMadeAgain) {
  std::memcpy(b_memory.mapping.data(), bytes.data(), bytes.size());
  Allocation attached;
  daemon.allocation.set_access(static_cast<uint32_t>(Access::kRead));
  ASSERT_TRUE(attached.attach(*session, "name", Access::kRead, false).is_ok());
  attached.extent(0).mark_lost();
  daemon.freeze(kB);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    *reply.mutable_allocation() = ++asked == 1 ? daemon.allocation : made_again();
  };
  const Result<std::byte*> pointer = attached.pointer(0, bytes.size());
  ASSERT_TRUE(pointer.is_ok()) << pointer.status().message();
  EXPECT_EQ(std::memcmp(pointer.value(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(attached.free().is_ok());
}

TEST_F(Remade, APointerToAReplicaThatStaysFrozenIsNotRevoked) {
  Allocation attached;
  daemon.allocation.set_access(static_cast<uint32_t>(Access::kRead));
  ASSERT_TRUE(attached.attach(*session, "name", Access::kRead, false).is_ok());
  attached.extent(0).mark_lost();
  daemon.freeze(kB);
  for (const Code code : {Code::kOk, Code::kPeerLost, Code::kRevoked}) {
    daemon.on_resolve = [&, code](const wire::ResolveRequest&, wire::Envelope& reply) {
      reply.set_code(static_cast<int>(code));
      if (code == Code::kOk) *reply.mutable_allocation() = daemon.allocation;
    };
    const Code expected = code == Code::kRevoked ? code : Code::kPeerLost;
    EXPECT_EQ(attached.pointer(0, 64).status().code(), expected) << code_name(code);
  }
  EXPECT_TRUE(attached.free().is_ok());
}

// ---- stores to a replica that is frozen meanwhile

TEST(LocalExtent, AStoreToAnExtentThatEndedMeanwhileIsNotGood) {
  std::atomic<uint32_t> slot{5};
  std::atomic<bool> gone{false};
  std::atomic<uint64_t> lease{UINT64_MAX};
  const fabric::shm::LocalExtent extent({&slot, &gone, 5}, &lease);
  EXPECT_EQ(extent.check_stored(), Code::kOk);
  slot = 0;
  EXPECT_EQ(extent.check_stored(), Code::kRevoked);
  slot = 5;
  lease = 1;
  EXPECT_EQ(extent.check_stored(), Code::kPeerLost);
  lease = UINT64_MAX;
  gone = true;
  EXPECT_EQ(extent.check_stored(), Code::kPeerLost);
}

/// The first load of the put's source meets this: the put is between its check and its store then.
std::atomic<uint32_t>* frozen_by_load = nullptr;
void* loaded_page = nullptr;
void freeze_at_load(int, siginfo_t*, void*) {
  frozen_by_load->store(0);
  ::mprotect(loaded_page, ScriptedDaemon::kBytes, PROT_READ | PROT_WRITE);
}

TEST_F(Remade, APutThatStoresWhileItsReplicaIsFrozenIsPutAgain) {
  lose_a();
  ASSERT_TRUE(put().is_ok());  // B is mapped
  loaded_page = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(loaded_page, MAP_FAILED);
  frozen_by_load = &daemon.generation(kB);
  struct sigaction now = {}, before = {};
  now.sa_sigaction = freeze_at_load;
  now.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGSEGV, &now, &before), 0);
  daemon.on_resolve = [&](const wire::ResolveRequest&, wire::Envelope& reply) {
    ++asked;
    std::memset(b_memory.mapping.data(), 1, kBytes);  // what the last comparison saw: the store came after it
    std::memset(c_memory.mapping.data(), 1, kBytes);
    *reply.mutable_allocation() = made_again();
  };
  const Status status = transfer(*session, put_of(static_cast<std::byte*>(loaded_page)), 64);
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(asked, 1);
  const std::vector<std::byte> zeros(64);
  EXPECT_TRUE(holds(b_memory, zeros));
  EXPECT_TRUE(holds(c_memory, zeros));
  ::munmap(loaded_page, kBytes);
}

}  // namespace
}  // namespace ocm::client
