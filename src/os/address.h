// Who is at the other end of a socket, as text.
#pragma once

#include <string>

namespace ocm::os {

/// The host at the other end of a TCP connection, such as "10.0.0.3"; empty if there is none (any more).
std::string peer_host(int fd);

}  // namespace ocm::os
