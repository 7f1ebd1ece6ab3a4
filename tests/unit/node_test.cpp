// One node in this process, spoken to over a socket pair.
#include "node/node.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fabric/shm/tables.h"
#include "unit/fault_switch.h"
#include "unit/program.h"

namespace ocm::node {
namespace {

using test::Program;

Config embedded() {
  Config c;
  c.name = "a";
  c.embedded = true;
  c.offer(Kind::kDram, 64 * kMiB);
  return c;
}

int code(Code c) { return static_cast<int>(c); }

class NodeTest : public ::testing::Test {
 protected:
  void start(Config config = embedded()) {
    auto made = Node::start(std::move(config));
    ASSERT_TRUE(made.is_ok()) << made.status().to_string();
    node_ = std::move(made).value();
  }
  Program program() {
    Program out(std::move(node_->connect_local()).value());
    welcome_ = out.hello();
    EXPECT_EQ(welcome_.code(), 0) << welcome_.detail();
    return out;
  }
  uint64_t used() {
    Program p = program();
    return p.cluster().cluster_view().nodes(0).pools(0).bytes_used();
  }
  /// The end of a session is seen by the node's own thread: asks until it has.
  bool becomes_free() {
    for (int i = 0; i < 2000; ++i) {
      if (used() == 0) return true;
    }
    return false;
  }

  std::unique_ptr<Node> node_;
  wire::Envelope welcome_;
};

TEST_F(NodeTest, AFaultInARequestIsItsOwnErrorAndEndsNothing) {
  test::FaultSwitch throwing(fault::Point::kHandlerThrows);
  start();
  Program p = program();
  throwing.on = true;
  const auto failed = p.allocate(kMiB);
  throwing.on = false;
  EXPECT_EQ(failed.code(), code(Code::kInternal));
  EXPECT_EQ(failed.detail(), "a fault in the daemon");
  EXPECT_EQ(p.allocate(kMiB).code(), 0);
  node_.reset();  // before the hook goes
}

TEST_F(NodeTest, RepliesNameTheNodeAsAField) {
  start();
  Program p = program();
  wire::Envelope request;
  request.mutable_allocate()->set_bytes_total(kMiB);
  request.mutable_allocate()->add_nodes("nobody");
  const auto reply = p.call(std::move(request));
  EXPECT_EQ(reply.code(), code(Code::kUnknownNode));
  EXPECT_EQ(reply.failed_node(), "nobody");
}

TEST_F(NodeTest, HelloGivesASessionAndTwoDescriptors) {
  start();
  Program p = program();
  const auto& welcome = welcome_.session_welcome();
  EXPECT_EQ(welcome.session_id().size(), 16u);
  EXPECT_EQ(welcome.session_key().size(), 32u);
  EXPECT_EQ(welcome.node(), "a");
  EXPECT_NE(welcome.partition(), 0u);
  ASSERT_EQ(p.fds.size(), 2u);
  struct stat table {};
  ASSERT_EQ(::fstat(p.fds[0].get(), &table), 0);
  EXPECT_EQ(static_cast<uint64_t>(table.st_size), fabric::shm::GenerationTable::bytes(welcome.slots()));
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, p.fds[0].get(), 0), MAP_FAILED);
}

TEST_F(NodeTest, RequestsBeforeHelloAreRefused) {
  start();
  Program p(std::move(node_->connect_local()).value());
  EXPECT_EQ(p.allocate(4096).code(), code(Code::kProtocol));
}

TEST_F(NodeTest, AnotherVersionIsRefused) {
  start();
  Program p(std::move(node_->connect_local()).value());
  EXPECT_EQ(p.hello(99).code(), code(Code::kProtocol));
}

TEST_F(NodeTest, TheHighestVersionInCommonIsSpoken) {
  constexpr uint32_t kMine = wire::kControlVersions.max;
  const struct {
    uint32_t min, max;
    bool welcome;
  } cases[] = {
      {kMine, kMine + 1, true}, {kMine - 3, kMine, true},      {1, 1000, true}, {kMine + 1, kMine + 2, false},
      {1, kMine - 2, false},    {kMine + 1, kMine - 1, false}, {0, 0, false},   {0, kMine, false}};
  start();
  for (const auto& one : cases) {
    Program p(std::move(node_->connect_local()).value());
    wire::Envelope hello;
    hello.mutable_session_hello()->set_version(one.min);
    hello.mutable_session_hello()->mutable_versions()->set_min(one.min);
    hello.mutable_session_hello()->mutable_versions()->set_max(one.max);
    const wire::Envelope reply = p.call(std::move(hello));
    EXPECT_EQ(reply.code(), one.welcome ? 0 : code(Code::kProtocol)) << one.min << ' ' << one.max;
    if (one.welcome)
      EXPECT_EQ(wire::versions_from(reply.session_welcome().versions()), wire::kControlVersions);
    else
      EXPECT_NE(reply.detail().find("here " + std::to_string(kMine)), std::string::npos) << reply.detail();
  }
}

TEST_F(NodeTest, TheSessionPageSaysHowFarItIsFilled) {
  start();
  Program p = program();
  auto page = os::Mapping::map(p.fds[1].get(), fabric::shm::kSessionPageBytes, false);
  ASSERT_TRUE(page.is_ok());
  const auto* told = reinterpret_cast<const fabric::shm::SessionPage*>(page.value().data());
  EXPECT_EQ(told->bytes.load(), sizeof(fabric::shm::SessionPage));
  EXPECT_EQ(told->version.load(), wire::kControlVersions.max);
}

TEST_F(NodeTest, AllocatesOpensAndFrees) {
  start();
  Program p = program();
  const auto made = p.allocate(kMiB);
  ASSERT_EQ(made.code(), 0) << made.detail();
  ASSERT_EQ(made.allocation().extents_size(), 1);
  const auto& extent = made.allocation().extents(0);
  EXPECT_EQ(extent.node(), "a");
  EXPECT_EQ(p.open(extent, 3).code(), 0);
  ASSERT_EQ(p.fds.size(), 3u);
  void* data = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, p.fds[2].get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  ::munmap(data, kMiB);
  EXPECT_EQ(p.free(made.allocation().allocation_id()).code(), 0);
  EXPECT_EQ(p.free(made.allocation().allocation_id()).code(), code(Code::kNotFound));
  EXPECT_EQ(p.open(extent, 3).code(), code(Code::kRevoked));
}

TEST_F(NodeTest, AWrongCapabilityOpensNothing) {
  start();
  Program p = program();
  wire::ExtentDescriptor extent = p.allocate(kMiB).allocation().extents(0);
  extent.set_capability(std::string(16, 'x'));
  EXPECT_EQ(p.open(extent, 1).code(), code(Code::kPermission));
  extent.set_capability("short");
  EXPECT_EQ(p.open(extent, 1).code(), code(Code::kPermission));
}

TEST_F(NodeTest, MoreThanThePoolSaysWhatIsFree) {
  start();
  Program p = program();
  const auto reply = p.allocate(kGiB);
  EXPECT_EQ(reply.code(), code(Code::kPoolFull));
  EXPECT_NE(reply.detail().find("a 64.0 MiB of 64.0 MiB"), std::string::npos) << reply.detail();
}

TEST_F(NodeTest, TheWholePoolCanBeTakenAgainAndAgain) {
  start();
  Program p = program();
  for (int i = 0; i < 20; ++i) {
    const auto made = p.allocate(64 * kMiB);
    ASSERT_EQ(made.code(), 0) << made.detail();
    ASSERT_EQ(p.free(made.allocation().allocation_id()).code(), 0);
  }
}

TEST_F(NodeTest, TheQuotaOfAUserHolds) {
  Config c = embedded();
  c.user_bytes = 2 * kMiB;
  start(std::move(c));
  Program p = program();
  const auto made = p.allocate(kMiB);
  ASSERT_EQ(made.code(), 0);
  EXPECT_EQ(p.allocate(kMiB + 1).code(), code(Code::kQuota));
  Program q = program();
  EXPECT_EQ(q.allocate(kMiB + 1).code(), code(Code::kQuota));
  ASSERT_EQ(p.free(made.allocation().allocation_id()).code(), 0);
  EXPECT_EQ(q.allocate(kMiB + 1).code(), 0);
}

TEST_F(NodeTest, TheEndOfASocketFreesTheSession) {
  start();
  {
    Program p = program();
    ASSERT_EQ(p.allocate(32 * kMiB).code(), 0);
    EXPECT_GE(used(), 32 * kMiB);
  }
  EXPECT_TRUE(becomes_free());
}

TEST_F(NodeTest, AMalformedMessageClosesThatConnectionOnly) {
  start();
  Program good = program();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff", 4), std::string("\x04\0\0\0\xff\xff\xff\xff", 8),
        std::string("\0\0\0\0", 4)}) {
    Program bad = program();
    ASSERT_TRUE(bad.send_raw(bytes));
    EXPECT_EQ(bad.receive().code(), code(Code::kPeerLost));
  }
  EXPECT_EQ(good.allocate(4096).code(), 0);
}

TEST_F(NodeTest, ALongMessageBeforeHelloClosesTheConnection) {
  start();
  Program p(std::move(node_->connect_local()).value());
  wire::Envelope m;
  m.mutable_session_hello()->set_program(std::string(100'000, 'x'));
  EXPECT_EQ(p.call(std::move(m)).code(), code(Code::kPeerLost));
}

TEST_F(NodeTest, FieldsOfWrongLengthAreRefused) {
  start();
  Program p = program();
  EXPECT_EQ(p.free("short").code(), code(Code::kInvalidArgument));
  wire::Envelope m;
  m.mutable_allocate()->set_bytes_total(4096);
  m.mutable_allocate()->set_kind(77);
  EXPECT_EQ(p.call(m).code(), code(Code::kInvalidArgument));
  m.mutable_allocate()->set_kind(2);
  EXPECT_EQ(p.call(m).code(), code(Code::kUnsupported));
  wire::Envelope peer_only;
  peer_only.mutable_session_end()->set_session_id(std::string(16, 'x'));
  EXPECT_EQ(p.call(peer_only).code(), code(Code::kProtocol));
}

TEST_F(NodeTest, SessionsAreLimited) {
  Config c = embedded();
  c.sessions = 1;
  start(std::move(c));
  Program p = program();
  Program q(std::move(node_->connect_local()).value());
  EXPECT_EQ(q.hello().code(), code(Code::kLimit));
}

TEST_F(NodeTest, PublishedAllocationsOutliveTheirSessionUntilRemoved) {
  start();
  {
    Program p = program();
    const auto made = p.allocate(kMiB);
    ASSERT_EQ(p.publish(made.allocation().allocation_id(), "x").code(), 0);
    EXPECT_EQ(p.publish(made.allocation().allocation_id(), "y").code(), code(Code::kExists));
  }
  Program q = program();
  const auto read = q.attach("x", 1);
  ASSERT_EQ(read.code(), 0) << read.detail();
  const auto& extent = read.allocation().extents(0);
  EXPECT_EQ(q.open(extent, 3).code(), code(Code::kPermission));
  ASSERT_EQ(q.open(extent, 1).code(), 0);
  EXPECT_EQ(::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, q.fds.back().get(), 0), MAP_FAILED);
  ASSERT_EQ(q.list().names().allocations_size(), 1);
  EXPECT_FALSE(q.list().names().allocations(0).lost());
  EXPECT_EQ(q.remove("x").code(), 0);
  EXPECT_EQ(q.remove("x").code(), code(Code::kNotFound));
  EXPECT_EQ(q.open(extent, 1).code(), code(Code::kRevoked));
  EXPECT_EQ(q.attach("x", 1).code(), code(Code::kNotFound));
}

/// By a program that speaks for itself, with the capability that it was given and with a part of it.
TEST_F(NodeTest, WhatIsAttachedForReadingIsNotOpenedForWriting) {
  start();
  Program owner = program();
  const auto made = owner.allocate(kMiB);
  ASSERT_EQ(owner.publish(made.allocation().allocation_id(), "x").code(), 0);
  Program reader = program();
  const wire::ExtentDescriptor extent = reader.attach("x", 1).allocation().extents(0);
  EXPECT_NE(extent.capability(), made.allocation().extents(0).capability());
  for (const uint32_t access : {3u, 2u, 0u, 7u}) EXPECT_NE(reader.open(extent, access).code(), 0) << access;
  EXPECT_EQ(reader.open(extent, 3).code(), code(Code::kPermission));
  EXPECT_EQ(reader.fds.size(), 2u);  // those of the hello
  ASSERT_EQ(reader.open(extent, 1).code(), 0);
  const int fd = reader.fds.back().get();
  EXPECT_EQ(::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  void* const data = ::mmap(nullptr, kMiB, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_NE(::mprotect(data, kMiB, PROT_READ | PROT_WRITE), 0);
  ::munmap(data, kMiB);
}

TEST_F(NodeTest, FreeingAPublishedAllocationDetachesIt) {
  start();
  Program p = program();
  const auto made = p.allocate(kMiB);
  ASSERT_EQ(p.publish(made.allocation().allocation_id(), "x").code(), 0);
  EXPECT_EQ(p.free(made.allocation().allocation_id()).code(), 0);
  EXPECT_EQ(p.open(made.allocation().extents(0), 3).code(), 0);
}

TEST_F(NodeTest, CopiesBetweenItsOwnExtents) {
  start();
  Program p = program();
  const auto a = p.allocate(kMiB), b = p.allocate(kMiB);
  ASSERT_EQ(p.open(a.allocation().extents(0), 3).code(), 0);
  ASSERT_EQ(p.open(b.allocation().extents(0), 3).code(), 0);
  const auto map = [&](size_t fd) {
    return static_cast<char*>(::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, p.fds[fd].get(), 0));
  };
  char *from = map(2), *to = map(3);
  std::memset(from, 'x', kMiB);
  wire::Envelope m;
  auto& copy = *m.mutable_copy();
  *copy.mutable_source() = a.allocation().extents(0);
  *copy.mutable_target() = b.allocation().extents(0);
  copy.set_source_offset(10);
  copy.set_target_offset(100);
  copy.set_bytes_total(1000);
  const auto done = p.call(m);
  ASSERT_EQ(done.code(), 0) << done.detail();
  EXPECT_EQ(to[99], 0);
  EXPECT_EQ(to[100], 'x');
  EXPECT_EQ(to[1099], 'x');
  EXPECT_EQ(to[1100], 0);
  copy.set_bytes_total(kMiB);
  EXPECT_EQ(p.call(m).code(), code(Code::kOutOfRange));
  copy.set_target_offset(~uint64_t{0});
  EXPECT_EQ(p.call(m).code(), code(Code::kOutOfRange));
  ::munmap(from, kMiB);
  ::munmap(to, kMiB);
}

TEST_F(NodeTest, ASessionIsTakenUpAgainOnlyWithItsKeyAndNeverOnceItHasEnded) {
  start();
  std::string id, key;
  {
    Program p = program();
    ASSERT_EQ(p.allocate(kMiB).code(), 0);
    id = welcome_.session_welcome().session_id();
    key = welcome_.session_welcome().resume_key();
  }
  ASSERT_TRUE(becomes_free());
  wire::Envelope m;
  m.mutable_session_hello()->set_version(wire::kControlVersions.max);
  m.mutable_session_hello()->set_resume_session(id);
  m.mutable_session_hello()->set_resume_key(std::string(32, 'x'));
  Program wrong(std::move(node_->connect_local()).value());
  EXPECT_EQ(wrong.call(m).detail(), "wrong resume key");
  m.mutable_session_hello()->set_resume_key(key);
  Program right(std::move(node_->connect_local()).value());
  const auto refused = right.call(m);
  EXPECT_EQ(refused.code(), code(Code::kAuth));
  EXPECT_NE(refused.detail().find("ended"), std::string::npos) << refused.detail();
}

TEST_F(NodeTest, StopEndsItsConnections) {
  start();
  Program p = program();
  node_->stop();
  EXPECT_EQ(p.allocate(4096).code(), code(Code::kPeerLost));
  EXPECT_FALSE(node_->connect_local().is_ok());
}

}  // namespace
}  // namespace ocm::node
