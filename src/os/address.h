// Hosts as text: who is at the other end of a socket, and what is this machine's own.
#pragma once

#include <string>

namespace ocm::os {

/// The host at the other end of a TCP connection, such as "10.0.0.3"; empty if there is none (any more).
std::string peer_host(int fd);
/// The ends of a TCP connection, such as "10.0.0.3:7600", numeric, the same from both sides; empty if there is none.
std::string own_end(int fd);
std::string peer_end(int fd);
/// "host:port"; an IPv6 address is in brackets.
std::string host_port(const std::string& host, const std::string& port);
/// True if the host is a loopback address or "localhost".
bool is_loopback(const std::string& host);

}  // namespace ocm::os
