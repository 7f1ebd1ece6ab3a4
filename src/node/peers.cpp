#include "node/peers.h"

#include "control/sockets.h"
#include "os/crypto.h"

namespace ocm::node {
namespace {

constexpr size_t kNonceBytes = 16;
constexpr uint64_t kDialNs = 1'000'000'000;
constexpr uint64_t kRefusedNs = 100'000'000;

std::string nonce() {
  std::string out(kNonceBytes, '\0');
  os::fill_random({reinterpret_cast<std::byte*>(out.data()), out.size()});
  return out;
}

os::Digest proof(const Core& core, std::string_view role, const std::string& node, const std::string& client,
                 const std::string& server) {
  return os::hmac_sha256(
      core.token, {os::bytes_of(role), os::bytes_of(node), os::bytes_of(client), os::bytes_of(server)});
}

std::string field(const os::Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

Result<wire::Envelope> PeerGate::step(const Core& core, const wire::Envelope& request) {
  wire::Envelope out;
  if (request.has_node_hello() && node_.empty()) {
    const auto& hello = request.node_hello();
    if (hello.version() != wire::kControlVersion) {
      return Status(Code::kProtocol, "control version " + std::to_string(hello.version()) + "; here " +
                                         std::to_string(wire::kControlVersion));
    }
    OCM_TRY(control::check_node_name(hello.node()));
    if (hello.nonce().size() != kNonceBytes) return Status(Code::kProtocol, "a nonce is 16 bytes");
    node_ = hello.node();
    client_nonce_ = hello.nonce();
    server_nonce_ = nonce();
    auto& challenge = *out.mutable_node_challenge();
    challenge.set_nonce(server_nonce_);
    challenge.set_node(core.name);
    challenge.set_incarnation(id_field(core.incarnation));
    challenge.set_proof(field(proof(core, "oncilla server", core.name, client_nonce_, server_nonce_)));
    return out;
  }
  if (request.has_node_proof() && !node_.empty() && !proven_) {
    const os::Digest want = proof(core, "oncilla client", node_, client_nonce_, server_nonce_);
    if (!os::equal_secrets(want, os::bytes_of(request.node_proof().proof()))) {
      return Status(Code::kAuth, "wrong cluster token");
    }
    proven_ = true;
    return out;
  }
  return Status(Code::kAuth, "prove the cluster token first");
}

control::Task<Result<wire::Envelope>> Peers::call(std::string address, wire::Envelope request,
                                                  uint64_t deadline_ns, wire::Envelope* reply_on_error,
                                                  bool* sent) {
  auto connected = co_await connect(address, deadline_ns);
  if (!connected.is_ok()) co_return connected.status();
  const std::shared_ptr<control::Connection> connection = std::move(connected).value();
  if (sent != nullptr) *sent = true;
  auto reply = co_await connection->call(std::move(request), deadline_ns);
  if (!reply.is_ok()) co_return reply.status();
  const Status status = control::reply_status(reply.value());
  if (status.is_ok()) co_return std::move(reply);
  if (reply_on_error != nullptr) *reply_on_error = std::move(reply).value();
  co_return status;
}

control::Task<Result<std::shared_ptr<control::Connection>>> Peers::connect(std::string address,
                                                                           uint64_t deadline_ns) {
  auto& slot = peers_[address];
  if (!slot) slot = std::make_shared<Peer>();
  const std::shared_ptr<Peer> peer = slot;
  // What another caller's dial came to says little (its deadline may have been short): this one makes its
  // own.
  while ((peer->dialling || os::now_ns() < peer->refused_until_ns) && os::now_ns() < deadline_ns) {
    co_await core_.loop.sleep_ns(200'000);
  }
  if (peer->connection && peer->connection->is_open()) co_return peer->connection;
  if (peer->dialling) co_return Status(Code::kDeadline, "no connection to " + address + " in time");
  if (os::now_ns() < peer->refused_until_ns) co_return peer->refused;
  peer->dialling = true;
  auto dialled = co_await dial(address, std::min(deadline_ns, os::now_ns() + kDialNs));
  peer->dialling = false;
  if (!dialled.is_ok()) {
    peer->refused = dialled.status();
    peer->refused_until_ns = os::now_ns() + kRefusedNs;
    co_return peer->refused;
  }
  peer->connection = std::move(dialled).value();
  co_return peer->connection;
}

control::Task<Result<std::shared_ptr<control::Connection>>> Peers::dial(std::string address,
                                                                        uint64_t deadline_ns) {
  auto socket = co_await control::connect_tcp(core_.loop, address, deadline_ns);
  if (!socket.is_ok()) co_return socket.status();
  control::Connection::Options options;
  options.server = false;
  options.tls = core_.tls;
  auto connection = std::make_shared<control::Connection>(core_.loop, std::move(socket).value(), options);
  connection->start(nullptr, nullptr);
  const std::string mine = nonce();
  wire::Envelope hello;
  hello.mutable_node_hello()->set_version(wire::kControlVersion);
  hello.mutable_node_hello()->set_node(core_.name);
  hello.mutable_node_hello()->set_nonce(mine);
  hello.mutable_node_hello()->set_incarnation(id_field(core_.incarnation));
  auto answer = co_await connection->call(std::move(hello), deadline_ns);
  Status status = answer.is_ok() ? control::reply_status(answer.value()) : answer.status();
  if (status.is_ok()) {
    const auto& challenge = answer.value().node_challenge();
    const os::Digest want = proof(core_, "oncilla server", challenge.node(), mine, challenge.nonce());
    if (challenge.nonce().size() != kNonceBytes ||
        !os::equal_secrets(want, os::bytes_of(challenge.proof()))) {
      status = Status(Code::kAuth, address + " does not know the cluster token");
    } else {
      wire::Envelope last;
      last.mutable_node_proof()->set_proof(
          field(proof(core_, "oncilla client", core_.name, mine, challenge.nonce())));
      auto done = co_await connection->call(std::move(last), deadline_ns);
      status = done.is_ok() ? control::reply_status(done.value()) : done.status();
    }
  }
  if (!status.is_ok()) {
    connection->close(status);
    if (status.code() == Code::kAuth)
      log::error("peer_refused", {{"address", address}, {"why", status.message()}});
    co_return status;
  }
  connection->trust();
  co_return connection;
}

void Peers::forget(const std::string& address) {
  const auto it = peers_.find(address);
  if (it == peers_.end()) return;
  const auto connection = it->second->connection;
  peers_.erase(it);
  if (connection) connection->close(Status(Code::kPeerLost, "the node is gone"));
}

void Peers::close_all() {
  auto peers = std::move(peers_);
  peers_.clear();
  for (auto& [address, peer] : peers) {
    if (peer->connection) peer->connection->close(Status(Code::kDraining, "this daemon is shutting down"));
  }
}

}  // namespace ocm::node
