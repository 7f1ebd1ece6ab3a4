// TLS for the connections between daemons: OpenSSL on memory buffers, so that sockets are handled one way
// only.
//
// Mutual: both sides present a certificate of the cluster's authority. Threads: one at a time for a filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "os/tls.h"

struct ssl_ctx_st;
struct ssl_st;

namespace ocm::control {

/// Certificate, key and authority of this node. Immutable after load(); shared by all filters.
class TlsContext {
 public:
  /// Errors: kAuth (a file is missing or malformed; says which).
  static Result<std::shared_ptr<TlsContext>> load(const std::string& ca_file, const std::string& cert_file,
                                                  const std::string& key_file);
  /// Whether other nodes accept it for one of `names`, and nobody else can read the key. Errors: kAuth.
  static Status check(const std::string& ca_file, const std::string& cert_file, const std::string& key_file,
                      const std::vector<std::string>& names);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ssl_ctx_st* get() const { return context_; }
  /// Of this node's certificate: seconds since 1970, UTC.
  int64_t ends() const { return os::own_certificate_ends(context_); }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

/// One connection's cipher: bytes from the socket in, plain bytes out, and the other way round.
class TlsFilter {
 public:
  TlsFilter(std::shared_ptr<TlsContext> context, bool server);
  ~TlsFilter();
  TlsFilter(const TlsFilter&) = delete;
  TlsFilter& operator=(const TlsFilter&) = delete;

  /// Takes bytes of the socket and appends what they decrypt to. Errors: kAuth, kProtocol.
  Status feed(std::span<const std::byte> cipher, std::string& plain);
  /// Takes plain bytes to send; they wait for the handshake if need be. Errors: kProtocol.
  Status write(std::string_view plain);
  /// Moves what is to be sent on the socket to the end of `out`; after an error too: it tells the peer.
  void take_output(std::string& out);

  bool is_established() const;
  /// See os/tls.h; of use once it is established.
  std::string binding() const { return os::channel_binding(ssl_); }
  bool peer_carries(const std::string& name) const;
  std::string peer_subject() const;

 private:
  Status handshake();
  std::shared_ptr<TlsContext> context_;
  ssl_st* ssl_;
  os::TlsPeer peer_;
  std::string waiting_;  // plain bytes written before the handshake was done
};

}  // namespace ocm::control
