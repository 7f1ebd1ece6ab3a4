// The client's end of one tcp connection: ops become frames, replies complete them in order.
//
//   post() -> waiting_ (ops not wholly framed) --window has room--> tx_ and flights_ --reply--> done
//
// Invariants
//   H1 flights_ holds one entry for each frame whose reply is due, in the order of the frames on the wire; a reply
//      that does not fit the first entry (type, tag, length), or comes before its frame was sent whole, is kProtocol
//      and the channel fails.
//   H2 window_used_bytes_ = sum of flight costs; a new frame is made only below the window, or alone.
//   H3 An op is done only when none of its frames is in flights_, so neither tx_ nor a receive refers to its buffer
//      any more.
//   H4 Frames of one op are adjacent in flights_; only the last one finishes it.
//   H5 Once health_ is bad, nothing is queued or in flight, and every new op fails at once.
//   H6 The frame of a put's notify is the next one after the put's last (kFlagChained).
//   H7 A buffer of the user that cannot be read or written fails its own op (kInvalidArgument). The frames that were
//      promised for it keep their lengths, and its notify becomes a fence.
//   H8 A flight of an op that was taken back refers to a Withdrawn of the channel's own, which ends in its place: no
//      waiting op is one.
// Threads: any; mutex_ guards everything that is not atomic. progress() never waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/channel.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/tx_queue.h"
#include "wire/frame.h"

namespace ocm::fabric::tcp {

struct ChannelOptions {
  uint64_t window_bytes = 0;  // in flight at most; 0: from the measured round trip
  uint64_t frame_bytes = 0;   // of one frame at most; 0: measured best
};

/// Requests without bytes of the user: attach and detach. Not an op of the public interface.
struct ControlOp;
/// What stands in the place of an op that was taken back, until the replies to its frames have come.
struct Withdrawn;

class TcpChannel final : public Channel {
 public:
  /// `stream` is authenticated; `server_nonce` is from its challenge.
  TcpChannel(Stream stream, const Nonce& server_nonce, const ChannelOptions& options);
  ~TcpChannel() override;

  Result<uint32_t> attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) override;
  void detach(uint32_t index) override;
  void post(Op& op) override;
  void withdraw(Op& op) override;
  void flush() override;
  void progress(uint64_t now_ns, uint64_t stall_ns) override;
  uint64_t moved_total() const override { return moved_total_.load(std::memory_order_relaxed); }
  PollOn poll_on() override;
  Status health() const override;
  bool is_usable() override;
  uint32_t in_flight() const override { return in_flight_.load(std::memory_order_relaxed); }
  /// H1 to H5 and H8, between calls. Cost: what waits and what is in flight.
  bool is_valid() const;

 private:
  struct Flight {
    Op* op;
    uint32_t tag;
    wire::FrameType type;
    bool last;  // its reply finishes the op
    bool checksum;
    uint64_t bytes;     // the put's or get's
    std::byte* target;  // get: where the payload goes
    uint64_t cost_bytes;
    uint64_t sent_mark;  // tx_.sent_total() at which the frame is in the kernel
  };
  /// A get's payload under way into the user's buffer.
  struct Incoming {
    std::byte* target = nullptr;
    uint64_t left = 0;
    bool discard =
        false;  // the user's buffer cannot be written, or is not ours any more: the rest goes nowhere
    uint32_t crc = 0;
    uint32_t expected_crc = 0;
  };

  void enqueue(Op& op);
  void pump();
  void frame_op(Op& op);
  void frame_control(ControlOp& op);
  void push_flight(const Flight& flight);
  void mark_local();
  bool transmit();
  ssize_t send_past_fault();
  void fail_op_in_frame(Op* op, Code code);
  bool receive();
  ssize_t fill();
  bool parse();
  bool on_reply(const wire::FrameHeader& header);
  void complete_front(Code code, uint64_t old_value);
  void finish(Op* op);
  void abandon_rest(Op* op);
  bool has_only_withdrawn() const {
    return in_flight_.load(std::memory_order_relaxed) == withdrawn_.load(std::memory_order_relaxed);
  }
  bool take_waiting(Op& op);
  void replace(Op& op, Withdrawn& by);
  void fail(Status status);
  bool holds() const;  // is_valid(), with mutex_ held

  mutable std::mutex mutex_;
  Stream stream_;
  const Nonce server_nonce_;
  uint64_t window_bytes_;
  uint64_t frame_bytes_;
  Status health_;
  std::atomic<bool> failed_{false};
  std::atomic<uint32_t> in_flight_{0};
  std::atomic<uint32_t> withdrawn_{0};  // of in_flight_: Withdrawns; written under mutex_
  std::atomic<bool> wants_write_{false};
  std::atomic<bool> more_{false};
  std::atomic<uint64_t> moved_total_{0};  // written under mutex_
  std::atomic<uint64_t> looked_ns_{0};    // coarse; when is_usable() asked the socket last

  Op* waiting_head_ = nullptr;
  Op* waiting_tail_ = nullptr;
  TxQueue tx_;
  std::deque<Flight> flights_;
  size_t sent_flights_ = 0;  // the first so many of flights_ are in the kernel
  uint64_t window_used_bytes_ = 0;
  uint32_t next_tag_ = 1;

  std::unique_ptr<std::byte[]> rx_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t ahead_bytes_;
  bool short_ = false;
  Incoming incoming_;

  uint64_t moved_ns_ = 0;      // when a byte last moved, or the first op after silence was posted
  bool restart_stall_ = true;  // moved_ns_ is to be set at the next progress
};

}  // namespace ocm::fabric::tcp
