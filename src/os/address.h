// Hosts as text: who is at the other end of a socket, and what is this machine's own.
#pragma once

#include <string>

namespace ocm::os {

/// The host at the other end of a TCP connection, such as "10.0.0.3"; empty if there is none (any more).
std::string peer_host(int fd);
/// True if the host is a loopback address or "localhost".
bool is_loopback(const std::string& host);

}  // namespace ocm::os
