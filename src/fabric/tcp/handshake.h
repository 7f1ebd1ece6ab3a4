// The proofs of the tcp fabric: who connects, who answers, and who holds an extent's capability.
// A secret never travels; both sides compute and compare in constant time.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "os/crypto.h"
#include "wire/frame.h"
#include "wire/version.h"

namespace ocm::fabric::tcp {

inline constexpr size_t kNonceBytes = 16;
using Nonce = std::array<std::byte, kNonceBytes>;
inline constexpr size_t kHelloBytes = 16 + kNonceBytes;      // session id, client nonce
inline constexpr size_t kChallengeBytes = kNonceBytes + 32;  // server nonce, server proof
/// Behind either of them from who knows ranges of versions: u32 min, u32 max, u64 features. The server tells its own to who
/// told them; a hello without them is of a client that knows version 1 alone.
inline constexpr size_t kVersionsBytes = 16;
void encode_versions(const wire::Versions& versions, std::byte* out);
/// Of a hello's or a challenge's payload without its fixed part: kVersionsBytes, or nothing.
wire::Versions decode_versions(std::span<const std::byte> in);
inline constexpr size_t kProofBytes = 32;
static_assert(kHelloBytes == sizeof(SessionId) + sizeof(Nonce));
static_assert(kProofBytes == sizeof(os::Digest) && kChallengeBytes == sizeof(Nonce) + sizeof(os::Digest));

/// HMAC(session key, "server" + client nonce + server nonce + binding). `binding` is the TLS channel's
/// (Stream::binding()), so that who stands between two channels proves nothing with the proofs that it passes
/// on.
os::Digest server_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding);
/// HMAC(session key, "client" + server nonce + client nonce + binding)
os::Digest client_proof(std::span<const std::byte> key, const Nonce& client, const Nonce& server,
                        std::string_view binding);
/// HMAC(capability, server nonce + address + generation + access), of the capability that the peer holds: the
/// read-write one, or for access 1 that for reading.
os::Digest attach_proof(const Capability& held, const Nonce& server, const wire::AttachBody& body);

}  // namespace ocm::fabric::tcp
