// GET /metrics, /status, /cluster, /healthz and /readyz, on the control thread: small, one answer for a connection. Nothing
// changes by them; what an operator may have done is a POST, on the Unix socket.
//
// Served twice: over TCP, where nobody knows who asks, and on a Unix socket, where the kernel says which user. Limits
// of each: 8 KiB of request, 5 s for one, 64 connections. Of these one user has half at most, and all users but root
// and the daemon's own three quarters. Where one is over a limit, the oldest whose request is not there yet makes
// room, so that silent ones shut nobody out. In one pass of the loop one answer is made, and after one of a user's none
// of his for seven times as long, so that many long ones leave the loop to everybody else.
// Threads: the loop's.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "control/sockets.h"
#include "control/turns.h"

namespace ocm::node {

/// Who asks: a connection.
class HttpPeer;

class HttpServer {
 public:
  struct Answer {
    int code = 200;
    std::string type = "text/plain; charset=utf-8";
    std::string body;
  };
  struct Request {
    std::string path;  // "/status?node=n2"
    bool post = false;
    std::optional<uint32_t> uid;  // of the peer, on a Unix socket
  };
  using Handler = std::function<control::Task<Answer>(Request)>;
  /// `handler` is given each GET and POST, of which the body is not read.
  HttpServer(control::Loop& loop, os::Fd socket, Handler handler);
  void start();
  void stop();

 private:
  using Stream = std::shared_ptr<HttpPeer>;
  struct Open {
    Stream stream;
    std::optional<uint32_t> uid;
    bool asked = false;  // its request is there
  };
  struct Shared {
    Shared(control::Loop& on, Handler answers) : loop(on), handler(std::move(answers)) {}
    control::Loop& loop;
    Handler handler;
    std::list<Open> open;                         // the oldest first
    std::map<uint32_t, uint64_t> rests_until_ns;  // of users whose answers were made
    control::Turns pass{loop, 1};
    /// Closes the oldest of `which` if there are `most` or more. False if all of them have asked.
    bool make_room(size_t most, const std::function<bool(const Open&)>& which);
    /// Null if it was closed to make room.
    Open* find(const Stream& stream);
  };
  static void accept(const std::shared_ptr<Shared>& shared, os::Fd socket);
  static control::Task<void> serve(std::shared_ptr<Shared> shared, Stream stream);
  static control::Task<Answer> answer(std::shared_ptr<Shared> shared, std::optional<uint32_t> uid,
                                      std::string request);
  /// False: nobody waits for the answer any more.
  static control::Task<bool> take_turn(std::shared_ptr<Shared> shared, Stream stream, uint32_t user);

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<control::Acceptor> acceptor_;
};

}  // namespace ocm::node
