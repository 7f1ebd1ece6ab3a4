#include "base/text.h"

#include <cstdint>

namespace ocm {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80                   ? 0
                     : lead >= 0xC2 && lead < 0xE0 ? 1
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xF0 && lead < 0xF5 ? 3
                                                   : -1;
    if (more < 0 || i + static_cast<size_t>(more) >= text.size()) return false;
    uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    if ((more == 2 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (more == 3 && (point < 0x10000 || point > 0x10FFFF))) {
      return false;
    }
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

Status check_name(std::string_view name) {
  if (name.empty()) return Status(Code::kInvalidArgument, "the name is empty");
  if (name.size() > kNameBytesMax) return Status(Code::kTooLarge, "a name has at most 255 bytes");
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos ||
      !is_utf8(name)) {
    return Status(Code::kInvalidArgument, "a name is UTF-8 without '/' and '\\0'");
  }
  return {};
}

}  // namespace ocm
