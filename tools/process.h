// Daemons started and stopped by `ocm`: a process is its pid and its start time, so that a pid that was
// used again is never taken for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace ocm::tools {

struct Process {
  int pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
};

/// Starts arguments[0] in a session of its own, stdin from /dev/null, stdout and stderr to the end of
/// `log`. With `dies_with_parent` the kernel ends it (SIGTERM) when this process ends, however it does. It begins once
/// `note` has returned, and not at all where this process ends before: what nobody noted does not run.
/// Errors: kNotFound (no such program), kIo, and those of `note`.
Result<Process> start_detached(const std::vector<std::string>& arguments, const std::string& log,
                               bool dies_with_parent, const std::function<Status(const Process&)>& note);
/// False once it exited, reaped or not.
bool is_running(const Process& process);
/// No error if it is gone already.
void send_signal(const Process& process, int signal);
/// True if it ended within `timeout_ns`.
bool wait_for_end(const Process& process, uint64_t timeout_ns);

/// oncillad: $OCM_DAEMON, else beside this program, ../daemon/, ../sbin/, then PATH.
Result<std::string> find_daemon();
/// A TCP port of 127.0.0.1 that was free just now. Errors: kIo.
Result<uint16_t> free_port();
/// Whether a program could listen at `port` of 127.0.0.1 now.
bool is_free_port(uint16_t port);
/// Whether `name` is an executable in PATH; its path, or "".
std::string find_program(const std::string& name);

}  // namespace ocm::tools
