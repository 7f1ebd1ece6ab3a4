// A home of the ucx fabric in this process, over UCX's own tcp or shared-memory transports.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "fabric/channel.h"
#include "fabric/ucx/channel.h"
#include "fabric/ucx/server.h"
#include "os/crypto.h"
#include "os/memory.h"

namespace ocm::fabric::ucx {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// "" if ucx can be tested here over `tls`, else why not.
inline std::string reason_to_skip(const Settings& settings) {
  if (kThreadSanitizer) return "libucx is not built for the thread sanitizer";
  if (Status status = available(); !status.is_ok()) return status.to_string();
  auto connector = make_connector(settings);
  return connector.is_ok() ? std::string() : connector.status().to_string();
}

inline constexpr uint64_t kSecondNs = 1'000'000'000;

struct MemfdExtent final : ServedExtent {
  os::Fd fd;
  os::Mapping mapping;
};

/// The extents of one home, each a memfd as in a daemon.
class Extents final : public ExtentDirectory {
 public:
  std::shared_ptr<ServedExtent> add(uint64_t offset, uint64_t bytes, uint32_t generation = 1) {
    auto extent = std::make_shared<MemfdExtent>();
    extent->id = {GlobalAddress(7, offset), generation};
    extent->bytes = bytes;
    extent->capability = os::random_id<Capability>();
    auto fd = os::make_memfd("extent", bytes, {});
    EXPECT_TRUE(fd.is_ok());
    extent->fd = std::move(*fd);
    auto mapping = os::Mapping::map(extent->fd.get(), bytes, true);
    EXPECT_TRUE(mapping.is_ok());
    extent->mapping = std::move(*mapping);
    extent->data = extent->mapping.data();
    std::lock_guard lock(mutex_);
    extents_[extent->id.address] = extent;
    return extent;
  }
  void remove(const ExtentId& id) {
    std::lock_guard lock(mutex_);
    auto found = extents_.find(id.address);
    found->second->revoked.store(true, std::memory_order_release);
    extents_.erase(found);
  }
  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override {
    std::lock_guard lock(mutex_);
    auto found = extents_.find(id.address);
    if (found == extents_.end()) return Code::kNotFound;
    if (found->second->id != id) return Code::kRevoked;
    return found->second;
  }
  std::array<std::byte, 32> session_key(const SessionId& session) override {
    return os::hmac_sha256(os::bytes_of("token"), {session.bytes});
  }

 private:
  std::mutex mutex_;
  std::map<GlobalAddress, std::shared_ptr<ServedExtent>> extents_;
};

inline ExtentDescriptor descriptor_of(const ServedExtent& extent) {
  ExtentDescriptor out;
  out.id = extent.id;
  out.bytes = extent.bytes;
  out.capability = extent.capability;
  return out;
}

/// Progresses until the op is done; kDeadline after 20 s.
inline Code finish(Channel& channel, Op& op, uint64_t stall_ns = 10 * kSecondNs) {
  const os::Deadline deadline = os::Deadline::after_ns(20 * kSecondNs);
  channel.flush();
  while (!op.done()) {
    channel.progress(os::now_ns(), stall_ns);
    if (deadline.passed()) return Code::kDeadline;
  }
  return op.code;
}

inline void set_up(Op& op, OpCode opcode, uint32_t index, uint64_t offset, void* local, uint64_t bytes,
                   uint64_t operand = 0) {
  op.opcode = opcode;
  op.index = index;
  op.offset = offset;
  op.local = static_cast<std::byte*>(local);
  op.bytes = bytes;
  op.operand = operand;
  op.state.store(OpState::kIdle);
  op.code = Code::kOk;
}

inline Code run(Channel& channel, OpCode opcode, uint32_t index, uint64_t offset, void* local, uint64_t bytes,
                uint64_t operand = 0, uint64_t* old = nullptr) {
  Op op;
  set_up(op, opcode, index, offset, local, bytes, operand);
  channel.post(op);
  const Code code = finish(channel, op);
  if (old != nullptr) *old = op.old_value;
  return code;
}

}  // namespace ocm::fabric::ucx
