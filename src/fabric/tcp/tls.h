// TLS 1.3 against one CA, over a non-blocking socket. The server shows a certificate; a client may, and then
// it must be good. OpenSSL stays in tls.cpp.
//
// Threads: a context is shared; a connection is used by one thread at a time.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fabric/channel.h"

namespace ocm::fabric::tcp {

enum class TlsRole { kClient, kServer };

/// One end's CA, certificate and key, loaded once. A client's certificate and key may be empty.
class TlsContext {
 public:
  /// Errors: kAuth with OpenSSL's words (no such file, key and certificate do not match, ...).
  static Result<std::shared_ptr<TlsContext>> load(const TlsFiles& files, TlsRole role);
  ~TlsContext();

 private:
  friend class TlsConnection;
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// TLS on one socket; the handshake runs inside the first reads and writes.
/// Results: > 0 bytes, 0 would block, < 0 -errno (-EPROTO: TLS refused it, -EPIPE: the peer closed).
class TlsConnection {
 public:
  /// The peer's certificate must carry one of `names` (os/tls.h); none given: the CA's word is enough.
  static Result<std::unique_ptr<TlsConnection>> make(std::shared_ptr<TlsContext> context, int fd,
                                                     std::vector<std::string> names = {});
  ~TlsConnection();

  ssize_t receive(std::byte* out, size_t bytes);
  /// Takes up to one record; what the socket did not take is kept and goes first with the next call,
  /// also one with `count` 0.
  ssize_t send(const iovec* parts, int count);
  /// See os/tls.h; of use once bytes have come.
  std::string binding() const;
  /// Why TLS refused; empty as long as it did not.
  const std::string& why() const;
  /// True while a record, or a piece of the handshake, waits for the socket to take more.
  bool wants_write() const;

 private:
  struct Impl;
  explicit TlsConnection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocm::fabric::tcp
