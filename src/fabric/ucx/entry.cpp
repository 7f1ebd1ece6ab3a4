// ucx: served where it is asked for; before tcp where both sides have it. The network card checks instead of the home,
// so what is under a lease goes elsewhere.
#include "fabric/entry.h"

#include "fabric/ucx/channel.h"
#include "fabric/ucx/server.h"

namespace ocm::fabric::ucx {
namespace {

constexpr Setting kServe{kEnabled.data(), Setting::Type::kFlag, 0, 0, 1, false, "serve the ucx fabric"};
constexpr Setting kOwnSettings[] = {kServe};

/// Optional: a machine without libucp, or without a transport, goes on without.
Result<std::unique_ptr<Server>> serve(const ServeOptions&, ExtentDirectory& directory, ServerStats& stats) {
  ucx::ServerOptions own;
  own.settings = settings_from_environment();
  auto started = UcxServer::start(own, directory, stats);
  if (!started.is_ok()) return started.status().with_code(Code::kUnsupported);
  return std::unique_ptr<Server>(std::move(started).value());
}

/// Null on a machine without libucp, or without a transport that may be used.
Connector* connector(const fabric::Settings&) {
  static Connector* const made = []() -> Connector* {
    auto connector = make_connector(settings_from_environment());
    return connector.is_ok() ? std::move(*connector).release() : nullptr;
  }();
  return made;
}

}  // namespace

extern const Entry kEntry;
constinit const Entry kEntry{
    .fabric = Fabric::kUcx,
    .traits = {.rank = 20, .own_node = false, .home_checks = false},
    .settings = kOwnSettings,
    .serve = serve,
    .connector = connector,
};

}  // namespace ocm::fabric::ucx
