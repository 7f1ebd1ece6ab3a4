// GET /metrics, /status, /healthz and /readyz, on the control thread: small, read-only, one answer for a
// connection.
//
// Served twice: over TCP, where nobody knows who asks, and on a Unix socket, where the kernel says which
// user. Limits of each: 8 KiB of request, 64 connections, of which one user has half at most, 5 s for one.
// Threads: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "control/sockets.h"

namespace ocm::node {

class HttpServer {
 public:
  struct Answer {
    int code = 200;
    std::string type = "text/plain; charset=utf-8";
    std::string body;
  };
  struct Request {
    std::string path;             // "/status?node=n2"
    std::optional<uint32_t> uid;  // of the peer, on a Unix socket
  };
  using Handler = std::function<control::Task<Answer>(Request)>;
  /// `handler` is given each GET.
  HttpServer(control::Loop& loop, os::Fd socket, Handler handler);
  void start();
  void stop();

 private:
  struct Shared {
    control::Loop& loop;
    Handler handler;
    size_t connections = 0;
    std::unordered_map<uint32_t, size_t> by_uid;
  };
  static void accept(const std::shared_ptr<Shared>& shared, os::Fd socket);
  static control::Task<void> serve(std::shared_ptr<Shared> shared, os::Fd socket,
                                   std::optional<uint32_t> uid);

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<control::Acceptor> acceptor_;
};

}  // namespace ocm::node
