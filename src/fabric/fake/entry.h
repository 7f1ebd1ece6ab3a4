// The fake network as one of this process's fabrics.
#pragma once

#include "fabric/channel.h"

namespace ocm::fabric::fake {

/// Connects over `connector` from now on; null: over none. It stays until another one is installed.
/// Threads: not while anybody connects.
void install(Connector* connector);

}  // namespace ocm::fabric::fake
