// Connections to other daemons: dialled when first needed, proved both ways by the cluster token, kept.
//
//   NodeHello{nonce} -> NodeChallenge{nonce, proof} -> NodeProof{proof} -> OK
//   proof = HMAC(token, role || own name || both nonces).
//
// Each side dials for its own requests, so no connection is shared and none is dialled at once from both
// ends. Threads: the loop's.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "control/rpc.h"
#include "node/core.h"

namespace ocm::node {

class Peers {
 public:
  explicit Peers(Core& core) : core_(core) {}

  /// A request to the daemon at `address`. The reply's code becomes the status; `reply_on_error` (may be
  /// null) gets the envelope whatever its code, `sent` (may be null) whether the peer may have heard it.
  /// Errors: kPeerLost, kAuth, kDeadline, and the peer's own.
  control::Task<Result<wire::Envelope>> call(std::string address, wire::Envelope request,
                                             uint64_t deadline_ns, wire::Envelope* reply_on_error = nullptr,
                                             bool* sent = nullptr);
  /// Closes the connection: the node is known to be gone or changed.
  void forget(const std::string& address);
  void close_all();

 private:
  struct Peer {
    std::shared_ptr<control::Connection> connection;
    bool dialling = false;
    uint64_t refused_until_ns = 0;  // after a failed dial: fail fast for a moment
    Status refused;
  };
  control::Task<Result<std::shared_ptr<control::Connection>>> connect(std::string address,
                                                                      uint64_t deadline_ns);
  control::Task<Result<std::shared_ptr<control::Connection>>> dial(std::string address, uint64_t deadline_ns);

  Core& core_;
  std::unordered_map<std::string, std::shared_ptr<Peer>> peers_;
};

/// The accepting side's proof of one connection.
class PeerGate {
 public:
  /// Answers NodeHello with a challenge, NodeProof with OK or kAuth. proven() afterwards.
  Result<wire::Envelope> step(const Core& core, const wire::Envelope& request);
  bool proven() const { return proven_; }
  const std::string& node() const { return node_; }

 private:
  std::string node_;
  std::string client_nonce_, server_nonce_;
  bool proven_ = false;
};

}  // namespace ocm::node
