#include "fabric/tcp/channel.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "fabric/tcp/socket.h"
#include "fabric/wait.h"

namespace ocm::fabric::tcp {

using wire::FrameHeader;
using wire::FrameType;
using wire::kFrameHeaderBytes;

struct ControlOp : Op {
  FrameType type = FrameType::kDetach;
  std::array<std::byte, wire::kAttachBodyBytes> body{};
  size_t body_bytes = 0;
  bool owned_by_channel = false;  // nobody waits: delete it when done
};

struct Withdrawn : Op {};

namespace {

constexpr size_t kRxBytes = 32 * 1024;
// After a long get only a header is read ahead: the next payload should land whole and aligned.
constexpr size_t kAheadOfLongGetBytes = kFrameHeaderBytes;
constexpr uint64_t kLongBytes = 16 * 1024;
// Payloads up to this length travel beside their header, and the user's buffer is free at once.
constexpr uint64_t kInlineBytes = 4096;
constexpr uint64_t kChecksumFrameBytes = 256 * 1024;
constexpr size_t kFlightsMax = 1024;
// Small frames that were not flushed yet go out when they come to this.
constexpr uint64_t kUnflushedBytesMax = 32 * 1024;
constexpr uint64_t kReceiveBudgetBytes = uint64_t{1} << 20;

constexpr uint64_t kWindowBytesMax = uint64_t{64} << 20;
constexpr uint64_t kFrameBytesFar = uint64_t{1} << 20;
// Small socket buffers bound what is in the kernel already: longer frames cost fewer answers.
constexpr uint64_t kFrameBytesNear = uint64_t{4} << 20;
constexpr int kTransmitTries = 16;
constexpr uint64_t kLookAgainNs = 100'000'000;
constexpr uint64_t kWindowBytesMin = 2 * kFrameBytesNear;
// 100 Gbit/s times the round trip, twice: enough in flight for the links we know.
constexpr uint64_t kWindowBytesPerUs = 25'000;

// `local` of a ControlOp; no user's buffer is here.
std::byte control_mark;
bool is_control(const Op& op) { return op.local == &control_mark; }
// The same of a Withdrawn.
std::byte withdrawn_mark;
bool is_withdrawn(const Op& op) { return op.local == &withdrawn_mark; }

/// `share`: see FrameType::kError.
Status not_attached(Code code, uint64_t share) {
  if (code != Code::kLimit) return code;
  if (share == 0)
    return Status(code, "the home attaches no more extents to one connection: free some handles");
  return Status(code, "this user has " + std::to_string(share) +
                          " extents attached, all that one user may have at the home: free some handles");
}

void prepare(Op& op, bool chained) {
  op.code = Code::kOk;
  op.bytes_sent = op.bytes_done = 0;
  op.chained = chained;
  op.state.store(OpState::kPosted, std::memory_order_relaxed);
}

FrameType frame_type(OpCode opcode) {
  switch (opcode) {
    case OpCode::kPut: return FrameType::kPut;
    case OpCode::kGet: return FrameType::kGet;
    case OpCode::kFetchAdd: return FrameType::kFetchAdd;
    case OpCode::kSwap: return FrameType::kSwap;
    case OpCode::kCompareSwap: return FrameType::kCompareSwap;
    case OpCode::kAnd: return FrameType::kAnd;
    case OpCode::kOr: return FrameType::kOr;
    case OpCode::kXor: return FrameType::kXor;
    case OpCode::kFence: return FrameType::kFence;
    case OpCode::kNotify: return FrameType::kNotify;
  }
  return FrameType::kFence;
}

uint64_t chosen_window(const ChannelOptions& options, int fd) {
  if (options.window_bytes != 0) return options.window_bytes;
  const uint64_t rtt_us = round_trip_ns(fd) / 1000;
  return std::clamp(rtt_us * kWindowBytesPerUs, kWindowBytesMin, kWindowBytesMax);
}

uint64_t chosen_frame(const ChannelOptions& options, int fd) {
  if (options.frame_bytes != 0) return options.frame_bytes;
  return is_near(fd) ? kFrameBytesNear : kFrameBytesFar;
}

}  // namespace

TcpChannel::TcpChannel(Stream stream, const Nonce& server_nonce, const ChannelOptions& options)
    : stream_(std::move(stream)),
      server_nonce_(server_nonce),
      window_bytes_(chosen_window(options, stream_.fd())),
      frame_bytes_(std::min(chosen_frame(options, stream_.fd()), wire::kFrameBytesMax)),
      rx_(new std::byte[kRxBytes]),
      ahead_bytes_(kRxBytes) {
  OCM_ASSERT(stream_.is_open() && window_bytes_ > 0 && frame_bytes_ > 0);
}

TcpChannel::~TcpChannel() {
  const std::lock_guard lock(mutex_);
  fail(Code::kCancelled);  // a code alone: a sentence takes memory, and a destructor must not throw
  OCM_DASSERT(holds());
}

bool TcpChannel::is_valid() const {
  const std::lock_guard lock(mutex_);
  return holds();
}

bool TcpChannel::holds() const {
  uint64_t cost = 0;
  size_t last = 0, sent = 0;
  for (size_t i = 0; i < flights_.size(); ++i) {
    const Flight& flight = flights_[i];
    cost += flight.cost_bytes;
    last += flight.last ? 1 : 0;
    if (flight.sent_mark <= tx_.sent_total()) ++sent;
    if (i + 1 == flights_.size()) {  // H4
      if (!flight.last && waiting_head_ != flight.op) return false;
    } else if (flight.last != (flight.op != flights_[i + 1].op) ||
               flights_[i + 1].sent_mark < flight.sent_mark) {
      return false;
    }
  }
  size_t waiting = 0;
  const Op* tail = nullptr;
  for (const Op* op = waiting_head_; op != nullptr; op = op->next, ++waiting) {
    if (is_withdrawn(*op)) return false;  // H8
    tail = op;
  }
  if (tail != waiting_tail_ || cost != window_used_bytes_) return false;                          // H2
  if (sent_flights_ > sent || (incoming_.target != nullptr && sent_flights_ == 0)) return false;  // H1
  if (in_flight_.load(std::memory_order_relaxed) != last + waiting) return false;                 // H3
  if (withdrawn_.load(std::memory_order_relaxed) > last) return false;                            // H8
  if (failed_.load(std::memory_order_relaxed) && last + waiting + flights_.size() + tx_.bytes() != 0)
    return false;  // H5
  return begin_ <= end_ && end_ <= kRxBytes && tx_.is_valid();
}

// ---------------------------------------------------------------- from ops to frames

void TcpChannel::enqueue(Op& op) {
  OCM_DASSERT((waiting_head_ == nullptr) == (waiting_tail_ == nullptr) && !is_withdrawn(op));  // H8
  op.next = nullptr;
  (waiting_tail_ != nullptr ? waiting_tail_->next : waiting_head_) = &op;
  waiting_tail_ = &op;
}

void TcpChannel::post(Op& op) {
  Op* const notify = op.notify;
  OCM_DASSERT(may_be_posted(op));
  prepare(op, false);
  if (notify != nullptr) prepare(*notify, true);
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) {
    op.finish(health_.code());
    if (notify != nullptr) notify->finish(health_.code());
    return;
  }
  if (has_only_withdrawn()) restart_stall_ = true;
  in_flight_.fetch_add(notify != nullptr ? 2 : 1, std::memory_order_relaxed);
  enqueue(op);
  if (notify != nullptr) enqueue(*notify);
  pump();
  if (tx_.bytes() > kUnflushedBytesMax) transmit();
}

void TcpChannel::withdraw(Op& op) {
  Op* const notify = op.notify;
  const std::lock_guard lock(mutex_);
  try {
    auto own = std::make_unique<Withdrawn>();
    auto own_notify = notify != nullptr ? std::make_unique<Withdrawn>() : nullptr;
    const bool refers = op.opcode == OpCode::kPut && !op.done();
    if (refers) tx_.keep_copy(op.local, op.bytes);
    // The last first: what is chained to a put never waits without it.
    if (notify != nullptr && !notify->done() && !take_waiting(*notify))
      replace(*notify, *own_notify.release());
    if (!op.done() && !take_waiting(op)) replace(op, *own.release());
  } catch (const std::bad_alloc&) {
    fail(Code::kNoMemory);
  }
  OCM_DASSERT(op.done() && (notify == nullptr || notify->done()));
}

/// True if it ended here: no frame of it is in flight. Else none of it waits any more.
bool TcpChannel::take_waiting(Op& op) {
  Op* before = nullptr;
  for (Op* one = waiting_head_; one != &op; before = one, one = one->next) {
    if (one == nullptr) return false;  // wholly framed
  }
  (before != nullptr ? before->next : waiting_head_) = op.next;
  if (waiting_tail_ == &op) waiting_tail_ = before;
  if (!flights_.empty() && flights_.back().op == &op) {  // H4
    flights_.back().last = true;
    return false;
  }
  if (op.code == Code::kOk) op.code = Code::kCancelled;
  finish(&op);
  return true;
}

void TcpChannel::replace(Op& op, Withdrawn& by) {
  by.opcode = op.opcode;
  by.local = &withdrawn_mark;
  by.code = op.code;
  by.chained = op.chained;
  [[maybe_unused]] size_t frames = 0;
  for (Flight& flight : flights_) {
    if (flight.op != &op) continue;
    if (&flight == &flights_.front() && incoming_.target != nullptr) incoming_.discard = true;
    flight.op = &by;
    flight.target = &withdrawn_mark;
    ++frames;
  }
  OCM_DASSERT(frames > 0);
  withdrawn_.fetch_add(1, std::memory_order_relaxed);
  op.finish(op.code != Code::kOk ? op.code : Code::kCancelled);
}

void TcpChannel::flush() {
  const std::lock_guard lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) transmit();
}

void TcpChannel::pump() {
  while (waiting_head_ != nullptr && flights_.size() < kFlightsMax &&
         (window_used_bytes_ < window_bytes_ || flights_.empty())) {
    Op& op = *waiting_head_;
    try {
      is_control(op) ? frame_control(static_cast<ControlOp&>(op)) : frame_op(op);
    } catch (const std::bad_alloc&) {
      return fail(Code::kNoMemory);  // half a frame may be queued
    }
    const bool whole = is_control(op) || op.bytes_sent == op.bytes ||
                       (op.opcode != OpCode::kPut && op.opcode != OpCode::kGet);
    if (!whole) continue;
    waiting_head_ = op.next;
    if (waiting_head_ == nullptr) waiting_tail_ = nullptr;
    // An op copied whole into the queue has no more use of its buffer.
    if (op.opcode == OpCode::kPut && op.bytes <= kInlineBytes) {
      op.state.store(OpState::kLocal, std::memory_order_release);
    }
  }
}

void TcpChannel::push_flight(const Flight& flight) {
  OCM_DASSERT(window_used_bytes_ < window_bytes_ || flights_.empty());  // H2
  flights_.push_back(flight);
  window_used_bytes_ += flight.cost_bytes;
}

void TcpChannel::frame_control(ControlOp& op) {
  OCM_DASSERT(op.body_bytes <= op.body.size());
  FrameHeader header;
  header.type = op.type;
  header.tag = next_tag_++;
  header.index = op.index;
  header.length = op.body_bytes;
  std::byte* out = tx_.append(kFrameHeaderBytes + op.body_bytes);
  wire::encode_frame(header, out);
  if (op.body_bytes > 0) std::memcpy(out + kFrameHeaderBytes, op.body.data(), op.body_bytes);
  push_flight(
      {&op, header.tag, header.type, true, false, 0, nullptr, kFrameHeaderBytes, tx_.appended_total()});
}

void TcpChannel::frame_op(Op& op) {
  OCM_DASSERT(op.bytes_sent <= op.bytes && !op.done());
  FrameHeader header;
  header.type = op.code == Code::kOk ? frame_type(op.opcode) : FrameType::kFence;
  header.tag = next_tag_++;
  header.index = op.index;
  header.offset = op.offset + op.bytes_sent;
  header.operand = op.operand;
  // H6: a refused put refuses the rest of itself, and that its notify.
  if (op.chained || (op.notify != nullptr && op.bytes_sent > 0)) header.flags |= wire::kFlagChained;
  Flight flight{&op, header.tag, header.type, true, op.checksum, 0, nullptr, kFrameHeaderBytes, 0};
  if (op.opcode == OpCode::kPut || op.opcode == OpCode::kGet) {
    const uint64_t most = op.checksum ? std::min(frame_bytes_, kChecksumFrameBytes) : frame_bytes_;
    const uint64_t bytes = std::min(op.bytes - op.bytes_sent, most);
    std::byte* local = op.local + op.bytes_sent;
    header.length = bytes;
    if (op.checksum) header.flags |= wire::kFlagPayloadCrc;
    op.bytes_sent += bytes;
    flight.bytes = bytes;
    flight.last = op.bytes_sent == op.bytes;
    flight.cost_bytes += bytes;
    if (op.opcode == OpCode::kGet) {
      flight.target = local;
      wire::encode_frame(header, tx_.append(kFrameHeaderBytes));
    } else {
      if (op.checksum) header.payload_crc = crc32c(0, local, bytes);
      if (op.bytes <= kInlineBytes) {
        std::byte* out = tx_.append(kFrameHeaderBytes + bytes);
        wire::encode_frame(header, out);
        if (bytes > 0) std::memcpy(out + kFrameHeaderBytes, local, bytes);
      } else {
        wire::encode_frame(header, tx_.append(kFrameHeaderBytes));
        tx_.append_reference(local, bytes, nullptr);
      }
    }
  } else if (op.opcode == OpCode::kCompareSwap) {
    header.length = sizeof(op.expected);
    std::byte* out = tx_.append(kFrameHeaderBytes + sizeof(op.expected));
    wire::encode_frame(header, out);
    std::memcpy(out + kFrameHeaderBytes, &op.expected, sizeof(op.expected));
  } else {
    wire::encode_frame(header, tx_.append(kFrameHeaderBytes));
  }
  flight.sent_mark = tx_.appended_total();
  push_flight(flight);
}

bool TcpChannel::transmit() {
  if (tx_.empty() && !stream_.keeps_output()) return false;
  ssize_t n = tx_.send(stream_);
  if (n == -EFAULT) [[unlikely]]
    n = send_past_fault();
  if (n < 0) {
    fail(Status(n == -EPROTO ? Code::kAuth : Code::kPeerLost, "connection lost while sending"));
    return false;
  }
  wants_write_.store(!tx_.empty() || stream_.keeps_output(), std::memory_order_relaxed);
  if (n > 0) mark_local();
  return n > 0;
}

ssize_t TcpChannel::send_past_fault() {
  for (;;) {
    mark_local();
    const ssize_t n = tx_.send_first(stream_);
    if (n != -EFAULT) return n;
    if (!tx_.blank_first()) return n;
    OCM_ASSERT(sent_flights_ < flights_.size());  // H1: what is not sent is some frame's
    fail_op_in_frame(flights_[sent_flights_].op, Code::kInvalidArgument);  // whose payload stands first
  }
}

void TcpChannel::fail_op_in_frame(Op* op, Code code) {
  if (op->code != Code::kOk) return;
  op->code = code;
  abandon_rest(op);
  Op* const notify = op->notify;
  if (notify == nullptr) return;
  notify->code = code;  // frame_op() makes a fence of it
  for (Flight& flight : flights_) {
    if (flight.op != notify) continue;
    if (std::byte* const frame = tx_.unsent(flight.sent_mark - kFrameHeaderBytes)) {
      FrameHeader header;
      header.type = flight.type = FrameType::kFence;
      header.tag = flight.tag;
      wire::encode_frame(header, frame);
    }
  }
}

void TcpChannel::mark_local() {
  const uint64_t sent = tx_.sent_total();
  while (sent_flights_ < flights_.size() && flights_[sent_flights_].sent_mark <= sent) {
    const Flight& flight = flights_[sent_flights_++];
    if (flight.type != FrameType::kPut || !flight.last || flight.op == nullptr) continue;
    flight.op->state.store(OpState::kLocal, std::memory_order_release);
  }
}

// ---------------------------------------------------------------- from replies to completions

bool TcpChannel::receive() {
  uint64_t budget = kReceiveBudgetBytes;
  bool moved = false;
  more_.store(false, std::memory_order_relaxed);
  while (!flights_.empty() || stream_.is_encrypted()) {
    if (budget == 0) {
      more_.store(true, std::memory_order_relaxed);
      break;
    }
    const ssize_t n = fill();
    if (n < 0) {
      fail(Status(Code::kPeerLost, "connection lost"));
      return false;
    }
    if (n == 0) break;
    moved = true;
    budget -= std::min<uint64_t>(budget, static_cast<uint64_t>(n));
    if (!parse()) {
      fail(Status(Code::kProtocol, "a reply that fits no request"));
      return false;
    }
    // Keep the home busy: what the replies made room for goes out before more is read.
    if (waiting_head_ != nullptr) {
      pump();
      if (!tx_.empty()) transmit();
      if (failed_.load(std::memory_order_relaxed)) return false;
    }
    if (short_ && stream_.short_means_empty()) break;
  }
  return moved;
}

ssize_t TcpChannel::fill() {
  if (begin_ > 0) {
    std::memmove(rx_.get(), rx_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (incoming_.left == 0) {
    const size_t want = std::min(ahead_bytes_, kRxBytes - end_);
    const ssize_t n = stream_.receive(rx_.get() + end_, want);
    if (n > 0) end_ += static_cast<size_t>(n);
    short_ = n < static_cast<ssize_t>(want);
    return n;
  }
  if (incoming_.discard) [[unlikely]] {
    const ssize_t n = stream_.receive(rx_.get(), std::min<uint64_t>(incoming_.left, kRxBytes));
    if (n > 0) incoming_.left -= static_cast<uint64_t>(n);
    short_ = false;
    return n;
  }
  OCM_DASSERT(end_ == 0 && !flights_.empty());  // all that was read ahead is parsed
  const uint64_t want = incoming_.left;
  const ssize_t n = stream_.receive(incoming_.target, want);
  if (n == -EFAULT) [[unlikely]] {
    incoming_.discard = true;
    fail_op_in_frame(flights_.front().op, Code::kInvalidArgument);
    short_ = false;
    return 1;
  }
  if (n <= 0) return n;
  const auto landed = static_cast<uint64_t>(n);
  short_ = landed < want;
  if (flights_.front().checksum) incoming_.crc = crc32c(incoming_.crc, incoming_.target, landed);
  incoming_.target += landed;
  incoming_.left -= landed;
  return n;
}

bool TcpChannel::parse() {
  for (;;) {
    if (incoming_.target != nullptr) {
      const size_t take = std::min<uint64_t>(incoming_.left, end_ - begin_);
      if (take > 0 && !incoming_.discard) {
        std::memcpy(incoming_.target, rx_.get() + begin_, take);
        if (flights_.front().checksum) incoming_.crc = crc32c(incoming_.crc, incoming_.target, take);
        incoming_.target += take;
      }
      begin_ += take;
      incoming_.left -= take;
      if (incoming_.left > 0) return true;
      const bool intact = !flights_.front().checksum || incoming_.crc == incoming_.expected_crc;
      incoming_ = {};
      complete_front(intact ? Code::kOk : Code::kBadChecksum, 0);
    }
    if (end_ - begin_ < kFrameHeaderBytes) return true;
    FrameHeader header;
    if (!wire::decode_frame(rx_.get() + begin_, header).is_ok()) return false;
    begin_ += kFrameHeaderBytes;
    if (!on_reply(header)) return false;
  }
}

bool TcpChannel::on_reply(const FrameHeader& header) {
  if (sent_flights_ == 0) return false;  // H1: nothing was asked, or not wholly yet
  const Flight& flight = flights_.front();
  if (header.tag != flight.tag) return false;
  if (header.type == FrameType::kError) {
    const auto code = static_cast<int64_t>(header.operand);
    if (header.length != 0 || code >= 0 || code < -1000 || !is_code(static_cast<int>(code))) return false;
    complete_front(static_cast<Code>(code), is_control(*flight.op) ? header.offset : 0);
    return true;
  }
  const bool is_get = flight.type == FrameType::kGet;
  if (header.type != FrameType::kReply || header.length != (is_get ? flight.bytes : 0)) return false;
  if (!is_get || flight.bytes == 0) {
    complete_front(Code::kOk, header.operand);
    return true;
  }
  if (flight.checksum && !(header.flags & wire::kFlagPayloadCrc)) return false;
  incoming_ = {flight.target, flight.bytes, is_withdrawn(*flight.op), 0, header.payload_crc};
  ahead_bytes_ = flight.bytes >= kLongBytes ? kAheadOfLongGetBytes : kRxBytes;
  return true;
}

void TcpChannel::complete_front(Code code, uint64_t old_value) {
  OCM_ASSERT(sent_flights_ > 0 && !flights_.empty());  // H1
  const Flight flight = flights_.front();
  OCM_DASSERT(window_used_bytes_ >= flight.cost_bytes);  // H2
  flights_.pop_front();
  --sent_flights_;
  window_used_bytes_ -= flight.cost_bytes;
  Op* op = flight.op;
  op->bytes_done += flight.bytes;
  op->old_value = old_value;
  if (code != Code::kOk && op->code == Code::kOk) op->code = code;
  if (flight.last) {
    finish(op);
  } else if (code != Code::kOk) {
    abandon_rest(op);
  }
}

void TcpChannel::abandon_rest(Op* op) {
  if (waiting_head_ != op) return;  // wholly framed: its last frame finishes it
  waiting_head_ = op->next;
  if (waiting_head_ == nullptr) waiting_tail_ = nullptr;
  // H4: if any of its frames is still in flight, it is the newest.
  if (!flights_.empty() && flights_.back().op == op) {
    flights_.back().last = true;
  } else {
    finish(op);
  }
}

void TcpChannel::finish(Op* op) {
  OCM_DASSERT(in_flight_.load(std::memory_order_relaxed) > 0 && !op->done());
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  if (is_control(*op)) {
    auto* control = static_cast<ControlOp*>(op);
    if (control->owned_by_channel) {
      delete control;
      return;
    }
  }
  if (is_withdrawn(*op)) {
    withdrawn_.fetch_sub(1, std::memory_order_relaxed);
    delete static_cast<Withdrawn*>(op);
    return;
  }
  op->finish(op->code);
}

void TcpChannel::fail(Status status) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const Code code = status.code();
  health_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  wants_write_.store(false, std::memory_order_relaxed);
  more_.store(false, std::memory_order_relaxed);
  stream_.shut_down();
  tx_.clear();
  incoming_ = {};
  // H3 first: nothing refers to the buffers any more, then the ops are finished, each once. It needs no memory.
  sent_flights_ = 0;
  window_used_bytes_ = 0;
  Op* waiting = waiting_head_;
  waiting_head_ = waiting_tail_ = nullptr;
  const Op* partly = waiting;  // may also have frames in flight: finished below, with the waiting
  for (const Flight& flight : flights_) {
    if (!flight.last || flight.op == partly) continue;
    if (flight.op->code == Code::kOk) flight.op->code = code;
    finish(flight.op);
  }
  flights_.clear();
  while (waiting != nullptr) {
    Op* const next = waiting->next;
    if (waiting->code == Code::kOk) waiting->code = code;
    finish(waiting);
    waiting = next;
  }
  OCM_DASSERT(in_flight_.load(std::memory_order_relaxed) == 0 &&
              withdrawn_.load(std::memory_order_relaxed) == 0);  // H5
}

// ---------------------------------------------------------------- progress

void TcpChannel::progress(uint64_t now_ns, uint64_t stall_ns) {
  if (in_flight_.load(std::memory_order_relaxed) == 0 && !wants_write_.load(std::memory_order_relaxed))
    return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || failed_.load(std::memory_order_relaxed)) return;
  bool moved = transmit();
  // Near peers have small buffers: the next room is a few microseconds away, and a miss empties the pipe.
  for (int i = 0; i < kTransmitTries && !tx_.empty() && !failed_.load(std::memory_order_relaxed); ++i) {
    if (transmit()) moved = true;
  }
  // While the network takes bytes, replies wait: a home that cannot send them stops taking ours.
  if (!failed_.load(std::memory_order_relaxed) && !(moved && !tx_.empty())) {
    if (receive()) moved = true;
    if (waiting_head_ != nullptr && !failed_.load(std::memory_order_relaxed)) {
      pump();
      if (transmit()) moved = true;
    }
  }
  if (failed_.load(std::memory_order_relaxed)) return;
  if (moved) moved_total_.store(moved_total_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (moved || restart_stall_ || flights_.empty()) {
    moved_ns_ = now_ns;
    restart_stall_ = false;
  } else if (stall_ns != 0 && now_ns > moved_ns_ && now_ns - moved_ns_ > stall_ns) {
    fail(Status(Code::kPeerLost,
                "no byte moved for " + std::to_string((now_ns - moved_ns_) / 1'000'000) + " ms"));
  }
}

Channel::PollOn TcpChannel::poll_on() {
  if (failed_.load(std::memory_order_acquire) || more_.load(std::memory_order_relaxed)) return {};
  const bool write = wants_write_.load(std::memory_order_relaxed);
  return {stream_.fd(), static_cast<short>(POLLIN | (write ? POLLOUT : 0))};
}

Status TcpChannel::health() const {
  if (!failed_.load(std::memory_order_acquire)) return {};
  return health_;  // written once, before failed_
}

bool TcpChannel::is_usable() {
  if (failed_.load(std::memory_order_acquire)) return false;
  if (in_flight_.load(std::memory_order_relaxed) != 0) {
    if (withdrawn_.load(std::memory_order_relaxed) == 0) return true;  // progress() learns of it
    const std::unique_lock lock(mutex_, std::try_to_lock);
    // Nobody may have looked since they were taken back.
    if (lock.owns_lock() && has_only_withdrawn() && !failed_.load(std::memory_order_relaxed)) (void)receive();
    return !failed_.load(std::memory_order_acquire);
  }
  const uint64_t now = os::coarse_ns();
  if (now - looked_ns_.load(std::memory_order_relaxed) < kLookAgainNs) return true;
  looked_ns_.store(now, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (flights_.empty() && !failed_.load(std::memory_order_relaxed) && stream_.has_ended()) {
    fail(Status(Code::kPeerLost, "connection lost while nothing was under way"));
  }
  return !failed_.load(std::memory_order_relaxed);
}

// ---------------------------------------------------------------- attach and detach

Result<uint32_t> TcpChannel::attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) {
  wire::AttachBody body;
  body.address = extent.id.address.bits();
  body.generation = extent.id.generation;
  body.access = static_cast<uint8_t>(access);
  body.proof = attach_proof(extent.capability, server_nonce_, body);
  auto op = std::make_unique<ControlOp>();
  op->local = &control_mark;
  op->opcode = OpCode::kFence;
  op->type = FrameType::kAttach;
  op->body_bytes = wire::kAttachBodyBytes;
  wire::encode_attach(body, op->body.data());
  post(*op);
  flush();
  Channel* const self = this;
  // The caller's deadline is the limit here; a stall before it is the deadline's.
  if (!wait_until(
          {&self, 1}, [&] { return op->done(); }, deadline, 0)) {
    const std::lock_guard lock(mutex_);
    if (!op->done()) {
      // The index, if one comes, is given back by the home when the connection ends.
      op.release()->owned_by_channel = true;
      return Status(Code::kDeadline, "no answer to attach");
    }
  }
  if (op->code != Code::kOk) return failed_.load() ? health() : not_attached(op->code, op->old_value);
  return static_cast<uint32_t>(op->old_value);
}

void TcpChannel::detach(uint32_t index) {
  auto op = std::make_unique<ControlOp>();
  op->local = &control_mark;
  op->opcode = OpCode::kFence;
  op->type = FrameType::kDetach;
  op->index = index;
  op->owned_by_channel = true;
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  if (has_only_withdrawn()) restart_stall_ = true;
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  enqueue(*op.release());
  pump();
  transmit();
}

}  // namespace ocm::fabric::tcp
