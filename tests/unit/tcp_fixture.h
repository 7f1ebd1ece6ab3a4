// A tcp data server over plain buffers in this process, and channels to it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "fabric/served.h"
#include "fabric/tcp/connector.h"
#include "fabric/tcp/server.h"
#include "fabric/wait.h"
#include "os/crypto.h"

namespace ocm::fabric::tcp {

inline constexpr uint64_t kSecondNs = 1'000'000'000;
inline os::Deadline soon(uint64_t seconds = 20) { return os::Deadline::after_ns(seconds * kSecondNs); }

struct BufferExtent : ServedExtent {
  explicit BufferExtent(uint64_t size) : memory(size / 8 + 1) {
    bytes = size;
    data = reinterpret_cast<std::byte*>(memory.data());
    id = {GlobalAddress(1, 4096), 7};
    capability = os::random_id<Capability>();
  }
  std::vector<uint64_t> memory;
};

class TestDirectory : public ExtentDirectory {
 public:
  std::shared_ptr<BufferExtent> add(uint64_t size) {
    auto extent = std::make_shared<BufferExtent>(size);
    const std::lock_guard lock(mutex_);
    extent->id = {GlobalAddress(1, 4096 * (extents_.size() + 1)), 7};
    extents_[extent->id.address.bits()] = extent;
    return extent;
  }
  /// As a node does when the extent is freed: who holds it longer is a connection.
  std::weak_ptr<BufferExtent> revoke(std::shared_ptr<BufferExtent> extent) {
    const std::lock_guard lock(mutex_);
    extent->revoked.store(true);
    extents_.erase(extent->id.address.bits());
    return extent;
  }
  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override {
    const std::lock_guard lock(mutex_);
    const auto it = extents_.find(id.address.bits());
    if (it == extents_.end()) return Status(Code::kNotFound);
    if (it->second->id != id) return Status(Code::kRevoked);
    return std::shared_ptr<ServedExtent>(it->second);
  }
  std::array<std::byte, 32> session_key(const SessionId& session) override {
    return os::hmac_sha256(os::bytes_of("test token"), {os::bytes_of("oncilla session key"), session.bytes});
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<BufferExtent>> extents_;
};

inline ExtentDescriptor describe(const BufferExtent& extent) {
  ExtentDescriptor out;
  out.id = extent.id;
  out.bytes = extent.bytes;
  out.capability = extent.capability;
  return out;
}

class TcpTest : public ::testing::Test {
 protected:
  void start(TcpServerOptions options = {}) {
    auto started = TcpServer::start(options, directory, stats);
    ASSERT_TRUE(started.is_ok()) << started.status().to_string();
    server = std::move(started).value();
  }
  Credentials credentials(uint32_t uid = 0) {
    Credentials who;
    who.session = with_uid(os::random_id<SessionId>(), uid);
    who.session_key = directory.session_key(who.session);
    return who;
  }
  std::unique_ptr<Channel> connect(const ChannelOptions& options = {}, uint32_t uid = 0) {
    TcpConnector connector(options);
    auto made = connector.connect({Fabric::kTcp, server->address(), {}}, credentials(uid), soon());
    EXPECT_TRUE(made.is_ok()) << made.status().to_string();
    return made.is_ok() ? std::move(made).value() : nullptr;
  }
  static Code run(Channel& channel, Op& op, uint64_t stall_ns = 10 * kSecondNs) {
    channel.post(op);
    channel.flush();
    return wait(channel, op, stall_ns);
  }
  static Code wait(Channel& channel, Op& op, uint64_t stall_ns = 10 * kSecondNs) {
    Channel* one = &channel;
    EXPECT_TRUE(wait_until(
        {&one, 1}, [&] { return op.done(); }, soon(), stall_ns));
    return op.done() ? op.code : Code::kDeadline;
  }
  static void set(Op& op, OpCode opcode, uint32_t index, uint64_t offset, void* local, uint64_t bytes) {
    op.opcode = opcode;
    op.index = index;
    op.offset = offset;
    op.local = static_cast<std::byte*>(local);
    op.bytes = bytes;
  }
  static Code put(Channel& channel, uint32_t index, uint64_t offset, const void* source, uint64_t bytes,
                  bool checksum = false) {
    Op op;
    set(op, OpCode::kPut, index, offset, const_cast<void*>(source), bytes);
    op.checksum = checksum;
    return run(channel, op);
  }
  static Code get(Channel& channel, uint32_t index, uint64_t offset, void* target, uint64_t bytes,
                  bool checksum = false) {
    Op op;
    set(op, OpCode::kGet, index, offset, target, bytes);
    op.checksum = checksum;
    return run(channel, op);
  }

  TestDirectory directory;
  ServerStats stats;
  std::unique_ptr<TcpServer> server;
};

inline std::vector<std::byte> pattern(uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (auto& b : out) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    b = static_cast<std::byte>(seed >> 56);
  }
  return out;
}

}  // namespace ocm::fabric::tcp
