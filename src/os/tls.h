// What the two TLS implementations share (control/tls.h, fabric/tcp/tls.h): whose certificate it is, why it
// was refused, and what binds a proof to its channel.
//
// A certificate is a node's if it carries the node's name or the address where it is reached: as a subject
// alternative name, or, if it has none of DNS, as its common name.
// Threads: any; one SSL by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct stat;
struct ssl_ctx_st;
struct ssl_st;
struct x509_st;

namespace ocm::os {

/// Bytes of a channel's binding.
inline constexpr size_t kBindingBytes = 32;

/// Who the other end must be, and what was wrong with its certificate.
struct TlsPeer {
  std::vector<std::string> names;  // one of these must be in the certificate; none: any of the authority's
  std::string refused;             // why it was not accepted here, with its subject; empty: it was
};

/// Has the certificate of `ssl`'s other end checked against `peer`, which lives as long as `ssl`.
void check_peer(ssl_st* ssl, TlsPeer* peer);
/// Why TLS failed on `ssl`, as one line for people; empties OpenSSL's queue of errors.
std::string tls_failure(const TlsPeer& peer);
/// tls-exporter of RFC 9266: equal at both ends of this channel and nowhere else. Where the handshake is not
/// done it is random, and no proof with it holds.
std::string channel_binding(ssl_st* ssl);

/// True if the certificate carries `name`: a host's name, or an IP address.
bool carries(x509_st* certificate, const std::string& name);
/// "/CN=node2"
std::string subject_of(x509_st* certificate);

/// What a node's own certificate file must satisfy, so that others accept it: now within its dates, signed by
/// the authority of `context`, for servers and clients, and, if there are any, with one of `names`. Errors:
/// kAuth (says which).
Status check_own_certificate(ssl_ctx_st* context, const std::string& file,
                             const std::vector<std::string>& names);

/// When the own certificate of `context` ends: seconds since 1970, UTC.
int64_t own_certificate_ends(ssl_ctx_st* context);

/// A file with a secret is open to its owner, one of root to its group for reading too, and to nobody else.
/// `what`: its key in the configuration. Errors: kAuth.
Status check_kept_secret(const char* what, const std::string& file, const struct stat& info);

/// True if `bytes` begins as the first record of a TLS connection does. As a control message's length it
/// would be more than 64 KiB.
bool looks_like_tls(std::string_view bytes);

}  // namespace ocm::os
