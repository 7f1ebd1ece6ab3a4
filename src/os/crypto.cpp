#include "os/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <vector>

namespace ocm::os {
namespace {

void fill_by_library(std::span<std::byte> out) {
  OCM_DASSERT(out.size() <= INT_MAX);
  const int done = RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size()));
  OCM_ASSERT(done == 1);
}

std::atomic<uint32_t> forks{0};

/// Made ahead: a call of the library for 16 bytes takes a microsecond. A child of fork() makes its own.
struct Ahead {
  std::array<std::byte, 1024> bytes;
  size_t left;
  uint32_t made_after;  // so many forks
};
thread_local constinit Ahead ahead{};

}  // namespace

void fill_random(std::span<std::byte> out) {
  constexpr size_t kIdBytesMax = 64;
  static_assert(kIdBytesMax <= sizeof(ahead.bytes));
  if (out.size() > kIdBytesMax) return fill_by_library(out);
  static const bool watched =
      (::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }), true);
  (void)watched;
  const uint32_t now = forks.load(std::memory_order_relaxed);
  if (ahead.left < out.size() || ahead.made_after != now) {
    fill_by_library(ahead.bytes);
    ahead.left = ahead.bytes.size();
    ahead.made_after = now;
  }
  OCM_DASSERT(ahead.left >= out.size() && ahead.left <= ahead.bytes.size());
  ahead.left -= out.size();
  const auto taken = std::span(ahead.bytes).subspan(ahead.left, out.size());
  std::copy(taken.begin(), taken.end(), out.begin());
  OPENSSL_cleanse(taken.data(), taken.size());
}

Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
  OCM_DASSERT(key.size() <= INT_MAX);
  std::vector<unsigned char> text;
  for (const auto& part : parts) {
    const auto* p = reinterpret_cast<const unsigned char*>(part.data());
    text.insert(text.end(), p, p + part.size());
  }
  Digest digest{};
  unsigned length = 0;
  const void* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(),
                          reinterpret_cast<unsigned char*>(digest.data()), &length);
  OCM_ASSERT(done != nullptr && length == digest.size());
  OPENSSL_cleanse(text.data(), text.size());
  return digest;
}

struct Hmac::Context {
  EVP_MAC* const mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* const context = EVP_MAC_CTX_new(mac);
  ~Context() {
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
  }
};

Hmac::Hmac(std::span<const std::byte> key) : context_(std::make_unique<Context>()) {
  OCM_ASSERT(context_->context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
  const int done =
      EVP_MAC_init(context_->context, reinterpret_cast<const unsigned char*>(key.data()), key.size(), params);
  OCM_ASSERT(done == 1);
}

Hmac::~Hmac() = default;

void Hmac::take_key(std::span<const std::byte> key) {
  const int done = EVP_MAC_init(context_->context, reinterpret_cast<const unsigned char*>(key.data()),
                                key.size(), nullptr);
  OCM_ASSERT(done == 1);
}

Digest Hmac::operator()(std::initializer_list<std::span<const std::byte>> parts) const {
  EVP_MAC_CTX* const context = context_->context;
  bool done = EVP_MAC_init(context, nullptr, 0, nullptr) == 1;
  for (const auto& part : parts) {
    done = done &&
           EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(part.data()), part.size()) == 1;
  }
  Digest digest{};
  size_t length = 0;
  done = done &&
         EVP_MAC_final(context, reinterpret_cast<unsigned char*>(digest.data()), &length, digest.size()) == 1;
  OCM_ASSERT(done && length == digest.size());
  return digest;
}

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Capability read_capability(const Capability& read_write) {
  // A name has thousands. The daemon has these keys in memory all the same.
  static thread_local Hmac of_capability(read_write.bytes);
  of_capability.take_key(read_write.bytes);
  const Digest digest = of_capability({bytes_of("oncilla read capability")});
  static_assert(sizeof(Capability) <= sizeof(Digest));
  Capability out;
  std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

}  // namespace ocm::os
