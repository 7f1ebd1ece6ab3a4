// What a home serves: extents, and the one place where access, bounds and generation are checked.
//
// Invariants
//   S1 Nothing reads or writes `data` for a peer without check_access() on that very operation.
//   S2 An op that passed the check holds a shared_ptr to the extent until its bytes are moved; revoking
//      waits for nobody, and the memory is nobody else's until the last holder lets go.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/staged.h"
#include "fabric/op.h"
#include "os/clock.h"

namespace ocm::fabric {

struct ServedExtent {
  ExtentId id;
  uint64_t bytes = 0;
  Capability capability;  // read-write; os::read_capability() of it opens for reading
  // One of the two: bytes in memory, or on a device.
  std::byte* data = nullptr;
  Staged* staged = nullptr;
  std::atomic<bool> revoked{false};
  /// For replicas: serve only while now_ns < *lease_until_ns, so that a node that lost the cluster never
  /// answers with bytes that the others have overwritten. Null: no lease needed.
  const std::atomic<uint64_t>* lease_until_ns = nullptr;

  virtual ~ServedExtent() = default;
};

/// kOk if `opcode` on [offset, offset + bytes) of an extent of `extent_bytes` is allowed with `access`.
/// Overflow-safe. Atomics and notify: 8 bytes, aligned.
/// Errors: kPermission, kOutOfRange, kInvalidArgument (alignment).
inline Code check_bounds(uint64_t extent_bytes, Access access, OpCode opcode, uint64_t offset,
                         uint64_t bytes) {
  if (writes(opcode) && access != Access::kReadWrite) return Code::kPermission;
  if (opcode == OpCode::kFence) return Code::kOk;
  if (is_atomic(opcode) || opcode == OpCode::kNotify) {
    bytes = 8;
    if (offset % 8 != 0) return Code::kInvalidArgument;
  }
  if (bytes > extent_bytes || offset > extent_bytes - bytes) return Code::kOutOfRange;
  return Code::kOk;
}

/// The same for an extent at the time that `now` tells, if the lease is looked at. Errors: those, kRevoked,
/// kPeerLost (lease).
template <class Now>
inline Code check_access_at(const ServedExtent& extent, Access access, OpCode opcode, uint64_t offset,
                            uint64_t bytes, Now now) {
  if (extent.revoked.load(std::memory_order_acquire)) return Code::kRevoked;
  const Code bounds = check_bounds(extent.bytes, access, opcode, offset, bytes);
  if (bounds != Code::kOk || opcode == OpCode::kFence) return bounds;
  if (extent.lease_until_ns != nullptr && now() >= extent.lease_until_ns->load(std::memory_order_acquire)) {
    return Code::kPeerLost;
  }
  return Code::kOk;
}
/// Now.
inline Code check_access(const ServedExtent& extent, Access access, OpCode opcode, uint64_t offset,
                         uint64_t bytes) {
  return check_access_at(extent, access, opcode, offset, bytes, os::now_ns);
}

/// Applies a 64-bit atomic at `word` (8-byte aligned), sequentially consistent; returns the old value.
uint64_t apply_atomic(OpCode opcode, std::byte* word, uint64_t operand, uint64_t expected);
/// Adds `value` to the word with release order and wakes its waiters (futex on the word's low half).
void apply_notify(std::byte* word, uint64_t value);
/// Sleeps until the word changes from `seen`, is notified, or `deadline` passes; spurious wakes happen.
void wait_for_notify(const std::byte* word, uint64_t seen, os::Deadline deadline);

/// What a server asks its node.
class ExtentDirectory {
 public:
  virtual ~ExtentDirectory() = default;
  /// The extent, mapped. It lives until it is revoked: a server keeps it weakly between ops. Errors:
  /// kNotFound, kRevoked (another generation), kNoMemory.
  virtual Result<std::shared_ptr<ServedExtent>> open(ExtentId id) = 0;
  /// The key that `session` must prove; any id gives a key, only the right program knows it.
  virtual std::array<std::byte, 32> session_key(const SessionId& session) = 0;
};

/// One server's counters; relaxed, read by metrics.
struct ServerStats {
  std::atomic<uint64_t> put_bytes{0}, get_bytes{0}, put_ops{0}, get_ops{0}, atomic_ops{0};
  std::atomic<uint64_t> errors{0}, connections{0}, connections_total{0}, refused{0};
  static constexpr size_t kCodes = 100;  // codes are 0 to -99
  std::array<std::atomic<uint64_t>, kCodes> errors_by_code{};
  /// Of one request in kTimedOneIn: from its frame, decoded, to its reply, queued. A put's payload arrives in
  /// between. The bucket at `i` counts those up to 256 ns << i, the last one all others.
  static constexpr uint32_t kTimedOneIn = 64;
  static constexpr size_t kLatencyBuckets = 24;
  static constexpr uint64_t kLatencyFirstNs = 256;
  std::array<std::atomic<uint64_t>, kLatencyBuckets + 1> latency{};
  std::atomic<uint64_t> latency_sum_ns{0};

  void failed(Code code) {
    OCM_DASSERT(code != Code::kOk);
    errors.fetch_add(1, std::memory_order_relaxed);
    const auto index = static_cast<size_t>(-static_cast<int>(code));
    if (index < kCodes) errors_by_code[index].fetch_add(1, std::memory_order_relaxed);
  }
  void answered(uint64_t ns) {
    const auto bucket =
        static_cast<size_t>(std::bit_width((std::max<uint64_t>(ns, 1) - 1) / kLatencyFirstNs));
    latency[std::min(bucket, kLatencyBuckets)].fetch_add(1, std::memory_order_relaxed);
    latency_sum_ns.fetch_add(ns, std::memory_order_relaxed);
  }
};

}  // namespace ocm::fabric
