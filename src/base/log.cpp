#include "base/log.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>

#include "base/assert.h"

namespace ocm::log {
namespace {

std::atomic<Level> g_level{Level::kOff};
std::atomic<Format> g_format{Format::kLogfmt};
std::atomic<int> g_stderr{STDERR_FILENO};
std::atomic<bool> g_socket{false};  // stderr is one, and nobody waits for its reader
/// So many bytes at once are written without waiting where stderr has room for any; 0: nothing needs to be asked.
std::atomic<size_t> g_piece_bytes{0};

const char* level_name(Level level) {
  static constexpr std::array kNames{"debug", "info", "warn", "error", "off"};
  static_assert(kNames.size() == static_cast<size_t>(Level::kOff) + 1);
  OCM_DASSERT(level <= Level::kOff);
  return kNames[static_cast<size_t>(level)];
}

/// Quotes for both formats: what JSON escapes is escaped, and control characters cannot break a line.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  out += '"';
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return true;
  }
  return false;
}

std::string timestamp() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 40> text{};
  const size_t length = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  OCM_DASSERT(length < text.size());
  std::snprintf(text.data() + length, text.size() - length, ".%06ldZ", static_cast<long>(now.tv_usec));
  return text.data();
}

void put(int fd, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

/// What there is no room for is lost.
void write_in_pieces(std::string_view text, size_t piece_bytes) {
  while (!text.empty()) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
    const size_t bytes = std::min(piece_bytes, text.size());
    put(STDERR_FILENO, text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

}  // namespace

void configure(Level level, Format format) {
  g_level.store(level, std::memory_order_relaxed);
  g_format.store(format, std::memory_order_relaxed);
}

void never_wait() {
  struct stat file {};
  if (::fstat(STDERR_FILENO, &file) != 0) return;
  g_socket.store(S_ISSOCK(file.st_mode), std::memory_order_relaxed);
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  if (!S_ISFIFO(file.st_mode) && !is_terminal) return;
  // Opened anew: O_NONBLOCK on what was inherited would be for all who have it.
  const int own = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (own >= 0)
    g_stderr.store(own, std::memory_order_relaxed);
  else  // another user's
    g_piece_bytes.store(is_terminal ? 128 : PIPE_BUF, std::memory_order_relaxed);
}

Level level() { return g_level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  // Events and keys are words of the program: logfmt has them without quotes.
  OCM_DASSERT(!needs_quotes(event));
  std::string line;
  if (g_format.load(std::memory_order_relaxed) == Format::kJson) {
    line = "{\"time\":\"" + timestamp() + "\",\"level\":\"" + level_name(level) + "\",\"event\":";
    append_quoted(line, event);
    for (const Field& field : fields) {
      line += ',';
      append_quoted(line, field.key);
      line += ':';
      if (field.quoted) {
        append_quoted(line, field.value);
      } else {
        line += field.value;
      }
    }
    line += '}';
  } else {
    line = timestamp() + " " + level_name(level) + " ";
    line += event;
    for (const Field& field : fields) {
      OCM_DASSERT(!needs_quotes(field.key));
      line += ' ';
      line += field.key;
      line += '=';
      if (field.quoted && needs_quotes(field.value)) {
        append_quoted(line, field.value);
      } else {
        line += field.value;
      }
    }
  }
  line += '\n';
  // A full or closed stderr loses the line and nothing else.
  if (g_socket.load(std::memory_order_relaxed))
    (void)::send(STDERR_FILENO, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  else if (const size_t piece_bytes = g_piece_bytes.load(std::memory_order_relaxed); piece_bytes != 0)
    write_in_pieces(line, piece_bytes);
  else
    put(g_stderr.load(std::memory_order_relaxed), line);
}

}  // namespace ocm::log
