// 64-bit atomics at the home, notified puts and waiting for a word.
#pragma once

#include "client/allocation.h"
#include "client/operation.h"
#include "fabric/op.h"

namespace ocm::client {

/// Applies `opcode` (an atomic) at `offset`; the value before. Blocks until applied.
/// Errors: kInvalidArgument (alignment), kUnsupported (replicated), kOutOfRange, kPermission, kPeerLost.
Result<uint64_t> atomic(Allocation& allocation, fabric::OpCode opcode, uint64_t offset, uint64_t operand,
                        uint64_t expected);

/// The same, only started: `old`, if it is not null, gets the value before. Not started on an error.
Status start_atomic(Operation& operation, Allocation& allocation, fabric::OpCode opcode, uint64_t offset,
                    uint64_t operand, uint64_t expected, uint64_t* old);

/// The put, and then `value` is added to the word at `notify_offset`, in the same extent.
Status put_notify(Allocation& allocation, uint64_t offset, const std::byte* source, uint64_t bytes,
                  uint64_t notify_offset, uint64_t value);

Status start_put_notify(Operation& operation, Allocation& allocation, uint64_t offset,
                        const std::byte* source, uint64_t bytes, uint64_t notify_offset, uint64_t value);

/// Until the word at `offset` is at least `value`; what it was then. Errors: kDeadline.
Result<uint64_t> wait_at_least(Allocation& allocation, uint64_t offset, uint64_t value,
                               os::Deadline deadline);

/// Whether the word can be waited for; what this thread started before and must be seen is done. Errors: kInvalidArgument
/// (alignment), kOutOfRange, kUnsupported, kDeadline (interrupted).
Status check_wait(Allocation& allocation, uint64_t offset);
/// The word's extent and its offset in it. Errors: kUnsupported (a sequence whose parts are not multiples of 8).
Result<Piece> word_piece(const Allocation& allocation, uint64_t offset);

}  // namespace ocm::client
