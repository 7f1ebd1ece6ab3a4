// What `ocm` prints: aligned tables, colours on a terminal, errors that say what to do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ocm::tools {

enum class Color { kNone, kBold, kDim, kGreen, kYellow, kRed };

/// "auto" (stdout is a terminal and NO_COLOR is unset), "always" or "never".
void set_color(std::string_view when);
/// `text` in that colour, or as it is where colours are off.
std::string colored(Color color, std::string_view text);

/// "ocm: TEXT" on stderr.
void print_error(std::string_view text);
/// Prints why and returns the exit code for it.
int fail(const Status& status);
int fail(const Status& status, std::string_view context);

/// A table of text whose columns line up. Cells may be coloured and hold UTF-8.
class Table {
 public:
  /// A header that starts with '>' is a column of numbers, aligned right.
  explicit Table(std::vector<std::string> headers);
  /// As many cells as there are headers.
  void add(std::vector<std::string> cells);
  void print() const;
  std::string to_string() const;
  bool is_empty() const { return rows_.empty(); }

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// Others' words (names, programs) without what a terminal would obey.
std::string printable(std::string_view text);
/// "12 %" of `used` in `total`, "-" of nothing.
std::string percent(uint64_t used, uint64_t total);
/// "1.5 GB/s"; decimal, as rates are.
std::string format_rate(double bytes_per_second);
/// "850 ns", "5.9 us", "12 ms".
std::string format_ns(double ns);
/// A node state in its colour: "alive", "suspect", "dead", "draining".
std::string state_text(int state);
/// The user's name, or the number of one whom this machine does not know.
std::string user_name(uint32_t uid);
/// The same without colour.
const char* state_name(int state);

}  // namespace ocm::tools
