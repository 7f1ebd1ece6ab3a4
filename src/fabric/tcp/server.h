// The data server of the tcp fabric: accepts connections and spreads them over worker threads.
//
// A worker spins on its connections while there is traffic and for `spin_ns` after it, then sleeps in
// epoll_wait without a timeout: an idle server uses no processor.
//
// Threads: start and stop from one thread; workers are the server's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/server.h"
#include "fabric/tcp/attachments.h"

namespace ocm::fabric::tcp {

struct TcpServerOptions {
  std::string address = "127.0.0.1:0";  // "host:port"; port 0: the kernel's choice
  std::string advertise;                // the host that others are told; empty: that of `address`
  int threads = 1;
  uint64_t spin_ns = 50'000;
  uint32_t max_connections = 4096;  // of one uid at most half (places.h)
  uint32_t attachments_of_user_max = kUserAttachmentsMax;
  uint64_t authenticate_ns = 5'000'000'000;  // a connection that has not proved itself by then is closed
  /// How long a peer may take to receive what it asked for of an extent that was removed meanwhile.
  uint64_t release_ns = 1'000'000'000;
  /// A peer whose kernel has answered nothing for so long, asked three times, is gone.
  uint64_t vanished_ns = 20'000'000'000;
  TlsFiles tls;
};

class TcpServer final : public Server {
 public:
  /// `directory` and `stats` outlive the server. Errors: kInvalidArgument, kAuth (TLS files), kNoFds, kIo.
  static Result<std::unique_ptr<TcpServer>> start(const TcpServerOptions& options, ExtentDirectory& directory,
                                                  ServerStats& stats);
  ~TcpServer() override;

  /// "host:port" that it listens on, with the host that was to be told.
  const std::string& address() const override;
  /// Closes every connection and joins the workers. The destructor does it too.
  void stop() override;

 private:
  struct Impl;
  explicit TcpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocm::fabric::tcp
