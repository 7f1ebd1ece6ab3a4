// A daemon that offers a kind of memory which nothing but its entry knows: programs allocate it, and what cannot be
// mapped here goes over the network.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "client/allocation.h"
#include "client/cluster.h"
#include "client/session.h"
#include "client/transfer.h"
#include "node/node.h"
#include "test_kind.h"
#include "unit/temporary_folder.h"

namespace ocm {
namespace {

constexpr const memory::Entry* kTestOnly[] = {&memory::test::kEntry};

class KindNode : public ::testing::Test {
 protected:
  void SetUp() override {
    kinds_.assign(memory::entries().begin(), memory::entries().end());
    kinds_.push_back(&memory::test::kEntry);
    node::Config config;
    config.name = "a";
    config.run_dir = run_dir_;
    config.control_listen = config.data_listen = "127.0.0.1:0";
    config.http_listen.clear();
    config.kinds = kinds_;
    config.offer(Kind::kDram, 8 * kMiB);
    config.offer(Kind::kTest, kMiB);
    auto started = node::Node::start(std::move(config));
    ASSERT_TRUE(started.is_ok()) << started.status().to_string();
    node_ = std::move(started).value();
    client::SessionOptions options;
    options.program = "kind_node_test";
    options.dial = [path = run_dir_ + "/oncillad.sock"]() -> Result<os::Fd> {
      os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
      if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        return Status::from_errno(errno, "connecting to " + path);
      return fd;
    };
    auto opened = client::Session::open(std::move(options));
    ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
    session_ = std::move(opened).value();
  }
  void TearDown() override {
    session_.reset();
    node_.reset();
  }
  Status move(client::End target, client::End source, uint64_t bytes) {
    return client::transfer(*session_, client::Runs::one({target, source, bytes}), bytes);
  }

  const test::TemporaryFolder temporary_;
  const std::string run_dir_ = temporary_.path();
  std::vector<const memory::Entry*> kinds_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<client::Session> session_;
};

TEST_F(KindNode, ProgramsUseAKindThatNobodyElseKnows) {
  client::Allocation allocation;
  client::AllocationOptions options;
  options.kind = Kind::kTest;
  const Status made = allocation.create(*session_, 100'000, options);
  ASSERT_TRUE(made.is_ok()) << made.to_string();
  EXPECT_EQ(allocation.kind(), Kind::kTest);
  EXPECT_FALSE(allocation.slab());
  std::vector<std::byte> bytes(100'000), back(100'000, std::byte{1});
  ASSERT_TRUE(move({.pointer = back.data()}, {.allocation = &allocation}, bytes.size()).is_ok());
  EXPECT_EQ(back, bytes) << "new memory reads zeros";
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(move({.allocation = &allocation}, {.pointer = bytes.data()}, bytes.size()).is_ok());
  ASSERT_TRUE(move({.pointer = back.data()}, {.allocation = &allocation}, bytes.size()).is_ok());
  EXPECT_EQ(back, bytes);
  EXPECT_NE(allocation.extent(0).fabric(), Fabric::kShm) << "its memory cannot be mapped";
  EXPECT_EQ(allocation.pointer(0, 1).status().code(), Code::kUnsupported);
  EXPECT_TRUE(allocation.free().is_ok());
}

TEST_F(KindNode, ItsPoolIsItsOwn) {
  client::Allocation first, second, dram;
  client::AllocationOptions options;
  options.kind = Kind::kTest;
  ASSERT_TRUE(first.create(*session_, kMiB, options).is_ok());
  const Status full = second.create(*session_, 1, options);
  EXPECT_EQ(full.code(), Code::kPoolFull);
  EXPECT_NE(full.message().find("test"), std::string_view::npos) << full.to_string();
  EXPECT_TRUE(dram.create(*session_, kMiB, {}).is_ok());
  const auto nodes = client::list_nodes(*session_);
  ASSERT_TRUE(nodes.is_ok() && nodes.value().size() == 1);
  EXPECT_EQ(nodes.value().front().pool_bytes[static_cast<size_t>(Kind::kTest)], kMiB);
  EXPECT_EQ(nodes.value().front().used_bytes[static_cast<size_t>(Kind::kTest)], kMiB);
  EXPECT_EQ(nodes.value().front().pool_bytes[static_cast<size_t>(Kind::kDram)], 8 * kMiB);
  EXPECT_TRUE(first.free().is_ok());
  EXPECT_TRUE(second.create(*session_, kMiB, options).is_ok());
}

TEST_F(KindNode, WhatItsTraitsExcludeIsUnsupported) {
  client::Allocation allocation;
  client::AllocationOptions options;
  options.kind = Kind::kTest;
  options.layout = Layout::kReplicated;
  options.extents = 2;
  const Status replicated = allocation.create(*session_, 4096, options);
  EXPECT_EQ(replicated.code(), Code::kUnsupported) << replicated.to_string();
  options = {};
  options.kind = Kind::kTest;
  options.flags = client::kCoherent;
  const Status coherent = allocation.create(*session_, 4096, options);
  EXPECT_EQ(coherent.code(), Code::kUnsupported);
  EXPECT_NE(coherent.message().find("kind test cannot be coherent"), std::string_view::npos)
      << coherent.to_string();
  options = {};
  options.kind = Kind::kGpu;
  const Status none = allocation.create(*session_, 4096, options);
  EXPECT_EQ(none.code(), Code::kUnsupported);
  EXPECT_NE(none.message().find("gpu"), std::string_view::npos) << none.to_string();
}

TEST(KindConfig, AKindBringsItsSectionOfTheConfiguration) {
  node::Config config;
  config.kinds = kTestOnly;
  ASSERT_TRUE(node::parse_config("[offer.test]\nbytes = \"64 KiB\"\n", "t.toml", config).is_ok());
  EXPECT_EQ(config.offered_bytes(Kind::kTest), 64 * kKiB);
  EXPECT_TRUE(config.check().is_ok());
  EXPECT_FALSE(node::parse_config("[offer.dram]\nbytes = 1\n", "t.toml", config).is_ok()) << "it offers none";
  config.offer(Kind::kTest, 2 * kGiB);
  EXPECT_NE(config.check().message().find("[offer.test] bytes"), std::string_view::npos);
}

}  // namespace
}  // namespace ocm
