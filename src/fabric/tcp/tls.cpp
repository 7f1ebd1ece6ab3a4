#include "fabric/tcp/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "os/tls.h"

namespace ocm::fabric::tcp {
namespace {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using SslCtx = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Free<SSL_free>>;

Status openssl_error(std::string what) {
  char text[256];
  ERR_error_string_n(ERR_peek_last_error(), text, sizeof(text));
  ERR_clear_error();
  return Status(Code::kAuth, std::move(what) + ": " + text);
}

// A socket BIO that never raises SIGPIPE: a library may not change the program's signals.
int bio_fd(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }
int bio_result(BIO* bio, ssize_t n, int retry_flags) {
  BIO_clear_retry_flags(bio);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    BIO_set_flags(bio, retry_flags | BIO_FLAGS_SHOULD_RETRY);
  }
  return static_cast<int>(n);
}
int bio_write(BIO* bio, const char* data, int bytes) {
  return bio_result(bio, ::send(bio_fd(bio), data, static_cast<size_t>(bytes), MSG_NOSIGNAL),
                    BIO_FLAGS_WRITE);
}
int bio_read(BIO* bio, char* data, int bytes) {
  return bio_result(bio, ::recv(bio_fd(bio), data, static_cast<size_t>(bytes), 0), BIO_FLAGS_READ);
}
long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* bio_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "oncilla socket");
    if (method != nullptr) {
      BIO_meth_set_write(method, bio_write);
      BIO_meth_set_read(method, bio_read);
      BIO_meth_set_ctrl(method, bio_ctrl);
    }
    return method;
  }();
  return kMethod;
}

constexpr size_t kRecordBytes = 16 * 1024;

Status load_certificate(SSL_CTX* context, const TlsFiles& files) {
  if (SSL_CTX_use_certificate_chain_file(context, files.cert_file.c_str()) != 1) {
    return openssl_error("certificate file " + files.cert_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return openssl_error("key file " + files.key_file);
  }
  if (SSL_CTX_check_private_key(context) != 1) return openssl_error("key and certificate");
  return {};
}

}  // namespace

struct TlsContext::Impl {
  SslCtx context;
  TlsRole role;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::load(const TlsFiles& files, TlsRole role) {
  SslCtx context(SSL_CTX_new(TLS_method()));
  if (!context) return openssl_error("TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // A client's certificate is verified if it shows one; programs need none, their session's key is their
  // proof.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // One receive() takes one record at most, also of those without data (KeyUpdate): a peer that sends nothing else would
  // keep its worker in SSL_read() for as long as it likes.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (SSL_CTX_load_verify_locations(context.get(), files.ca_file.c_str(), nullptr) != 1) {
    return openssl_error("CA file " + files.ca_file);
  }
  if (role == TlsRole::kServer || !files.cert_file.empty()) {
    OCM_TRY(load_certificate(context.get(), files));
  }
  auto impl = std::make_unique<Impl>(Impl{std::move(context), role});
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

struct TlsConnection::Impl {
  std::shared_ptr<TlsContext> context;  // outlives ssl, as does peer
  os::TlsPeer peer;
  std::string why;
  Ssl ssl;
  // A record handed to SSL_write must be handed again unchanged until it is taken whole.
  std::array<std::byte, kRecordBytes> record;
  size_t record_bytes = 0;
  size_t record_sent = 0;
  bool write_blocked = false;

  ssize_t failure(int result) {
    const int saved_errno = errno;
    write_blocked = false;
    switch (SSL_get_error(ssl.get(), result)) {
      case SSL_ERROR_WANT_READ: return 0;
      case SSL_ERROR_WANT_WRITE: write_blocked = true; return 0;
      case SSL_ERROR_ZERO_RETURN: return -EPIPE;
      case SSL_ERROR_SYSCALL: ERR_clear_error(); return saved_errno == 0 ? -EPIPE : -saved_errno;
      default: break;
    }
    const bool lost = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (!lost) why = os::tls_failure(peer);
    ERR_clear_error();
    return lost ? -EPIPE : -EPROTO;
  }

  /// 1 when nothing is kept back, 0 when the socket is full, < 0 on failure.
  ssize_t push() {
    while (record_sent < record_bytes) {
      ERR_clear_error();
      errno = 0;
      const int n =
          SSL_write(ssl.get(), record.data() + record_sent, static_cast<int>(record_bytes - record_sent));
      if (n <= 0) return failure(n);
      record_sent += static_cast<size_t>(n);
    }
    write_blocked = false;
    record_sent = record_bytes = 0;
    return 1;
  }
};

TlsConnection::TlsConnection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsConnection::~TlsConnection() = default;

Result<std::unique_ptr<TlsConnection>> TlsConnection::make(std::shared_ptr<TlsContext> context, int fd,
                                                           std::vector<std::string> names) {
  Ssl ssl(SSL_new(context->impl_->context.get()));
  BIO* bio = bio_method() == nullptr ? nullptr : BIO_new(bio_method());
  if (!ssl || bio == nullptr) {
    BIO_free(bio);
    return Status(Code::kNoMemory, "TLS connection");
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  if (context->impl_->role == TlsRole::kServer) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
  auto impl = std::make_unique<Impl>();
  impl->context = std::move(context);
  impl->ssl = std::move(ssl);
  impl->peer.names = std::move(names);
  os::check_peer(impl->ssl.get(), &impl->peer);
  return std::unique_ptr<TlsConnection>(new TlsConnection(std::move(impl)));
}

ssize_t TlsConnection::receive(std::byte* out, size_t bytes) {
  if (bytes == 0) return 0;
  ERR_clear_error();
  errno = 0;
  const int n = SSL_read(impl_->ssl.get(), out, static_cast<int>(std::min<size_t>(bytes, 1 << 30)));
  return n > 0 ? n : impl_->failure(n);
}

ssize_t TlsConnection::send(const iovec* parts, int count) {
  ssize_t state = impl_->push();
  if (state <= 0) return state;
  for (int i = 0; i < count && impl_->record_bytes < kRecordBytes; ++i) {
    const size_t take = std::min(parts[i].iov_len, kRecordBytes - impl_->record_bytes);
    std::memcpy(impl_->record.data() + impl_->record_bytes, parts[i].iov_base, take);
    impl_->record_bytes += take;
  }
  const auto taken = static_cast<ssize_t>(impl_->record_bytes);
  state = impl_->push();
  return state < 0 ? state : taken;
}

std::string TlsConnection::binding() const { return os::channel_binding(impl_->ssl.get()); }
const std::string& TlsConnection::why() const { return impl_->why; }

bool TlsConnection::wants_write() const { return impl_->write_blocked || impl_->record_bytes > 0; }

}  // namespace ocm::fabric::tcp
