// One request to a daemon's HTTP interface: HTTP/1.0 over a plain socket, bounded in time and size.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ocm::cli {

/// The body of a 200 reply. `address`: "host:port", or the path of a Unix socket.
/// Errors: kPeerLost (not reachable in time), kPermission, kNotFound, kExists (as it says), kProtocol (not HTTP), kTooLarge.
Result<std::string> http_get(const std::string& address, const std::string& path,
                             uint64_t timeout_ns = 2'000'000'000);
/// What it is to do; the same errors.
Result<std::string> http_post(const std::string& address, const std::string& path, uint64_t timeout_ns);
/// True if something accepts connections there within the time.
bool accepts_connections(const std::string& address, uint64_t timeout_ns = 1'000'000'000);

}  // namespace ocm::cli
