// Which bodies of an Envelope the inputs of a target brought to their handlers, so that a test can say which
// bodies no seed has (bodies.py).
#pragma once

#include <map>
#include <string>

#include "control.pb.h"
#include "fuzz.h"
#include "wire/control.h"

namespace ocm::fuzz {

/// By name: true if one was answered well, or was taken for the answer to a request. Every body is there.
inline std::map<std::string, bool>& bodies() {
  static std::map<std::string, bool> all = [] {
    constexpr uint32_t kNumbersMax = 2048;  // of fields with two bytes of tag
    std::map<std::string, bool> out;
    for (uint32_t number = 1; number < kNumbersMax; ++number) {
      const uint32_t tag = number << 3 | 2;  // a message, empty
      const std::string bytes =
          tag < 128 ? std::string{static_cast<char>(tag), '\0'}
                    : std::string{static_cast<char>((tag & 127) | 128), static_cast<char>(tag >> 7), '\0'};
      wire::Envelope message;
      const bool known =
          message.ParseFromString(bytes) && message.body_case() != wire::Envelope::BODY_NOT_SET;
      if (known) out[std::string(wire::body_name(message))] = false;
    }
    return out;
  }();
  return all;
}
inline void reached(const wire::Envelope& message) {
  if (message.body_case() != wire::Envelope::BODY_NOT_SET)
    bodies()[std::string(wire::body_name(message))] = true;
}
/// For bodies.py: a line for each.
inline std::string tell_bodies() {
  std::string out;
  for (const auto& [name, is_reached] : bodies()) out += name + (is_reached ? " reached\n" : " missing\n");
  return out;
}
inline const bool tells_bodies = (tell = tell_bodies, true);

}  // namespace ocm::fuzz
