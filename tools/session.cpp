#include "tools/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "tools/local_cluster.h"

namespace ocm::tools {
namespace {
constexpr const char* kSystemSocket = "/run/oncilla/oncillad.sock";
}  // namespace

Status checked(int result) {
  if (result >= 0) return Status::ok();
  const Code code = is_code(result) ? static_cast<Code>(result) : Code::kInternal;
  const std::string detail = ocm_last_error();
  const Status failed = detail.empty() ? Status(code) : Status(code, detail);
  ocm_error_info info = OCM_ERROR_INFO_INIT;
  if (ocm_last_error_info(&info) != OCM_OK || info.status != result) return failed;
  return failed.with_node(info.node).with_subject(static_cast<Subject>(info.subject_kind), info.subject);
}

Result<std::string> socket_path(const Globals& globals) {
  if (!globals.socket.empty()) return globals.socket;
  const char* named = getenv("OCM_SOCKET");
  if (named != nullptr && *named != '\0') return std::string(named);
  if (access(kSystemSocket, F_OK) == 0) return std::string(kSystemSocket);
  Result<ClusterRecord> cluster = read_cluster(default_cluster_dir());
  if (cluster.is_ok() && !cluster->nodes.empty()) return cluster->nodes.front().socket;
  if (cluster.status().code() == Code::kPermission) return cluster.status();
  return std::string(kSystemSocket);
}

Result<Session> open_session(const Globals& globals) {
  OCM_TRY_ASSIGN(const std::string socket, socket_path(globals));
  return open_session_at(socket);
}

Result<Session> open_session_at(const std::string& socket) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.socket_path = socket.c_str();
  options.program = "ocm";
  ocm_session* session = nullptr;
  Status status = checked(ocm_session_open(&options, &session));
  if (status.code() == Code::kNoDaemon) {
    return Status(Code::kNoDaemon, "no daemon answers at " + socket +
                                       "; start one with `ocm up` or `systemctl start oncillad`, or name its "
                                       "socket with --socket or OCM_SOCKET");
  }
  OCM_TRY(status);
  return Session(session);
}

std::vector<PoolOf> pools_of(const ocm_node_info& node) {
  std::vector<PoolOf> out;
  for (const KindName& kind : kKinds) {
    const auto at = static_cast<size_t>(kind.kind);
    if (at < std::size(node.pool_bytes) && node.pool_bytes[at] != 0)
      out.push_back({kind.name, node.pool_bytes[at], node.used_bytes[at]});
  }
  if (out.empty()) out.push_back({std::begin(kKinds)->name, 0, 0});
  return out;
}

Result<std::vector<ocm_node_info>> list_nodes(ocm_session* session) {
  std::vector<ocm_node_info> nodes;
  OCM_TRY(checked(ocm_node_list(
      session,
      [](const ocm_node_info* info, void* context) {
        static_cast<std::vector<ocm_node_info>*>(context)->push_back(*info);
        return true;
      },
      &nodes)));
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return strverscmp(a.name, b.name) < 0; });
  return nodes;
}

Result<std::vector<ocm_name_info>> list_names(ocm_session* session, const std::string& prefix) {
  std::vector<ocm_name_info> names;
  OCM_TRY(checked(ocm_name_list(
      session, prefix.c_str(),
      [](const ocm_name_info* info, void* context) {
        static_cast<std::vector<ocm_name_info>*>(context)->push_back(*info);
        return true;
      },
      &names)));
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return strverscmp(a.name, b.name) < 0; });
  return names;
}

}  // namespace ocm::tools
