#include "os/crypto.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace ocm::os {
namespace {

/// By the kernel: the library's generator takes memory, which a program may be short of.
void fill_by_kernel(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    OCM_ASSERT(n > 0 || errno == EINTR);
    if (n > 0) out = out.subspan(static_cast<size_t>(n));
  }
}

std::atomic<uint32_t> forks{0};

/// Made ahead: a system call for 16 bytes takes half a microsecond. A child of fork() makes its own.
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
  if (out.size() > kIdBytesMax) return fill_by_kernel(out);
  static const bool watched =
      (::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }), true);
  (void)watched;
  const uint32_t now = forks.load(std::memory_order_relaxed);
  if (ahead.left < out.size() || ahead.made_after != now) {
    fill_by_kernel(ahead.bytes);
    ahead.left = ahead.bytes.size();
    ahead.made_after = now;
  }
  OCM_DASSERT(ahead.left >= out.size() && ahead.left <= ahead.bytes.size());
  ahead.left -= out.size();
  const auto taken = std::span(ahead.bytes).subspan(ahead.left, out.size());
  std::copy(taken.begin(), taken.end(), out.begin());
  OPENSSL_cleanse(taken.data(), taken.size());
}

// SHA-256 by its plain functions: they take no memory and no lock and know no providers, so they cannot fail, and a thread
// may be in them while the program ends and the library's exit handler takes all else down.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

void add(SHA256_CTX& hash, std::span<const std::byte> bytes) {
  SHA256_Update(&hash, bytes.data(), bytes.size());
}

Digest digest_of(SHA256_CTX& hash) {
  Digest out;
  static_assert(sizeof(out) == SHA256_DIGEST_LENGTH);
  SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &hash);
  return out;
}

}  // namespace

Hmac::Hmac(std::span<const std::byte> key) {
  std::array<std::byte, SHA256_CBLOCK> block{};
  if (key.size() > block.size()) {
    SHA256_Init(&inner_);
    add(inner_, key);
    const Digest digest = digest_of(inner_);
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  const auto begin = [&block](SHA256_CTX& hash, std::byte pad) {
    for (std::byte& byte : block) byte ^= pad;
    SHA256_Init(&hash);
    add(hash, block);
  };
  begin(inner_, std::byte{0x36});
  begin(outer_, std::byte{0x36 ^ 0x5c});
  OPENSSL_cleanse(block.data(), block.size());
}

Hmac::~Hmac() {
  OPENSSL_cleanse(&inner_, sizeof(inner_));
  OPENSSL_cleanse(&outer_, sizeof(outer_));
}

Digest Hmac::operator()(std::initializer_list<std::span<const std::byte>> parts) const {
  SHA256_CTX inner = inner_, outer = outer_;
  for (const auto& part : parts) add(inner, part);
  add(outer, digest_of(inner));
  return digest_of(outer);
}

#pragma GCC diagnostic pop

Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
  return Hmac(key)(parts);
}

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Capability read_capability(const Capability& read_write) {
  const Digest digest = hmac_sha256(read_write.bytes, {bytes_of("oncilla read capability")});
  static_assert(sizeof(Capability) <= sizeof(Digest));
  Capability out;
  std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

bool opens(const Capability& full, const Capability& shown, Access access) {
  if (equal_secrets(shown.bytes, full.bytes)) return true;
  return access == Access::kRead && equal_secrets(shown.bytes, read_capability(full).bytes);
}

}  // namespace ocm::os
