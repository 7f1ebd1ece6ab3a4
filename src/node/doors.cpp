#include "node/doors.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/share.h"
#include "os/address.h"
#include "os/fd_reserve.h"
#include "os/rights.h"

namespace ocm::node {

using control::Connection;
using control::Reply;
using control::Task;

void Doors::refuse(const std::string& peer) {
  ++core_.metrics.connections_refused;
  if (const auto left_out = core_.limiter.admit("connection_refused", peer, core_.now_ns())) {
    log::warn("connection_refused", {{"peer", peer}, {"left_out", *left_out}});
  }
}

Connection* Doors::accept(Door& door, os::Fd socket, std::string peer, Connection::Options options,
                          Connection::Handler handler, std::function<void()> closed) {
  auto connection = std::make_shared<Connection>(loop_, std::move(socket), std::move(options));
  const auto place = door.unproved.insert(door.unproved.end(), {connection.get(), core_.now_ns()});
  connections_.emplace(connection.get(), Accepted{connection, &door, place});
  ++door.open;
  OCM_DASSERT(door.unproved.size() <= door.open);
  ++core_.metrics.connections_total;
  core_.metrics.connections = connections_.size();
  auto ended = [this, peer = std::move(peer), closed = std::move(closed)](
                   const std::shared_ptr<Connection>& which, const Status& why) {
    if (why.code() == Code::kProtocol || why.code() == Code::kAuth) {
      ++core_.metrics.errors[static_cast<int>(why.code())];
      if (const auto left_out = core_.limiter.admit("connection_closed", peer, core_.now_ns())) {
        log::warn("connection_closed", {{"peer", peer}, {"why", why.message()}, {"left_out", *left_out}});
      }
    }
    proved(which.get());  // whatever it was: nobody waits for it
    const auto gone = connections_.find(which.get());
    OCM_DASSERT(gone != connections_.end() && !gone->second.unproved);
    OCM_DASSERT(gone->second.door->open > 0);
    --gone->second.door->open;
    connections_.erase(gone);
    core_.metrics.connections = connections_.size();
    closed();
    OCM_DASSERT(is_valid());
  };
  connection->start(std::move(handler), std::move(ended));
  if (!closing_unproved_) {
    closing_unproved_ = true;
    loop_.spawn(close_unproved());
  }
  return connection.get();
}

void Doors::proved(Connection* connection) {
  const auto it = connections_.find(connection);
  if (it == connections_.end() || !it->second.unproved) return;
  OCM_DASSERT((*it->second.unproved)->connection == connection);
  it->second.door->unproved.erase(*it->second.unproved);
  it->second.unproved.reset();
}

Task<void> Doors::close_unproved() {
  while (true) {
    uint64_t oldest_ns = ~uint64_t{0};
    for (const Door* door : {&programs_, &daemons_}) {
      if (!door->unproved.empty()) oldest_ns = std::min(oldest_ns, door->unproved.front().since_ns);
    }
    if (oldest_ns == ~uint64_t{0}) break;
    const uint64_t now_ns = core_.now_ns();
    if (now_ns < oldest_ns + kProveNs) {
      co_await loop_.sleep_ns(oldest_ns + kProveNs - now_ns);
      continue;
    }
    for (Door* door : {&programs_, &daemons_}) {
      if (door->unproved.empty() || now_ns < door->unproved.front().since_ns + kProveNs) continue;
      ++core_.metrics.connections_unproved;
      const auto late = connections_.at(door->unproved.front().connection).connection;
      late->close(Status(Code::kDeadline, "it did not prove itself in time"));
    }
  }
  closing_unproved_ = false;
}

void Doors::accept_program(os::Fd socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return os::close_unread(std::move(socket));
  const uint32_t uid = peer.uid;
  const size_t mine = connections_by_uid_[uid];
  const bool trusted = is_privileged(uid);
  const size_t most = core_.config.connections;
  const std::string who = "uid " + std::to_string(uid);
  if (programs_.open >= most ||
      used_up_share(trusted, mine, of_users(connections_by_uid_), most) != Share::kOk ||
      (!trusted && !os::fd_is_for(socket.get(), os::FdUse::kConnection))) {
    if (mine == 0) connections_by_uid_.erase(uid);
    os::close_unread(std::move(socket));
    return refuse(who);
  }
  auto program = std::make_shared<Program>();
  program->uid = uid;
  program->pid = static_cast<uint32_t>(peer.pid);
  auto handler = [this, program](const std::shared_ptr<Connection>&, wire::Envelope request) {
    return service_.program_request(program, std::move(request));
  };
  ++connections_by_uid_[uid];
  Connection::Options options;
  if (!trusted) options.allowance = allowances_.of(uid);
  auto* connection =
      accept(programs_, std::move(socket), who, std::move(options), std::move(handler), [this, program] {
        const auto it = connections_by_uid_.find(program->uid);
        OCM_DASSERT(it != connections_by_uid_.end() && it->second > 0);
        if (--it->second == 0) connections_by_uid_.erase(it);
        service_.program_ended(program);
      });
  program->proved = [this, connection] {  // called by its own request only: it lives
    proved(connection);
    connection->trust();
  };
}

void Doors::accept_peer(os::Fd socket) {
  const std::string peer = os::peer_host(socket.get());
  OCM_DASSERT(daemons_.unproved.size() <= daemons_.open);
  const size_t proven = daemons_.open - daemons_.unproved.size();
  if (proven >= core_.config.connections) return refuse(peer);
  const bool scarce = !os::fd_is_for(socket.get(), os::FdUse::kConnection);
  if (daemons_.unproved.size() >= kUnprovedMax || (scarce && !daemons_.unproved.empty())) {
    ++core_.metrics.connections_unproved;
    const auto oldest = connections_.at(daemons_.unproved.front().connection).connection;
    oldest->close(Status(Code::kLimit, "too many connections that did not prove themselves"));
  }
  if (scarce) socket = os::moved_down(std::move(socket));
  if (scarce && !os::fd_is_for(socket.get(), os::FdUse::kConnection)) return refuse(peer);
  auto gate = std::make_shared<PeerGate>();
  auto handler = [this, gate, peer](std::shared_ptr<Connection> connection, wire::Envelope request) {
    if (gate->proven()) return service_.peer_request(gate->node(), std::move(request));
    return prove(gate, std::move(connection), peer, std::move(request));
  };
  Connection::Options options;
  options.tls = core_.tls;
  options.leaves_out_replies = true;  // heartbeats and votes go over it, too
  options.outstanding_max = 4096;
  options.outstanding_bytes_max = size_t{1} << 30;
  accept(daemons_, std::move(socket), peer, std::move(options), std::move(handler), [] {});
}

bool Doors::is_valid() const {
  size_t programs = 0;
  for (const auto& [uid, count] : connections_by_uid_) programs += count;
  return programs == programs_.open && programs_.open + daemons_.open == connections_.size() &&
         programs_.unproved.size() <= programs_.open && daemons_.unproved.size() <= daemons_.open;
}

void Doors::close_all() {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [raw, accepted] : connections_) all.push_back(accepted.connection);
  for (const auto& connection : all) {
    connection->close(Status(Code::kDraining, "the daemon is shutting down"));
  }
}

Task<Reply> Doors::prove(std::shared_ptr<PeerGate> gate, std::shared_ptr<Connection> connection,
                         std::string peer, wire::Envelope request) {
  if (gate->refused()) {  // he was told why; whatever he goes on to send takes time from others
    connection->close(Status(Code::kAuth, "it went on after it was refused"));
    co_return Status(Code::kAuth);
  }
  auto step = gate->step(core_, *connection, request);
  if (gate->proven()) {
    connection->trust(wire::kNodeBytesMax);
    proved(connection.get());
  }
  if (step.is_ok()) co_return std::move(step).value();
  gate->refuse();
  ++core_.metrics.errors[static_cast<int>(step.status().code())];
  if (step.status().code() == Code::kAuth) ++core_.metrics.auth_failures;
  if (const auto left_out =
          core_.limiter.admit("peer_refused", peer, core_.now_ns(), step.status().message())) {
    log::warn(
        "peer_refused",
        {{"node", gate->node()}, {"peer", peer}, {"why", step.status().message()}, {"left_out", *left_out}});
  }
  co_return step.status();
}

}  // namespace ocm::node
