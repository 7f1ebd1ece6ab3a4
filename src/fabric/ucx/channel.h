// The client's side of the ucx fabric: puts, gets and atomics by UCX's one-sided operations.
//
// Checked by the client, since UCX asks nobody at the home: bounds, alignment, access and generation (read
// back with every round, fabric/ucx/registry.h). Capability and session are checked by the home at attach.
// Notify adds atomically and then has the home wake its waiters.
// Op::checksum is met by the network: InfiniBand and RoCE carry a CRC over every packet, end to end.
// Not offered: extents under a lease (kUnsupported at attach).
#pragma once

#include <memory>

#include "fabric/channel.h"
#include "fabric/ucx/api.h"

namespace ocm::fabric::ucx {

/// Errors: kUnsupported (no libucp, or none of the transports), kInvalidArgument (settings).
Result<std::unique_ptr<Connector>> make_connector(const Settings& settings);

}  // namespace ocm::fabric::ucx
