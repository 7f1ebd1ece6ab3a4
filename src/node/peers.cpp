#include "node/peers.h"

#include <utility>

#include "base/assert.h"
#include "base/fault.h"

namespace ocm::node {
namespace {

constexpr uint64_t kDialNs = 1'000'000'000;
constexpr uint64_t kRefusedNs = 100'000'000;

}  // namespace

control::Task<Result<wire::Envelope>> Peers::call(std::string address, wire::Envelope request,
                                                  uint64_t deadline_ns, wire::Envelope* reply_on_error,
                                                  bool* sent) {
  if (address.empty()) co_return Status(Code::kPeerLost, "the node is not known here");
  auto connected = co_await connect(address, deadline_ns);
  if (!connected.is_ok()) co_return connected.status();
  const std::shared_ptr<control::Link> connection = std::move(connected).value();
  OCM_DASSERT(connection != nullptr);
  if (sent != nullptr) *sent = true;
  auto reply = co_await connection->call(std::move(request), deadline_ns);
  if (reply.status().code() == Code::kDeadline) unanswered(address, connection);
  if (reply.status().code() == Code::kPeerLost) fault::reached(fault::State::kCallBroken);
  if (!reply.is_ok()) co_return reply.status();
  const Status status = control::reply_status(reply.value());
  if (status.is_ok()) co_return std::move(reply);
  if (reply_on_error != nullptr) *reply_on_error = std::move(reply).value();
  co_return status;
}

control::Task<Result<std::shared_ptr<control::Link>>> Peers::connect(std::string address,
                                                                     uint64_t deadline_ns) {
  auto& slot = peers_[address];
  if (!slot) slot = std::make_shared<Peer>(core_.env);
  const std::shared_ptr<Peer> peer = slot;
  // A dial that began before says nothing of now: all that wait take what the next one comes to.
  const uint64_t dials_before = peer->dials;
  while (core_.now_ns() < deadline_ns && peer->refused_dial <= dials_before) {
    if (peer->dialling)
      co_await peer->dialled.wait_until(deadline_ns);
    else if (const uint64_t now_ns = core_.now_ns(); now_ns < peer->refused_until_ns)
      co_await core_.env.sleep_ns(std::min(peer->refused_until_ns, deadline_ns) - now_ns);
    else
      break;
  }
  if (peer->connection && peer->connection->is_open()) co_return peer->connection;
  if (peer->dialling) co_return Status(Code::kDeadline, "no answer from " + address + " in time");
  if (peer->refused_dial > dials_before || core_.now_ns() < peer->refused_until_ns) co_return peer->refused;
  peer->dialling = true;
  const uint64_t dial = ++peer->dials;
  const uint64_t long_enough_ns = core_.now_ns() + kDialNs;
  Result<std::shared_ptr<control::Link>> dialled = Status(Code::kNoFds);
  if (!fault::at(fault::Point::kPeerNoFds))
    dialled = co_await dial_(address, std::min(deadline_ns, long_enough_ns));
  OCM_DASSERT(peer->dialling && peer->dials == dial);  // nobody else dials meanwhile
  peer->dialling = false;
  peer->dialled.notify();
  if (!dialled.is_ok()) {
    // Whatever it was, nobody heard the request: it is told later, as where the peer does not answer.
    const Status& why = dialled.status();
    const bool known = why.code() == Code::kAuth || why.code() == Code::kDeadline;
    peer->refused = known ? why : Status(Code::kPeerLost, why.to_string());
    peer->refused_until_ns = core_.now_ns() + kRefusedNs;
    // Who has more time left than the caller had would wait longer.
    if (why.code() != Code::kDeadline || deadline_ns >= long_enough_ns) peer->refused_dial = dial;
    co_return peer->refused;
  }
  peer->connection = std::move(dialled).value();
  OCM_DASSERT(peer->connection != nullptr);
  tell_when_lost(address, peer);
  // Nobody finds it there: it would stay open for ever.
  if (peer->forgotten) core_.env.spawn(close_later(core_, peer->connection));
  co_return peer->connection;
}

void Peers::tell_when_lost(const std::string& address, const std::shared_ptr<Peer>& peer) {
  const control::Link* const link = peer->connection.get();
  // One that this side has left is nobody's any more.
  peer->connection->on_closed([this, address, link, weak = std::weak_ptr(peer)] {
    const auto known = weak.lock();
    if (known && known->connection.get() == link && !known->forgotten && on_lost_) on_lost_(address);
  });
}

void Peers::unanswered(const std::string& address, const std::shared_ptr<control::Link>& connection) {
  if (core_.now_ns() < connection->heard_ns() + core_.config.failure_deadline_ns()) return;
  if (fault::at(fault::Point::kSilentStays)) return;
  const auto it = peers_.find(address);
  if (it == peers_.end() || it->second->connection != connection || it->second->renewing) return;
  it->second->renewing = true;
  core_.env.spawn(renew(address, it->second));
}

control::Task<void> Peers::renew(std::string address, std::shared_ptr<Peer> peer) {
  OCM_DASSERT(peer->renewing && peer->connection != nullptr);
  const std::shared_ptr<control::Link> silent = peer->connection;
  auto dialled = co_await dial_(address, core_.now_ns() + kDialNs);
  if (dialled.is_ok()) {
    // Whoever waits on the old one may still be heard: a peer that stood still answers on both.
    std::shared_ptr<control::Link> unused = std::move(dialled).value();
    if (peer->connection == silent && !peer->forgotten) {
      fault::reached(fault::State::kSilentLeft);
      std::swap(peer->connection, unused);
      tell_when_lost(address, peer);
    }
    core_.env.spawn(close_later(core_, std::move(unused)));
  } else {
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  peer->renewing = false;
}

control::Task<void> Peers::close_later(Core& core, std::shared_ptr<control::Link> connection) {
  OCM_DASSERT(connection != nullptr);
  co_await core.env.sleep_ns(core.config.failure_deadline_ns());
  connection->close(Status(Code::kPeerLost, "the node is gone"));
}

void Peers::forget(const std::string& address, bool lives) {
  const auto it = peers_.find(address);
  if (it == peers_.end()) return;
  it->second->forgotten = true;
  const auto connection = it->second->connection;
  peers_.erase(it);
  if (!connection) return;
  if (lives)
    core_.env.spawn(close_later(core_, connection));
  else
    connection->close(Status(Code::kPeerLost, "the node is gone"));
}

void Peers::close_all() {
  on_lost_ = nullptr;
  auto peers = std::move(peers_);
  peers_.clear();
  for (auto& [address, peer] : peers) {
    if (peer->connection) peer->connection->close(Status(Code::kDraining, "this daemon is shutting down"));
  }
}

}  // namespace ocm::node
