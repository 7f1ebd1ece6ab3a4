#include "node/http.h"

#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

#include "os/fd_reserve.h"

namespace ocm::node {
namespace {

constexpr size_t kRequestBytesMax = 8192;
constexpr size_t kConnectionsMax = 64;
constexpr auto kPatience = std::chrono::seconds(5);

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

}  // namespace

HttpServer::HttpServer(control::Loop& loop, os::Fd socket, Handler handler)
    : shared_(std::make_shared<Shared>(Shared{loop, std::move(handler), 0, {}})),
      acceptor_(std::make_shared<control::Acceptor>(loop, std::move(socket))) {}

void HttpServer::start() {
  acceptor_->start([shared = shared_](os::Fd socket) { accept(shared, std::move(socket)); });
}

void HttpServer::accept(const std::shared_ptr<Shared>& shared, os::Fd socket) {
  if (shared->connections >= kConnectionsMax || !os::fd_is_for(socket.get(), os::FdUse::kHttp)) return;
  ucred peer{};
  socklen_t length = sizeof(peer);
  std::optional<uint32_t> uid;
  const bool local = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (local && peer.uid != ~uid_t{0}) uid = peer.uid;  // over TCP nobody
  if (uid) {
    const auto mine = shared->by_uid.find(*uid);
    if (mine != shared->by_uid.end() && mine->second >= kConnectionsMax / 2) return;
    ++shared->by_uid[*uid];
  }
  ++shared->connections;
  shared->loop.spawn(serve(shared, std::move(socket), uid));
}

void HttpServer::stop() { acceptor_->stop(); }

control::Task<void> HttpServer::serve(std::shared_ptr<Shared> shared, os::Fd socket,
                                      std::optional<uint32_t> uid) {
  // Shared with the timer, whose handler may run after this frame is gone.
  const auto stream = std::make_shared<asio::posix::stream_descriptor>(shared->loop.context(), socket.get());
  socket.release();
  asio::steady_timer timer(shared->loop.context(), kPatience);
  timer.async_wait([stream](const asio::error_code& cancelled) {
    asio::error_code ignored;
    if (!cancelled) stream->close(ignored);
  });
  std::string request;
  asio::error_code error;
  char piece[1024];
  while (!error && request.find("\r\n\r\n") == std::string::npos && request.size() <= kRequestBytesMax) {
    const size_t n = co_await stream->async_read_some(asio::buffer(piece),
                                                      asio::redirect_error(asio::use_awaitable, error));
    request.append(piece, n);
  }
  if (!error) {
    Answer answer;
    const bool head = request.starts_with("HEAD ");
    if (request.size() > kRequestBytesMax) {
      answer = {431, "text/plain", "the request is too long\n"};
    } else if (!request.starts_with("GET ") && !head) {
      answer = {405, "text/plain", "GET only\n"};
    } else if (const size_t start = head ? 5 : 4; request.find(' ', start) == std::string::npos) {
      answer = {400, "text/plain", "malformed request\n"};
    } else {
      Request asked;  // no temporary in a co_await: GCC 12 destroys it twice
      asked.path = request.substr(start, request.find(' ', start) - start);
      asked.uid = uid;
      answer = co_await shared->handler(std::move(asked));
    }
    const std::string out = format(answer, !head);
    co_await asio::async_write(*stream, asio::buffer(out), asio::redirect_error(asio::use_awaitable, error));
  }
  timer.cancel();
  --shared->connections;
  if (uid && --shared->by_uid[*uid] == 0) shared->by_uid.erase(*uid);
}

}  // namespace ocm::node
