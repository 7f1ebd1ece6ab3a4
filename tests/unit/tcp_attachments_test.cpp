// fabric/tcp: how many extents one user may have attached at a home, on all connections together.
#include <memory>
#include <vector>

#include "tcp_fixture.h"
#include "users.h"

namespace ocm::fabric::tcp {
namespace {

using test::kAlice;
using test::kBob;

constexpr uint32_t kAttachedMost = 4;

class TcpAttachmentsTest : public TcpTest {
 protected:
  void SetUp() override {
    start({.attachments_of_user_max = kAttachedMost});
    extent = directory.add(4096);
  }
  std::unique_ptr<Channel> connect_as(uint32_t uid) {
    TcpConnector connector;
    return connector.connect({Fabric::kTcp, server->address(), {}}, credentials(uid), soon()).value();
  }
  Result<uint32_t> attach(Channel& channel) {
    return channel.attach(describe(*extent), Access::kReadWrite, soon());
  }
  /// Attaches so many. False: one of them was refused.
  bool attach(Channel& channel, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!attach(channel).is_ok()) return false;
    }
    return true;
  }

  std::shared_ptr<BufferExtent> extent;
};

TEST(TcpAttachments, AreChargedToTheirUserUntilTheyAreGivenBack) {
  Attachments attachments(2, 700);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(attachments.take(kBob));
  EXPECT_FALSE(attachments.take(kBob));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(attachments.take(700) && attachments.take(0));
  EXPECT_TRUE(attachments.is_valid());
  attachments.give(kBob, 2);
  attachments.give(kAlice, 0);
  EXPECT_TRUE(attachments.take(kBob));
  EXPECT_TRUE(attachments.is_valid());
}

TEST_F(TcpAttachmentsTest, OfAUserAreBoundedOnAllConnectionsTogether) {
  const auto first = connect_as(kBob), second = connect_as(kBob);
  ASSERT_TRUE(attach(*first, kAttachedMost / 2) && attach(*second, kAttachedMost / 2));
  for (const auto& channel : {first.get(), second.get()}) {
    const Status beyond = attach(*channel).status();
    EXPECT_EQ(beyond.code(), Code::kLimit);
    EXPECT_NE(beyond.message().find("this user has 4 extents attached"), std::string::npos)
        << beyond.to_string();
  }
  uint64_t word = 7;
  EXPECT_EQ(put(*first, 0, 0, &word, 8), Code::kOk) << "what is attached works as before";
  const auto alices = connect_as(kAlice), roots = connect_as(0), own = connect_as(::geteuid());
  EXPECT_TRUE(attach(*alices, kAttachedMost)) << "another user has a share of its own";
  EXPECT_TRUE(attach(*roots, 3 * kAttachedMost)) << "root has no limit";
  EXPECT_TRUE(attach(*own, 3 * kAttachedMost)) << "nor has the server's own user";
}

TEST_F(TcpAttachmentsTest, OfAConnectionThatEndsAreGivenBack) {
  auto first = connect_as(kBob);
  const auto second = connect_as(kBob);
  ASSERT_TRUE(attach(*first, kAttachedMost));
  ASSERT_EQ(attach(*second).status().code(), Code::kLimit);
  first.reset();
  const os::Deadline deadline = soon();  // until the server has seen it
  while (!attach(*second).is_ok() && !deadline.passed()) ::sched_yield();
  EXPECT_FALSE(deadline.passed());
  EXPECT_TRUE(attach(*second, kAttachedMost - 1));
  EXPECT_EQ(attach(*second).status().code(), Code::kLimit) << "all of them, and once";
}

TEST_F(TcpAttachmentsTest, OfAConnectionThatDetachesAllAreGivenBack) {
  const auto first = connect_as(kBob), second = connect_as(kBob);
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> indexes;
    for (uint32_t i = 0; i < kAttachedMost; ++i) indexes.push_back(attach(*first).value());
    first->detach(indexes[0]);
    EXPECT_EQ(attach(*second).status().code(), Code::kLimit) << "its table is as long as before";
    EXPECT_EQ(attach(*first).value(), indexes[0]) << "and the index is good again";
    for (const uint32_t index : indexes) first->detach(index);
    EXPECT_EQ(attach(*first).value(), 0u);  // after all of them were detached
    EXPECT_TRUE(attach(*second, kAttachedMost - 1));
    EXPECT_EQ(attach(*second).status().code(), Code::kLimit);
    for (uint32_t i = 0; i + 1 < kAttachedMost; ++i) second->detach(i);
    first->detach(0);
    uint64_t word = 0;
    EXPECT_EQ(get(*second, 0, 0, &word, 8), Code::kNotFound);
    EXPECT_EQ(get(*first, 0, 0, &word, 8), Code::kNotFound);
  }
}

}  // namespace
}  // namespace ocm::fabric::tcp
