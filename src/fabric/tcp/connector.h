// Makes authenticated tcp channels.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fabric/channel.h"
#include "fabric/tcp/channel.h"

namespace ocm::fabric::tcp {

class TcpConnector final : public Connector {
 public:
  explicit TcpConnector(const ChannelOptions& options = {}) : options_(options) {}
  Fabric fabric() const override { return Fabric::kTcp; }
  /// Errors besides Connector's: kDeadline, kInvalidArgument (address), kProtocol (not an Oncilla server).
  Result<std::unique_ptr<Channel>> connect(const FabricAddress& address, const Credentials& who,
                                           os::Deadline deadline) override;

 private:
  Result<Stream> open(const FabricAddress& address, const Credentials& who, os::Deadline deadline);
  Result<std::shared_ptr<TlsContext>> context_for(const TlsFiles& files);

  const ChannelOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<TlsContext>> contexts_;  // by the names of their files
};

}  // namespace ocm::fabric::tcp
