#include "fabric/tcp/handshake.h"

#include <cstring>

namespace ocm::fabric::tcp {

void encode_versions(const wire::Versions& versions, std::byte* out) {
  std::memcpy(out, &versions.min, 4);
  std::memcpy(out + 4, &versions.max, 4);
  std::memcpy(out + 8, &versions.features, 8);
}

wire::Versions decode_versions(std::span<const std::byte> in) {
  wire::Versions out{.min = 1, .max = 1};
  if (in.size() < kVersionsBytes) return out;
  std::memcpy(&out.min, in.data(), 4);
  std::memcpy(&out.max, in.data() + 4, 4);
  std::memcpy(&out.features, in.data() + 8, 8);
  return out;
}

os::Digest server_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding) {
  return os::hmac_sha256(key, {os::bytes_of("server"), client, server, os::bytes_of(binding)});
}

os::Digest client_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding) {
  return os::hmac_sha256(key, {os::bytes_of("client"), server, client, os::bytes_of(binding)});
}

os::Digest attach_proof(const Capability& held, const Nonce& server, const wire::AttachBody& body) {
  static_assert(sizeof(body.address) == 8 && sizeof(body.generation) == 4 && sizeof(body.access) == 1);
  std::array<std::byte, 13> what{};
  std::memcpy(what.data(), &body.address, 8);
  std::memcpy(what.data() + 8, &body.generation, 4);
  what[12] = static_cast<std::byte>(body.access);
  return os::hmac_sha256(held.bytes, {server, what});
}

}  // namespace ocm::fabric::tcp
