// What a forked child must not share with its parent: sockets to the daemon and threads.
//
// A child that kept the control socket open would keep its dead parent's session alive. The sockets are
// closed in the child right after fork; the child's handles answer kInvalidArgument (capi/handles.h), and
// it may open a session of its own.
#pragma once

namespace ocm::client {

/// Registers a socket to be closed in a child. At most kSocketsMax are remembered; later ones are not.
void remember_socket(int fd);
void forget_socket(int fd);
/// `child` runs in every forked child, async-signal-safe code only. At most 8 functions.
void run_in_child(void (*child)());

}  // namespace ocm::client
