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
  if (offset % 8 != 0) {
    return Status(Code::kInvalidArgument, "the word's offset is not a multiple of 8")
        .with_subject(Subject::kOption, "offset");
  }
  OCM_TRY(check_end(End{const_cast<Allocation*>(&allocation), offset, nullptr}, 8, write));
  if (write && allocation.replicated()) {
    return Status(Code::kUnsupported,
                  "atomics and notifications need one home: the allocation is replicated");
  }
  return {};
}

/// Posts `op`, and its notify, to the extent's channel and waits for both. kPeerLost with `posted` false: it was not sent.
Status run_op(Session& session, Extent& extent, fabric::Op& op, bool& posted) {
  const auto refused = [&extent](Code code, std::string_view why) {
    return Status::of_node(code, extent.descriptor().node, ": " + std::string(why));
  };
  const uint32_t run = extent.descriptor().id.address.partition();
  const Result<Attachment> attached = extent.attach(os::Deadline::after_ns(session.patience_ns(run)));
  if (!attached.is_ok()) return refused(attached.status().code(), attached.status().message());
  const Attachment& attachment = attached.value();
  fabric::Channel& channel = *attachment.channel;
  op.index = attachment.index;
  if (op.notify != nullptr) op.notify->index = attachment.index;
  channel.post(op);
  channel.flush();
  posted = true;
  fabric::Channel* const one = &channel;
  // Ends by itself: an op without progress for the session's patience fails. The node may be called dead meanwhile.
  constexpr uint64_t kLookNs = 50'000'000;
  const auto done = [&] { return op.done() && (op.notify == nullptr || op.notify->done()); };
  while (!fabric::wait_until({&one, 1}, done, os::Deadline::after_ns(kLookNs), session.patience_ns(run))) {
  }
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

/// Calls `once(extent, sent)` with extent `index` of the allocation, and again with the one that its part goes on in, as
/// long as nothing was done: it answered kRevoked, or was silent before anything was sent.
template <class Once>
Result<uint64_t> at_extent(Allocation& allocation, uint32_t index, Once once) {
  for (uint32_t i = 0;; ++i) {
    Extent& extent = allocation.extent(index);
    bool sent = false;
    const Result<uint64_t> done = once(extent, sent);
    const Code code = done.status().code();
    const bool silent = code == Code::kPeerLost && !sent && !extent.on_this_host();
    if (code != Code::kRevoked && !silent) return done;
    if (i == Allocation::kRebindsMax || !allocation.resolves(silent, os::now_ns())) return done;
    const Code known = allocation.follow(extent.descriptor().id, silent);
    if (known == Code::kOk) continue;
    allocation.was_not_resolved(known, silent, os::now_ns());
    return after_resolve(done.status(), known);
  }
}

Result<uint64_t> atomic_at(Session& session, Extent& extent, fabric::OpCode opcode, uint64_t offset,
                           uint64_t operand, uint64_t expected, bool& sent) {
  if (extent.on_this_host()) {
    OCM_TRY_ASSIGN(std::byte * data, extent.open());
    uint64_t before = 0;
    const Code code = extent.local().atomic(opcode, data + offset, operand, expected, before);
    if (code != Code::kOk) return code;
    return before;
  }
  fabric::Op op;
  op.opcode = opcode;
  op.offset = offset;
  op.bytes = 8;
  op.operand = operand;
  op.expected = expected;
  OCM_TRY(run_op(session, extent, op, sent));
  return op.old_value;
}

struct Notified {
  const Allocation& allocation;
  uint64_t offset;  // in the extent, as is the word's
  const std::byte* source;
  uint64_t bytes;
  uint64_t word_offset, value;
};

Status put_notify_at(Session& session, Extent& extent, const Notified& what, bool& sent) {
  if (extent.on_this_host()) {
    OCM_TRY_ASSIGN(std::byte * data, extent.open());
    if (what.bytes > 0) {
      const Code code = extent.local().put(data + what.offset, what.source, what.bytes, big_copy);
      if (code != Code::kOk) return code;
    }
    return extent.local().notify(data + what.word_offset, what.value);
  }
  fabric::Op notify;
  notify.opcode = fabric::OpCode::kNotify;
  notify.offset = what.word_offset;
  notify.bytes = 8;
  notify.operand = what.value;
  if (what.bytes == 0) return run_op(session, extent, notify, sent);
  fabric::Op put;
  put.opcode = fabric::OpCode::kPut;
  put.checksum = what.allocation.checksum();
  put.offset = what.offset;
  put.local = const_cast<std::byte*>(what.source);
  put.bytes = what.bytes;
  put.notify = &notify;
  return run_op(session, extent, put, sent);
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
  return at_extent(allocation, piece.extent, [&](Extent& extent, bool& sent) {
    return atomic_at(session, extent, opcode, piece.offset, operand, expected, sent);
  });
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
  const Piece range = bytes > 0 ? allocation.piece_at(offset, bytes) : Piece{word.extent, 0, 0};
  if (range.extent != word.extent || range.bytes != bytes) {
    return Status(Code::kUnsupported, "the bytes and the notified word are not in one extent");
  }
  const Notified what{allocation, range.offset + allocation.base(), source, bytes, word.offset, value};
  return at_extent(allocation, word.extent,
                   [&](Extent& extent, bool& sent) -> Result<uint64_t> {
                     OCM_TRY(put_notify_at(session, extent, what, sent));
                     return uint64_t{0};
                   })
      .status();
}

namespace {

/// Of an extent of this host: the word once it is at least `value`. Errors: kDeadline, kRevoked, kPeerLost.
Result<uint64_t> wait_here(Extent& extent, uint64_t offset, uint64_t value, os::Deadline deadline) {
  OCM_TRY_ASSIGN(const std::byte* data, extent.open());
  const std::byte* const word = data + offset;
  const uint64_t spin_until = os::now_ns() + kAtomicSpinNs;
  uint64_t pause_us = 50;
  for (;;) {
    uint64_t seen = 0;
    if (const Code code = extent.local().load_word(word, seen); code != Code::kOk) return code;
    if (seen >= value) return seen;
    if (deadline.passed()) return Status(Code::kDeadline, "the word did not reach the value in time");
    if (os::now_ns() < spin_until) continue;
    pause_us = std::min<uint64_t>(pause_us * 2, 1000);
    // Plain puts and atomics change the word without a wake-up: never sleep longer than the pause.
    const uint64_t left = deadline.left_ns();
    fabric::wait_for_notify(word, seen, os::Deadline::after_ns(std::min(left, pause_us * 1000)));
  }
}

/// The same by gets, which follow the part.
Result<uint64_t> wait_by_gets(Allocation& allocation, uint64_t offset, uint64_t value,
                              os::Deadline deadline) {
  const uint64_t spin_until = os::now_ns() + kAtomicSpinNs;
  uint64_t pause_us = 50;
  for (;;) {
    uint64_t seen = 0;
    const Run run{End{nullptr, 0, reinterpret_cast<std::byte*>(&seen)}, End{&allocation, offset, nullptr}, 8};
    OCM_TRY(transfer(*allocation.session(), Runs::one(run), 8));
    if (seen >= value) return seen;
    if (deadline.passed()) return Status(Code::kDeadline, "the word did not reach the value in time");
    if (os::now_ns() < spin_until) continue;
    pause_us = std::min<uint64_t>(pause_us * 2, 1000);
    const timespec pause{0, static_cast<long>(std::min(deadline.left_ns(), pause_us * 1000))};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

Result<uint64_t> wait_at_least(Allocation& allocation, uint64_t offset, uint64_t value,
                               os::Deadline deadline) {
  OCM_TRY(check_word(allocation, offset, false));
  keep_order(*allocation.session(), &allocation);
  OCM_TRY_ASSIGN(const Piece piece, word_piece(allocation, offset));
  if (allocation.replicated()) return wait_by_gets(allocation, offset, value, deadline);
  return at_extent(allocation, piece.extent, [&](Extent& extent, bool& sent) {
    sent = true;  // by gets: they have followed
    return extent.on_this_host() ? wait_here(extent, piece.offset, value, deadline)
                                 : wait_by_gets(allocation, offset, value, deadline);
  });
}

}  // namespace ocm::client
