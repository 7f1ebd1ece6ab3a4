#include "tools/signals.h"

#include <signal.h>

namespace ocm::tools {
namespace {
volatile sig_atomic_t g_interrupted = 0;
void on_interrupt(int /*signal*/) { g_interrupted = 1; }
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

bool interrupted() { return g_interrupted != 0; }

Status check_interrupt() {
  if (interrupted()) return Status(Code::kCancelled, "interrupted");
  return Status::ok();
}

}  // namespace ocm::tools
