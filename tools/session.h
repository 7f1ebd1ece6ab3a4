// The C API with owners and Status: sessions, allocations, and which daemon to talk to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "oncilla/oncilla.h"

namespace ocm::tools {

/// What every command of a program shares.
struct Globals {
  std::string socket;          // --socket; empty: see socket_path()
  std::string color = "auto";  // auto, always, never
};

struct SessionCloser {
  void operator()(ocm_session* session) const { ocm_session_close(session); }
};
struct AllocationFreer {
  void operator()(ocm_allocation* allocation) const { ocm_allocation_free(allocation); }
};
struct OpFreer {
  void operator()(ocm_op* op) const { ocm_op_free(op); }
};
using Session = std::unique_ptr<ocm_session, SessionCloser>;
using Allocation = std::unique_ptr<ocm_allocation, AllocationFreer>;
using Op = std::unique_ptr<ocm_op, OpFreer>;

/// The status of a call of the C API, with what ocm_last_error() says.
Status checked(int result);

/// The socket to use: --socket, $OCM_SOCKET, /run/oncilla/oncillad.sock if it is there, else the first
/// node of the cluster that `ocm up` started in its default directory.
/// Errors: kPermission (that directory may be another user's work).
Result<std::string> socket_path(const Globals& globals);
/// Errors: kNoDaemon, with the socket that was tried, and those of socket_path().
Result<Session> open_session(const Globals& globals);
Result<Session> open_session_at(const std::string& socket);

Result<std::vector<ocm_node_info>> list_nodes(ocm_session* session);
/// What a node offers of one kind, and what of it is used.
struct PoolOf {
  const char* kind;
  uint64_t offered, used;
};
/// Those that are not empty; at least one.
std::vector<PoolOf> pools_of(const ocm_node_info& node);
Result<std::vector<ocm_name_info>> list_names(ocm_session* session, const std::string& prefix);

}  // namespace ocm::tools
