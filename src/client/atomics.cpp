#include "client/atomics.h"

#include <algorithm>

#include "client/big_copy.h"
#include "client/session.h"
#include "client/transfer.h"
#include "fabric/served.h"
#include "fabric/wait.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

constexpr uint64_t kAtomicSpinNs = 50'000;
constexpr uint64_t kWordBytes = sizeof(uint64_t);

Status check_word(const Allocation& allocation, uint64_t offset, bool write) {
  if (offset % 8 != 0) {
    return Status(Code::kInvalidArgument,
                  "the word's offset is " + std::to_string(offset) + "; it must be a multiple of 8")
        .with_subject(Subject::kOption, "offset");
  }
  OCM_TRY(check_end(End{const_cast<Allocation*>(&allocation), offset, nullptr}, 8, write));
  if (write && allocation.replicated()) {
    return Status(Code::kUnsupported,
                  "atomics and notifications need one home: the allocation is replicated");
  }
  return {};
}

}  // namespace

Result<Piece> word_piece(const Allocation& allocation, uint64_t offset) {
  Piece piece = allocation.piece_at(offset, 8);  // chunks are multiples of 64: never cut
  if (piece.bytes < 8 || piece.offset % 8 != 0)
    return Status(Code::kUnsupported, "the word is not aligned in its part of the sequence");
  piece.offset += allocation.base();
  return piece;
}

Status start_atomic(Operation& operation, Allocation& allocation, fabric::OpCode opcode, uint64_t offset,
                    uint64_t operand, uint64_t expected, uint64_t* old) {
  OCM_TRY(check_word(allocation, offset, true));
  OCM_TRY(word_piece(allocation, offset).status());
  Session& session = *allocation.session();
  OCM_TRY(keep_order(session, &allocation, true));
  session.page().add(session.page().atomic_ops, 1);
  operation.start_word(session, End{&allocation, offset, nullptr}, nullptr, kWordBytes,
                       {opcode, operand, expected, old, 0});
  return {};
}

Result<uint64_t> atomic(Allocation& allocation, fabric::OpCode opcode, uint64_t offset, uint64_t operand,
                        uint64_t expected) {
  uint64_t before = 0;
  Operation operation;
  OCM_TRY(start_atomic(operation, allocation, opcode, offset, operand, expected, &before));
  OCM_TRY(operation.run());
  return before;
}

Status start_put_notify(Operation& operation, Allocation& allocation, uint64_t offset,
                        const std::byte* source, uint64_t bytes, uint64_t notify_offset, uint64_t value) {
  OCM_TRY(check_word(allocation, notify_offset, true));
  OCM_TRY(check_end(End{&allocation, offset, nullptr}, bytes, true));
  OCM_TRY(check_end(End{nullptr, 0, const_cast<std::byte*>(source)}, bytes, false));
  OCM_TRY_ASSIGN(const Piece word, word_piece(allocation, notify_offset));
  const Piece range = bytes > 0 ? allocation.piece_at(offset, bytes) : Piece{word.extent, 0, 0};
  if (range.extent != word.extent || range.bytes != bytes) {
    return Status(Code::kUnsupported, "the bytes and the notified word are not in one extent");
  }
  Session& session = *allocation.session();
  OCM_TRY(keep_order(session, &allocation, true));
  count_put(session, bytes);
  if (bytes == 0) {
    operation.start_word(session, End{&allocation, notify_offset, nullptr}, nullptr, kWordBytes,
                         {fabric::OpCode::kNotify, value, 0, nullptr, 0});
  } else {
    operation.start_word(session, End{&allocation, offset, nullptr}, source, bytes,
                         {fabric::OpCode::kPut, value, 0, nullptr, word.offset});
  }
  return {};
}

Status put_notify(Allocation& allocation, uint64_t offset, const std::byte* source, uint64_t bytes,
                  uint64_t notify_offset, uint64_t value) {
  Operation operation;
  OCM_TRY(start_put_notify(operation, allocation, offset, source, bytes, notify_offset, value));
  return operation.run();
}

namespace {

/// Of an extent of this host: the word once it is at least `value`. Errors: kDeadline, kRevoked, kPeerLost.
Result<uint64_t> wait_here(Extent& extent, uint64_t offset, uint64_t value, os::Deadline deadline) {
  OCM_TRY_ASSIGN(const std::byte* data, extent.open());
  const std::byte* const word = data + offset;
  fabric::Waiter waiter(kAtomicSpinNs);
  os::Interrupts interrupts;
  uint64_t pause_us = 50;
  for (;;) {
    uint64_t seen = 0;
    if (const Code code = extent.local().load_word(word, seen); code != Code::kOk) return code;
    if (seen >= value) return seen;
    if (deadline.passed()) return Status(Code::kDeadline, "the word did not reach the value in time");
    if (waiter.spins(os::now_ns())) continue;
    pause_us = std::min<uint64_t>(pause_us * 2, 1000);
    // Plain puts and atomics change the word without a wake-up: never sleep longer than the pause.
    const uint64_t left = deadline.left_ns();
    fabric::wait_for_notify(word, seen, os::Deadline::after_ns(std::min(left, pause_us * 1000)));
    if (interrupts.came()) return os::interrupted();
  }
}

/// The same by gets, which follow the part.
Result<uint64_t> wait_by_gets(Allocation& allocation, uint64_t offset, uint64_t value,
                              os::Deadline deadline) {
  fabric::Waiter waiter(kAtomicSpinNs);
  os::Interrupts interrupts;
  uint64_t pause_us = 50;
  for (;;) {
    uint64_t seen = 0;
    const Run run{End{nullptr, 0, reinterpret_cast<std::byte*>(&seen)}, End{&allocation, offset, nullptr}, 8};
    OCM_TRY(transfer(*allocation.session(), Runs::one(run), 8));
    if (seen >= value) return seen;
    if (deadline.passed()) return Status(Code::kDeadline, "the word did not reach the value in time");
    if (waiter.spins(os::now_ns())) continue;
    pause_us = std::min<uint64_t>(pause_us * 2, 1000);
    const timespec pause{0, static_cast<long>(std::min(deadline.left_ns(), pause_us * 1000))};
    ::nanosleep(&pause, nullptr);
    if (interrupts.came()) return os::interrupted();
  }
}

}  // namespace

Status check_wait(Allocation& allocation, uint64_t offset) {
  OCM_TRY(check_word(allocation, offset, false));
  OCM_TRY(word_piece(allocation, offset).status());
  return keep_order(*allocation.session(), &allocation, false);
}

Result<uint64_t> wait_at_least(Allocation& allocation, uint64_t offset, uint64_t value,
                               os::Deadline deadline) {
  OCM_TRY(check_wait(allocation, offset));
  OCM_TRY_ASSIGN(const Piece piece, word_piece(allocation, offset));
  for (uint32_t i = 0;; ++i) {
    Extent& extent = allocation.extent(piece.extent);
    if (allocation.replicated() || !extent.on_this_host())
      return wait_by_gets(allocation, offset, value, deadline);
    const Result<uint64_t> seen = wait_here(extent, piece.offset, value, deadline);
    if (seen.status().code() != Code::kRevoked) return seen;
    // Its part may go on elsewhere.
    if (i == Allocation::kRebindsMax || !allocation.resolves(false, os::now_ns())) return seen;
    const Code known = allocation.follow(extent.descriptor().id, false);
    if (known == Code::kOk) continue;
    allocation.was_not_resolved(extent.descriptor().id, known, false, os::now_ns());
    return after_resolve(seen.status(), known);
  }
}

}  // namespace ocm::client
