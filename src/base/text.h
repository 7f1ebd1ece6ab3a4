// Text from outside: what is well-formed UTF-8, and what may name an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace ocm {

inline constexpr size_t kNameBytesMax = 255;
/// Of a name that was given none (0): its owner alone.
inline constexpr uint32_t kModeDefault = 0600;

/// Well-formed UTF-8. Source: RFC 3629, section 4 (overlong forms, surrogates and what lies above U+10FFFF
/// are refused).
bool is_utf8(std::string_view text);

/// As much of `text` as is UTF-8 and has at most `bytes_max` bytes; no character is cut.
std::string_view utf8_prefix(std::string_view text, size_t bytes_max);

/// 1 to kNameBytesMax bytes of UTF-8 without '\0' and '/'. Errors: kInvalidArgument, kTooLarge.
Status check_name(std::string_view name);

}  // namespace ocm
