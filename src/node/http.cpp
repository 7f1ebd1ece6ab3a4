#include "node/http.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "node/core.h"
#include "os/fd_reserve.h"
#include "os/rights.h"

namespace ocm::node {
namespace {

constexpr size_t kRequestBytesMax = 8192;
constexpr size_t kConnectionsMax = 64;
constexpr auto kPatience = std::chrono::seconds(5);
constexpr uint32_t kNobody = ~uint32_t{0};  // over TCP
constexpr uint64_t kRestNsPerByte = 200;    // one takes about 25 to make
constexpr size_t kIgnoredBytesMax = size_t{1} << 20;
static_assert(kConnectionsMax / 2 <= kConnectionsMax / 4 * 3, "a user has no more than all");

const char* reason(int code) {
  switch (code) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
  }
}

std::string format(const HttpServer::Answer& answer, bool with_body) {
  std::string out = "HTTP/1.1 " + std::to_string(answer.code) + " " + reason(answer.code) +
                    "\r\nContent-Type: " + answer.type +
                    "\r\nContent-Length: " + std::to_string(answer.body.size()) +
                    "\r\nConnection: close\r\n\r\n";
  if (with_body) out += answer.body;
  return out;
}

using control::Task;

}  // namespace

class HttpPeer {
 public:
  HttpPeer(control::Loop& loop, os::Fd socket)
      : passes_rights_(os::passes_rights(socket.get())), stream_(loop.context(), socket.release()) {}
  ~HttpPeer() { close(); }
  HttpPeer(const HttpPeer&) = delete;
  HttpPeer& operator=(const HttpPeer&) = delete;

  bool is_open() const { return stream_.is_open(); }
  int fd() { return stream_.native_handle(); }
  void close() { control::close_unread(stream_); }
  /// False: it was closed.
  Task<bool> ready(asio::posix::stream_descriptor::wait_type what) {
    const asio::error_code error =
        co_await control::completed([&](auto done) { stream_.async_wait(what, done); });
    co_return !error;
  }
  /// As recv(2). Errors: EBADMSG too, see os/rights.h.
  ssize_t receive(void* to, size_t bytes) {
    return passes_rights_ ? os::receive_without_rights(fd(), to, bytes)
                          : ::recv(fd(), to, bytes, MSG_DONTWAIT);
  }

 private:
  const bool passes_rights_;
  asio::posix::stream_descriptor stream_;
};

namespace {

using Wait = asio::posix::stream_descriptor::wait_type;

/// Until the end of the request's head, or too much. False at the end of the connection.
Task<bool> receive(HttpPeer& peer, std::string& request) {
  while (request.find("\r\n\r\n") == std::string::npos && request.size() <= kRequestBytesMax) {
    if (!co_await peer.ready(Wait::wait_read)) co_return false;
    char piece[1024];
    const ssize_t n = peer.receive(piece, sizeof(piece));
    if (n > 0) {
      request.append(piece, static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      co_return false;
    }
  }
  co_return true;
}

/// Neither has the peer closed it, nor who waits too long.
bool is_waited_for(HttpPeer& peer) {
  if (!peer.is_open()) return false;
  pollfd one{peer.fd(), 0, 0};
  return ::poll(&one, 1, 0) == 0;
}

/// Until the peer closes: unread bytes would make the kernel reset the connection, and the answer with it.
Task<void> ignore_the_rest(HttpPeer& peer) {
  ::shutdown(peer.fd(), SHUT_WR);
  for (size_t ignored = 0; ignored < kIgnoredBytesMax;) {
    if (!co_await peer.ready(Wait::wait_read)) co_return;
    char piece[4096];
    const ssize_t n = peer.receive(piece, sizeof(piece));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) co_return;
    if (n > 0) ignored += static_cast<size_t>(n);
  }
}

/// As much as the peer takes.
Task<void> send(HttpPeer& peer, std::string bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    if (!co_await peer.ready(Wait::wait_write)) co_return;
    const ssize_t n =
        ::send(peer.fd(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
    } else if (errno != EAGAIN && errno != EINTR) {
      co_return;
    }
  }
}

}  // namespace

HttpServer::HttpServer(control::Loop& loop, os::Fd socket, Handler handler)
    : shared_(std::make_shared<Shared>(loop, std::move(handler))),
      acceptor_(std::make_shared<control::Acceptor>(loop, std::move(socket))) {}

void HttpServer::start() {
  acceptor_->start([shared = shared_](os::Fd socket) { accept(shared, std::move(socket)); });
}

bool HttpServer::Shared::make_room(size_t most, const std::function<bool(const Open&)>& which) {
  if (static_cast<size_t>(std::count_if(open.begin(), open.end(), which)) < most) return true;
  OCM_DASSERT(most > 0);
  const auto oldest = std::find_if(open.begin(), open.end(), [&](const Open& one) {
    return which(one) && (!one.asked || !is_waited_for(*one.stream));
  });
  if (oldest == open.end()) return false;
  oldest->stream->close();
  open.erase(oldest);
  return true;
}

HttpServer::Open* HttpServer::Shared::find(const Stream& stream) {
  const auto one =
      std::find_if(open.begin(), open.end(), [&](const Open& other) { return other.stream == stream; });
  return one == open.end() ? nullptr : &*one;
}

void HttpServer::accept(const std::shared_ptr<Shared>& shared, os::Fd socket) {
  if (!os::fd_is_for(socket.get(), os::FdUse::kHttp)) return os::close_unread(std::move(socket));
  ucred peer{};
  socklen_t length = sizeof(peer);
  std::optional<uint32_t> uid;
  const bool local = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (local && peer.uid != ~uid_t{0}) uid = peer.uid;  // over TCP nobody
  const auto is_trusted = [](const Open& one) { return one.uid && is_privileged(*one.uid); };
  const Open fresh{std::make_shared<HttpPeer>(shared->loop, std::move(socket)), uid};
  if (uid && !is_trusted(fresh)) {
    if (!shared->make_room(kConnectionsMax / 2, [&](const Open& one) { return one.uid == uid; })) return;
    if (!shared->make_room(kConnectionsMax / 4 * 3, [&](const Open& one) { return !is_trusted(one); }))
      return;
  }
  if (!shared->make_room(kConnectionsMax, [](const Open&) { return true; })) return;
  OCM_DASSERT(shared->open.size() < kConnectionsMax);
  shared->open.push_back(fresh);
  shared->loop.spawn(serve(shared, fresh.stream));
}

void HttpServer::stop() { acceptor_->stop(); }

control::Task<void> HttpServer::serve(std::shared_ptr<Shared> shared, Stream stream) {
  // The timer's handler may run after this frame is gone.
  asio::steady_timer timer(shared->loop.context(), kPatience);
  timer.async_wait([stream](const asio::error_code& cancelled) {
    if (!cancelled) stream->close();
  });
  std::string request;
  const bool whole = co_await receive(*stream, request);
  if (Open* const open = shared->find(stream); whole && open != nullptr) {
    open->asked = true;
    const std::optional<uint32_t> uid = open->uid;
    const bool head = request.starts_with("HEAD ");
    if (co_await take_turn(shared, stream, uid.value_or(kNobody))) {
      const Answer made = co_await answer(shared, uid, std::move(request));
      uint64_t& until_ns = shared->rests_until_ns[uid.value_or(kNobody)];
      until_ns = std::max(until_ns, shared->loop.now_ns()) + made.body.size() * kRestNsPerByte;
      co_await send(*stream, format(made, !head));
      if (Open* const still = shared->find(stream)) still->asked = false;  // it makes room again
      co_await ignore_the_rest(*stream);
    }
  }
  timer.cancel();
  shared->open.remove_if([&](const Open& one) { return one.stream == stream; });
}

control::Task<bool> HttpServer::take_turn(std::shared_ptr<Shared> shared, Stream stream, uint32_t user) {
  const auto until_next_pass = [](control::Loop& loop,
                                  [[maybe_unused]] control::Turns::Turn turn) -> Task<void> {
    co_await loop.next_pass();
  };
  control::Loop& loop = shared->loop;
  auto& rests = shared->rests_until_ns;
  const auto rest_ns = [&] {
    std::erase_if(rests, [&](const auto& one) { return one.second <= loop.now_ns(); });
    const auto rest = rests.find(user);
    return rest == rests.end() || is_privileged(user) ? 0 : rest->second - loop.now_ns();
  };
  while (is_waited_for(*stream)) {
    if (const uint64_t ns = rest_ns(); ns != 0) {
      co_await loop.sleep_ns(ns);
      continue;
    }
    auto turn = co_await shared->pass.take(0, UINT64_MAX);
    if (!is_waited_for(*stream)) break;
    if (rest_ns() != 0) continue;  // another answer of his was made meanwhile
    loop.spawn(until_next_pass(loop, std::move(turn)));
    co_return true;
  }
  co_return false;
}

control::Task<HttpServer::Answer> HttpServer::answer(std::shared_ptr<Shared> shared,
                                                     std::optional<uint32_t> uid, std::string request) {
  const bool head = request.starts_with("HEAD "), post = request.starts_with("POST ");
  const size_t start = head || post ? 5 : 4;
  if (request.size() > kRequestBytesMax) co_return Answer{431, "text/plain", "the request is too long\n"};
  if (!request.starts_with("GET ") && !head && !post) co_return Answer{405, "text/plain", "GET only\n"};
  OCM_DASSERT(start <= request.size());
  const size_t end = request.find(' ', start);
  if (end == std::string::npos) co_return Answer{400, "text/plain", "malformed request\n"};
  Request asked;  // no temporary in a co_await: GCC 12 destroys it twice
  asked.path = request.substr(start, end - start);
  asked.post = post;
  asked.uid = uid;
  try {
    co_return co_await shared->handler(std::move(asked));
  } catch (const std::exception& e) {
    log::error("http_failed", {{"what", e.what()}});
  }
  co_return Answer{503, "text/plain", "a fault in the daemon\n"};
}

}  // namespace ocm::node
