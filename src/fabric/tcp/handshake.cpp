#include "fabric/tcp/handshake.h"

#include <cstring>

namespace ocm::fabric::tcp {

os::Digest server_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding) {
  return os::hmac_sha256(key, {os::bytes_of("server"), client, server, os::bytes_of(binding)});
}

os::Digest client_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding) {
  return os::hmac_sha256(key, {os::bytes_of("client"), server, client, os::bytes_of(binding)});
}

os::Digest attach_proof(const Capability& held, const Nonce& server, const wire::AttachBody& body) {
  std::array<std::byte, 13> what{};
  std::memcpy(what.data(), &body.address, 8);
  std::memcpy(what.data() + 8, &body.generation, 4);
  what[12] = static_cast<std::byte>(body.access);
  return os::hmac_sha256(held.bytes, {server, what});
}

}  // namespace ocm::fabric::tcp
