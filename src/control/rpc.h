// One framed control connection: requests with ids and deadlines both ways, on a Unix or TCP stream socket.
//
//   open --close(), a bad frame, end of stream, an error--> closed
//
// Invariants
//   R1 every call() returns: with a reply, at its deadline, or when the connection closes.
//   R2 a request gets exactly one reply, unless the connection closed before.
//   R3 what a peer sends ends at most its own connection: malformed or oversized frames close it; requests beyond
//      `outstanding_max`, or of more than `outstanding_bytes_max` together, are answered kQueueFull; a peer that does
//      not read is closed at `queued_bytes_max`.
//   R4 until trust() a frame is at most `untrusted_bytes_max` long.
//   R5 what it keeps for its peer is charged to `allowance`: a request that does not fit is answered kQueueFull; a
//      frame that is half there, or a reply, ends the connection.
//   R6 the loop never goes from one large message of an `allowance` to its next without a rest for everybody else's. In one
//      pass it takes kAtOnceMax messages of a connection, and of kUserTakingMax connections of an allowance, which take
//      turns; it answers kUserAnsweringMax of an allowance. What waits stays where it is, and its connection reads no more.
// Threads: the loop's only. Lifetime: shared; the reader holds it while open.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "control.pb.h"
#include "control/allowance.h"
#include "control/link.h"
#include "control/loop.h"
#include "control/tls.h"
#include "os/fd.h"
#include "wire/control.h"

namespace ocm::control {

/// What a handler answers: the envelope's body, code and detail; descriptors travel with it.
struct Reply {
  wire::Envelope message;
  std::vector<os::Fd> fds;

  Reply() = default;
  Reply(const Status& status) {  // NOLINT: a status is a reply
    wire::put_status(status, message);
  }
  Reply(wire::Envelope body) : message(std::move(body)) {}  // NOLINT
};

/// What another daemon answered, handed on.
Reply reply_of(Result<wire::Envelope> answer);
/// The code and detail of a reply. A code that is none of ours is kProtocol.
Status reply_status(const wire::Envelope& reply);

class Connection final : public Link, public std::enable_shared_from_this<Connection> {
 public:
  using Handler = std::function<Task<Reply>(std::shared_ptr<Connection>, wire::Envelope)>;
  using Closed = std::function<void(const std::shared_ptr<Connection>&, const Status&)>;
  struct Options {
    uint32_t outstanding_max = 256;
    size_t outstanding_bytes_max = size_t{16} << 20;  // as they came, until they are answered
    size_t queued_bytes_max = size_t{32} << 20;
    size_t untrusted_bytes_max = size_t{16} << 10;
    std::shared_ptr<TlsContext> tls;       // null: plain
    std::shared_ptr<Allowance> allowance;  // null: none
    bool server = true;
    /// A reply for which there is no room is left out, and who asked waits in vain: on a connection that many share.
    bool leaves_out_replies = false;
  };

  /// Takes a connected stream socket; it is made non-blocking.
  Connection(Loop& loop, os::Fd socket, Options options);
  ~Connection() override;

  /// Starts reading. `handler` answers requests, `closed` is called once. Both may keep the connection alive
  /// only until it closes: they are dropped then.
  void start(Handler handler, Closed closed);
  Task<Result<wire::Envelope>> call(wire::Envelope request, uint64_t deadline_ns) override;
  /// Calls under way get kPeerLost, or kAuth if that is why.
  void close(const Status& why) override;

  void trust(size_t bytes_max = wire::kControlBytesMax) { bytes_max_ = bytes_max; }
  bool is_open() const override { return open_; }
  uint64_t heard_ns() const override { return heard_ns_; }
  int fd() const { return fd_; }
  /// Null without TLS.
  const TlsFilter* tls() const { return tls_.get(); }
  Loop& loop() { return loop_; }

 private:
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    std::vector<os::Fd> fds;
    Charge charge;
  };
  struct Call {
    explicit Call(asio::io_context& context) : timer(context) {}
    asio::steady_timer timer;
    bool done = false;
    Status status;
    wire::Envelope reply;
  };

  Task<void> read_loop(std::shared_ptr<Connection> self);
  Task<void> write_loop(std::shared_ptr<Connection> self);
  Task<void> answer(std::shared_ptr<Connection> self, wire::Envelope request, size_t bytes, Charge charge);
  /// What has arrived, unparsed. An error at end of stream.
  Status receive();
  /// R6: its allowance's turn, and that turn's end in the next pass of the loop.
  Task<void> take_turn();
  void end_turn();
  /// What has arrived whole, as far as R6 lets it.
  Status understand();
  Status dispatch();
  Status parse_and_take(const std::byte* at, uint32_t length);
  /// How long the next message, of `length` bytes, waits (R6).
  uint64_t rest_ns(size_t length) const;
  std::string end_of_stream() const;
  Status over_allowance() const;
  Status take(wire::Envelope message, size_t bytes);
  Status send(const wire::Envelope& message, std::vector<os::Fd> fds = {});
  Status flush();
  Status send_piece(Outgoing& piece);
  /// R3, R5, and what is counted; O(pieces that wait).
  bool is_valid() const;

  Loop& loop_;
  asio::posix::stream_descriptor stream_;
  const int fd_;
  const Options options_;
  const bool passes_rights_;  // os/rights.h
  std::unique_ptr<TlsFilter> tls_;
  size_t bytes_max_;
  bool open_ = true;
  bool heard_ = false;  // anything at all
  uint64_t heard_ns_ = loop_.now_ns();
  uint64_t rest_ns_ = 0;  // before the rest of what has arrived is taken (R6)
  bool writing_ = false;  // write_loop() runs
  bool starved_ =
      false;  // too many descriptors of this user are in flight: the socket is writable all the same
  std::string in_;
  size_t in_begin_ = 0;
  Charge in_charge_;
  std::deque<Outgoing> out_;
  size_t queued_bytes_ = 0;
  uint64_t next_id_ = 1;
  uint32_t answering_ = 0;
  size_t answering_bytes_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_;
  Handler handler_;
  Closed closed_;
};

}  // namespace ocm::control
