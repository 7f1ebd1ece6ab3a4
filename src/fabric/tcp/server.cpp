#include "fabric/tcp/server.h"

#include <algorithm>

#include "fabric/tcp/socket.h"
#include "fabric/tcp/worker.h"

namespace ocm::fabric::tcp {

struct TcpServer::Impl {
  ServerShared shared;
  std::string address;
};

TcpServer::TcpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpServer::~TcpServer() { stop(); }

Result<std::unique_ptr<TcpServer>> TcpServer::start(const TcpServerOptions& options,
                                                    ExtentDirectory& directory, ServerStats& stats) {
  std::unique_ptr<Impl> impl(new Impl{ServerShared{options, directory, stats}, {}});
  ServerShared& shared = impl->shared;
  if (options.tls.enabled()) {
    OCM_TRY_ASSIGN(shared.tls, TlsContext::load(options.tls, TlsRole::kServer));
  }
  OCM_TRY_ASSIGN(shared.listener, listen_on(options.address));
  OCM_TRY_ASSIGN(impl->address, bound_address(shared.listener.get()));
  if (!options.advertise.empty()) impl->address = with_host(impl->address, options.advertise);
  for (int i = 0; i < std::max(options.threads, 1); ++i) {
    OCM_TRY_ASSIGN(auto worker, Worker::make(shared));
    shared.workers.push_back(std::move(worker));
  }
  for (const auto& worker : shared.workers) worker->start();
  return std::unique_ptr<TcpServer>(new TcpServer(std::move(impl)));
}

const std::string& TcpServer::address() const { return impl_->address; }

void TcpServer::stop() {
  for (const auto& worker : impl_->shared.workers) worker->stop();
  impl_->shared.listener.reset();
}

}  // namespace ocm::fabric::tcp
