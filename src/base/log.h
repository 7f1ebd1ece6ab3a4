// Structured logs: one event a line, `level event key=value ...`, as logfmt or JSON on stderr.
//
// Secrets (tokens, capabilities, keys) are never passed to a log call.
// Threads: any; one line is one write(2), so lines never mix (but see never_wait()).
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ocm::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };
enum class Format { kLogfmt, kJson };

/// The process' settings. Libraries start at kOff, so that a user's stderr stays the user's.
void configure(Level level, Format format);
Level level();

/// A reader of stderr that stalls, a full pipe, a terminal or the journal's socket, loses lines from now on, and this process
/// waits for it no more. For daemons: stderr is the one of this moment. Where it is another user's pipe or terminal, long
/// lines go in pieces, and may end early.
void never_wait();

/// One key and its value, already text.
struct Field {
  std::string_view key;
  std::string value;
  bool quoted = true;

  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)), quoted(false) {}
};

void write(Level level, std::string_view event, std::initializer_list<Field> fields);

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  if (level() <= Level::kDebug) write(Level::kDebug, event, fields);
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  if (level() <= Level::kInfo) write(Level::kInfo, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  if (level() <= Level::kWarn) write(Level::kWarn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  if (level() <= Level::kError) write(Level::kError, event, fields);
}

}  // namespace ocm::log
