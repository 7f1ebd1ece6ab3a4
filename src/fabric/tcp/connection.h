// One client's connection at the home: frames in, checked, applied to extents, answered in order.
//
//   kHello --hello--> kProof --good proof--> kOpen
//      \------------------+--bad proof--> kClosing (kError is sent, then closed)
//   any state --broken frame, lost stream--> kClosed
//
// Invariants
//   C1 Before kOpen only hello and proof are accepted; the server closes what has not got there in time, and
//      it is kOpen only with one of the server's places.
//   C2 Every op passes check_access() with the extent that its index names now (S1 of served.h); a put
//      that fails is drained and answered kError, so the stream stays in step.
//   C3 Not a byte is read while more than kTxBytesMax or kTxSegmentsMax of replies wait: the peer's own
//      slowness stops it, and memory for one connection is bounded.
//   C4 Between two frames `saved_` holds less than one scratch buffer; a put's payload goes from the
//      socket into the extent.
//   C5 Nothing is written to bytes that a get's reply still refers to: gets answer with what was there before
//      the writes that follow them.
//   C6 An extent is held only while an op or a reply uses its bytes, and a removed one not for long whatever
//      the peer does: the rest of a put is drained, and who has not taken the replies within release_ns is
//      ended.
//   C7 After a newer connection of the same route was accepted, nothing of this one is applied (fence.h).
//   C8 A peer whose kernel answers nothing for vanished_ns is ended. One that answers and does not read is
//      not: its program computes, or is stopped, as long as it likes.
//   C9 Each index that this one has given is charged to its user (A1 of attachments.h), and given back when none of them
//      is used any more, or with the connection.
//   C10 Of requests for bytes on a device several are under way, in kStagedBytesMax of buffers but for one alone. What is
//      answered otherwise, and what depends on the outcome of the one before, waits until all of them are answered: so
//      replies have the order of the requests. A request for which its user has no buffer left (buffers.h) waits, too.
// Threads: its worker only; `seat_` is shared with those who fence it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/served.h"
#include "fabric/tcp/attachments.h"
#include "fabric/tcp/fence.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/places.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/staged_op.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/tx_queue.h"
#include "wire/frame.h"

namespace ocm::fabric::tcp {

/// One worker's read buffer, shared by its connections.
struct Scratch {
  static constexpr size_t kBytes = 32 * 1024;
  std::array<std::byte, kBytes> bytes;
};

class Connection {
 public:
  static constexpr uint64_t kTxBytesMax = 128 * 1024;
  static constexpr size_t kTxSegmentsMax = 256;
  static constexpr size_t kExtentsMax = 262'144;  // twice what a home has by default
  /// A checksummed payload is copied or read twice, so its frames are shorter.
  static constexpr uint64_t kChecksumFrameBytesMax = uint64_t{1} << 20;
  /// A get or put of bytes on a device takes a buffer.
  static constexpr uint64_t kStagedFrameBytesMax = uint64_t{4} << 20, kStagedBytesMax = uint64_t{4} << 20;
  static constexpr size_t kStagedMax = 256;

  /// All that it refers to outlives it.
  Connection(Stream stream, ExtentDirectory& directory, ServerStats& stats, Fences& fences, Places& places,
             Attachments& attachments, Buffers& buffers, std::shared_ptr<Bell> bell)
      : stream_(std::move(stream)),
        directory_(directory),
        stats_(stats),
        fences_(fences),
        places_(places),
        attachments_(attachments),
        buffers_(buffers),
        bell_(std::move(bell)) {
    seat_->fd = stream_.fd();
  }
  ~Connection() { abort(); }

  /// Moves what can be moved without blocking, until so many bytes were. True if any was.
  bool run(Scratch& scratch, uint64_t bytes_max);

  /// C6 and C8 for what waits, whether or not the peer does anything. When to look again; 0: nothing waits.
  uint64_t look(uint64_t now_ns, uint64_t release_ns, uint64_t vanished_ns);

  int fd() const { return stream_.fd(); }
  /// Whose it is, once it is authenticated.
  uint32_t uid() const { return uid_of(route_.session); }
  bool is_closed() const { return state_ == State::kClosed; }
  bool is_encrypted() const { return stream_.is_encrypted(); }
  /// Ends it at once.
  void abort() {
    const std::lock_guard lock(seat_->in_use);
    close();
  }
  /// If TLS refused the peer, or it us, and that is how it ended: its host, and why.
  struct Refusal {
    std::string peer, why;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }
  bool is_authenticated() const { return state_ == State::kOpen; }
  bool has_said_hello() const { return state_ != State::kHello; }
  /// There is certainly more to do: run again without asking epoll.
  bool has_more() const { return more_; }
  bool wants_write() const { return !tx_.empty() || stream_.keeps_output(); }
  bool wants_read() const { return state_ != State::kClosing && !is_congested(); }
  /// It waits for a device, and asks nothing of its socket.
  bool is_silent() const { return !wants_read() && !wants_write(); }

  // The worker's own.
  uint64_t accepted_ns = 0;
  uint64_t active_ns = 0;
  uint32_t armed_events = 0;
  bool hot = false;      // had traffic a moment ago
  bool direct = false;   // and is tried every round, outside the epoll set
  bool watched = false;  // look() is due
  bool counted = false;  // in shares.h

 private:
  enum class State { kHello, kProof, kOpen, kClosing, kClosed };
  struct Attached {
    std::weak_ptr<ServedExtent> extent;  // its directory's, until it is revoked
    Access access = Access::kRead;
    bool taken = false;  // else a free index
  };
  /// A put whose payload is under way, or is being drained (extent null).
  struct Incoming {
    std::shared_ptr<ServedExtent> extent;
    std::shared_ptr<StagedOp> op;  // to a device: the payload goes to its buffer first
    std::byte* target = nullptr;
    uint64_t left = 0;
    uint32_t crc = 0;
    Code code = Code::kOk;
    wire::FrameHeader header;
  };

  /// C5 for the frame of `header`.
  bool must_wait(const wire::FrameHeader& header) const;
  /// C10 for the frame of `header`.
  bool must_wait_for_device(const wire::FrameHeader& header) const;
  static bool is_too_large(const wire::FrameHeader& header, const ServedExtent& extent);
  /// One more, with a buffer of `bytes`; without memory for that it is refused already. Null: not now, it waits for a
  /// buffer. Throws std::bad_alloc: not even that can be told.
  std::shared_ptr<StagedOp> begin_staged(const wire::FrameHeader& header,
                                         const std::shared_ptr<ServedExtent>& extent, uint64_t bytes);
  /// Answers what the device is done with, in order. True: what waited for that goes on.
  bool answer_staged();
  void answer(std::shared_ptr<StagedOp> op);
  bool is_congested() const {
    return held_ || waits_for_device_ || tx_.bytes() > kTxBytesMax || tx_.segments() > kTxSegmentsMax;
  }
  /// seat_->in_use is held.
  void close() {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    seat_->fd = -1;
    seat_->place = {};
    stream_.close();
    tx_.clear();
    staged_.clear();
    give_indexes();
    fences_.leave(route_, seat_);
  }
  /// C9: none is used.
  void give_indexes() {
    attachments_.give(uid(), std::exchange(charged_, 0));
    extents_ = {};
    free_indexes_ = {};
  }
  /// C1, C4, C9 and C10, between frames; seat_->in_use is held. Cost: what waits to be sent, and for devices.
  bool is_valid() const;
  /// Ends it after a failed receive or send.
  void lost(ssize_t error);
  bool move(Scratch& scratch, uint64_t bytes_max);
  void release_revoked(uint64_t now_ns, uint64_t release_ns);
  bool has_vanished(const Answers& answers, uint64_t now_ns, uint64_t vanished_ns);

  // Input: [begin_, end_) of the scratch buffer is what was received and not yet understood.
  void parse(Scratch& scratch);
  ssize_t fill(Scratch& scratch);
  void take_payload(const std::byte* data, size_t count);
  void payload_landed(size_t count);
  bool flush();

  // Frames. `body` is complete for all but puts.
  void on_frame(const wire::FrameHeader& header, const std::byte* body);
  void on_hello(const wire::FrameHeader& header, const std::byte* body);
  void on_proof(const wire::FrameHeader& header, const std::byte* body);
  void on_attach(const wire::FrameHeader& header, const std::byte* body);
  void on_detach(const wire::FrameHeader& header);
  void on_put(const wire::FrameHeader& header);
  void on_get(const wire::FrameHeader& header);
  void on_atomic(const wire::FrameHeader& header, const std::byte* body);
  void put_complete();

  const Attached* attached(uint32_t index) const {
    return index < extents_.size() && extents_[index].taken ? &extents_[index] : nullptr;
  }
  /// The extent that the op of `header` names, held for it if it passed check_access(). Errors: those,
  /// kNotFound, and with kFlagChained the code of the request before it.
  Code admit(const wire::FrameHeader& header, uint64_t bytes, std::shared_ptr<ServedExtent>& extent) const;
  void reply(const wire::FrameHeader& to, uint64_t operand);
  /// To a get: `header.length` bytes, which stay with `keep`.
  void reply_bytes(const wire::FrameHeader& header, const std::byte* data,
                   std::shared_ptr<const ServedExtent> keep);
  /// `share`: for kLimit, how many of them this peer's user may have, if that is why.
  void refuse(const wire::FrameHeader& to, Code code, uint64_t share = 0);
  void answered();

  Stream stream_;
  ExtentDirectory& directory_;
  ServerStats& stats_;
  Fences& fences_;
  Places& places_;  // seat_ has one while kOpen
  Attachments& attachments_;
  Buffers& buffers_;
  const std::shared_ptr<Bell> bell_;  // of its worker
  const std::shared_ptr<Seat> seat_ = std::make_shared<Seat>();
  State state_ = State::kHello;
  std::optional<Refusal> refusal_;
  bool more_ = false;
  uint32_t frames_ = 0;
  uint64_t timed_since_ns_ = 0;  // not 0: the request under way is timed
  bool held_ = false;            // the next frame waits for replies to leave (C5)
  std::deque<std::shared_ptr<StagedOp>> staged_;
  uint64_t staged_bytes_ = 0;      // of their buffers
  bool waits_for_device_ = false;  // the next frame waits for them, or for a buffer (C10)
  bool put_back_ = false;          // it was begun already
  TxQueue tx_;
  uint64_t revoked_until_ = 0;        // of tx_, when it was last new
  uint64_t revoked_since_ns_ = 0;     // since then
  uint64_t unanswered_since_ns_ = 0;  // 0: the peer's kernel answers

  std::vector<std::byte> saved_;  // input kept between runs
  size_t begin_ = 0;
  size_t end_ = 0;
  bool short_ = false;  // the last receive brought less than it asked for
  size_t ahead_bytes_ = Scratch::kBytes;
  Incoming incoming_;
  Code last_code_ = Code::kOk;  // of the last request answered

  RouteKey route_;  // from the hello
  uint64_t attempt_ = 0;
  std::array<std::byte, 32> session_key_{};
  Nonce client_nonce_{};
  Nonce server_nonce_{};
  std::vector<Attached> extents_;
  std::vector<uint32_t> free_indexes_;
  uint32_t charged_ = 0;  // C9
};

}  // namespace ocm::fabric::tcp
