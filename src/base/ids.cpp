#include "base/ids.h"

#include <cstdio>

namespace ocm {

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::kSingle: return "single";
    case Layout::kStriped: return "striped";
    case Layout::kReplicated: return "replicated";
    case Layout::kSequence: return "sequence";
  }
  return "?";
}

std::string GlobalAddress::to_string() const {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%06x:%010llx", partition(),
                static_cast<unsigned long long>(offset()));
  return text.data();
}

std::string to_hex(const std::byte* bytes, size_t count) {
  OCM_DASSERT(bytes != nullptr || count == 0);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(count * 2);
  for (size_t i = 0; i < count; ++i) {
    const auto value = std::to_integer<unsigned>(bytes[i]);
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

}  // namespace ocm
