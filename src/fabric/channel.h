// A client's way to the extents of one node over one fabric. Every fabric implements this interface,
// and tests/conformance holds them all to it.
//
// Threads: any thread may call anything; a channel serialises inside. Nothing here blocks except
// attach(): a thread that waits calls progress(), and when it has spun long enough polls poll_on().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/extent.h"
#include "base/ids.h"
#include "fabric/op.h"
#include "os/clock.h"

namespace ocm::fabric {

/// Files of a mutual TLS set-up; all empty: none.
struct TlsFiles {
  std::string ca_file, cert_file, key_file;
  bool enabled() const { return !ca_file.empty(); }
};

/// Who connects: the session and the key that its daemon derived for it from the cluster token.
struct Credentials {
  SessionId session;
  std::array<std::byte, 32> session_key{};
  TlsFiles tls;
  std::string
      node;  // whose extents they are: with TLS its certificate carries this name, or the address' host
  /// Which of the session's ways to the node, and how often it was connected: a home that accepted an attempt
  /// applies nothing of earlier ones. Route 0: the channel stands for itself.
  uint64_t route = 0;
  uint64_t attempt = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;

  /// Opens an extent for `access`; the index is good on this channel only. The capability is the read-write
  /// one, or, for kRead, os::read_capability() of it. Interrupted (os/interrupt.h) it ends with kDeadline.
  /// Errors: kPermission (wrong capability), kRevoked (generation is over), kNotFound, kPeerLost, kLimit.
  virtual Result<uint32_t> attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) = 0;
  /// Gives the index back; ops under way on it complete first.
  virtual void detach(uint32_t index) = 0;

  /// Starts `op`. Never blocks; every error is the op's. Small ops may wait for flush().
  virtual void post(Op& op) = 0;
  /// Takes back `op`, which was posted, and its notify: both are done when it returns, with kCancelled unless they ended
  /// before, and nothing touches their buffers any more. The home may apply a part of it, all or nothing, in its turn. A
  /// fabric that cannot take back one op fails the channel.
  virtual void withdraw(Op& op) = 0;
  /// Hands everything posted to the network as far as it takes it now.
  virtual void flush() = 0;
  /// Moves what can be moved without blocking. Ops without any progress for `stall_ns` before `now_ns`
  /// fail with kPeerLost, and the channel with them.
  virtual void progress(uint64_t now_ns, uint64_t stall_ns) = 0;

  /// Grows whenever progress() moved anything; a waiter spins on while it does. 0 for ever: not counted.
  virtual uint64_t moved_total() const { return 0; }

  /// For poll(2) before sleeping: the descriptor and the events to wait for; fd -1: poll nothing, call
  /// progress() again soon.
  struct PollOn {
    int fd = -1;
    short events = 0;
  };
  virtual PollOn poll_on() = 0;

  /// kOk while usable. Once bad it stays bad, and every op fails with it; connect anew.
  virtual Status health() const = 0;
  /// health(), for who is about to post: also false if the connection ended while nothing was under way, as after a
  /// long cut. An op that met it would fail, though a new connection carries it.
  virtual bool is_usable() { return health().is_ok(); }
  /// Ops posted and not done.
  virtual uint32_t in_flight() const = 0;
};

/// Makes channels of one fabric.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual Fabric fabric() const = 0;
  /// Connects and authenticates; interrupted it ends with kDeadline. Errors: kPeerLost, kAuth, kLimit, kUnsupported.
  virtual Result<std::unique_ptr<Channel>> connect(const FabricAddress& address, const Credentials& who,
                                                   os::Deadline deadline) = 0;
};

}  // namespace ocm::fabric
