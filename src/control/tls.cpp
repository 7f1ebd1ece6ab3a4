#include "control/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "base/assert.h"

namespace ocm::control {
namespace {

Status ssl_error(Code code, const std::string& what) {
  char text[160] = "unknown cause";
  if (const unsigned long error = ERR_get_error(); error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return Status(code, what + ": " + text);
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::load(const std::string& ca_file, const std::string& cert_file,
                                                     const std::string& key_file) {
  std::shared_ptr<TlsContext> out(new TlsContext(SSL_CTX_new(TLS_method())));
  SSL_CTX* ctx = out->get();
  OCM_ASSERT(ctx != nullptr);
  SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (SSL_CTX_load_verify_locations(ctx, ca_file.c_str(), nullptr) != 1) {
    return ssl_error(Code::kAuth, "tls_ca " + ca_file);
  }
  if (SSL_CTX_use_certificate_chain_file(ctx, cert_file.c_str()) != 1) {
    return ssl_error(Code::kAuth, "tls_cert " + cert_file);
  }
  if (SSL_CTX_use_PrivateKey_file(ctx, key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(ctx) != 1) {
    return ssl_error(Code::kAuth, "tls_key " + key_file);
  }
  return out;
}

Status TlsContext::check(const std::string& ca_file, const std::string& cert_file,
                         const std::string& key_file, const std::vector<std::string>& names) {
  OCM_TRY_ASSIGN(const std::shared_ptr<TlsContext> context, load(ca_file, cert_file, key_file));
  struct stat key {};
  if (::stat(key_file.c_str(), &key) != 0)
    return Status(Code::kAuth, "tls_key " + key_file + ": " + std::strerror(errno));
  OCM_TRY(os::check_kept_secret("tls_key", key_file, key));
  return os::check_own_certificate(context->get(), cert_file, names);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

TlsFilter::TlsFilter(std::shared_ptr<TlsContext> context, bool server)
    : context_(std::move(context)), ssl_(SSL_new(context_->get())) {
  OCM_ASSERT(ssl_ != nullptr);
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  os::check_peer(ssl_, &peer_);
  if (server) {
    SSL_set_accept_state(ssl_);
  } else {
    SSL_set_connect_state(ssl_);
  }
}

TlsFilter::~TlsFilter() { SSL_free(ssl_); }

Status TlsFilter::handshake() {
  if (SSL_is_init_finished(ssl_) != 0) return {};
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done == 1) {
    const std::string waiting = std::move(waiting_);
    waiting_.clear();
    return waiting.empty() ? Status() : write(waiting);
  }
  const int error = SSL_get_error(ssl_, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
  return Status(Code::kAuth, "TLS: " + os::tls_failure(peer_));
}

Status TlsFilter::feed(std::span<const std::byte> cipher, std::string& plain) {
  OCM_DASSERT(cipher.size() <= INT_MAX);
  if (!cipher.empty() && BIO_write(SSL_get_rbio(ssl_), cipher.data(), static_cast<int>(cipher.size())) !=
                             static_cast<int>(cipher.size())) {
    return Status(Code::kNoMemory, "TLS buffer");
  }
  OCM_TRY(handshake());
  if (SSL_is_init_finished(ssl_) == 0) return {};
  char piece[16384];
  while (true) {
    ERR_clear_error();
    const int n = SSL_read(ssl_, piece, sizeof(piece));
    if (n > 0) {
      plain.append(piece, static_cast<size_t>(n));
      continue;
    }
    const int error = SSL_get_error(ssl_, n);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
    if (error == SSL_ERROR_ZERO_RETURN) return Status(Code::kPeerLost, "the peer closed the TLS session");
    return Status(Code::kAuth, "TLS: " + os::tls_failure(peer_));
  }
}

bool TlsFilter::is_established() const { return SSL_is_init_finished(ssl_) != 0; }

bool TlsFilter::peer_carries(const std::string& name) const {
  X509* certificate = SSL_get0_peer_certificate(ssl_);
  return certificate != nullptr && os::carries(certificate, name);
}

std::string TlsFilter::peer_subject() const { return os::subject_of(SSL_get0_peer_certificate(ssl_)); }

Status TlsFilter::write(std::string_view plain) {
  OCM_TRY(handshake());
  if (SSL_is_init_finished(ssl_) == 0) {
    waiting_ += plain;
    return {};
  }
  OCM_DASSERT(waiting_.empty() && plain.size() <= INT_MAX);  // what waited went first
  const int n = SSL_write(ssl_, plain.data(), static_cast<int>(plain.size()));
  return n == static_cast<int>(plain.size()) ? Status() : ssl_error(Code::kProtocol, "TLS write");
}

void TlsFilter::take_output(std::string& out) {
  BIO* bio = SSL_get_wbio(ssl_);
  const size_t bytes = BIO_ctrl_pending(bio);
  if (bytes == 0) return;
  OCM_DASSERT(bytes <= INT_MAX);
  const size_t start = out.size();
  out.resize(start + bytes);
  const int n = BIO_read(bio, out.data() + start, static_cast<int>(bytes));
  out.resize(start + static_cast<size_t>(n > 0 ? n : 0));
}

}  // namespace ocm::control
