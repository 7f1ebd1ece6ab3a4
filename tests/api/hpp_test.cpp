// The C++ interface over an embedded node.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <oncilla/oncilla.hpp>

namespace {

static_assert(!std::is_copy_constructible_v<ocm::Session> &&
              std::is_nothrow_move_constructible_v<ocm::Session>);
static_assert(!std::is_copy_constructible_v<ocm::Allocation> && !std::is_copy_assignable_v<ocm::Op>);

class Hpp : public testing::Test {
 protected:
  ocm::Session session =
      ocm::Session::open({.flags = OCM_SESSION_EMBEDDED, .embedded_bytes = uint64_t{64} << 20}).value();
};

TEST_F(Hpp, BytesGoThereAndBack) {
  ocm::Allocation memory = session.allocate(1 << 20).value();
  std::array<uint32_t, 1000> in{}, out{};
  std::iota(in.begin(), in.end(), 1u);
  memory.put(16, std::as_bytes(std::span(in))).check();
  memory.get(16, std::as_writable_bytes(std::span(out))).check();
  EXPECT_EQ(in, out);
  EXPECT_EQ(memory.load<uint32_t>(16 + 4).value(), 2u);
  EXPECT_EQ(memory.size_bytes(), uint64_t{1} << 20);
}

TEST_F(Hpp, ErrorsCarryStatusAndSentence) {
  ocm::Allocation memory = session.allocate(100).value();
  const ocm::Done done = memory.store(uint64_t{100}, 1);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.status(), OCM_OUT_OF_RANGE);
  EXPECT_STREQ(done.error().name(), "OUT_OF_RANGE");
  EXPECT_NE(done.error().message().find("100"), std::string::npos);
  EXPECT_THROW(session.attach("nothing").value(), ocm::Exception);
}

TEST_F(Hpp, ErrorsNameWhatTheyAreAbout) {
  const auto missing = session.attach("nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().subject(), "nothing");
  EXPECT_EQ(missing.error().subject_kind(), OCM_SUBJECT_ALLOCATION);
  EXPECT_EQ(missing.error().node(), "");
  try {
    session.allocate(4096, {.nodes = {"nobody"}}).value();
    ADD_FAILURE();
  } catch (const ocm::Exception& error) {
    EXPECT_EQ(error.node(), "nobody");
    EXPECT_EQ(error.subject(), "");
  }
}

TEST_F(Hpp, MovingMovesTheOwner) {
  ocm::Allocation first = session.allocate(100).value();
  ocm::Allocation second = std::move(first);
  EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.store(0, 1).status(), OCM_INVALID_ARGUMENT);
  EXPECT_TRUE(second.store(0, 1).has_value());
  EXPECT_TRUE(second.free().has_value());
}

TEST_F(Hpp, OperationsAndCopies) {
  ocm::Allocation a = session.allocate(4096).value();
  ocm::Allocation b = session.allocate(4096).value();
  const std::array<std::byte, 4> in{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ocm::Op op = a.put_start(0, in).value();
  EXPECT_TRUE(op.wait().has_value());
  EXPECT_TRUE(op.test().value());
  ocm::copy(ocm::Place(b, 8), ocm::Place(a, 0), 4).check();
  ocm::copy_start(ocm::Place(b, 16), ocm::Place(in.data()), 4).value().wait().check();
  EXPECT_EQ(b.load<uint32_t>(8).value(), 0x04030201u);
  EXPECT_EQ(b.load<uint32_t>(16).value(), 0x04030201u);
  EXPECT_TRUE(session.fence().has_value());
}

TEST_F(Hpp, AWaitForAWordIsStartedAndCancelled) {
  ocm::Allocation a = session.allocate(4096).value();
  a.store<uint64_t>(8, 0).check();
  EXPECT_TRUE(a.ready(8, 8).value());
  uint64_t seen = 0;
  ocm::Op first = a.wait_at_least_start(8, 2, &seen).value();
  ocm::Op second = a.wait_at_least_start(8, 3, nullptr).value();
  EXPECT_FALSE(first.test().value());
  EXPECT_EQ(a.fetch_add(8, 2).value(), 0u);
  EXPECT_TRUE(first.wait().has_value());
  EXPECT_EQ(seen, 2u);
  EXPECT_TRUE(second.cancel().has_value());
  EXPECT_EQ(second.wait().status(), OCM_CANCELLED);
  ocm::Op dropped = a.wait_at_least_start(8, 3, nullptr).value();  // ends with its handle
}

TEST_F(Hpp, JoinedAndHeld) {
  ocm::AllocationOptions dedicated;
  dedicated.flags = OCM_ALLOCATION_DEDICATED;
  std::vector<ocm::Allocation> parts;
  for (uint64_t i = 0; i < 3; ++i) {
    parts.push_back(session.allocate(4096, dedicated).value());
    parts.back().store(0, i).check();
  }
  EXPECT_EQ(session.join({}).status(), OCM_INVALID_ARGUMENT);
  ocm::Allocation joined = session.join(parts).value();
  EXPECT_EQ(parts[0].get(), nullptr);
  EXPECT_EQ(joined.size_bytes(), 3 * 4096u);
  EXPECT_EQ(joined.load<uint64_t>(8192).value(), 2u);
  EXPECT_EQ(joined.extent(1).value().offset, 4096u);
  joined.publish("joined").check();
  ocm::Allocation held = session.attach("joined", OCM_ACCESS_READ | OCM_ACCESS_HOLD).value();
  session.remove("joined").check();
  EXPECT_EQ(held.load<uint64_t>(4096).value(), 1u);
}

TEST_F(Hpp, AtomicsNamesAndNodes) {
  ocm::Allocation memory = session.allocate(1 << 20).value();
  EXPECT_EQ(memory.fetch_add(0, 3).value(), 0u);
  EXPECT_EQ(memory.compare_swap(0, 3, 9).value(), 3u);
  memory.publish("counter").check();
  ocm::Allocation other = session.attach("counter", OCM_ACCESS_READ).value();
  EXPECT_EQ(other.load<uint64_t>(0).value(), 9u);
  EXPECT_EQ(session.names().value().size(), 1u);
  EXPECT_EQ(session.nodes().value().size(), 1u);
  EXPECT_EQ(session.next_event(std::chrono::milliseconds(1)).status(), OCM_DEADLINE);
  session.remove("counter").check();
  const ocm_event event = session.next_event(std::chrono::seconds(10)).value();
  EXPECT_EQ(event.kind, OCM_EVENT_REVOKED);
  EXPECT_STREQ(event.name, "counter");
  EXPECT_EQ(other.load<uint64_t>(0).status(), OCM_REVOKED);
}

}  // namespace
