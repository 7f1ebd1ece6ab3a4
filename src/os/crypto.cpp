#include "os/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <vector>

namespace ocm::os {

void fill_random(std::span<std::byte> out) {
  const int done = RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size()));
  OCM_ASSERT(done == 1);
}

Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
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

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Capability read_capability(const Capability& read_write) {
  const Digest digest = hmac_sha256(read_write.bytes, {bytes_of("oncilla read capability")});
  Capability out;
  std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

}  // namespace ocm::os
