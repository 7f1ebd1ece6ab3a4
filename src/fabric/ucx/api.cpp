#include "fabric/ucx/api.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/log.h"
#include "fabric/ucx/ucp_table.h"

namespace ocm::fabric::ucx {
namespace {

struct Library {
  Status status;
  UcpTable table;
  std::string version;
};

/// UCX's warnings and errors are expected here (a peer that died is news for the op, not for stderr).
ucs_log_func_rc_t log_handler(const char*, unsigned, const char*, ucs_log_level_t level,
                              const ucs_log_component_config_t*, const char* message, va_list arguments) {
  if (level <= UCS_LOG_LEVEL_WARN && log::level() <= log::Level::kDebug) {
    char text[512];
    std::vsnprintf(text, sizeof text, message, arguments);
    log::debug("ucx", {{"text", text}});
  }
  return UCS_LOG_FUNC_RC_STOP;
}

/// Signal handlers of the process, put back when this goes out of scope.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (int s = 1; s < kSignals; ++s) ::sigaction(s, nullptr, &actions_[s]);
  }
  ~SignalKeeper() {
    for (int s = 1; s < kSignals; ++s) {
      if (s != SIGKILL && s != SIGSTOP) ::sigaction(s, &actions_[s], nullptr);
    }
  }

 private:
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> actions_{};
};

/// UCX patches mmap, mremap and their like in the whole process, and its mremap loses MREMAP_FIXED's
/// address. Whether it does is read from the environment while it loads, and nowhere else.
class WithoutMemoryHooks {
 public:
  WithoutMemoryHooks() : ours_(std::getenv(kName) == nullptr) {
    if (ours_) ::setenv(kName, "n", 0);
  }
  ~WithoutMemoryHooks() {
    if (ours_) ::unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "UCX_MEM_EVENTS";
  const bool ours_;
};

Library load() {
  Library library;
  SignalKeeper signals;
  WithoutMemoryHooks hooks;
  void* ucp_handle = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (ucp_handle == nullptr) {
    const char* reason = ::dlerror();
    library.status = Status(Code::kUnsupported, std::string("ucx: libucp cannot be loaded: ") +
                                                    (reason != nullptr ? reason : "unknown reason"));
    return library;
  }
  // libucp depends on libucs, so that this only finds what is loaded.
  void* ucs_handle = ::dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto find = [&](const char* name) -> void* {
    void* symbol = ::dlsym(ucp_handle, name);
    if (symbol == nullptr && ucs_handle != nullptr) symbol = ::dlsym(ucs_handle, name);
    if (symbol == nullptr && library.status.is_ok()) {
      library.status =
          Status(Code::kUnsupported, std::string("ucx: libucp has no ") + name + "; 1.13 or newer is needed");
    }
    return symbol;
  };
#define OCM_UCP_LOAD(name) library.table.name = reinterpret_cast<decltype(&::name)>(find(#name));
  OCM_UCP_FUNCTIONS(OCM_UCP_LOAD)
#undef OCM_UCP_LOAD
  if (!library.status.is_ok()) return library;

  if (std::getenv("UCX_LOG_LEVEL") == nullptr && ucs_handle != nullptr) {
    using PushHandler = void (*)(ucs_log_func_t);
    auto push = reinterpret_cast<PushHandler>(::dlsym(ucs_handle, "ucs_log_push_handler"));
    if (push != nullptr) push(&log_handler);
  }
  unsigned major = 0, minor = 0, patch = 0;
  library.table.ucp_get_version(&major, &minor, &patch);
  library.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  if (major != 1 || minor < 13) {
    library.status =
        Status(Code::kUnsupported, "ucx: libucp is " + library.version + "; 1.13 or newer is needed");
  }
  return library;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace

Status available() { return library().status; }

std::string library_version() { return available().is_ok() ? library().version : std::string(); }

const UcpTable& ucp() { return library().table; }

Settings settings_from_environment() {
  Settings settings;
  if (const char* tls = std::getenv("OCM_UCX_TLS")) settings.tls = tls;
  if (const char* devices = std::getenv("OCM_UCX_NET_DEVICES")) settings.net_devices = devices;
  if (const char* emulated = std::getenv("OCM_UCX_ALLOW_EMULATED")) {
    settings.allow_emulated = std::string_view(emulated) == "1";
  }
  return settings;
}

bool hardware_checked(const std::string& tls) {
  static constexpr std::array kChecked = {"rc",       "rc_x", "rc_v", "rc_mlx5",
                                          "rc_verbs", "dc",   "dc_x", "dc_mlx5"};
  std::istringstream list(tls);
  std::string name;
  bool any = false;
  while (std::getline(list, name, ',')) {
    if (std::find(kChecked.begin(), kChecked.end(), name) == kChecked.end()) return false;
    any = true;
  }
  return any;
}

Status from_ucs(ucs_status_t status, const char* what) {
  Code code = Code::kIo;
  switch (status) {
    case UCS_ERR_NO_MEMORY: code = Code::kNoMemory; break;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_REJECTED: code = Code::kPeerLost; break;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NO_DEVICE: code = Code::kUnsupported; break;
    default: break;
  }
  return Status(code, std::string("ucx: ") + what + ": " + ucp().ucs_status_string(status));
}

}  // namespace ocm::fabric::ucx
