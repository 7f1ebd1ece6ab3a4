// One one-sided operation on one attached extent, from post to completion.
//
//   kIdle --post--> kPosted --(source may be reused)--> kLocal --(reply)--> kDone
//                      \------------- error, or a get's reply ----------------^
//
// Invariants
//   O1 The owner keeps the Op and its buffers alive and unmoved from post() until done().
//   O2 `code`, `old_value` are written before the release store of kDone; read them after done().
//   O3 Ops posted by one thread to one extent of one channel complete in post order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace ocm::fabric {

enum class OpCode : uint8_t {
  kPut,
  kGet,
  kFetchAdd,
  kSwap,
  kCompareSwap,
  kAnd,
  kOr,
  kXor,
  kFence,   // complete when every earlier op of the channel was applied
  kNotify,  // adds `operand` to the word at `offset` after all earlier puts, and wakes its waiters
};
constexpr bool is_atomic(OpCode code) { return code >= OpCode::kFetchAdd && code <= OpCode::kXor; }
constexpr bool writes(OpCode code) { return code != OpCode::kGet && code != OpCode::kFence; }
static_assert(is_atomic(OpCode::kFetchAdd) && is_atomic(OpCode::kCompareSwap) && is_atomic(OpCode::kXor));
static_assert(!is_atomic(OpCode::kPut) && !is_atomic(OpCode::kGet) && !is_atomic(OpCode::kNotify));

enum class OpState : uint8_t { kIdle, kPosted, kLocal, kDone };

struct Op {
  // Set by the owner before post().
  OpCode opcode = OpCode::kGet;
  bool checksum = false;       // CRC32C over the payload
  uint32_t index = 0;          // from Channel::attach
  uint64_t offset = 0;         // in the extent
  std::byte* local = nullptr;  // put: read only; get: written
  uint64_t bytes = 0;          // any length; the fabric splits what is too long for one frame
  uint64_t operand = 0;
  uint64_t expected = 0;  // compare-swap
  /// Of a put: a kNotify of the same extent, posted right behind it (not by itself), and applied only if the
  /// put was applied whole; else it gets the put's code.
  Op* notify = nullptr;

  // Results.
  std::atomic<OpState> state{OpState::kIdle};
  Code code = Code::kOk;
  uint64_t old_value = 0;

  // The fabric's own while posted.
  Op* next = nullptr;
  uint64_t bytes_sent = 0;
  uint64_t bytes_done = 0;
  bool chained = false;  // it is the `notify` of the op before it

  bool done() const { return state.load(std::memory_order_acquire) == OpState::kDone; }
  bool locally_done() const { return state.load(std::memory_order_acquire) >= OpState::kLocal; }
  void finish(Code result) {
    code = result;
    state.store(OpState::kDone, std::memory_order_release);
  }
};

/// What every fabric asks of an op that is posted: it is not under way (O1), and only a put has a notify, of the same extent.
inline bool may_be_posted(const Op& op) {
  const OpState state = op.state.load(std::memory_order_relaxed);
  if (state != OpState::kIdle && state != OpState::kDone) return false;
  return op.notify == nullptr ||
         (op.opcode == OpCode::kPut && op.notify != &op && op.notify->opcode == OpCode::kNotify &&
          op.notify->index == op.index && op.notify->notify == nullptr);
}

}  // namespace ocm::fabric
