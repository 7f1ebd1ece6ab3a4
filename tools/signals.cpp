#include "tools/signals.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>

#include "tools/exit_code.h"

namespace ocm::tools {
namespace {
volatile sig_atomic_t g_interrupted = 0;
constexpr long kGraceUs = 300'000;
struct End {
  std::string text, partial;
};
std::atomic<const End*> g_end{nullptr};  // never freed: a signal may be reading it

void on_interrupt(int /*signal*/) {
  g_interrupted = 1;
  if (g_end.load() == nullptr) return;
  const itimerval grace{{0, 0}, {0, kGraceUs}};
  setitimer(ITIMER_REAL, &grace, nullptr);
}

void on_grace_over(int /*signal*/) {
  const End* const end = g_end.load();
  if (!end->partial.empty()) unlink(end->partial.c_str());
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, end->text.data(), end->text.size());
  _exit(kExitInterrupted);
}
}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a blocking read or poll returns at once
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);  // nohup ignores SIGHUP
  }
  signal(SIGPIPE, SIG_IGN);
}

void end_soon_when_interrupted(const std::string& message, const std::string& partial) {
  g_end.store(new End{"ocm: " + message + "\n", partial});
  signal(SIGALRM, on_grace_over);
}

bool interrupted() { return g_interrupted != 0; }

Status check_interrupt() {
  if (interrupted()) return Status(Code::kCancelled, "interrupted");
  return Status::ok();
}

}  // namespace ocm::tools
