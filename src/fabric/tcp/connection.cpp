#include "fabric/tcp/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/crc32c.h"
#include "base/fault.h"
#include "os/address.h"

namespace ocm::fabric::tcp {
namespace {

using wire::FrameHeader;
using wire::FrameType;
using wire::kFrameHeaderBytes;

// Replies up to this length are copied beside their header: one piece for the kernel.
constexpr uint64_t kReplyInlineBytes = 4096;
// After a put at least this long, only the next header is read ahead: a payload that follows it should go
// into the extent whole and aligned.
constexpr uint64_t kLongPutBytes = 16 * 1024;
constexpr size_t kAheadOfLongPutBytes = kFrameHeaderBytes;
// What a receive() counts for at least in the turn of a connection: TLS brings one record at a time, which may have one
// byte, and takes a microsecond for it.
constexpr uint64_t kReceiveCosts = 4096;

OpCode op_code(FrameType type) {
  switch (type) {
    case FrameType::kPut: return OpCode::kPut;
    case FrameType::kFetchAdd: return OpCode::kFetchAdd;
    case FrameType::kSwap: return OpCode::kSwap;
    case FrameType::kCompareSwap: return OpCode::kCompareSwap;
    case FrameType::kAnd: return OpCode::kAnd;
    case FrameType::kOr: return OpCode::kOr;
    case FrameType::kXor: return OpCode::kXor;
    case FrameType::kNotify: return OpCode::kNotify;
    default: return OpCode::kGet;
  }
}

/// The payload that such a request must bring; puts bring any.
uint64_t body_bytes(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kHello: return header.length == kHelloBytes ? kHelloBytes : kHelloBytes + kVersionsBytes;
    case FrameType::kProof: return kProofBytes;
    case FrameType::kAttach: return wire::kAttachBodyBytes;
    case FrameType::kCompareSwap: return 8;
    default: return 0;
  }
}

void count(std::atomic<uint64_t>& counter, uint64_t value = 1) {
  counter.fetch_add(value, std::memory_order_relaxed);
}

}  // namespace

bool Connection::is_valid() const {
  if (state_ == State::kClosed) {
    return tx_.empty() && staged_.empty() && extents_.empty() && free_indexes_.empty() && charged_ == 0 &&
           !stream_.is_open() && seat_->fd < 0;
  }
  if (state_ == State::kOpen && !seat_->place && !seat_->fenced.load(std::memory_order_relaxed))
    return false;                                                                           // C1
  if (saved_.size() > Scratch::kBytes) return false;                                        // C4
  if (charged_ != extents_.size() || free_indexes_.size() > extents_.size()) return false;  // C9
  if (state_ != State::kOpen && (charged_ != 0 || !staged_.empty() || incoming_.left != 0))
    return false;  // C1
  uint64_t staged = 0;
  for (const auto& op : staged_) staged += op->bytes();
  if (staged != staged_bytes_ || staged_.size() > kStagedMax) return false;  // C10
  if ((incoming_.left == 0 || incoming_.code != Code::kOk) && incoming_.extent != nullptr)
    return false;  // C6
  return tx_.is_valid();
}

bool Connection::flush() {
  const ssize_t n = tx_.send(stream_);
  if (n < 0) lost(n);
  if (n > 0 || tx_.empty()) held_ = false;
  return n > 0;
}

void Connection::lost(ssize_t error) {
  if (error == -EPROTO) refusal_ = {os::peer_host(fd()), stream_.refusal()};
  close();
}

bool Connection::run(Scratch& scratch, uint64_t bytes_max) {
  const std::lock_guard lock(seat_->in_use);
  bool moved = true;
  if (!seat_->fenced.load(std::memory_order_acquire)) [[likely]] {
    moved = move(scratch, bytes_max);
  } else {
    close();
  }
  OCM_DASSERT(is_valid());
  return moved;
}

uint64_t Connection::look(uint64_t now_ns, uint64_t release_ns, uint64_t vanished_ns) {
  const std::lock_guard lock(seat_->in_use);
  if (state_ == State::kClosed) return 0;
  release_revoked(now_ns, release_ns);
  if (state_ == State::kClosed) return 0;
  const Answers answers = answers_of(fd());
  if (has_vanished(answers, now_ns, vanished_ns)) {
    close();
    return 0;
  }
  if (incoming_.extent != nullptr || !tx_.empty()) return now_ns + release_ns / 4;
  return answers.outstanding ? now_ns + vanished_ns / 4 : 0;
}

void Connection::release_revoked(uint64_t now_ns, uint64_t release_ns) {
  if (incoming_.extent != nullptr && incoming_.extent->revoked.load(std::memory_order_acquire)) {
    incoming_.extent.reset();
    incoming_.code = Code::kRevoked;
    if (incoming_.op != nullptr) incoming_.op->let_go();
  }
  const uint64_t until = tx_.revoked_until();
  if (until == 0) return;
  if (revoked_until_ <= tx_.sent_total()) {  // those of the last look have left: these are new
    revoked_until_ = until;
    revoked_since_ns_ = now_ns;
  } else if (now_ns - revoked_since_ns_ >= release_ns) {
    close();
  }
}

bool Connection::has_vanished(const Answers& answers, uint64_t now_ns, uint64_t vanished_ns) {
  // One try alone may be lost, or be on its way just now.
  constexpr uint32_t kTries = 3;
  if (answers.tries_unanswered == 0 || answers.age_ns < now_ns - unanswered_since_ns_) {
    unanswered_since_ns_ = answers.tries_unanswered == 0 ? 0 : now_ns;
    return false;
  }
  return answers.tries_unanswered >= kTries && now_ns - unanswered_since_ns_ >= vanished_ns;
}

bool Connection::move(Scratch& scratch, uint64_t bytes_max) {
  bool moved = false;
  more_ = false;
  waits_for_device_ = false;  // maybe not any more
  (void)answer_staged();
  if (wants_write()) moved = flush();
  if (!saved_.empty()) std::memcpy(scratch.bytes.data(), saved_.data(), saved_.size());
  begin_ = 0;
  end_ = saved_.size();
  const uint64_t sent_max = tx_.sent_total() + bytes_max;
  uint64_t received = 0;
  bool full = false;
  while (state_ != State::kClosed) {
    parse(scratch);
    if (answer_staged()) continue;
    if (state_ == State::kClosed) break;
    if (state_ == State::kClosing || is_congested()) {
      if (flush()) moved = true;
      if (state_ == State::kClosing && !wants_write()) close();
      if (state_ != State::kOpen || is_congested()) {
        full = true;
        break;
      }
      if (tx_.sent_total() < sent_max)
        continue;  // there is room again: what was received is understood first
    }
    if (received >= bytes_max || tx_.sent_total() >= sent_max) {
      more_ = true;
      break;
    }
    // A reply does not wait for a long payload behind it.
    if (incoming_.left >= kLongPutBytes && !tx_.empty() && flush()) moved = true;
    if (state_ == State::kClosed) break;
    const ssize_t n = fill(scratch);
    if (n < 0) {
      lost(n);
      break;
    }
    if (n == 0) break;
    moved = true;
    received += std::max<uint64_t>(static_cast<uint64_t>(n), kReceiveCosts);
    if (stream_.short_means_empty() && short_) {
      parse(scratch);
      if (answer_staged() || (state_ != State::kClosed && is_congested())) continue;
      break;
    }
  }
  if (state_ == State::kClosed) return true;
  if (!tx_.empty() && flush()) moved = true;
  if (state_ == State::kClosing && !wants_write()) close();
  // The last bytes of the replies just left: what arrived behind them waits here, and no event will tell of
  // it.
  if (full && !is_congested()) more_ = true;
  saved_.assign(scratch.bytes.begin() + static_cast<ptrdiff_t>(begin_),
                scratch.bytes.begin() + static_cast<ptrdiff_t>(end_));
  return moved;
}

ssize_t Connection::fill(Scratch& scratch) {
  // Only an incomplete frame is left here, unless a payload is under way: then nothing is.
  if (begin_ > 0) {
    std::memmove(scratch.bytes.data(), scratch.bytes.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (incoming_.left == 0) {
    const size_t want = std::min(ahead_bytes_, Scratch::kBytes - end_);
    const ssize_t n = stream_.receive(scratch.bytes.data() + end_, want);
    if (n > 0) end_ += static_cast<size_t>(n);
    short_ = n < static_cast<ssize_t>(want);
    return n;
  }
  OCM_DASSERT(end_ == 0);  // what was read ahead went into the payload
  if (incoming_.extent == nullptr) {
    const size_t want = std::min<uint64_t>(incoming_.left, Scratch::kBytes);
    const ssize_t n = stream_.receive(scratch.bytes.data(), want);
    if (n > 0) payload_landed(static_cast<size_t>(n));
    short_ = n < static_cast<ssize_t>(want);
    return n;
  }
  const uint64_t want = incoming_.left;
  const ssize_t n = stream_.receive(incoming_.target, want);
  if (n == -EFAULT) {
    // The extent's pages could not be had: the op fails, the stream goes on.
    incoming_.extent.reset();
    incoming_.code = Code::kNoMemory;
    short_ = false;
    return 1;
  }
  if (n <= 0) return n;
  short_ = static_cast<uint64_t>(n) < want;
  payload_landed(static_cast<uint64_t>(n));
  return n;
}

void Connection::parse(Scratch& scratch) {
  while (state_ != State::kClosed && state_ != State::kClosing && begin_ < end_) {
    const std::byte* data = scratch.bytes.data() + begin_;
    const size_t have = end_ - begin_;
    if (incoming_.left > 0) {
      const size_t take = std::min<uint64_t>(incoming_.left, have);
      begin_ += take;
      take_payload(data, take);
      continue;
    }
    if (is_congested() || have < kFrameHeaderBytes) return;
    FrameHeader header;
    if (!wire::decode_frame(data, header).is_ok()) {
      stats_.failed(Code::kProtocol);
      close();
      return;
    }
    const uint64_t body = body_bytes(header);
    const bool sized =
        header.type == FrameType::kPut || header.type == FrameType::kGet || header.length == body;
    const bool allowed =
        state_ == State::kOpen
            ? header.type > FrameType::kProof && header.type <= FrameType::kNotify
            : header.type == (state_ == State::kHello ? FrameType::kHello : FrameType::kProof);
    if (!sized || !allowed) {
      stats_.failed(Code::kProtocol);
      close();
      return;
    }
    if (have < kFrameHeaderBytes + body) return;
    if (!tx_.empty() && must_wait(header)) {
      held_ = true;
      return;
    }
    if (!staged_.empty() && must_wait_for_device(header)) {
      waits_for_device_ = true;
      return;
    }
    begin_ += kFrameHeaderBytes + body;
    if (++frames_ % ServerStats::kTimedOneIn == 0) [[unlikely]]
      timed_since_ns_ = os::now_ns();
    on_frame(header, data + kFrameHeaderBytes);
    if (put_back_) [[unlikely]] {
      put_back_ = false;
      waits_for_device_ = true;
      timed_since_ns_ = 0;
      begin_ -= kFrameHeaderBytes + body;
      return;
    }
    if (timed_since_ns_ != 0 && incoming_.left == 0) [[unlikely]] {
      answered();
    }
  }
}

bool Connection::must_wait(const FrameHeader& header) const {
  if (!writes(op_code(header.type))) return false;
  const Attached* target = attached(header.index);
  const uint64_t bytes = header.type == FrameType::kPut ? header.length : 8;
  const std::shared_ptr<ServedExtent> extent = target != nullptr ? target->extent.lock() : nullptr;
  if (extent == nullptr || extent->data == nullptr || header.offset > extent->bytes) return false;
  return tx_.refers_to(extent->data + header.offset, bytes);
}

bool Connection::must_wait_for_device(const FrameHeader& header) const {
  if (staged_bytes_ >= kStagedBytesMax || staged_.size() >= kStagedMax ||
      (header.flags & wire::kFlagChained) != 0) {
    return true;
  }
  const bool moves = header.type == FrameType::kPut || header.type == FrameType::kGet;
  if (!moves && op_code(header.type) == OpCode::kGet) return true;  // it does nothing to bytes
  std::shared_ptr<ServedExtent> extent;
  const Code code = admit(header, moves ? header.length : 8, extent);
  return code != Code::kOk || extent->staged == nullptr || is_too_large(header, *extent);
}

bool Connection::is_too_large(const FrameHeader& header, const ServedExtent& extent) {
  if (extent.staged != nullptr && header.length > kStagedFrameBytesMax) return true;
  return (header.flags & wire::kFlagPayloadCrc) != 0 && header.length > kChecksumFrameBytesMax;
}

std::shared_ptr<StagedOp> Connection::begin_staged(const FrameHeader& header,
                                                   const std::shared_ptr<ServedExtent>& extent,
                                                   uint64_t bytes) {
  OCM_DASSERT(extent->staged != nullptr && bytes <= kStagedFrameBytesMax);  // C10
  Buffers::Taken taken;
  if (!buffers_.take(uid(), bytes, bell_, this, taken)) {
    put_back_ = true;
    return nullptr;
  }
  auto op = StagedOp::make(header, extent, bytes);
  if (op == nullptr) {
    op = StagedOp::make(header, extent, 0);  // the caller refuses it, a put once its payload is here
    if (op == nullptr) throw std::bad_alloc();
  }
  op->taken = std::move(taken);
  op->timed_since_ns = std::exchange(timed_since_ns_, 0);
  staged_bytes_ += op->bytes();
  staged_.push_back(op);
  return op;
}

bool Connection::answer_staged() {
  bool answered = false;
  while (!staged_.empty() && staged_.front()->is_done()) {
    std::shared_ptr<StagedOp> op = std::move(staged_.front());
    staged_.pop_front();
    staged_bytes_ -= op->bytes();
    answer(std::move(op));
    answered = true;
  }
  return answered && std::exchange(waits_for_device_, false);
}

void Connection::answer(std::shared_ptr<StagedOp> op) {
  OCM_DASSERT(op->is_done());
  const FrameHeader& header = op->header();
  if (op->timed_since_ns != 0) stats_.answered(os::now_ns() - op->timed_since_ns);
  if (op->code() != Code::kOk) return refuse(header, op->code());
  if (header.type == FrameType::kPut) {
    count(stats_.put_ops);
    count(stats_.put_bytes, header.length);
    return reply(header, 0);
  }
  if (header.type != FrameType::kGet) {
    count(stats_.atomic_ops);
    return reply(header, op->old());
  }
  const std::byte* bytes = op->buffer();
  std::shared_ptr<const ServedExtent> keep(op, op->extent().get());
  reply_bytes(header, bytes, std::move(keep));
}

void Connection::take_payload(const std::byte* data, size_t bytes) {
  OCM_ASSERT(bytes <= incoming_.left);  // S1: nothing beyond what check_access() saw
  if (incoming_.extent != nullptr) std::memcpy(incoming_.target, data, bytes);
  payload_landed(bytes);
}

void Connection::payload_landed(size_t bytes) {
  OCM_ASSERT(bytes <= incoming_.left);
  if (incoming_.extent != nullptr) {
    if (incoming_.header.flags & wire::kFlagPayloadCrc) [[unlikely]] {
      incoming_.crc = crc32c(incoming_.crc, incoming_.target, bytes);
    }
    incoming_.target += bytes;
  }
  incoming_.left -= bytes;
  if (incoming_.left == 0) put_complete();
}

void Connection::put_complete() {
  OCM_DASSERT(incoming_.left == 0);
  const FrameHeader& header = incoming_.header;
  if (incoming_.code == Code::kOk && (header.flags & wire::kFlagPayloadCrc) &&
      incoming_.crc != header.payload_crc) {
    incoming_.code = Code::kBadChecksum;
  }
  if (incoming_.op != nullptr) {
    const std::shared_ptr<StagedOp> op = std::exchange(incoming_.op, nullptr);
    if (incoming_.code == Code::kOk) {
      op->put(bell_, this);
    } else {
      op->refuse(incoming_.code);
    }
  } else if (incoming_.code == Code::kOk) {
    count(stats_.put_ops);
    count(stats_.put_bytes, header.length);
    reply(header, 0);
  } else {
    refuse(header, incoming_.code);
  }
  incoming_.extent.reset();
  if (timed_since_ns_ != 0) [[unlikely]]
    answered();
}

void Connection::answered() {
  OCM_DASSERT(timed_since_ns_ != 0);
  stats_.answered(os::now_ns() - timed_since_ns_);
  timed_since_ns_ = 0;
}

void Connection::reply(const FrameHeader& to, uint64_t operand) {
  last_code_ = Code::kOk;
  FrameHeader header;
  header.type = FrameType::kReply;
  header.tag = to.tag;
  header.operand = operand;
  wire::encode_frame(header, tx_.append(kFrameHeaderBytes));
}

void Connection::refuse(const FrameHeader& to, Code code, uint64_t share) {
  OCM_DASSERT(code != Code::kOk);
  last_code_ = code;
  stats_.failed(code);
  FrameHeader header;
  header.type = FrameType::kError;
  header.tag = to.tag;
  header.offset = share;
  header.operand = static_cast<uint64_t>(static_cast<int64_t>(code));
  wire::encode_frame(header, tx_.append(kFrameHeaderBytes));
}

void Connection::on_frame(const FrameHeader& header, const std::byte* body) {
  ahead_bytes_ = Scratch::kBytes;
  switch (header.type) {
    case FrameType::kHello: return on_hello(header, body);
    case FrameType::kProof: return on_proof(header, body);
    case FrameType::kAttach: return on_attach(header, body);
    case FrameType::kDetach: return on_detach(header);
    case FrameType::kPut: return on_put(header);
    case FrameType::kGet: return on_get(header);
    case FrameType::kFence: return reply(header, 0);  // everything before it was applied already
    default: return on_atomic(header, body);
  }
}

void Connection::on_hello(const FrameHeader& header, const std::byte* body) {
  OCM_DASSERT(state_ == State::kHello);  // C1
  if (fault::at(fault::Point::kHelloNoMemory)) throw std::bad_alloc();
  const std::span<const std::byte> versions(body + kHelloBytes, header.length - kHelloBytes);
  if (!wire::agree("data", wire::kDataVersions, decode_versions(versions)).is_ok()) {
    refuse(header, Code::kProtocol, uint64_t{wire::kDataVersions.min} << 32 | wire::kDataVersions.max);
    state_ = State::kClosing;
    return;
  }
  SessionId session;
  std::memcpy(session.bytes.data(), body, session.bytes.size());
  std::memcpy(client_nonce_.data(), body + session.bytes.size(), kNonceBytes);
  session_key_ = directory_.session_key(session);
  route_ = {session, header.operand};
  attempt_ = header.offset;
  os::fill_random(server_nonce_);
  const os::Digest proof = server_proof(session_key_, client_nonce_, server_nonce_, stream_.binding());
  FrameHeader out;
  out.type = FrameType::kChallenge;
  out.tag = header.tag;
  out.length = kChallengeBytes + versions.size();
  std::byte* bytes = tx_.append(kFrameHeaderBytes + out.length);
  wire::encode_frame(out, bytes);
  std::memcpy(bytes + kFrameHeaderBytes, server_nonce_.data(), kNonceBytes);
  std::memcpy(bytes + kFrameHeaderBytes + kNonceBytes, proof.data(), proof.size());
  if (!versions.empty()) encode_versions(wire::kDataVersions, bytes + kFrameHeaderBytes + kChallengeBytes);
  state_ = State::kProof;
}

void Connection::on_proof(const FrameHeader& header, const std::byte* body) {
  OCM_DASSERT(state_ == State::kProof && !seat_->place);  // C1
  const os::Digest expected = client_proof(session_key_, client_nonce_, server_nonce_, stream_.binding());
  if (!os::equal_secrets(expected, {body, kProofBytes})) {
    refuse(header, Code::kAuth);
    state_ = State::kClosing;
    return;
  }
  if (!fences_.enter(route_, attempt_, seat_)) {
    refuse(header, Code::kProtocol);
    state_ = State::kClosing;
    return;
  }
  // After the fence: a route's older connection ends in any case, and with it its place.
  seat_->place = places_.take(uid());
  if (!seat_->place) {
    count(stats_.refused);
    refuse(header, Code::kLimit, places_.has_its_share(uid()) ? places_.share() : 0);
    state_ = State::kClosing;
    return;
  }
  state_ = State::kOpen;
  reply(header, 0);
}

void Connection::on_attach(const FrameHeader& header, const std::byte* body) {
  wire::AttachBody wanted;
  if (!wire::decode_attach({body, wire::kAttachBodyBytes}, wanted).is_ok()) {
    stats_.failed(Code::kProtocol);
    return close();
  }
  if (extents_.size() >= kExtentsMax && free_indexes_.empty()) return refuse(header, Code::kLimit);
  const ExtentId id{GlobalAddress(wanted.address), wanted.generation};
  auto found = directory_.open(id);
  if (!found.is_ok()) return refuse(header, found.status().code());
  std::shared_ptr<ServedExtent> extent = std::move(found).value();
  if (extent == nullptr || extent->id != id) return refuse(header, Code::kRevoked);
  const auto proves = [&](const Capability& held) {
    return os::equal_secrets(attach_proof(held, server_nonce_, wanted), wanted.proof);
  };
  const bool reading = wanted.access == static_cast<uint8_t>(Access::kRead);
  if (!proves(extent->capability) && !(reading && proves(os::read_capability(extent->capability)))) {
    return refuse(header, Code::kPermission);
  }
  if (extent->revoked.load(std::memory_order_acquire)) return refuse(header, Code::kRevoked);
  uint32_t index = static_cast<uint32_t>(extents_.size());
  if (!free_indexes_.empty()) {
    index = free_indexes_.back();
    free_indexes_.pop_back();
  } else {
    if (!attachments_.take(uid())) return refuse(header, Code::kLimit, attachments_.most());
    ++charged_;
    extents_.emplace_back();
  }
  OCM_ASSERT(index < extents_.size() && !extents_[index].taken);  // C9: an index names one extent
  extents_[index] = {extent, static_cast<Access>(wanted.access), true};
  reply(header, index);
}

void Connection::on_detach(const FrameHeader& header) {
  if (attached(header.index) == nullptr) return refuse(header, Code::kNotFound);
  extents_[header.index] = {};
  free_indexes_.push_back(header.index);
  if (free_indexes_.size() == extents_.size()) give_indexes();
  reply(header, 0);
}

Code Connection::admit(const FrameHeader& header, uint64_t bytes,
                       std::shared_ptr<ServedExtent>& extent) const {
  if ((header.flags & wire::kFlagChained) && last_code_ != Code::kOk) [[unlikely]]
    return last_code_;
  const Attached* named = attached(header.index);
  if (named == nullptr) return Code::kNotFound;
  extent = named->extent.lock();
  if (extent == nullptr) return Code::kRevoked;
  return check_access(*extent, named->access, op_code(header.type), header.offset, bytes);
}

void Connection::on_put(const FrameHeader& header) {
  std::shared_ptr<ServedExtent> extent;
  Code code = admit(header, header.length, extent);
  if (code == Code::kOk && is_too_large(header, *extent)) code = Code::kTooLarge;
  incoming_.op = nullptr;
  if (code == Code::kOk && extent->staged != nullptr) {
    incoming_.op = begin_staged(header, extent, header.length);
    if (incoming_.op == nullptr) return;
    if (incoming_.op->bytes() < header.length) code = Code::kNoMemory;
  }
  incoming_.header = header;
  incoming_.code = code;
  incoming_.left = header.length;
  incoming_.crc = 0;
  if (code == Code::kOk) {
    incoming_.target = incoming_.op != nullptr ? incoming_.op->buffer() : extent->data + header.offset;
    incoming_.extent = std::move(extent);
    if (header.length >= kLongPutBytes) ahead_bytes_ = kAheadOfLongPutBytes;
  } else {
    incoming_.extent.reset();
  }
  if (incoming_.left == 0) put_complete();
}

void Connection::on_get(const FrameHeader& header) {
  std::shared_ptr<ServedExtent> extent;
  const Code code = admit(header, header.length, extent);
  if (code != Code::kOk) return refuse(header, code);
  if (is_too_large(header, *extent)) return refuse(header, Code::kTooLarge);
  if (extent->staged != nullptr) {
    const auto op = begin_staged(header, extent, header.length);
    if (op == nullptr) return;
    return op->bytes() < header.length ? op->refuse(Code::kNoMemory) : op->get(bell_, this);
  }
  const std::byte* data = extent->data + header.offset;
  reply_bytes(header, data, std::move(extent));
}

void Connection::reply_bytes(const FrameHeader& header, const std::byte* data,
                             std::shared_ptr<const ServedExtent> keep) {
  const bool checksum = header.flags & wire::kFlagPayloadCrc;
  count(stats_.get_ops);
  count(stats_.get_bytes, header.length);
  last_code_ = Code::kOk;
  FrameHeader out;
  out.type = FrameType::kReply;
  out.tag = header.tag;
  out.length = header.length;
  if (header.length > kReplyInlineBytes && !checksum) {
    wire::encode_frame(out, tx_.append(kFrameHeaderBytes));
    tx_.append_reference(data, header.length, std::move(keep));
    return;
  }
  // A copy, so that checksum and bytes agree whatever others write meanwhile.
  std::byte* bytes = tx_.append(kFrameHeaderBytes + header.length);
  std::memcpy(bytes + kFrameHeaderBytes, data, header.length);
  if (checksum) {
    out.flags = wire::kFlagPayloadCrc;
    out.payload_crc = crc32c(0, bytes + kFrameHeaderBytes, header.length);
  }
  wire::encode_frame(out, bytes);
}

void Connection::on_atomic(const FrameHeader& header, const std::byte* body) {
  std::shared_ptr<ServedExtent> extent;
  const OpCode opcode = op_code(header.type);
  const Code code = admit(header, 8, extent);
  if (code != Code::kOk) return refuse(header, code);
  uint64_t expected = 0;
  if (opcode == OpCode::kCompareSwap) std::memcpy(&expected, body, sizeof(expected));
  if (extent->staged != nullptr) {
    return begin_staged(header, extent, 0)->atomic(bell_, this, opcode, expected);
  }
  std::byte* word = extent->data + header.offset;
  count(stats_.atomic_ops);
  if (opcode == OpCode::kNotify) {
    apply_notify(word, header.operand);
    return reply(header, 0);
  }
  reply(header, apply_atomic(opcode, word, header.operand, expected));
}

}  // namespace ocm::fabric::tcp
