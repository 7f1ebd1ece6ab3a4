// Ctrl-C as a question that long work asks, so that it can clean up after itself.
#pragma once

#include <string>

#include "base/status.h"

namespace ocm::tools {

/// From here on SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second SIGINT
/// within the same command changes nothing, so that cleaning up completes. One that was ignored at the start
/// (nohup) stays so. SIGPIPE becomes EPIPE.
void catch_interrupts();
/// For a command that may wait for a silent node: interrupted, it has a moment to end by itself. Then the process ends with
/// kExitInterrupted after printing "ocm: `message`" and removing the file `partial` (empty: none); the daemon frees what it
/// had. The last call counts.
void end_soon_when_interrupted(const std::string& message, const std::string& partial);
bool interrupted();
/// kCancelled once interrupted.
Status check_interrupt();

}  // namespace ocm::tools
