// The inputs of the targets that take whole messages: records of who sends (1 byte), length (2 bytes,
// little-endian) and an Envelope.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "base/assert.h"
#include "control.pb.h"
#include "wire/control.h"

namespace ocm::fuzz {

struct Record {
  uint8_t who = 0;
  std::span<const std::byte> bytes;
};
/// The next record; false at the end.
inline bool take(std::span<const std::byte>& input, Record& out) {
  if (input.size() < 3) return false;
  const size_t length =
      std::min(static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8, input.size() - 3);
  out = {static_cast<uint8_t>(input[0]), input.subspan(3, length)};
  input = input.subspan(3 + length);
  return true;
}
inline std::string record(uint8_t who, const wire::Envelope& message) {
  std::string framed(wire::kControlHeaderBytes, '\0');
  // One without a body, as some replies are, has no bytes, and no frame either.
  if (message.ByteSizeLong() != 0) framed.clear(), OCM_ASSERT(wire::append_control(message, framed).is_ok());
  const size_t length = framed.size() - wire::kControlHeaderBytes;
  OCM_ASSERT(length < 1u << 16);
  std::string out{static_cast<char>(who), static_cast<char>(length & 255), static_cast<char>(length >> 8)};
  return out + framed.substr(wire::kControlHeaderBytes);
}
/// An input: who sends, and what.
inline std::string say(std::initializer_list<std::pair<int, wire::Envelope>> all) {
  std::string out;
  for (const auto& [who, message] : all) out += record(static_cast<uint8_t>(who), message);
  return out;
}

}  // namespace ocm::fuzz
