// Ctrl-C as a question that long work asks, so that it can clean up after itself.
#pragma once

#include "base/status.h"

namespace ocm::tools {

/// From here on SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second SIGINT
/// within the same command changes nothing, so that cleaning up completes. One that was ignored at the start
/// (nohup) stays so. SIGPIPE becomes EPIPE.
void catch_interrupts();
bool interrupted();
/// kCancelled once interrupted.
Status check_interrupt();

}  // namespace ocm::tools
