// GET /metrics, /status, /healthz and /readyz, on the control thread: small, read-only, one answer for a
// connection.
//
// Limits: 8 KiB of request, 64 connections, 5 s for one. No secret is in any answer.
// Threads: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/sockets.h"

namespace ocm::node {

class HttpServer {
 public:
  struct Answer {
    int code = 200;
    std::string type = "text/plain; charset=utf-8";
    std::string body;
  };
  /// `answer` is given the path of a GET.
  HttpServer(control::Loop& loop, os::Fd socket, std::function<Answer(const std::string&)> answer);
  void start();
  void stop();

 private:
  struct Shared {
    control::Loop& loop;
    std::function<Answer(const std::string&)> answer;
    int connections = 0;
  };
  static control::Task<void> serve(std::shared_ptr<Shared> shared, os::Fd socket);

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<control::Acceptor> acceptor_;
};

}  // namespace ocm::node
