#include "cli/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "tools/output.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

constexpr int kPollMs = 200;  // how soon a signal is seen that came just before poll()

int g_write_error = 0;  // the first errno, for `stdout` remembers only that there was one

/// Writes all of it, also where descriptor 1 does not block: others who have the same pipe may have asked for that.
ssize_t write_output(void* /*cookie*/, const char* bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t put = write(STDOUT_FILENO, bytes + done, count - done);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if ((errno == EAGAIN || errno == EINTR) && !tools::interrupted()) {
      pollfd each{STDOUT_FILENO, POLLOUT, 0};
      poll(&each, 1, kPollMs);
    } else {
      if (g_write_error == 0) g_write_error = errno;
      break;
    }
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. For reading only: a write must fail, not vanish.
    if (open("/dev/null", O_RDONLY) != fd) _exit(1);  // NOLINT: no O_CLOEXEC, children need them too
  }
  FILE* const output = fopencookie(nullptr, "w", {nullptr, write_output, nullptr, nullptr});
  if (output == nullptr) return;
  setvbuf(output, nullptr, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = output;
}

bool finish_output() {
  errno = 0;
  const bool flushed = fflush(stdout) == 0;
  if (flushed && ferror(stdout) == 0) return true;
  tools::print_error(std::string("cannot write the output: ") + strerror(g_write_error != 0 ? g_write_error
                                                                         : errno != 0       ? errno
                                                                                            : EIO));
  return false;
}

}  // namespace ocm::cli
