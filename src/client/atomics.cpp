#include "client/atomics.h"

#include <algorithm>

#include "client/big_copy.h"
#include "client/session.h"
#include "client/transfer.h"
#include "fabric/served.h"
#include "fabric/wait.h"

namespace ocm::client {
namespace {

constexpr uint64_t kAtomicSpinNs = 50'000;

Status check_word(const Allocation& allocation, uint64_t offset, bool write) {
  if (offset % 8 != 0) return Status(Code::kInvalidArgument, "the word's offset is not a multiple of 8");
  OCM_TRY(check_end(End{const_cast<Allocation*>(&allocation), offset, nullptr}, 8, write));
  if (write && allocation.replicated()) {
    return Status(Code::kUnsupported,
                  "atomics and notifications need one home: the allocation is replicated");
  }
  return {};
}

/// Posts `op`, and its notify, to the extent's channel and waits for both.
Status run_op(Session& session, Extent& extent, fabric::Op& op) {
  const auto refused = [&extent](Code code, std::string_view why) {
    return Status(code, "node " + extent.descriptor().node + ": " + std::string(why));
  };
  const Result<Attachment> attached = extent.attach(os::Deadline::after_ns(session.deadline_ns()));
  if (!attached.is_ok()) return refused(attached.status().code(), attached.status().message());
  const Attachment& attachment = attached.value();
  fabric::Channel& channel = *attachment.channel;
  op.index = attachment.index;
  if (op.notify != nullptr) op.notify->index = attachment.index;
  channel.post(op);
  channel.flush();
  fabric::Channel* const one = &channel;
  // Ends by itself: an op without progress for the session's deadline fails.
  fabric::wait_until(
      {&one, 1}, [&] { return op.done() && (op.notify == nullptr || op.notify->done()); },
      os::Deadline::never(), session.deadline_ns());
  const Code code = op.code == Code::kOk && op.notify != nullptr ? op.notify->code : op.code;
  if (code == Code::kOk) return {};
  return refused(code == Code::kNotFound ? Code::kRevoked : code, code_text(code));
}

/// The word's extent and its offset in it. Errors: kUnsupported (a sequence whose parts are not multiples of
/// 8).
Result<Piece> word_piece(const Allocation& allocation, uint64_t offset) {
  Piece piece = allocation.piece_at(offset, 8);  // chunks are multiples of 64: never cut
  if (piece.bytes < 8 || piece.offset % 8 != 0)
    return Status(Code::kUnsupported, "the word is not aligned in its part of the sequence");
  piece.offset += allocation.base();
  return piece;
}

}  // namespace

Result<uint64_t> atomic(Allocation& allocation, fabric::OpCode opcode, uint64_t offset, uint64_t operand,
                        uint64_t expected) {
  OCM_TRY(check_word(allocation, offset, true));
  Session& session = *allocation.session();
  keep_order(session, &allocation);
  fabric::shm::SessionPage& page = session.page();
  page.add(page.atomic_ops, 1);
  OCM_TRY_ASSIGN(const Piece piece, word_piece(allocation, offset));
  Extent& extent = allocation.extent(piece.extent);
  if (extent.on_this_host()) {
    OCM_TRY_ASSIGN(std::byte * data, extent.open());
    uint64_t before = 0;
    const Code code = extent.local().atomic(opcode, data + piece.offset, operand, expected, before);
    if (code != Code::kOk) return code;
    return before;
  }
  fabric::Op op;
  op.opcode = opcode;
  op.offset = piece.offset;
  op.bytes = 8;
  op.operand = operand;
  op.expected = expected;
  OCM_TRY(run_op(session, extent, op));
  return op.old_value;
}

Status put_notify(Allocation& allocation, uint64_t offset, const std::byte* source, uint64_t bytes,
                  uint64_t notify_offset, uint64_t value) {
  OCM_TRY(check_word(allocation, notify_offset, true));
  OCM_TRY(check_end(End{&allocation, offset, nullptr}, bytes, true));
  OCM_TRY(check_end(End{nullptr, 0, const_cast<std::byte*>(source)}, bytes, false));
  Session& session = *allocation.session();
  keep_order(session, &allocation);
  count_put(session, bytes);
  OCM_TRY_ASSIGN(const Piece word, word_piece(allocation, notify_offset));
  Piece range = bytes > 0 ? allocation.piece_at(offset, bytes) : Piece{word.extent, 0, 0};
  if (range.extent != word.extent || range.bytes != bytes) {
    return Status(Code::kUnsupported, "the bytes and the notified word are not in one extent");
  }
  range.offset += allocation.base();
  Extent& extent = allocation.extent(word.extent);
  if (extent.on_this_host()) {
    OCM_TRY_ASSIGN(std::byte * data, extent.open());
    if (bytes > 0) {
      const Code code = extent.local().put(data + range.offset, source, bytes, big_copy);
      if (code != Code::kOk) return code;
    }
    return extent.local().notify(data + word.offset, value);
  }
  fabric::Op notify;
  notify.opcode = fabric::OpCode::kNotify;
  notify.offset = word.offset;
  notify.bytes = 8;
  notify.operand = value;
  if (bytes == 0) return run_op(session, extent, notify);
  fabric::Op put;
  put.opcode = fabric::OpCode::kPut;
  put.checksum = allocation.checksum();
  put.offset = range.offset;
  put.local = const_cast<std::byte*>(source);
  put.bytes = bytes;
  put.notify = &notify;
  return run_op(session, extent, put);
}

Result<uint64_t> wait_at_least(Allocation& allocation, uint64_t offset, uint64_t value,
                               os::Deadline deadline) {
  OCM_TRY(check_word(allocation, offset, false));
  Session& session = *allocation.session();
  keep_order(session, &allocation);
  OCM_TRY_ASSIGN(const Piece piece, word_piece(allocation, offset));
  Extent& extent = allocation.extent(piece.extent);
  const bool here = extent.on_this_host() && !allocation.replicated();
  const std::byte* word = nullptr;
  if (here) {
    OCM_TRY_ASSIGN(const std::byte* data, extent.open());
    word = data + piece.offset;
  }
  const uint64_t spin_until = os::now_ns() + kAtomicSpinNs;
  uint64_t pause_us = 50;
  for (;;) {
    uint64_t seen = 0;
    if (here) {
      if (const Code code = extent.local().load_word(word, seen); code != Code::kOk) return code;
    } else {
      const Run run{End{nullptr, 0, reinterpret_cast<std::byte*>(&seen)}, End{&allocation, offset, nullptr},
                    8};
      OCM_TRY(transfer(session, Runs::one(run), 8));
    }
    if (seen >= value) return seen;
    if (deadline.passed()) return Status(Code::kDeadline, "the word did not reach the value in time");
    if (os::now_ns() < spin_until) continue;
    pause_us = std::min<uint64_t>(pause_us * 2, 1000);
    if (here) {
      // Plain puts and atomics change the word without a wake-up: never sleep longer than the pause.
      const uint64_t left = deadline.left_ns();
      fabric::wait_for_notify(word, seen, os::Deadline::after_ns(std::min(left, pause_us * 1000)));
    } else {
      const timespec pause{0, static_cast<long>(std::min(deadline.left_ns(), pause_us * 1000))};
      ::nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace ocm::client
