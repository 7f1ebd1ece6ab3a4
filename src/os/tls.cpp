#include "os/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <span>

#include "os/crypto.h"

namespace ocm::os {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!name.empty()) out += (out.empty() ? "" : " or ") + name;
  }
  return out;
}

bool carries_one_of(X509* certificate, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return carries(certificate, name); });
}

std::string not_named(X509* certificate, const std::vector<std::string>& names) {
  return "certificate " + subject_of(certificate) + ": it carries neither name nor address of " +
         joined(names);
}

/// Called for each certificate of the chain, the peer's own last.
int verify(int good, X509_STORE_CTX* store) {
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* peer = static_cast<TlsPeer*>(SSL_get_app_data(ssl));
  OCM_DASSERT(ssl != nullptr && peer != nullptr);  // check_peer() was called
  X509* certificate = X509_STORE_CTX_get_current_cert(store);
  if (good == 0) {
    X509* own = X509_STORE_CTX_get0_cert(store);
    peer->refused = "certificate " + subject_of(own) + ": " +
                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(store));
    if (certificate != own) peer->refused += " (" + subject_of(certificate) + ")";
    return 0;
  }
  if (X509_STORE_CTX_get_error_depth(store) != 0 || peer->names.empty()) return 1;
  if (carries_one_of(certificate, peer->names)) return 1;
  peer->refused = not_named(certificate, peer->names);
  X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
  return 0;
}

Status verify_for(SSL_CTX* context, X509* certificate, const char* purpose, const std::string& file) {
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> store(X509_STORE_CTX_new(),
                                                                              X509_STORE_CTX_free);
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);  // NOLINT: a macro that casts
  if (!store || X509_STORE_CTX_init(store.get(), SSL_CTX_get_cert_store(context), certificate, chain) != 1) {
    return Status(Code::kNoMemory, "TLS certificate");
  }
  X509_STORE_CTX_set_default(store.get(), purpose);
  if (X509_verify_cert(store.get()) == 1) return {};
  return Status(Code::kAuth, "tls_cert " + file + " (" + subject_of(certificate) + "): " +
                                 X509_verify_cert_error_string(X509_STORE_CTX_get_error(store.get())));
}

}  // namespace

void check_peer(SSL* ssl, TlsPeer* peer) {
  SSL_set_app_data(ssl, peer);
  SSL_set_verify(ssl, SSL_get_verify_mode(ssl), verify);
}

std::string tls_failure(const TlsPeer& peer) {
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  const char* text = ERR_reason_error_string(error);
  ERR_clear_error();
  if (!peer.refused.empty()) return peer.refused;
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return "the other end speaks without TLS";
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "the other end shows no certificate";
  const std::string why = text == nullptr ? "unknown cause" : text;
  if (why.find("alert") == why.npos) return why;
  return "the other end refuses (" + why + "): its log says why";
}

std::string channel_binding(SSL* ssl) {
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  static_assert(kBindingBytes == 32, "RFC 9266, 3");
  std::string out(kBindingBytes, '\0');
  if (SSL_is_init_finished(ssl) == 0 ||
      SSL_export_keying_material(ssl, reinterpret_cast<unsigned char*>(out.data()), out.size(), kLabel.data(),
                                 kLabel.size(), nullptr, 0, 0) != 1) {
    fill_random(std::as_writable_bytes(std::span(out)));
  }
  return out;
}

bool carries(X509* certificate, const std::string& name) {
  if (name.empty() || name.front() == '.') return false;  // OpenSSL takes ".a" for any host below a
  if (X509_check_ip_asc(certificate, name.c_str(), 0) == 1) return true;
  const bool host = X509_check_host(certificate, name.data(), name.size(),
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, nullptr) == 1;
  ERR_clear_error();  // of the name that is no address
  return host;
}

std::string subject_of(X509* certificate) {
  char text[256] = "without a subject";
  if (certificate != nullptr) X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof(text));
  return text;
}

Status check_own_certificate(SSL_CTX* context, const std::string& file,
                             const std::vector<std::string>& names) {
  X509* certificate = SSL_CTX_get0_certificate(context);
  OCM_TRY(verify_for(context, certificate, "ssl_server", file));
  OCM_TRY(verify_for(context, certificate, "ssl_client", file));
  OCM_DASSERT(certificate != nullptr);  // none has no purpose that it is valid for
  if (names.empty() || carries_one_of(certificate, names)) return {};
  return Status(Code::kAuth, "tls_cert " + file + ": " + not_named(certificate, names) +
                                 "; give it a subjectAltName, such as DNS:" + names.front());
}

int64_t own_certificate_ends(SSL_CTX* context) {
  X509* certificate = SSL_CTX_get0_certificate(context);
  OCM_DASSERT(certificate != nullptr);
  struct tm ends {};
  const bool is_date = ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &ends) == 1;
  return is_date ? ::timegm(&ends) : 0;
}

Status check_kept_secret(const char* what, const std::string& file, const struct stat& info) {
  const mode_t too_much = info.st_uid == 0 ? 037 : 077;  // root may let the daemon's group read it
  if ((info.st_mode & too_much) == 0) return {};
  return Status(Code::kAuth,
                std::string(what) + " " + file + " is open to others than its owner: chmod 0600 " + file);
}

bool looks_like_tls(std::string_view bytes) {
  constexpr char kAlert = 0x15, kHandshake = 0x16, kMajor = 3, kMinorMax = 4;
  return bytes.size() >= 3 && (bytes[0] == kAlert || bytes[0] == kHandshake) && bytes[1] == kMajor &&
         bytes[2] >= 1 && bytes[2] <= kMinorMax;
}

}  // namespace ocm::os
