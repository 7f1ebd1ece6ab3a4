// client: what a program asks of a daemon that is older than it is refused, and not taken for granted.
#include <gtest/gtest.h>

#include "client/allocation.h"
#include "client/session.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

class OlderDaemon : public testing::Test {
 protected:
  void SetUp() override {
    wire::Allocation granted =
        test::ScriptedDaemon::replicated({daemon_.place(1, memory_)});  // it says nothing of COHERENT
    granted.set_layout(static_cast<uint32_t>(Layout::kSingle));
    daemon_.allocation = granted;
    SessionOptions options;
    options.dial = daemon_.dial_once();
    options.program = "test";
    session_ = Session::open(std::move(options)).value();
  }
  void TearDown() override { session_.reset(); }

  test::ScriptedDaemon daemon_;
  const test::ScriptedDaemon::Memory memory_ = daemon_.make_memory();
  std::unique_ptr<Session> session_;
};

TEST_F(OlderDaemon, PlainMemoryInPlaceOfCoherentIsGivenBack) {
  Allocation allocation;
  AllocationOptions options;
  options.flags = kCoherent;
  const Status refused = allocation.create(*session_, test::ScriptedDaemon::kBytes, options);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("leave COHERENT out"), std::string_view::npos) << refused.message();
  EXPECT_EQ(daemon_.freed, 1);
  EXPECT_TRUE(allocation.is_valid());
}

TEST_F(OlderDaemon, CoherentIsWhatTheDaemonSays) {
  daemon_.allocation.set_coherent(true);
  Allocation allocation;
  AllocationOptions options;
  options.flags = kCoherent;
  ASSERT_TRUE(allocation.create(*session_, test::ScriptedDaemon::kBytes, options).is_ok());
  EXPECT_TRUE(allocation.coherent());
  EXPECT_TRUE(allocation.free().is_ok());
}

}  // namespace
}  // namespace ocm::client
