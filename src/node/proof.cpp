#include "node/proof.h"

#include "base/assert.h"
#include "control/sockets.h"
#include "os/address.h"
#include "os/crypto.h"

namespace ocm::node {
namespace {

constexpr size_t kNonceBytes = 16;
static_assert(sizeof(os::Digest) == 32, "a proof is HMAC-SHA256");

std::string nonce() {
  std::string out(kNonceBytes, '\0');
  os::fill_random({reinterpret_cast<std::byte*>(out.data()), out.size()});
  return out;
}

/// Of the connection: what nobody between its ends can have on another one.
std::string binding_of(const control::Connection& connection, const wire::NodeHello& hello) {
  return connection.tls() == nullptr ? hello.dialed() + " " + hello.end() : connection.tls()->binding();
}

/// Whether who connected wanted to get here, and not to another node in whose place somebody listens.
Status check_dialed(const Core& core, const control::Connection& connection, const wire::NodeHello& hello) {
  if (connection.tls() != nullptr) return {};
  const std::string here = os::own_end(connection.fd());
  if (!hello.end().empty() && hello.end() == here) return {};
  if (!core.control_address.empty() && hello.dialed() == core.control_address) return {};
  return Status(Code::kAuth, "node " + hello.node() + " wanted to get to " + hello.dialed() +
                                 ", which is not " + core.control_address +
                                 ": without TLS [node] advertise must be what others use");
}

os::Digest proof(const Core& core, std::string_view role, const std::string& node, const std::string& client,
                 const std::string& server, const std::string& binding) {
  return os::hmac_sha256(core.token, {os::bytes_of(role), os::bytes_of(node), os::bytes_of(client),
                                      os::bytes_of(server), os::bytes_of(binding)});
}

/// Whether the certificate shown on `connection` is of the node: of this name, or of this host.
Status check_certificate(const control::Connection& connection, const std::string& node,
                         const std::string& host) {
  const control::TlsFilter* tls = connection.tls();
  if (tls == nullptr || tls->peer_carries(node) || tls->peer_carries(host)) return {};
  return Status(Code::kAuth, "TLS: certificate " + tls->peer_subject() + ": it carries neither the name " +
                                 node + " nor the address " + host);
}

std::string field(const os::Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

Result<wire::Envelope> PeerGate::step(const Core& core, const control::Connection& connection,
                                      const wire::Envelope& request) {
  wire::Envelope out;
  if (request.has_node_hello() && node_.empty()) {
    const auto& hello = request.node_hello();
    OCM_TRY(wire::agree("control", core.versions, wire::versions_of(hello)).status());
    OCM_TRY(control::check_node_name(hello.node()));
    if (hello.nonce().size() != kNonceBytes)
      return Status(Code::kProtocol, "the nonce has " + std::to_string(hello.nonce().size()) +
                                         " bytes instead of " + std::to_string(kNonceBytes));
    const auto is_end = [](const std::string& text) {
      return text.size() <= 300 && text.find(' ') == std::string::npos;
    };
    if (!is_end(hello.dialed()) || !is_end(hello.end()))
      return Status(Code::kProtocol, "an address in the hello is not host:port");
    OCM_TRY(check_certificate(connection, hello.node(), os::peer_host(connection.fd())));
    OCM_TRY(check_dialed(core, connection, hello));
    binding_ = binding_of(connection, hello);
    node_ = hello.node();
    client_nonce_ = hello.nonce();
    server_nonce_ = nonce();
    OCM_DASSERT(client_nonce_.size() == kNonceBytes && server_nonce_.size() == kNonceBytes);
    OCM_DASSERT(!proven_);
    auto& challenge = *out.mutable_node_challenge();
    challenge.set_nonce(server_nonce_);
    challenge.set_node(core.name);
    challenge.set_incarnation(id_field(core.incarnation));
    wire::versions_to(core.versions, *challenge.mutable_versions());
    challenge.set_proof(
        field(proof(core, "oncilla server", core.name, client_nonce_, server_nonce_, binding_)));
    return out;
  }
  if (request.has_node_proof() && !node_.empty() && !proven_) {
    OCM_DASSERT(client_nonce_.size() == kNonceBytes && server_nonce_.size() == kNonceBytes);
    const os::Digest want = proof(core, "oncilla client", node_, client_nonce_, server_nonce_, binding_);
    if (!os::equal_secrets(want, os::bytes_of(request.node_proof().proof()))) {
      return Status(Code::kAuth, "its cluster token is another than this node's");
    }
    OCM_DASSERT(control::check_node_name(node_).is_ok());
    proven_ = true;
    return out;
  }
  return Status(Code::kAuth, "prove the cluster token first");
}

control::Task<Result<std::shared_ptr<control::Link>>> dial(Core& core, control::Loop& loop,
                                                           std::string address, uint64_t deadline_ns) {
  auto socket = co_await control::connect_tcp(loop, address, deadline_ns);
  if (!socket.is_ok()) co_return socket.status();
  control::Connection::Options options;
  options.server = false;
  options.tls = core.tls;
  auto connection = std::make_shared<control::Connection>(loop, std::move(socket).value(), options);
  connection->start(nullptr, nullptr);
  const std::string mine = nonce();
  wire::Envelope hello;
  wire::tell_versions(core.versions, *hello.mutable_node_hello());
  hello.mutable_node_hello()->set_node(core.name);
  hello.mutable_node_hello()->set_nonce(mine);
  hello.mutable_node_hello()->set_incarnation(id_field(core.incarnation));
  hello.mutable_node_hello()->set_dialed(address);
  hello.mutable_node_hello()->set_end(os::peer_end(connection->fd()));
  const wire::NodeHello said = hello.node_hello();
  auto answer = co_await connection->call(std::move(hello), deadline_ns);
  Status status = answer.is_ok() ? control::reply_status(answer.value()) : answer.status();
  if (status.is_ok()) {
    const auto& challenge = answer.value().node_challenge();
    const std::string binding = binding_of(*connection, said);  // of TLS: known now
    const os::Digest want = proof(core, "oncilla server", challenge.node(), mine, challenge.nonce(), binding);
    if (challenge.nonce().size() != kNonceBytes ||
        !os::equal_secrets(want, os::bytes_of(challenge.proof()))) {
      status = Status(Code::kAuth,
                      address + " has another cluster token than this node: compare both token files");
      wire::Envelope empty;  // proves nothing and tells nothing; the other side logs that it was refused
      empty.mutable_node_proof();
      (void)co_await connection->call(std::move(empty), deadline_ns);
    } else {
      const auto where = control::HostPort::parse(address);
      status = check_certificate(*connection, challenge.node(), where.is_ok() ? where.value().host : address);
    }
    if (status.is_ok() && challenge.has_versions())
      status = wire::agree("control", core.versions, wire::versions_from(challenge.versions())).status();
    if (status.is_ok()) {
      wire::Envelope last;
      last.mutable_node_proof()->set_proof(
          field(proof(core, "oncilla client", core.name, mine, challenge.nonce(), binding)));
      auto done = co_await connection->call(std::move(last), deadline_ns);
      status = done.is_ok() ? control::reply_status(done.value()) : done.status();
    }
  }
  if (!status.is_ok()) {
    connection->close(status);
    if (status.code() == Code::kAuth) {
      if (const auto left_out =
              core.limiter.admit("peer_refused", address, core.now_ns(), status.message())) {
        log::error("peer_refused",
                   {{"address", address}, {"why", status.message()}, {"left_out", *left_out}});
      }
    }
    co_return status;
  }
  connection->trust(wire::kNodeBytesMax);
  co_return std::shared_ptr<control::Link>(connection);
}

}  // namespace ocm::node
