#include "control/rpc.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/assert.h"
#include "base/fault.h"
#include "base/log.h"
#include "control/sockets.h"
#include "os/rights.h"

namespace ocm::control {
namespace {

constexpr size_t kReadBytes = 16384;
constexpr size_t kAtOnceMax = 16;
constexpr uint64_t kNextPassNs = 1;  // when the loop has been at everybody else's
/// Between two looks at whether fewer requests of a user are being answered.
constexpr uint64_t kFullNs = 2'000'000;
constexpr uint64_t kStarvedNs = 10'000'000;  // until others have received some of the descriptors in flight
static_assert(kNextPassNs != 0 && kNextPassNs < kFullNs, "they are told apart");
static_assert(wire::kControlBytesMax <= wire::kNodeBytesMax);
static_assert(wire::kControlFdsMax <= 253, "SCM_MAX_FD of the kernel");

}  // namespace

Reply reply_of(Result<wire::Envelope> answer) {
  if (!answer.is_ok()) return Reply(answer.status());
  wire::Envelope message = std::move(answer).value();
  wire::put_status(Status(), message);
  return Reply(std::move(message));
}

Status reply_status(const wire::Envelope& reply) { return wire::status_of(reply); }

Connection::Connection(Loop& loop, os::Fd socket, Options options)
    : loop_(loop),
      stream_(loop.context()),
      fd_(socket.get()),
      options_(std::move(options)),
      passes_rights_(options_.server && os::passes_rights(fd_)),
      bytes_max_(options_.untrusted_bytes_max),
      in_charge_(options_.allowance) {
  OCM_DASSERT(fd_ >= 0);
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  stream_.assign(socket.release());
  if (options_.tls) tls_ = std::make_unique<TlsFilter>(options_.tls, options_.server);
}

Connection::~Connection() { close_unread(stream_); }

void Connection::start(Handler handler, Closed closed) {
  OCM_DASSERT(!handler_ && !closed_);
  handler_ = std::move(handler);
  closed_ = std::move(closed);
  loop_.spawn(read_loop(shared_from_this()));
  if (tls_ && !options_.server) {  // the client's hello opens the handshake
    Status status = tls_->write({});
    if (status.is_ok()) status = flush();
    if (!status.is_ok()) close(status);
  }
}

Task<void> Connection::read_loop([[maybe_unused]] std::shared_ptr<Connection> self) {
  Status status;
  while (open_) {
    const asio::error_code error = co_await completed(
        [&](auto done) { stream_.async_wait(asio::posix::stream_descriptor::wait_read, done); });
    if (error || !open_) break;
    status = receive();
    do {
      if (options_.allowance) co_await take_turn();
      if (status.is_ok() && open_) status = understand();
      if (options_.allowance) end_turn();
      if (rest_ns_ == kNextPassNs)
        co_await loop_.next_pass();
      else if (rest_ns_ != 0)
        co_await loop_.sleep_ns(rest_ns_);
    } while (status.is_ok() && open_ && rest_ns_ != 0);
    if (!status.is_ok()) break;
  }
  close(status.is_ok() ? Status(Code::kPeerLost, "the connection was closed") : status);
}

Status Connection::receive() {
  OCM_DASSERT(in_begin_ <= in_.size());
  if (in_begin_ > 0) {
    in_.erase(0, in_begin_);
    in_begin_ = 0;
  }
  // One read for each readiness: no connection keeps the others waiting.
  char piece[kReadBytes];
  const ssize_t n = passes_rights_ ? os::receive_without_rights(fd_, piece, sizeof(piece))
                                   : ::recv(fd_, piece, sizeof(piece), MSG_DONTWAIT);
  if (n == 0) return Status(Code::kPeerLost, end_of_stream());
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    if (errno == EBADMSG) return Status(Code::kProtocol, "descriptors, which no request has");
    return Status(Code::kPeerLost, std::string("recv: ") + std::strerror(errno));
  }
  heard_ = true;
  heard_ns_ = loop_.now_ns();
  if (tls_) {
    const Status fed = tls_->feed({reinterpret_cast<const std::byte*>(piece), static_cast<size_t>(n)}, in_);
    const Status flushed = flush();  // also what tells the peer why it failed
    OCM_TRY(fed);
    OCM_TRY(flushed);
  } else {
    in_.append(piece, static_cast<size_t>(n));
  }
  return {};
}

Task<void> Connection::take_turn() {
  const std::shared_ptr<Allowance> user = options_.allowance;
  OCM_DASSERT(user->is_valid());  // R6
  if (user->taking < kUserTakingMax) {
    ++user->taking;
    co_return;
  }
  const auto waiter = std::make_shared<Allowance::Waiter>(loop_);
  user->waiting.push_back(waiter);
  while (!waiter->is_called) co_await waiter->signal.wait();
}

void Connection::end_turn() {
  loop_.post([user = options_.allowance] {
    OCM_DASSERT(user->taking > 0 && user->is_valid());  // R6
    if (user->waiting.empty()) {
      --user->taking;
      return;
    }
    OCM_DASSERT(!user->waiting.front()->is_called);
    user->waiting.front()->is_called = true;
    user->waiting.front()->signal.notify();
    user->waiting.pop_front();
  });
}

Status Connection::understand() {
  rest_ns_ = 0;
  OCM_TRY(dispatch());
  OCM_DASSERT(in_begin_ <= in_.size());
  if (!in_charge_.resize(in_.size() - in_begin_)) return over_allowance();
  if (in_begin_ == in_.size() && in_.capacity() > 4 * kReadBytes) {
    std::string().swap(in_);
    in_begin_ = 0;
  }
  return {};
}

Status Connection::over_allowance() const {
  OCM_DASSERT(options_.allowance != nullptr);
  return Status(Code::kLimit, "this user's requests and unread replies take more than " +
                                  std::to_string(options_.allowance->bytes_max >> 20) + " MiB of the daemon");
}

std::string Connection::end_of_stream() const {
  std::string out = "the peer closed the connection";
  if (tls_ && !tls_->is_established()) {
    out += " during the TLS handshake; its log says why, or it is without TLS";
  } else if (!tls_ && !options_.server && !heard_) {
    out += " before its first answer; does it want TLS?";
  }
  return out;
}

uint64_t Connection::rest_ns(size_t length) const {
  const Allowance* const user = options_.allowance.get();
  if (user == nullptr) return 0;
  if (user->answering >= kUserAnsweringMax) return kFullNs;
  const uint64_t now_ns = loop_.now_ns();
  return length > kLargeMessageBytes && now_ns < user->large_from_ns ? user->large_from_ns - now_ns : 0;
}

Status Connection::dispatch() {
  for (size_t taken = 0; open_ && in_.size() - in_begin_ >= wire::kControlHeaderBytes; ++taken) {
    const auto* at = reinterpret_cast<const std::byte*>(in_.data() + in_begin_);
    const bool trusted = bytes_max_ > options_.untrusted_bytes_max;
    if (!tls_ && !trusted && os::looks_like_tls({in_.data() + in_begin_, wire::kControlHeaderBytes})) {
      return Status(Code::kAuth, "the peer speaks TLS, and this node has no tls_ca, tls_cert and tls_key");
    }
    OCM_TRY_ASSIGN(const uint32_t length,
                   wire::control_length({at, wire::kControlHeaderBytes}, wire::kNodeBytesMax));
    if (length > bytes_max_) return Status(Code::kProtocol, "a control message longer than allowed");
    if (in_.size() - in_begin_ < wire::kControlHeaderBytes + length) break;
    rest_ns_ = taken == kAtOnceMax ? kNextPassNs : rest_ns(length);
    if (rest_ns_ != 0) break;
    const uint64_t began_ns = loop_.now_ns();
    const Status taken_up = parse_and_take(at + wire::kControlHeaderBytes, length);
    if (options_.allowance && length > kLargeMessageBytes) {
      const uint64_t now_ns = loop_.now_ns();
      options_.allowance->large_from_ns = now_ns + kRestAfterLarge * (now_ns - began_ns);
    }
    OCM_TRY(taken_up);
  }
  return {};
}

Status Connection::parse_and_take(const std::byte* at, uint32_t length) {
  wire::Envelope message;
  OCM_TRY(wire::parse_control({at, length}, message));
  in_begin_ += wire::kControlHeaderBytes + length;
  OCM_DASSERT(in_begin_ <= in_.size());
  return take(std::move(message), length);
}

Status Connection::take(wire::Envelope message, size_t bytes) {
  if (message.reply()) {
    const auto it = calls_.find(message.id());
    if (it == calls_.end()) return {};  // its deadline has passed
    const std::shared_ptr<Call> call = it->second;
    calls_.erase(it);
    OCM_DASSERT(!call->done);
    call->done = true;
    call->reply = std::move(message);
    call->timer.cancel();
    loop_.stay_awake();
    return {};
  }
  if (message.body_case() != wire::Envelope::kHeartbeat) loop_.stay_awake();
  Charge charge(options_.allowance);
  const bool fits = charge.resize(bytes * kParsedBytesPerByte);
  const bool many =
      answering_ >= options_.outstanding_max || answering_bytes_ + bytes > options_.outstanding_bytes_max;
  if (many || !fits) {
    Reply full(fits ? Status(Code::kQueueFull, "too many requests under way on one connection")
                    : Status(Code::kQueueFull, std::string(over_allowance().message())));
    full.message.set_id(message.id());
    full.message.set_reply(true);
    return send(full.message);
  }
  ++answering_;
  if (options_.allowance) ++options_.allowance->answering;
  answering_bytes_ += bytes;
  OCM_DASSERT(answering_ <= options_.outstanding_max);              // R3
  OCM_DASSERT(answering_bytes_ <= options_.outstanding_bytes_max);  // R3
  loop_.spawn(answer(shared_from_this(), std::move(message), bytes, std::move(charge)));
  return {};
}

Task<void> Connection::answer(std::shared_ptr<Connection> self, wire::Envelope request, size_t bytes,
                              [[maybe_unused]] Charge charge) {
  const uint64_t id = request.id();
  Reply reply{Status(Code::kInternal)};
  if (handler_) {
    const Handler handler = handler_;  // close() drops it while it runs
    try {
      if (fault::at(fault::Point::kHandlerThrows)) throw std::logic_error("a fault on purpose");
      reply = co_await handler(self, std::move(request));
    } catch (const std::exception& e) {
      log::error("handler_failed", {{"what", e.what()}});
      reply = Reply(Status(Code::kInternal, "a fault in the daemon"));
    }
  }
  OCM_DASSERT(answering_ > 0 && answering_bytes_ >= bytes);
  OCM_DASSERT(!options_.allowance || options_.allowance->answering > 0);
  --answering_;
  if (options_.allowance) --options_.allowance->answering;
  answering_bytes_ -= bytes;
  if (!open_) co_return;
  reply.message.set_id(id);
  reply.message.set_reply(true);
  reply.message.set_fds(static_cast<uint32_t>(reply.fds.size()));
  Status sent = send(reply.message, std::move(reply.fds));
  if (sent.code() == Code::kTooLarge) {
    Reply large(sent);
    large.message.set_id(id);
    large.message.set_reply(true);
    sent = send(large.message);
  }
  if (sent.code() == Code::kQueueFull && options_.leaves_out_replies) co_return;
  if (!sent.is_ok()) close(sent);
}

Task<Result<wire::Envelope>> Connection::call(wire::Envelope request, uint64_t deadline_ns) {
  if (!open_) co_return Status(Code::kPeerLost, "the connection is closed");
  const uint64_t id = next_id_++;
  request.set_id(id);
  request.set_reply(false);
  auto call = std::make_shared<Call>(loop_.context());
  calls_.emplace(id, call);
  call->timer.expires_after(left_until(deadline_ns));
  const Status sent = send(request);
  if (!sent.is_ok()) {
    calls_.erase(id);
    if (sent.code() != Code::kTooLarge) close(sent);
    co_return sent;
  }
  while (!call->done && os::now_ns() < deadline_ns) {
    co_await completed([&](auto done) { call->timer.async_wait(done); });
  }
  OCM_DASSERT(call->done != calls_.contains(id));  // R1
  if (!call->done) {
    calls_.erase(id);
    co_return Status(Code::kDeadline, "no answer within the deadline");
  }
  if (!call->status.is_ok()) co_return call->status;
  co_return std::move(call->reply);
}

Status Connection::send(const wire::Envelope& message, std::vector<os::Fd> fds) {
  OCM_ASSERT(fds.size() <= wire::kControlFdsMax);
  OCM_DASSERT(open_);
  Outgoing piece;
  OCM_TRY(wire::append_control(message, piece.bytes, std::max(bytes_max_, wire::kControlBytesMax)));
  if (queued_bytes_ + piece.bytes.size() > options_.queued_bytes_max) {
    return Status(Code::kQueueFull, "the peer does not read its replies");
  }
  piece.charge = Charge(options_.allowance);
  if (!piece.charge.resize(piece.bytes.size())) return over_allowance();
  if (tls_) {
    OCM_TRY(tls_->write(piece.bytes));
    return flush();
  }
  piece.fds = std::move(fds);
  queued_bytes_ += piece.bytes.size();
  OCM_DASSERT(queued_bytes_ <= options_.queued_bytes_max);  // R3
  out_.push_back(std::move(piece));
  return flush();
}

Status Connection::flush() {
  if (tls_) {
    Outgoing piece;
    tls_->take_output(piece.bytes);
    queued_bytes_ += piece.bytes.size();
    if (!piece.bytes.empty()) out_.push_back(std::move(piece));
  }
  if (writing_) return {};
  while (!out_.empty()) {
    Outgoing& front = out_.front();
    OCM_TRY(send_piece(front));
    if (front.sent < front.bytes.size()) {
      writing_ = true;
      loop_.spawn(write_loop(shared_from_this()));
      return {};
    }
    OCM_DASSERT(queued_bytes_ >= front.bytes.size() && front.fds.empty());
    queued_bytes_ -= front.bytes.size();
    out_.pop_front();
  }
  OCM_DASSERT(queued_bytes_ == 0);
  return {};
}

/// As much of the piece as the socket takes now; the descriptors go with its first byte.
Status Connection::send_piece(Outgoing& piece) {
  OCM_DASSERT(piece.sent <= piece.bytes.size() && piece.fds.size() <= wire::kControlFdsMax);
  while (piece.sent < piece.bytes.size()) {
    iovec part{piece.bytes.data() + piece.sent, piece.bytes.size() - piece.sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::kControlFdsMax)] = {};
    if (piece.sent == 0 && !piece.fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * piece.fds.size());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * piece.fds.size());
      for (size_t i = 0; i < piece.fds.size(); ++i) {
        const int fd = piece.fds[i].get();
        std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
      }
    }
    const ssize_t n = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      starved_ = errno == ETOOMANYREFS;
      if (errno == EAGAIN || starved_) return {};
      return Status(Code::kPeerLost, std::string("send: ") + std::strerror(errno));
    }
    starved_ = false;
    piece.fds.clear();
    piece.sent += static_cast<size_t>(n);
  }
  return {};
}

Task<void> Connection::write_loop([[maybe_unused]] std::shared_ptr<Connection> self) {
  while (open_ && !out_.empty()) {
    const asio::error_code error = co_await completed(
        [&](auto done) { stream_.async_wait(asio::posix::stream_descriptor::wait_write, done); });
    if (error || !open_) break;
    OCM_DASSERT(writing_ && !out_.empty());
    Outgoing& front = out_.front();
    const Status status = send_piece(front);
    if (!status.is_ok()) {
      close(status);
      break;
    }
    if (front.sent == front.bytes.size()) {
      OCM_DASSERT(queued_bytes_ >= front.bytes.size() && front.fds.empty());
      queued_bytes_ -= front.bytes.size();
      out_.pop_front();
    } else if (starved_) {
      co_await loop_.sleep_ns(kStarvedNs);
    }
  }
  writing_ = false;
}

bool Connection::is_valid() const {
  size_t queued = 0;
  for (const Outgoing& piece : out_) {
    if (piece.sent > piece.bytes.size() || piece.fds.size() > wire::kControlFdsMax) return false;
    queued += piece.bytes.size();
  }
  if (queued != queued_bytes_ || in_begin_ > in_.size()) return false;
  if (options_.allowance && !options_.allowance->is_valid()) return false;
  if (answering_bytes_ > options_.outstanding_bytes_max) return false;
  return answering_ <= options_.outstanding_max;
}

void Connection::close(const Status& why) {
  if (!open_) return;
  OCM_DASSERT(is_valid());
  open_ = false;
  const std::shared_ptr<Connection> self = shared_from_this();
  close_unread(stream_);
  out_.clear();
  queued_bytes_ = 0;
  for (auto& [id, call] : calls_) {
    call->done = true;
    call->status = why.code() == Code::kAuth ? why : why.with_code(Code::kPeerLost);
    call->timer.cancel();
  }
  calls_.clear();
  handler_ = nullptr;
  if (const Closed closed = std::move(closed_)) closed(self, why);
  tell_closed();
}

}  // namespace ocm::control
