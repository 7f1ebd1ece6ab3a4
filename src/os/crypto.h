// Random bits from the kernel; HMAC-SHA256 and comparison in constant time by libcrypto. Nothing here fails or allocates.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/ids.h"

namespace ocm::os {

using Digest = std::array<std::byte, 32>;

/// Cryptographically random. Ends the process if the system has no randomness (it always has).
void fill_random(std::span<std::byte> out);
template <class Id>
Id random_id() {
  Id id;
  fill_random(id.bytes);
  return id;
}

/// HMAC-SHA256(key, parts one after the other).
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts);

/// The same for a key that is used often: half of the time.
class Hmac {
 public:
  explicit Hmac(std::span<const std::byte> key);
  ~Hmac();
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;
  Digest operator()(std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  SHA256_CTX inner_, outer_;  // after the key's blocks
};

/// Time depends on the length only. False if the lengths differ.
bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// The capability that opens the same extent for reading only: HMAC(read-write capability, "read").
Capability read_capability(const Capability& read_write);
/// Whether who shows `shown` may open the extent whose read-write capability is `full`.
bool opens(const Capability& full, const Capability& shown, Access access);

}  // namespace ocm::os
