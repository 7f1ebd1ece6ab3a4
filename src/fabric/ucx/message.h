// What client and home say to each other beside puts and gets: who connects, and which key opens which
// extent. Each message is one UCX active message; the decoder trusts no byte of it.
//
//   client                                   home
//   kHello  {session, nonce}           -->
//                                      <--   kChallenge {connection, nonce, HMAC(session key, "server"...)}
//   kProof  {connection, HMAC("client")} -->
//                                      <--   kWelcome {code, word_address, word, rkey of the word table}
//   kAttach {connection, extent, access, HMAC(capability, ...)} -->
//                                      <--   kAttached {code, base, bytes, word_address, word, rkey}
//   kWake   {connection, extent, offset} -->  wakes waiters at the word; carries no data
//   kBye    {connection}               -->
//
// The proofs are those of the tcp fabric. `request` is the client's number, echoed in the reply.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/ids.h"
#include "os/crypto.h"

namespace ocm::fabric::ucx {

enum class MessageType : uint8_t {
  kHello = 1,
  kChallenge,
  kProof,
  kWelcome,
  kAttach,
  kAttached,
  kWake,
  kBye,
};

inline constexpr uint8_t kMessageVersion = 1;
inline constexpr size_t kRkeyBytesMax = 1024;
inline constexpr size_t kMessageBytesMax = 2048;

using Nonce = std::array<std::byte, 16>;

struct Message {
  MessageType type = MessageType::kHello;
  uint64_t request = 0;
  uint64_t connection = 0;        // the home's name for the client
  SessionId session;              // kHello
  Nonce nonce{};                  // kHello, kChallenge
  os::Digest proof{};             // kChallenge, kProof, kAttach
  ExtentId extent;                // kAttach, kWake
  Access access = Access::kRead;  // kAttach
  uint64_t offset = 0;            // kWake
  Code code = Code::kOk;          // kWelcome, kAttached
  uint64_t base = 0;              // kAttached: where the extent starts in the home's registration
  uint64_t bytes = 0;             // kAttached
  uint64_t word_address = 0;      // kWelcome, kAttached: the generation word
  uint64_t word = 0;              // what it holds while the extent lives
  std::string rkey;               // kWelcome: of the word table; kAttached: of the extent

  bool operator==(const Message&) const = default;
};

std::string encode(const Message& message);
/// Errors: kProtocol (unknown type or version, wrong length, unknown code, base + bytes overflows).
Result<Message> decode(std::span<const std::byte> bytes);

/// A worker address as it stands in FabricAddress.address: magic, version and CRC32C before UCX's bytes,
/// since UCX itself does not check what it unpacks.
std::string encode_address(const std::string& worker_address);
/// Errors: kInvalidArgument.
Result<std::string> decode_address(const std::string& bytes);

/// proof = HMAC(session key, label, first nonce, second nonce)
os::Digest session_proof(std::span<const std::byte> key, std::string_view label, const Nonce& first,
                         const Nonce& second);
/// proof = HMAC(capability, server nonce, address (8 LE), generation (4 LE), access (1))
os::Digest attach_proof(const Capability& capability, const Nonce& server_nonce, const ExtentId& extent,
                        Access access);

}  // namespace ocm::fabric::ucx
