// A home's side of the ucx fabric: it registers extents with UCX, gives their keys to sessions that proved
// who they are and that they hold the capability, and drives UCX where the network card does not.
//
// What the home checks: at attach, session, capability, access and generation. What it cannot check: each
// put and get. The card (or UCX) holds them to the registered range of the key; a key opens its extent for
// writing whatever access was asked for; the generation is read back by the client (fabric/ucx/registry.h).
// With emulated transports (hardware_checked() false) the home's process writes wherever the sender says:
// those are for networks where every peer is trusted.
//
// Threads: one of its own, which spins for spin_ns after traffic and then sleeps. All calls: any thread.
#pragma once

#include <memory>
#include <string>

#include "fabric/server.h"
#include "fabric/ucx/api.h"

namespace ocm::fabric::ucx {

struct ServerOptions {
  Settings settings;
  uint32_t extents_max = 16384;
  uint32_t connections_max = 4096;
  uint64_t spin_ns = 50'000;
};

class UcxServer final : public Server {
 public:
  /// `directory` and `stats` outlive the server. Errors: kUnsupported (no libucp, or no transport of
  /// those named: the message says which), kNoMemory, kIo.
  static Result<std::unique_ptr<UcxServer>> start(const ServerOptions& options, ExtentDirectory& directory,
                                                  ServerStats& stats);
  /// Ends every registration; clients get kPeerLost.
  ~UcxServer() override;
  UcxServer(const UcxServer&) = delete;
  UcxServer& operator=(const UcxServer&) = delete;

  const std::string& address() const override;
  /// Later operations get kRevoked, or fail.
  void revoke(const ExtentId& id) override;
  /// Its thread ends; what is registered stays so until revoke() or the destructor.
  void stop() override;
  size_t registered_extents() const;
  bool hardware_checked() const;

 private:
  class Impl;
  explicit UcxServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocm::fabric::ucx
