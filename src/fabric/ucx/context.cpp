// libucp as this fabric opens it: the settings, each with what it is for, and one context for each end.
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "fabric/ucx/ucp_table.h"

namespace ocm::fabric::ucx {
namespace {

/// Why each is needed is measured; see docs/fabrics.md.
constexpr std::pair<const char*, const char*> kSettings[] = {
    {"RNDV_THRESH", "inf"},      // else a put over tcp falls to a quarter of the bandwidth
    {"TCP_TX_SEG_SIZE", "64k"},  // 8k is the default; larger ones copy fewer headers
    {"TCP_RX_SEG_SIZE", "256k"},
    {"POSIX_ERROR_HANDLING", "y"},  // else shared memory is dropped silently where errors are asked for
    {"SYSV_ERROR_HANDLING", "y"},
    {"TX_SEG_SIZE", "64k"},  // the same as libucp 1.13 names them here
    {"RX_SEG_SIZE", "256k"},
    {"MM_ERROR_HANDLING", "y"},
    {"ATOMIC_MODE", "cpu"},  // atomic with those of shm and tcp, which are the processor's
};

}  // namespace

Result<std::shared_ptr<Context>> Context::make(const Settings& settings, Role role) {
  OCM_TRY(available());
  const std::string tls = settings.tls.empty() ? Settings().tls : settings.tls;
  if (!hardware_checked(tls) && !settings.allow_emulated) {
    return Status(Code::kUnsupported, "ucx: '" + tls +
                                          "' has transports where no network card checks each access; "
                                          "set allow_emulated if every peer is trusted");
  }
  ucp_config_t* config = nullptr;
  // The user's UCX_* first, ONCILLA_UCX_* over them, and below what must be so.
  ucs_status_t status = ucp().ucp_config_read("ONCILLA", nullptr, &config);
  if (status != UCS_OK) return from_ucs(status, "config");
  const auto set = [&](const char* name, const char* value) {
    const ucs_status_t result = ucp().ucp_config_modify(config, name, value);
    if (result != UCS_OK) log::debug("ucx_setting_unknown", {{"name", name}});
    return result;
  };
  for (const auto& [name, value] : kSettings) set(name, value);
  // No cache at a home: a registration ends with its unmap, and its key with it.
  for (const char* name : {"IB_REG_METHODS", "REG_METHODS"}) {
    set(name, role == Role::kHome ? "direct" : "rcache,direct");
  }
  if (set("TLS", tls.c_str()) != UCS_OK) {
    ucp().ucp_config_release(config);
    return Status(Code::kInvalidArgument, "ucx: transports not understood: " + tls);
  }
  if (!settings.net_devices.empty()) set("NET_DEVICES", settings.net_devices.c_str());

  ucp_params_t params;
  std::memset(&params, 0, sizeof params);
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h context = nullptr;
  status = ucp().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  ucp().ucp_config_release(config);
  if (status != UCS_OK) {
    return Status(Code::kUnsupported,
                  "ucx: no usable transport among '" + tls + "': " + ucp().ucs_status_string(status));
  }
  return std::shared_ptr<Context>(new Context(context, hardware_checked(tls)));
}

Context::~Context() { ucp().ucp_cleanup(context_); }

Result<std::unique_ptr<Worker>> Worker::make(std::shared_ptr<Context> context) {
  ucp_worker_params_t params;
  std::memset(&params, 0, sizeof params);
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h handle = nullptr;
  ucs_status_t status = ucp().ucp_worker_create(context->get(), &params, &handle);
  if (status != UCS_OK) return from_ucs(status, "worker");
  std::unique_ptr<Worker> worker(new Worker(std::move(context), handle));
  status = ucp().ucp_worker_get_efd(handle, &worker->event_fd_);
  if (status != UCS_OK) return from_ucs(status, "event descriptor");
  return worker;
}

Worker::~Worker() { ucp().ucp_worker_destroy(worker_); }

Result<std::string> Worker::address() const {
  ucp_address_t* address = nullptr;
  size_t length = 0;
  const ucs_status_t status = ucp().ucp_worker_get_address(worker_, &address, &length);
  if (status != UCS_OK) return from_ucs(status, "worker address");
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp().ucp_worker_release_address(worker_, address);
  return bytes;
}

}  // namespace ocm::fabric::ucx
