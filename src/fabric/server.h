// What a home serves its extents with over one fabric.
//
// Lifetime: the directory and the counters that it was started with outlive it.
// Threads: start and stop from one; revoke() from any.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/channel.h"
#include "fabric/served.h"
#include "fabric/settings.h"

namespace ocm::fabric {

struct ServeOptions {
  std::string listen;            // host:port that the node was given for data
  std::string advertise;         // the host under which others reach the node; empty: that of `listen`
  uint32_t connections_max = 0;  // of programs and nodes that proved themselves
  TlsFiles tls;
  Settings settings;
};

class Server {
 public:
  virtual ~Server() = default;
  /// For FabricAddress.address of every extent of this home, as others can use it.
  virtual const std::string& address() const = 0;
  /// The extent is over: ends what was registered of it. Called after its `revoked` was set, and before its memory is
  /// anybody else's, also after stop(). Unknown ids are fine.
  virtual void revoke(const ExtentId& id) { (void)id; }
  /// Answers nobody any more; its threads have ended. Again: nothing.
  virtual void stop() = 0;
};

}  // namespace ocm::fabric
