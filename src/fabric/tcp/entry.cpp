// tcp: what serves every extent of every node, so every daemon serves it.
#include "fabric/entry.h"

#include <map>
#include <mutex>

#include "fabric/tcp/connector.h"
#include "fabric/tcp/server.h"
#include "fabric/tcp/socket.h"

namespace ocm::fabric::tcp {
namespace {

constexpr Fabric kSelf = Fabric::kTcp;
constexpr Setting kThreads{"threads", Setting::Type::kNumber, 1, 1, 256, false, "threads of the tcp fabric"};
constexpr Setting kSpinUs{"spin_us",
                          Setting::Type::kNumber,
                          50,
                          0,
                          1'000'000,
                          false,
                          "microseconds that tcp threads poll before they sleep"};
constexpr Setting kWindowBytes{"window_bytes",
                               Setting::Type::kBytes,
                               0,
                               0,
                               ~uint64_t{0},
                               true,
                               "bytes in flight to one peer; 0: chosen by the program"};
constexpr Setting kConnections{kLanes.data(), Setting::Type::kNumber,   1, 1, 64,
                               true,          "connections to one peer"};
constexpr Setting kOwnSettings[] = {kThreads, kSpinUs, kWindowBytes, kConnections};

Result<std::unique_ptr<Server>> serve(const ServeOptions& options, ExtentDirectory& directory,
                                      ServerStats& stats) {
  TcpServerOptions own;
  own.address = options.listen;
  own.advertise = options.advertise;
  own.threads = static_cast<int>(options.settings.get(kSelf, kThreads));
  own.spin_ns = options.settings.get(kSelf, kSpinUs) * 1000;
  own.max_connections = options.connections_max;
  own.tls = options.tls;
  OCM_TRY_ASSIGN(std::unique_ptr<TcpServer> server, TcpServer::start(own, directory, stats));
  return std::unique_ptr<Server>(std::move(server));
}

Connector* connector(const Settings& settings) {
  static std::mutex mutex;
  static auto* connectors = new std::map<uint64_t, std::unique_ptr<TcpConnector>>;  // by window
  const uint64_t window_bytes = settings.get(kSelf, kWindowBytes);
  const std::lock_guard lock(mutex);
  auto& made = (*connectors)[window_bytes];
  if (made == nullptr) made = std::make_unique<TcpConnector>(ChannelOptions{.window_bytes = window_bytes});
  return made.get();
}

}  // namespace

extern const Entry kEntry;
constinit const Entry kEntry{
    .fabric = kSelf,
    .traits = {.rank = 30, .own_node = false, .home_checks = true},
    .settings = kOwnSettings,
    .serve = serve,
    .connector = connector,
};

}  // namespace ocm::fabric::tcp
