// Descriptors that a local program sends over a Unix socket (SCM_RIGHTS). Nobody here wants any, and who drops the last
// reference to one may have to wait for it as long as its sender likes: a TCP socket with unsent bytes and SO_LINGER.
//
// Linux 6.16 and later refuse them at their sender, for all connections of a listener that says so. Before, they are found
// before they are read, and sockets that may have some unread are closed by a thread of its own, which a signal (SIGURG)
// calls back from such a wait each millisecond.
// Threads: any.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "os/fd.h"

namespace ocm::os {

/// For a Unix socket that will listen. Without effect on an older kernel.
void refuse_rights(int listener);

/// It is a Unix socket that others may send descriptors to.
bool passes_rights(int socket);

/// As recv(2) with MSG_DONTWAIT, of a socket that passes_rights(). EBADMSG, and nothing is received: there are some.
ssize_t receive_without_rights(int socket, void* to, size_t bytes);

/// Closes a socket that programs may have written to, without waiting for what they sent.
void close_unread(Fd socket);

}  // namespace ocm::os
