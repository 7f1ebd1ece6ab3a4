// How two daemons prove to each other that they know the cluster token, once for each connection.
//
//   NodeHello{nonce} -> NodeChallenge{nonce, proof} -> NodeProof{proof} -> OK
//   proof = HMAC(token, role || own name || both nonces || binding)
//   binding: of the TLS channel; without TLS where the client wanted to get.
//
// With TLS the certificate must be of the node that proves itself: it carries its name or its address. Without, a node
// answers only who wanted to get to it: to the address at which the connection ended, or the one that it advertises. So
// who listens in the place of another node, as any user of its machine can while its daemon is down, cannot hand the proofs
// on and speak as either of them.
// Threads: the loop's.
#pragma once

#include <memory>
#include <string>

#include "control/rpc.h"
#include "node/core.h"

namespace ocm::node {

/// Connects to the daemon at `address`, and each proves itself to the other.
/// Errors: kPeerLost, kAuth, kDeadline, kNoFds, kInvalidArgument.
control::Task<Result<std::shared_ptr<control::Link>>> dial(Core& core, control::Loop& loop,
                                                           std::string address, uint64_t deadline_ns);

/// The accepting side's proof of one connection.
class PeerGate {
 public:
  /// Answers NodeHello with a challenge, NodeProof with OK or kAuth. proven() afterwards.
  /// `connection`: on which the request came.
  Result<wire::Envelope> step(const Core& core, const control::Connection& connection,
                              const wire::Envelope& request);
  bool proven() const { return proven_; }
  /// A step failed: there is no second try on this connection.
  bool refused() const { return refused_; }
  void refuse() { refused_ = true; }
  const std::string& node() const { return node_; }

 private:
  std::string node_;
  std::string client_nonce_, server_nonce_, binding_;
  bool proven_ = false, refused_ = false;
};

}  // namespace ocm::node
