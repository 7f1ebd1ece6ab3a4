// The ucx fabric of a library that was built without UCX's headers: it is never there, and says why.
#include "fabric/ucx/channel.h"
#include "fabric/ucx/server.h"

namespace ocm::fabric::ucx {

Status available() {
  return Status(Code::kUnsupported, "ucx: this library was built without UCX's headers (libucx-dev)");
}
std::string library_version() { return ""; }
Settings settings_from_environment() { return {}; }
bool hardware_checked(const std::string&) { return false; }

Result<std::unique_ptr<Connector>> make_connector(const Settings&) { return available(); }

class UcxServer::Impl {
 public:
  std::string address;
};
UcxServer::UcxServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UcxServer::~UcxServer() = default;
Result<std::unique_ptr<UcxServer>> UcxServer::start(const ServerOptions&, ExtentDirectory&, ServerStats&) {
  return available();
}
const std::string& UcxServer::address() const { return impl_->address; }
void UcxServer::revoke(const ExtentId&) {}
void UcxServer::stop() {}
size_t UcxServer::registered_extents() const { return 0; }
bool UcxServer::hardware_checked() const { return false; }

}  // namespace ocm::fabric::ucx
