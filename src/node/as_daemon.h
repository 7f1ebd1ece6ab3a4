// How a daemon reaches other homes as itself, for copies and for the packets of caches.
#pragma once

#include <vector>

#include "base/extent.h"
#include "fabric/channel.h"
#include "fabric/registry/registry.h"
#include "node/core.h"
#include "node/directory.h"
#include "os/crypto.h"

namespace ocm::node {

/// Without the node that it goes to.
inline fabric::Credentials credentials_of(const Core& core, Directory& directory) {
  fabric::Credentials out;
  out.session = with_uid(os::random_id<SessionId>(), 0);  // for all users: it takes nobody's share
  out.session_key = directory.session_key(out.session);
  out.tls = {core.config.tls_ca, core.config.tls_cert, core.config.tls_key};
  return out;
}

/// Of a node's addresses that of the best fabric that connects and whose home checks each operation; kAny: it serves none.
inline FabricAddress checked_address(const std::vector<FabricAddress>& addresses) {
  for (const fabric::Entry* entry : fabric::entries_by_rank()) {
    if (!entry->traits.home_checks || entry->connector == nullptr) continue;
    for (const FabricAddress& one : addresses) {
      if (one.fabric == entry->fabric) return {entry->fabric, one.address, {}};
    }
  }
  return {};
}

}  // namespace ocm::node
