// libucp, loaded when first asked for: a machine without it works, and says why ucx does not.
//
// Loading a library of this size has effects on the whole process; they are kept from it: signal handlers
// that libucs installs are put back, its log goes to ours (unless the user set UCX_LOG_LEVEL), and it does
// not patch the memory calls (unless the user set UCX_MEM_EVENTS=y, which RDMA's registration cache needs).
#pragma once

#include <string>

#include "base/status.h"

namespace ocm::fabric::ucx {

/// kOk if libucp is loaded and new enough; else kUnsupported with the reason. The answer is found once.
Status available();
/// "1.13.1", or "" while not available.
std::string library_version();

/// How ucx is used. Empty strings are the defaults.
struct Settings {
  /// UCX transports (UCX_TLS). The default names only those whose network card checks every access.
  std::string tls = "rc,dc";
  /// UCX_NET_DEVICES: "" for all, or "mlx5_0:1,eth0,lo".
  std::string net_devices;
  /// Take transports that are not hardware-checked too. For tests, and where every peer is trusted and may
  /// end the daemon: with libucp 1.13 a client that dies in the middle of an operation can abort a home
  /// over tcp, and stop its queue for everybody over shared memory.
  bool allow_emulated = false;
};
/// The defaults, with what $OCM_UCX_TLS, $OCM_UCX_NET_DEVICES and $OCM_UCX_ALLOW_EMULATED (=1) say.
Settings settings_from_environment();
/// True if every transport in `tls` leaves the check of address and key to the network card. The others
/// (tcp, shared memory, ud) are emulated: the home's process writes wherever the sender says.
bool hardware_checked(const std::string& tls);

}  // namespace ocm::fabric::ucx
