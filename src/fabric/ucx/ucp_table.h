// The functions of libucp and libucs that this folder calls, and owners of UCX objects. Included by the
// .cpp files of this folder only: nothing else sees a UCX header.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>

#include "fabric/ucx/api.h"

namespace ocm::fabric::ucx {

#define OCM_UCP_FUNCTIONS(X)        \
  X(ucp_config_read)                \
  X(ucp_config_release)             \
  X(ucp_config_modify)              \
  X(ucp_get_version)                \
  X(ucp_init_version)               \
  X(ucp_cleanup)                    \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_release_address)     \
  X(ucp_worker_progress)            \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_arm)                 \
  X(ucp_worker_set_am_recv_handler) \
  X(ucp_ep_create)                  \
  X(ucp_ep_close_nbx)               \
  X(ucp_ep_flush_nbx)               \
  X(ucp_mem_map)                    \
  X(ucp_mem_unmap)                  \
  X(ucp_rkey_pack)                  \
  X(ucp_rkey_buffer_release)        \
  X(ucp_ep_rkey_unpack)             \
  X(ucp_rkey_destroy)               \
  X(ucp_am_send_nbx)                \
  X(ucp_put_nbx)                    \
  X(ucp_get_nbx)                    \
  X(ucp_atomic_op_nbx)              \
  X(ucp_request_free)               \
  X(ucs_status_string)

struct UcpTable {
#define OCM_UCP_MEMBER(name) decltype(&::name) name = nullptr;
  OCM_UCP_FUNCTIONS(OCM_UCP_MEMBER)
#undef OCM_UCP_MEMBER
};

/// The loaded table. Call only after available() was kOk.
const UcpTable& ucp();

/// "what: UCX's own sentence". Memory and peer errors get their codes, the rest kIo.
Status from_ucs(ucs_status_t status, const char* what);

/// One UCX context with the settings that Oncilla needs. Thread-safe once made.
class Context {
 public:
  enum class Role { kHome, kClient };
  static Result<std::shared_ptr<Context>> make(const Settings& settings, Role role);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ucp_context_h get() const { return context_; }
  bool hardware() const { return hardware_; }

 private:
  Context(ucp_context_h context, bool hardware) : context_(context), hardware_(hardware) {}
  ucp_context_h context_;
  const bool hardware_;
};

/// One worker: used by one thread at a time. Destroying it ends every request on it.
class Worker {
 public:
  static Result<std::unique_ptr<Worker>> make(std::shared_ptr<Context> context);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ucp_worker_h get() const { return worker_; }
  int event_fd() const { return event_fd_; }
  /// True if the caller may sleep on event_fd(); false: progress first.
  bool arm() const { return ucp().ucp_worker_arm(worker_) == UCS_OK; }
  unsigned progress() const { return ucp().ucp_worker_progress(worker_); }
  Result<std::string> address() const;

 private:
  Worker(std::shared_ptr<Context> context, ucp_worker_h worker)
      : context_(std::move(context)), worker_(worker) {}
  std::shared_ptr<Context> context_;
  ucp_worker_h worker_;
  int event_fd_ = -1;
};

}  // namespace ocm::fabric::ucx
