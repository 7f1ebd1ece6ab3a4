#include "tools/output.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "oncilla/oncilla.h"
#include "tools/exit_code.h"

namespace ocm::tools {
namespace {

bool g_color = false;

/// Columns that a terminal shows: UTF-8 continuation bytes and colour sequences take none.
size_t width_of(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++width;
  }
  return width;
}

std::string format(const char* pattern, double value) {
  std::array<char, 48> text{};
  snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

}  // namespace

void set_color(std::string_view when) {
  const char* no_color = getenv("NO_COLOR");
  const bool wanted = isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
  g_color = when == "always" || (when == "auto" && wanted);
}

std::string colored(Color color, std::string_view text) {
  static constexpr std::array kCodes{"", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m"};
  if (!g_color || color == Color::kNone) return std::string(text);
  return kCodes[static_cast<size_t>(color)] + std::string(text) + "\033[0m";
}

void print_error(std::string_view text) {
  fflush(stdout);
  fprintf(stderr, "ocm: %.*s\n", static_cast<int>(text.size()), text.data());
}

int fail(const Status& status) { return fail(status, ""); }

int fail(const Status& status, std::string_view context) {
  if (status.code() != Code::kCancelled) {
    std::string text(context);
    if (!text.empty()) text += ": ";
    text += status.message();
    print_error(printable(text));  // it may have others' names in it
  }
  return exit_code(status.code());
}

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (std::string& header : headers_) {
    right_.push_back(header.starts_with('>'));
    if (right_.back()) header.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) {
  OCM_ASSERT(cells.size() == headers_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string() const {
  std::vector<size_t> widths;
  for (const std::string& header : headers_) widths.push_back(width_of(header));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  auto line = [&](const std::vector<std::string>& cells, bool header) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - width_of(cells[i]), ' ');
      const std::string cell = header ? colored(Color::kBold, cells[i]) : cells[i];
      if (i > 0) text += "  ";
      if (right_[i]) text += pad;
      text += cell;
      if (!right_[i] && i + 1 < cells.size()) text += pad;
    }
    text += '\n';
  };
  line(headers_, true);
  for (const auto& row : rows_) line(row, false);
  return text;
}

void Table::print() const {
  const std::string text = to_string();
  fwrite(text.data(), 1, text.size(), stdout);
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    const auto at = [&](size_t behind) {
      return i + behind < text.size() ? static_cast<unsigned char>(text[i + behind]) : 0u;
    };
    // In UTF-8: the C1 controls, C2 80 to C2 9F; what has no width or turns the direction of writing, U+200B to U+200F,
    // U+202A to U+202E and U+2066 to U+2069.
    const bool c1 = letter == 0xC2 && at(1) >= 0x80 && at(1) < 0xA0;
    const bool turns =
        letter == 0xE2 &&
        ((at(1) == 0x80 && ((at(2) >= 0x8B && at(2) <= 0x8F) || (at(2) >= 0xAA && at(2) <= 0xAE))) ||
         (at(1) == 0x81 && at(2) >= 0xA6 && at(2) <= 0xA9));
    const bool is_bad = letter < 0x20 || letter == 0x7F || c1 || turns;
    out += is_bad ? '?' : text[i];
    i += c1 ? 1 : turns ? 2 : 0;
  }
  return out;
}

std::string percent(uint64_t used, uint64_t total) {
  if (total == 0) return "-";
  return format("%.0f %%", 100.0 * static_cast<double>(used) / static_cast<double>(total));
}

std::string format_rate(double bytes_per_second) {
  if (bytes_per_second >= 1e9) return format("%.2f GB/s", bytes_per_second / 1e9);
  if (bytes_per_second >= 1e6) return format("%.1f MB/s", bytes_per_second / 1e6);
  if (bytes_per_second >= 1e3) return format("%.1f kB/s", bytes_per_second / 1e3);
  return format("%.0f B/s", bytes_per_second);
}

std::string format_ns(double ns) {
  if (ns >= 1e9) return format("%.2f s", ns / 1e9);
  if (ns >= 1e6) return format("%.2f ms", ns / 1e6);
  if (ns >= 1e3) return format("%.2f us", ns / 1e3);
  return format("%.1f ns", ns);
}

const char* state_name(int state) {
  switch (state) {
    case OCM_NODE_ALIVE: return "alive";
    case OCM_NODE_SUSPECT: return "suspect";
    case OCM_NODE_DEAD: return "dead";
    case OCM_NODE_DRAINING: return "draining";
    default: return "unknown";
  }
}

std::string user_name(uint32_t uid) {
  const passwd* entry = getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

std::string state_text(int state) {
  const Color color = state == OCM_NODE_ALIVE  ? Color::kGreen
                      : state == OCM_NODE_DEAD ? Color::kRed
                                               : Color::kYellow;
  return colored(color, state_name(state));
}

}  // namespace ocm::tools
