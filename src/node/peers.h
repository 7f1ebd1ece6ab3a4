// Connections to other daemons: dialled when first needed (node/proof.h), kept.
//
// Where a call runs out of time and nothing has come for a failure deadline, a second connection is tried, and takes the
// first one's place once it stands: after a cut TCP's next attempt on the old one may be a minute away, when the network
// has long been well.
//
// Each side dials for its own requests, so no connection is shared and none is dialled at once from both
// ends. Threads: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "control/link.h"
#include "control/rpc.h"
#include "node/core.h"

namespace ocm::node {

class Peers {
 public:
  /// Connects to the daemon at an address. Errors: kPeerLost, kAuth, kDeadline, kNoFds and whatever the system has.
  using Dial = std::function<control::Task<Result<std::shared_ptr<control::Link>>>(std::string address,
                                                                                   uint64_t deadline_ns)>;
  Peers(Core& core, Dial dial) : core_(core), dial_(std::move(dial)) {}

  /// A request to the daemon at `address` (empty: nobody's). The reply's code becomes the status; `reply_on_error` (may be
  /// null) gets the envelope whatever its code, `sent` (may be null) whether the peer may have heard it.
  /// Errors: kPeerLost (also where this daemon can open no connection), kAuth, kDeadline, and the peer's own.
  control::Task<Result<wire::Envelope>> call(std::string address, wire::Envelope request,
                                             uint64_t deadline_ns, wire::Envelope* reply_on_error = nullptr,
                                             bool* sent = nullptr);
  /// Dials anew for the next call: the node is known to be gone or changed. Where it lives (again), calls under way go
  /// on for a failure deadline at most, for the connection may already be to the daemon that was started again.
  void forget(const std::string& address, bool lives);
  void close_all();
  /// Called with the address of a daemon that has closed the connection to it, or was cut off from it. Set before any call.
  void on_lost(std::function<void(const std::string&)> hook) { on_lost_ = std::move(hook); }

 private:
  struct Peer {
    explicit Peer(control::Env& env) : dialled(env) {}
    std::shared_ptr<control::Link> connection;
    bool dialling = false;
    control::Signal dialled;    // a dial has ended
    uint64_t dials = 0;         // that were begun
    uint64_t refused_dial = 0;  // the last that failed for another reason than its caller's short deadline
    bool renewing = false;      // renew() runs
    bool forgotten = false;     // while somebody dials
    uint64_t refused_until_ns = 0;  // after a failed dial: fail fast for a moment
    Status refused;
  };
  void tell_when_lost(const std::string& address, const std::shared_ptr<Peer>& peer);
  void unanswered(const std::string& address, const std::shared_ptr<control::Link>& connection);
  control::Task<void> renew(std::string address, std::shared_ptr<Peer> peer);
  static control::Task<void> close_later(Core& core, std::shared_ptr<control::Link> connection);
  control::Task<Result<std::shared_ptr<control::Link>>> connect(std::string address, uint64_t deadline_ns);

  Core& core_;
  const Dial dial_;
  std::function<void(const std::string&)> on_lost_;
  std::unordered_map<std::string, std::shared_ptr<Peer>> peers_;
};

}  // namespace ocm::node
