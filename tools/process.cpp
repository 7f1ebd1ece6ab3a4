#include "tools/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/clock.h"

namespace ocm::tools {
namespace {

struct ProcStat {
  char state = 0;
  uint64_t start_ticks = 0;
};

/// False if there is no such process. The command in field 2 may hold anything, so read from its last ')'.
bool read_stat(int pid, ProcStat& stat) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t close = line.rfind(')');
  if (close == std::string::npos) return false;
  std::istringstream fields(line.substr(close + 1));
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  return static_cast<bool>(fields >> stat.start_ticks);
}

ssize_t read_through_signals(int fd, void* to, size_t bytes) {
  ssize_t got = 0;
  do {
    got = read(fd, to, bytes);
  } while (got < 0 && errno == EINTR);
  return got;
}

/// `go`: a byte comes when it may begin, and nothing more where the parent has ended.
[[noreturn]] void run_child(std::vector<char*>& arguments, int log, bool dies_with_parent, int parent,
                            int error_pipe, int go) {
  setsid();
  if (dies_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  char byte = 0;
  if (read_through_signals(go, &byte, 1) != 1) _exit(1);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(arguments.front(), arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof(error));
  _exit(127);
}

bool is_executable(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<Process> start_detached(const std::vector<std::string>& arguments, const std::string& log_path,
                               bool dies_with_parent, const std::function<Status(const Process&)>& note) {
  os::Fd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.is_open()) return Status::from_errno(errno, "open " + log_path);
  int error_fds[2], go_fds[2];
  if (pipe2(error_fds, O_CLOEXEC) != 0) return Status::from_errno(errno, "pipe");
  os::Fd error_read(error_fds[0]), error_write(error_fds[1]);
  if (pipe2(go_fds, O_CLOEXEC) != 0) return Status::from_errno(errno, "pipe");
  os::Fd go_read(go_fds[0]), go_write(go_fds[1]);
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const int parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Status::from_errno(errno, "fork");
  if (pid == 0) {
    go_write.reset();
    run_child(pointers, log.get(), dies_with_parent, parent, error_write.get(), go_read.get());
  }
  error_write.reset();
  go_read.reset();
  ProcStat stat;
  read_stat(pid, stat);
  const Process out{pid, stat.start_ticks};
  const Status noted = note(out);
  if (!noted.is_ok() || write(go_write.get(), "", 1) != 1) {
    go_write.reset();
    waitpid(pid, nullptr, 0);
    return noted.is_ok() ? Status(Code::kIo, arguments.front() + " ended before it began") : noted;
  }
  int error = 0;
  if (read_through_signals(error_read.get(), &error, sizeof(error)) > 0) {  // 0 bytes: execv closed the pipe
    waitpid(pid, nullptr, 0);
    return Status(Code::kNotFound, arguments.front() + " could not be started: " + strerror(error));
  }
  return out;
}

bool is_running(const Process& process) {
  ProcStat stat;
  return process.pid > 0 && read_stat(process.pid, stat) && stat.start_ticks == process.start_ticks &&
         stat.state != 'Z' && stat.state != 'X';
}

void send_signal(const Process& process, int signal) {
  if (is_running(process)) kill(process.pid, signal);
}

bool wait_for_end(const Process& process, uint64_t timeout_ns) {
  const os::Deadline deadline = os::Deadline::after_ns(timeout_ns);
  os::Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  while (is_running(process)) {
    if (deadline.passed()) return false;
    pollfd poll_fd{pidfd.get(), POLLIN, 0};
    poll(&poll_fd, pidfd.is_open() ? 1 : 0, deadline.poll_ms(pidfd.is_open() ? 1000 : 20));
  }
  waitpid(process.pid, nullptr, WNOHANG);  // reaps our own child; another's is init's
  return true;
}

Result<std::string> find_daemon() {
  const char* named = getenv("OCM_DAEMON");
  if (named != nullptr && *named != '\0') {
    if (is_executable(named)) return std::string(named);
    return Status(Code::kNotFound, std::string("OCM_DAEMON names ") + named + ", which is not a program");
  }
  std::error_code ignored;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* place : {"oncillad", "../daemon/oncillad", "../sbin/oncillad"}) {
    const std::filesystem::path path = here / place;
    if (is_executable(path)) return std::filesystem::weakly_canonical(path, ignored).string();
  }
  const std::string found = find_program("oncillad");
  if (!found.empty()) return found;
  return Status(Code::kNotFound, "oncillad is neither beside " + (here / "ocm").string() +
                                     " nor in PATH; install it or name it with OCM_DAEMON");
}

std::string find_program(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable(candidate)) return candidate;
  }
  return "";
}

Result<uint16_t> free_port() {
  os::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Status::from_errno(errno, "bind 127.0.0.1");
  }
  return ntohs(address.sin_port);
}

bool is_free_port(uint16_t port) {
  const os::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return true;
  const int one = 1;  // as daemons: connections that have ended do not count
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace ocm::tools
