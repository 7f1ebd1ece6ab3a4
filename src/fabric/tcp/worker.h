// One thread of the data server: an epoll set, the connections on it, and the choice to spin or to sleep.
//
// Invariants
//   W1 A connection belongs to one worker from its hand-over to its end; others only call adopt() and stop().
//   W2 Before the worker sleeps, epoll is armed with exactly what each connection waits for.
//   W3 Connections on `hot_` had traffic within spin_ns or have more to do.
//   W4 At most kUnprovedMax connections here have not proved themselves, and as many sockets wait to be
//      adopted: the oldest makes room for a new one, first of those that have not said a whole hello. So
//      strangers never shut a client out.
//   W5 Of several users none waits for more than a pass over the others' connections: shares.h.
#pragma once

#include <unistd.h>

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log_limiter.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/server.h"
#include "fabric/tcp/shares.h"

namespace ocm::fabric::tcp {

/// What the workers of one server share.
struct ServerShared {
  TcpServerOptions options;
  ExtentDirectory& directory;
  ServerStats& stats;
  std::shared_ptr<TlsContext> tls;  // null: plain
  Places places{options.max_connections, ::geteuid()};
  Attachments attachments{options.attachments_of_user_max, ::geteuid()};
  Buffers buffers{Buffers::kUserBytesMax, ::geteuid()};
  Fences fences;
  os::Fd listener;
  std::vector<std::unique_ptr<class Worker>> workers;  // fixed before the first thread starts
};

class Worker {
 public:
  /// Errors: kNoFds, kIo.
  static Result<std::unique_ptr<Worker>> make(ServerShared& shared);
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  /// Asks the thread to end and joins it. Any thread but its own.
  void stop();
  /// Hands over a new socket. Any thread.
  void adopt(os::Fd fd);
  uint32_t load() const { return load_.load(std::memory_order_relaxed); }

  static constexpr size_t kUnprovedMax = 256;

 private:
  explicit Worker(ServerShared& shared) : shared_(shared) {}
  void loop();
  void poll_events(int timeout_ms);
  int sleep_ms(uint64_t now_ns) const;
  /// Yields. False: others need the processor, sleep.
  bool make_way();
  bool run_hot(uint64_t now_ns);
  bool run_one(Connection& connection, uint64_t now_ns);
  bool may_run(const Connection& connection) const {
    return !shares_.is_crowded() || !connection.counted || shares_.may_run(connection.uid());
  }
  /// W1, W3 and W4 between rounds: what stands in a list is a connection of this worker. Cost: all of them.
  bool is_valid() const;
  void heat(Connection& connection, uint64_t now_ns);
  void cool(Connection& connection);
  void cool_all();
  void sweep(uint64_t now_ns);
  void look(uint64_t now_ns);
  void accept_all();
  void refuse(os::Fd fd);
  void tell_refusal(const Connection::Refusal& refusal, uint64_t now_ns);
  void tell_failure(const std::exception& error, uint64_t now_ns) noexcept;
  void pause_accepting();
  void resume_accepting();
  void take_adopted();
  /// Those whose requests a device is done with.
  void run_rung(uint64_t now_ns);
  /// W4 for one more.
  void make_room();

  ServerShared& shared_;
  os::Fd epoll_;
  std::shared_ptr<Bell> bell_;
  os::Fd reserve_;  // given up for a moment when descriptors run out, so that a peer can be told
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> load_{0};

  std::mutex adopted_mutex_;
  std::deque<os::Fd> adopted_;

  // The thread's own.
  Scratch scratch_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  Shares shares_;
  size_t hot_from_ = 0, events_from_ = 0;  // where the next pass over hot_, and over what epoll tells, begins
  uint64_t polled_ns_ = 0;
  std::vector<Connection*> hot_;
  size_t direct_ = 0;                   // so many of hot_ are `direct`
  std::vector<Connection*> unproved_;   // in order of acceptance
  std::vector<Connection*> watched_;    // had traffic, and something may still wait in them (C6, C8)
  std::vector<Connection*> closed_;     // to erase from connections_
  uint64_t look_at_ns_ = ~uint64_t{0};  // the first of watched_ is due
  uint64_t move_after_ns_ = 0;
  uint64_t paused_until_ns_ = 0;
  bool accept_paused_ = false;
  log::Limiter limiter_;
  bool moved_ = false;
};

}  // namespace ocm::fabric::tcp
