// What doctor looks at in the cluster: sockets, daemons, the coordinator, versions, the token's permissions.
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/ids.h"
#include "cli/check.h"
#include "cli/http.h"
#include "cli/node_status.h"
#include "tools/local_cluster.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

constexpr uint64_t kHeartbeatWarnNs = 1'500'000'000;  // three heartbeats of the default period
constexpr const char* kSystemToken = "/etc/oncilla/token";

Check check_socket(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return {"socket", Verdict::kFail, path + ": " + strerror(errno),
            "start a daemon with `ocm up` or `systemctl start oncillad`, or set OCM_SOCKET"};
  }
  if (!S_ISSOCK(info.st_mode)) {
    return {"socket", Verdict::kFail, path + " is not a socket", "name the daemon's socket with OCM_SOCKET"};
  }
  char mode[8];
  snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777u);
  if (access(path.c_str(), R_OK | W_OK) != 0) {
    return {"socket", Verdict::kFail, path + ", mode " + mode + ": this user may not use it",
            "join the group that owns it, or run as its owner"};
  }
  return {"socket", Verdict::kOk, path + ", mode " + mode, ""};
}

/// With no daemon: whether its default ports are there to be taken.
Check check_free_ports() {
  std::string taken;
  for (const uint16_t port : {7600, 7601, 7602}) {
    os::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      taken += (taken.empty() ? "" : ", ") + std::to_string(port);
    }
  }
  if (taken.empty()) return {"ports", Verdict::kOk, "7600 to 7602 are free", ""};
  return {
      "ports", Verdict::kWarn, "in use: " + taken,
      "see which program with `ss -ltnp`, or give the daemon other ports (--control-listen, --data-listen, "
      "--http-listen)"};
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Check check_nodes(const std::vector<ocm_node_info>& nodes) {
  std::vector<std::string> bad;
  bool dead = false;
  for (const ocm_node_info& node : nodes) {
    if (node.state == OCM_NODE_ALIVE) continue;
    bad.push_back(std::string(node.name) + " is " + state_name(node.state));
    dead = dead || node.state == OCM_NODE_DEAD;
  }
  if (bad.empty()) return {"nodes", Verdict::kOk, std::to_string(nodes.size()) + " known, all alive", ""};
  return {"nodes", dead ? Verdict::kFail : Verdict::kWarn, join(bad),
          "look at its daemon (`systemctl status oncillad`, its log) and at the network to it"};
}

/// `why` none can be reached, as the daemon says.
Check check_coordinator(const std::vector<ocm_node_info>& nodes, const std::string& why, bool alone) {
  for (const ocm_node_info& node : nodes) {
    if (!node.coordinator) continue;
    if (alone) {
      return {
          "coordinator", Verdict::kWarn, std::string(node.name) + ": alone, in a cluster of its own",
          "if it belongs to others, set [cluster] seeds (or coordinator) in oncillad.toml as theirs have it"};
    }
    if (node.state == OCM_NODE_ALIVE || node.state == OCM_NODE_DRAINING) {
      return {"coordinator", Verdict::kOk, node.name, ""};
    }
    return {
        "coordinator", Verdict::kFail, std::string(node.name) + " is " + state_name(node.state),
        "start its daemon again: nodes and data wait for it and nothing is lost, but names cannot change"};
  }
  return {"coordinator", Verdict::kFail, "none can be reached: " + why,
          "compare [cluster] seeds (or coordinator) in oncillad.toml with the addresses of the nodes, and "
          "their token files and certificates"};
}

Check check_heartbeats(const std::vector<ocm_node_info>& nodes) {
  uint64_t oldest = 0;
  std::string whose;
  for (const ocm_node_info& node : nodes) {
    if (node.state == OCM_NODE_DEAD || node.heartbeat_age_ns <= oldest) continue;
    oldest = node.heartbeat_age_ns;
    whose = node.name;
  }
  const std::string age = format_ns(static_cast<double>(oldest));
  if (oldest < kHeartbeatWarnNs) return {"heartbeats", Verdict::kOk, "the oldest is " + age + " old", ""};
  return {"heartbeats", Verdict::kWarn, "nothing of " + whose + " for " + age,
          "that node is overloaded, stopped or cut off; it counts as dead after the failure deadline"};
}

Check check_pools(const std::vector<ocm_node_info>& nodes) {
  std::vector<std::string> full;
  for (const ocm_node_info& node : nodes) {
    if (node.state == OCM_NODE_DEAD) continue;
    for (const auto& [kind, offered, used] : pools_of(node)) {
      if (offered == 0 || used < offered / 10 * 9) continue;
      full.push_back(std::string(node.name) + "'s " + kind + " is " + percent(used, offered) + " used");
    }
  }
  if (full.empty()) return {"pools", Verdict::kOk, "none is 90 % used", ""};
  return {"pools", Verdict::kWarn, join(full),
          "free something (`ocm ls`, `ocm top`), offer more, or add a node"};
}

Check check_ports(const NodeStatus& status, const ClusterRecord& cluster) {
  std::vector<std::string> closed;
  size_t looked_at = 0;
  auto look = [&](const std::string& node, const char* what, const std::string& address) {
    if (address.empty()) return;
    ++looked_at;
    if (!accepts_connections(address)) closed.push_back(node + "'s " + what + " " + address);
  };
  for (const PeerView& peer : status.peers) {
    if (peer.state == "dead") continue;
    look(peer.name, "control", peer.control);
    look(peer.name, "http", peer.http);
  }
  for (const NodeRecord& node : cluster.nodes) look(node.name, "data", node.data);
  if (closed.empty())
    return {"ports", Verdict::kOk, std::to_string(looked_at) + " addresses of the cluster answer", ""};
  return {"ports", Verdict::kFail, "no answer: " + join(closed),
          "check its daemon, and the firewall in between"};
}

/// What this node's daemon serves its extents over.
Check check_fabrics(const NodeStatus& status) {
  std::vector<std::string> served, failed;
  for (const FabricLoad& each : status.fabrics) {
    if (each.served) served.push_back(each.fabric);
    if (!each.why_not.empty()) failed.push_back(each.fabric + " is not: " + each.why_not);
  }
  const std::string found = served.empty() ? "none is served" : join(served);
  if (failed.empty()) return {"fabrics", Verdict::kOk, found, ""};
  return {"fabrics", Verdict::kWarn, found + "; " + join(failed),
          "install what it needs (docs/fabrics.md), or do not enable it; the others carry its bytes"};
}

Check check_versions(const NodeStatus& status) {
  std::vector<std::string> others;
  const std::string own = ocm_version();
  for (const PeerView& peer : status.peers) {
    if (!peer.version.empty() && peer.version != own) others.push_back(peer.name + " has " + peer.version);
  }
  if (others.empty()) return {"versions", Verdict::kOk, own + " everywhere", ""};
  return {"versions", Verdict::kWarn, "this program has " + own + ", " + join(others),
          "install one version on every node"};
}

Check check_token(const std::string& path, bool asked) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    if (!asked)
      return {"token", Verdict::kOk, "no token file at " + path + "; --token-file names another", ""};
    return {"token", Verdict::kFail, path + ": " + strerror(errno),
            "name the cluster's token file with --token-file"};
  }
  char mode[8];
  snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777u);
  if ((info.st_mode & 077) != 0) {
    return {"token", Verdict::kFail, path + " has mode " + mode + ": others can read the cluster's secret",
            "`chmod 600 " + path + "`, and give the cluster a new token if others have been here"};
  }
  if (info.st_size < 16) {
    return {"token", Verdict::kFail, path + " is too short for a secret",
            "`openssl rand -hex 32 > " + path + "`"};
  }
  return {"token", Verdict::kOk, path + ", mode " + mode, ""};
}

/// The cluster of `ocm up` whose socket this is, if it is one.
ClusterRecord cluster_of(const std::string& socket) {
  const size_t node_end = socket.rfind('/');
  const size_t end =
      node_end == std::string::npos || node_end == 0 ? std::string::npos : socket.rfind('/', node_end - 1);
  if (end == std::string::npos) return {};
  Result<ClusterRecord> cluster = read_cluster(socket.substr(0, end));
  return cluster.is_ok() ? cluster.value() : ClusterRecord{};
}

}  // namespace

std::vector<Check> check_cluster(const Globals& globals, const std::string& http,
                                 const std::string& token_file) {
  const Result<std::string> found = socket_path(globals);
  if (!found.is_ok()) {
    return {{"socket", Verdict::kFail, std::string(found.status().message()), ""},
            check_nofile(0, 0),
            check_free_ports()};
  }
  const std::string& socket = found.value();
  const ClusterRecord cluster = cluster_of(socket);
  std::vector<Check> checks{check_socket(socket)};
  std::string token = token_file;
  if (token.empty() && !cluster.directory.empty()) token = cluster.directory + "/token";
  const std::string generated = socket.substr(0, socket.rfind('/') + 1) + "token";  // in the daemon's run_dir
  if (token.empty()) token = access(generated.c_str(), F_OK) == 0 ? generated : kSystemToken;
  checks.push_back(check_token(token, !token_file.empty()));
  if (checks.front().verdict == Verdict::kFail) {
    checks.push_back(check_nofile(0, 0));
    checks.push_back(check_free_ports());
    return checks;
  }
  Result<Session> session = open_session_at(socket);
  if (!session.is_ok()) {
    checks.push_back(check_nofile(0, 0));
    checks.push_back(
        {"daemon", Verdict::kFail, std::string(session.status().message()),
         "the socket exists and no daemon answers: look at the daemon's log, then start it again"});
    return checks;
  }
  checks.push_back({"daemon", Verdict::kOk, "answers", ""});
  const Result<std::string> address = http_address(globals, http);
  Result<NodeStatus> status = address.is_ok() ? fetch_node_status(address.value()) : address.status();
  Result<std::vector<ocm_node_info>> nodes = list_nodes(session->get());
  if (nodes.is_ok()) {
    checks.push_back(check_nodes(nodes.value()));
    const Status names = list_names(session->get(), "").status();
    const bool alone = status.is_ok() && is_alone(status.value());
    checks.push_back(check_coordinator(nodes.value(), std::string(names.message()), alone));
    checks.push_back(check_heartbeats(nodes.value()));
    checks.push_back(check_pools(nodes.value()));
  } else {
    checks.push_back(
        {"nodes", Verdict::kFail, std::string(nodes.status().message()), "look at the daemon's log"});
  }
  if (!status.is_ok()) {
    checks.push_back(check_nofile(0, 0));
    checks.push_back(
        {"http", Verdict::kWarn, std::string(status.status().message()),
         "name the daemon's HTTP interface with --http or OCM_HTTP; ports and versions stay unchecked"});
    return checks;
  }
  checks.push_back(check_nofile(status->descriptors_max, status->descriptors_wanted));
  checks.push_back(check_ports(status.value(), cluster));
  checks.push_back(check_fabrics(status.value()));
  checks.push_back(check_versions(status.value()));
  return checks;
}

}  // namespace ocm::cli
