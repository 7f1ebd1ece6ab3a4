#include "base/text.h"

#include <cstdint>

namespace ocm {

namespace {

/// The bytes of the character that `text` begins with; 0 if it begins with none.
size_t character_bytes(std::string_view text) {
  OCM_DASSERT(!text.empty());
  const auto lead = static_cast<unsigned char>(text[0]);
  const int more = lead < 0x80                   ? 0
                   : lead >= 0xC2 && lead < 0xE0 ? 1
                   : lead >= 0xE0 && lead < 0xF0 ? 2
                   : lead >= 0xF0 && lead < 0xF5 ? 3
                                                 : -1;
  if (more < 0 || static_cast<size_t>(more) >= text.size()) return 0;
  uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
  for (int k = 1; k <= more; ++k) {
    const auto next = static_cast<unsigned char>(text[static_cast<size_t>(k)]);
    if ((next & 0xC0) != 0x80) return 0;
    point = point << 6 | (next & 0x3F);
  }
  if ((more == 2 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
      (more == 3 && (point < 0x10000 || point > 0x10FFFF))) {
    return 0;
  }
  return static_cast<size_t>(more) + 1;
}

}  // namespace

std::string_view utf8_prefix(std::string_view text, size_t bytes_max) {
  text = text.substr(0, bytes_max);
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = character_bytes(text.substr(i));
    OCM_DASSERT(bytes <= text.size() - i);
    if (bytes == 0) return text.substr(0, i);
    i += bytes;
  }
  return text;
}

bool is_utf8(std::string_view text) { return utf8_prefix(text, text.size()).size() == text.size(); }

Status check_name(std::string_view name) {
  if (name.empty()) return Status(Code::kInvalidArgument, "the name is empty");
  if (name.size() > kNameBytesMax) {
    return Status(Code::kTooLarge, "the name has " + std::to_string(name.size()) + " bytes; at most " +
                                       std::to_string(kNameBytesMax) + " are allowed");
  }
  if (name.find('/') != std::string_view::npos)
    return Status(Code::kInvalidArgument, "the name contains '/', which is not allowed");
  if (name.find('\0') != std::string_view::npos)
    return Status(Code::kInvalidArgument, "the name contains a null byte, which is not allowed");
  if (!is_utf8(name)) return Status(Code::kInvalidArgument, "the name is not valid UTF-8");
  return {};
}

}  // namespace ocm
