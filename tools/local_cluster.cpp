#include "tools/local_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "os/clock.h"
#include "os/crypto.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::tools {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kRecordFile = "cluster.json";
constexpr const char* kSocketFile = "oncillad.sock";
constexpr int kStartAttempts = 3;  // a port may be taken between finding it free and the daemon's bind
constexpr uint64_t kPollNs = 20'000'000;

Status write_private(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  os::Fd fd(open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.is_open()) return Status::from_errno(errno, "create " + partial);
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Status::from_errno(errno, "write " + partial);
  }
  if (rename(partial.c_str(), path.c_str()) != 0) return Status::from_errno(errno, "rename " + partial);
  return Status::ok();
}

Status write_record(const ClusterRecord& cluster) {
  Json nodes = Json::array();
  for (const NodeRecord& node : cluster.nodes) {
    nodes.push_back({{"name", node.name},
                     {"pid", node.process.pid},
                     {"start_ticks", node.process.start_ticks},
                     {"directory", node.directory},
                     {"socket", node.socket},
                     {"control", node.control},
                     {"data", node.data},
                     {"http", node.http}});
  }
  const Json record{{"format", 1}, {"nodes", nodes}};
  return write_private(cluster.directory + "/" + kRecordFile, record.dump(2) + "\n");
}

/// Whether only this user can have written what is in `directory`, which is there. Root is no exception.
/// Errors: kPermission, kInvalidArgument, kNotFound, kIo.
Status check_own(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();  // lstat would follow a link
  const char* const instead =
      "; choose a directory of your own with --dir or XDG_RUNTIME_DIR, or name a daemon's socket "
      "with --socket or OCM_SOCKET";
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) return Status::from_errno(errno, "stat " + directory);
  if (S_ISLNK(info.st_mode)) {
    return Status(Code::kPermission, directory + " is a symbolic link and is not followed" + instead);
  }
  if (!S_ISDIR(info.st_mode))
    return Status(Code::kInvalidArgument, directory + " is not a directory" + instead);
  if (info.st_uid != geteuid()) {
    return Status(Code::kPermission, directory + " belongs to another user (uid " +
                                         std::to_string(info.st_uid) + ") and is not trusted" + instead);
  }
  if ((info.st_mode & 022) != 0) {
    return Status(Code::kPermission, "others may write in " + directory +
                                         ", so it is not trusted; if nobody has, `chmod go-w " + directory +
                                         "`, else" + (instead + 1));
  }
  return Status::ok();
}

/// The folder, made or empty, or with the remains of a cluster that runs no more. Locked while `lock`
/// lives, so that two `ocm up` do not meet.
Status prepare_directory(const std::string& directory, os::Fd& lock) {
  std::error_code error;
  if (!fs::create_directories(fs::path(directory).parent_path(), error) && error) {
    return Status(Code::kIo, "create " + directory + ": " + error.message());
  }
  const bool made = mkdir(directory.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return Status::from_errno(errno, "create " + directory);
  OCM_TRY(check_own(directory));
  if (!made) {
    Result<ClusterRecord> running = read_cluster(directory);
    if (running.is_ok() && running->any_running()) {
      return Status(Code::kExists, "a cluster runs in " + directory +
                                       " already; stop it with `ocm down --dir " + directory +
                                       "` or choose another directory with --dir");
    }
    if (!running.is_ok() && !fs::is_empty(directory, error) && !fs::exists(directory + "/lock", error)) {
      return Status(Code::kInvalidArgument,
                    directory + " holds other files; choose an empty or new directory with --dir");
    }
  }
  if (chmod(directory.c_str(), 0700) != 0) return Status::from_errno(errno, "chmod " + directory);
  lock = os::Fd(open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open()) return Status::from_errno(errno, "open " + directory + "/lock");
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Status(Code::kExists, "another `ocm up` is starting a cluster in " + directory);
  }
  for (const auto& entry : fs::directory_iterator(directory, error)) {  // remains of a cluster that is gone
    if (entry.path().filename() != "lock") fs::remove_all(entry.path(), error);
  }
  return Status::ok();
}

std::string make_token() {
  std::array<std::byte, 32> secret{};
  os::fill_random(secret);
  return to_hex(secret.data(), secret.size());
}

Result<std::string> free_address() {
  OCM_TRY_ASSIGN(const uint16_t port, free_port());
  return "127.0.0.1:" + std::to_string(port);
}

/// Whether another program took a port that was free when it was chosen for a node. The cluster does not run.
bool has_lost_port(const ClusterRecord& cluster) {
  const auto is_taken = [](const std::string& address) {
    const auto port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
    return !is_free_port(port);
  };
  return std::any_of(cluster.nodes.begin(), cluster.nodes.end(), [&](const NodeRecord& node) {
    return is_taken(node.control) || is_taken(node.data) || is_taken(node.http);
  });
}

Status start_node(const std::string& program, const UpOptions& options, ClusterRecord& cluster,
                  NodeRecord& node) {
  std::error_code error;
  fs::create_directories(node.directory, error);
  std::vector<std::string> arguments{program};
  if (!options.config.empty()) arguments.push_back("--config=" + fs::absolute(options.config).string());
  for (const std::string& argument :
       {"--node-name=" + node.name, "--run-dir=" + node.directory, "--control-listen=" + node.control,
        "--data-listen=" + node.data, "--http-listen=" + node.http,
        "--coordinator=" + cluster.nodes.front().control, "--token-file=" + options.directory + "/token",
        "--dram=" + std::to_string(options.dram_bytes), "--log-level=" + options.log_level}) {
    arguments.push_back(argument);
  }
  // The kernel says it once.
  if (options.dies_with_parent) arguments.push_back("--replicas-wait-at-stop=false");
  const auto note = [&](const Process& process) {
    node.process = process;
    return write_record(cluster);
  };
  return start_detached(arguments, node.log(), options.dies_with_parent, note).status();
}

/// The last lines of a daemon's log, for an error.
std::string log_tail(const NodeRecord& node) {
  std::ifstream file(node.log());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > 5) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += "\n  " + node.name + ": " + line;
  return text;
}

/// Whether this node sees `wanted` nodes alive.
bool sees_all(const NodeRecord& node, size_t wanted) {
  if (access(node.socket.c_str(), F_OK) != 0) return false;
  Result<Session> session = open_session_at(node.socket);
  if (!session.is_ok()) return false;
  Result<std::vector<ocm_node_info>> nodes = list_nodes(session->get());
  if (!nodes.is_ok()) return false;
  size_t alive = 0;
  for (const ocm_node_info& info : nodes.value()) alive += info.state == OCM_NODE_ALIVE ? 1 : 0;
  return alive >= wanted;
}

Status wait_until_alive(const ClusterRecord& cluster, uint64_t timeout_ns) {
  const os::Deadline deadline = os::Deadline::after_ns(timeout_ns);
  for (const NodeRecord& node : cluster.nodes) {
    while (!sees_all(node, cluster.nodes.size())) {
      OCM_TRY(check_interrupt());
      for (const NodeRecord& each : cluster.nodes) {
        if (!is_running(each.process)) {
          return Status(Code::kIo, each.name + " ended while the cluster started:" + log_tail(each));
        }
      }
      if (deadline.passed()) {
        return Status(Code::kDeadline,
                      node.name + " did not see all nodes alive in time; its log says:" + log_tail(node));
      }
      usleep(kPollNs / 1000);
    }
  }
  return Status::ok();
}

int stop_processes(const ClusterRecord& cluster, uint64_t grace_ns) {
  const os::Deadline deadline = os::Deadline::after_ns(grace_ns);
  int killed = 0;
  // Told twice, for nobody makes copies of the last replicas any more. Two signals, for two of the same may become one.
  const auto stop = [](const NodeRecord& node) {
    send_signal(node.process, SIGTERM);
    send_signal(node.process, SIGINT);
  };
  // The coordinator last, so that the others can tell it goodbye.
  for (size_t i = 1; i < cluster.nodes.size(); ++i) stop(cluster.nodes[i]);
  for (size_t i = 1; i < cluster.nodes.size(); ++i) {
    wait_for_end(cluster.nodes[i].process, deadline.left_ns() / 2);
  }
  if (!cluster.nodes.empty()) stop(cluster.nodes.front());
  for (const NodeRecord& node : cluster.nodes) {
    if (wait_for_end(node.process, deadline.left_ns())) continue;
    ++killed;
    send_signal(node.process, SIGKILL);
    wait_for_end(node.process, 2'000'000'000);
  }
  return killed;
}

void remove_directory(const std::string& directory) {
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

Status try_start(const std::string& program, const UpOptions& options, ClusterRecord& cluster) {
  cluster.nodes.clear();
  for (uint32_t i = 1; i <= options.nodes; ++i) {
    NodeRecord node;
    node.name = "node" + std::to_string(i);
    node.directory = options.directory + "/" + node.name;
    node.socket = node.directory + "/" + kSocketFile;
    OCM_TRY_ASSIGN(node.control, free_address());
    OCM_TRY_ASSIGN(node.data, free_address());
    OCM_TRY_ASSIGN(node.http, free_address());
    cluster.nodes.push_back(std::move(node));
  }
  for (NodeRecord& node : cluster.nodes) OCM_TRY(start_node(program, options, cluster, node));
  return wait_until_alive(cluster, options.timeout_ns);
}

}  // namespace

bool ClusterRecord::any_running() const {
  for (const NodeRecord& node : nodes) {
    if (is_running(node.process)) return true;
  }
  return false;
}

std::string default_cluster_dir() {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/oncilla";
  return "/tmp/oncilla-" + std::to_string(geteuid());
}

Result<ClusterRecord> read_cluster(const std::string& directory) {
  struct stat info {};
  if (lstat(directory.c_str(), &info) == 0) OCM_TRY(check_own(directory));
  std::ifstream file(directory + "/" + kRecordFile);
  if (!file) {
    return Status(Code::kNotFound,
                  "no cluster was started in " + directory + "; `ocm up` starts one, --dir names another");
  }
  const Json record = Json::parse(file, nullptr, false);
  const Status damaged(Code::kIo, directory + "/" + kRecordFile + " is damaged; end its daemons by hand");
  if (!record.is_object() || !record.contains("nodes") || !record["nodes"].is_array()) return damaged;
  ClusterRecord cluster{directory, {}};
  try {
    for (const Json& each : record["nodes"]) {
      cluster.nodes.push_back({each.at("name"),
                               {each.at("pid"), each.at("start_ticks")},
                               each.at("directory"),
                               each.at("socket"),
                               each.at("control"),
                               each.at("data"),
                               each.at("http")});
    }
  } catch (const Json::exception&) {
    return damaged;
  }
  return cluster;
}

Result<ClusterRecord> start_cluster(const UpOptions& asked) {
  UpOptions options = asked;
  options.directory = fs::absolute(asked.directory).lexically_normal().string();
  while (options.directory.size() > 1 && options.directory.back() == '/') options.directory.pop_back();
  const std::string longest = options.directory + "/node" + std::to_string(options.nodes) + "/" + kSocketFile;
  if (longest.size() >= sizeof(sockaddr_un::sun_path)) {
    return Status(Code::kInvalidArgument, "the path " + longest + " is too long for a socket (" +
                                              std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                                              " bytes at most); choose a shorter --dir");
  }
  if (!options.config.empty() && access(options.config.c_str(), R_OK) != 0) {
    return Status(Code::kNotFound, "--config " + options.config + ": " + strerror(errno));
  }
  OCM_TRY_ASSIGN(const std::string program, find_daemon());
  os::Fd lock;
  OCM_TRY(prepare_directory(options.directory, lock));
  ClusterRecord cluster{options.directory, {}};
  Status status = write_private(options.directory + "/token", make_token() + "\n");
  for (int attempt = 0; status.is_ok() && attempt < kStartAttempts; ++attempt) {
    status = try_start(program, options, cluster);
    if (status.is_ok()) return cluster;
    stop_processes(cluster, 2'000'000'000);
    if (!has_lost_port(cluster)) break;
    if (attempt + 1 < kStartAttempts) status = Status::ok();
  }
  remove_directory(options.directory);
  return status;
}

Result<int> stop_cluster(const std::string& directory, uint64_t grace_ns) {
  OCM_TRY_ASSIGN(const ClusterRecord cluster, read_cluster(directory));
  const int killed = stop_processes(cluster, grace_ns);
  remove_directory(directory);
  return killed;
}

}  // namespace ocm::tools
