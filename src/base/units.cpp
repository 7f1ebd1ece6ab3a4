#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace ocm {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits{
    Unit{"", 1},         Unit{"B", 1},      Unit{"K", 1024.0},   Unit{"KiB", 1024.0}, Unit{"kB", 1e3},
    Unit{"KB", 1e3},     Unit{"M", 0x1p20}, Unit{"MiB", 0x1p20}, Unit{"MB", 1e6},     Unit{"G", 0x1p30},
    Unit{"GiB", 0x1p30}, Unit{"GB", 1e9},   Unit{"T", 0x1p40},   Unit{"TiB", 0x1p40}, Unit{"TB", 1e12},
};

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  const Status bad(Code::kInvalidArgument,
                   "'" + std::string(text) + "' is not a length; write it like 64MiB or 1.5GiB");
  if (error != std::errc() || number < 0 || !std::isfinite(number)) return bad;
  while (rest != end && std::isspace(static_cast<unsigned char>(*rest))) ++rest;
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : kUnits) {
    if (suffix != unit.name) continue;
    const double bytes = number * unit.bytes;
    if (bytes >= 0x1p63) return bad;
    return static_cast<uint64_t>(bytes);
  }
  return bad;
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  OCM_DASSERT(value < 1024);
  std::array<char, 32> text{};
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  [[maybe_unused]] const int length =
      std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, kNames[unit]);
  OCM_DASSERT(length > 0 && static_cast<size_t>(length) < text.size());
  return text.data();
}

}  // namespace ocm
