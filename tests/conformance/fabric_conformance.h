// What every fabric is held to. A fabric joins by a FabricFixture and INSTANTIATE_TEST_SUITE_P of
// FabricConformance with a function that makes it; fabric_conformance.cpp has the tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "fabric/channel.h"
#include "test_home.h"

namespace ocm::fabric {

/// One home behind one fabric.
class FabricFixture {
 public:
  virtual ~FabricFixture() = default;
  /// Why it cannot run here; empty: it can.
  virtual std::string skip_reason() { return {}; }
  virtual Fabric fabric() const = 0;
  virtual Result<std::unique_ptr<Channel>> connect(const Credentials& who, os::Deadline deadline) = 0;
  /// Adds to the descriptor how the extent is reached.
  virtual void address(ExtentDescriptor&) {}
  /// Ends the serving side as if its node died.
  virtual void kill_home() = 0;
  /// Makes the home answer nothing more without ending it. False: cannot be done here.
  virtual bool freeze_home() { return false; }
  /// False where payloads cannot carry a checksum.
  virtual bool has_checksums() const { return true; }
  /// False where the host's own checks (socket credentials) stand for the session's key.
  virtual bool checks_keys() const { return true; }

  TestHome home;
};

/// A function that prints as a word: the names of the tests are the same in every run.
struct MakeFixture : std::function<std::unique_ptr<FabricFixture>()> {
  using function::function;
  friend void PrintTo(const MakeFixture& /*make*/, std::ostream* out) { *out << "fixture"; }
};

/// Hangs the one thread of a server in its directory: it answers nobody until this ends.
class Freeze {
 public:
  explicit Freeze(FabricFixture& fixture);
  ~Freeze();

 private:
  FabricFixture& fixture_;
  std::thread hanging_;
};

class FabricConformance : public testing::TestWithParam<MakeFixture> {
 protected:
  void SetUp() override;

  std::unique_ptr<Channel> connect();
  ExtentDescriptor extent(uint64_t bytes);
  uint32_t attach(Channel& channel, const ExtentDescriptor& extent, Access access = Access::kReadWrite);

  /// Moves `channel` until every op is done. Fails the test after 30 s, and waits on for those that are not:
  /// their memory must not go.
  static void drive(Channel& channel, const std::vector<Op*>& ops, uint64_t stall_ns = kStallNs);
  static Code run(Channel& channel, Op& op) {
    channel.post(op);
    drive(channel, {&op});
    return op.code;
  }
  static Code put(Channel& channel, uint32_t index, uint64_t offset, const void* source, uint64_t bytes);
  static Code get(Channel& channel, uint32_t index, uint64_t offset, void* target, uint64_t bytes);
  /// {code, old value}
  static std::pair<Code, uint64_t> atomic(Channel& channel, uint32_t index, OpCode opcode, uint64_t offset,
                                          uint64_t operand, uint64_t expected = 0);

  static constexpr uint64_t kStallNs = 5'000'000'000;
  static os::Deadline soon() { return os::Deadline::after_ns(kStallNs); }
  std::unique_ptr<FabricFixture> fixture_;
};

/// Bytes that differ from place to place and seed to seed.
std::vector<std::byte> pattern(uint64_t bytes, uint64_t seed);

}  // namespace ocm::fabric
