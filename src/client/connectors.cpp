// Which fabrics this process can use as a client.
#include <map>
#include <mutex>

#include "client/route.h"
#include "fabric/tcp/connector.h"
#include "fabric/ucx/api.h"
#include "fabric/ucx/channel.h"

namespace ocm::client {
namespace {

/// Connectors live as long as the process: channels may outlive the session that made them.
fabric::Connector* tcp_connector(uint64_t window_bytes) {
  static std::mutex mutex;
  static auto* connectors = new std::map<uint64_t, std::unique_ptr<fabric::tcp::TcpConnector>>;
  std::lock_guard lock(mutex);
  auto& connector = (*connectors)[window_bytes];
  if (connector == nullptr) {
    fabric::tcp::ChannelOptions options;
    options.window_bytes = window_bytes;
    connector = std::make_unique<fabric::tcp::TcpConnector>(options);
  }
  return connector.get();
}

/// Null on a machine without libucp, or without a transport that may be used.
fabric::Connector* ucx_connector() {
  static fabric::Connector* const connector = []() -> fabric::Connector* {
    auto made = fabric::ucx::make_connector(fabric::ucx::settings_from_environment());
    return made.is_ok() ? std::move(*made).release() : nullptr;
  }();
  return connector;
}

}  // namespace

fabric::Connector* connector_for(Fabric fabric, uint64_t window_bytes) {
  switch (fabric) {
    case Fabric::kTcp: return tcp_connector(window_bytes);
    case Fabric::kUcx: return ucx_connector();
    default: return nullptr;
  }
}

}  // namespace ocm::client
