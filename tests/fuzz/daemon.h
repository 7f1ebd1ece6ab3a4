// One daemon without sockets and threads, on time that a fuzz target moves. Others reach it by
// peer_request(), and it others by what `dial` gives.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "bodies.h"
#include "env.h"
#include "known.h"
#include "node/allocator.h"
#include "node/copier.h"
#include "node/copy_piece.h"
#include "node/holds.h"
#include "node/remaker.h"
#include "node/service.h"
#include "node/stopper.h"

namespace ocm::fuzz {

constexpr uint64_t kHeartbeatNs = 500'000'000;
constexpr uint64_t kDeadlineNs = 1'500'000'000;
/// Every request has ended then, and what orphans held is freed.
constexpr uint64_t kAllOverNs = 8 * kDeadlineNs;

inline std::string address_of(const std::string& node) { return node + ":1"; }

class Daemon {
 public:
  struct Options {
    std::string name = "a";
    uint32_t partition = 7;
    std::string coordinator;  // its name; empty: this one
  };
  Daemon(Env& env, Known& known, const Options& options, node::Peers::Dial dial)
      : env_(env), known_(known), core_(config(options), env) {
    core_.name = options.name;
    core_.incarnation = env_.random_id<control::Incarnation>();
    core_.partition = options.partition;
    const std::vector<std::byte> token(32, std::byte{7});
    auto secret = os::Secret::copy(token);
    OCM_ASSERT(secret.is_ok());
    core_.token = std::move(secret).value();
    core_.control_address = address_of(options.name);
    core_.coordinates = options.coordinator.empty();
    core_.addresses.push_back({Fabric::kTcp, options.name + ":2", {}});
    auto made = node::Home::make(core_);
    OCM_ASSERT(made.is_ok());
    home_ = std::move(made).value();
    peers_ = std::make_unique<node::Peers>(core_, std::move(dial));
    cluster_ = std::make_unique<node::Cluster>(core_, *home_, *peers_);
    sessions_ = std::make_unique<node::Sessions>(core_);
    allocator_ = std::make_unique<node::Allocator>(core_, *home_, *cluster_, *sessions_);
    holds_ = std::make_unique<node::Holds>(core_, *cluster_);
    copier_ = std::make_unique<node::Copier>(core_, *home_, *cluster_,
                                             [this](node::CopyJob job) { job.done(move(job), false); });
    remaker_ = std::make_unique<node::Remaker>(core_, *home_, *cluster_, *sessions_);
    stopper_ = std::make_unique<node::Stopper>(core_, *home_, *cluster_, *sessions_);
    pages_ =
        std::make_unique<node::Pages>(core_, *home_, *cluster_, *sessions_, *remaker_, *stopper_, servers_);
    service_ = std::make_unique<node::Service>(core_, *home_, *cluster_, *sessions_, *allocator_, *holds_,
                                               *copier_, *remaker_, *stopper_, *pages_);
    cluster_->on_node([this](const control::NodeInfo& node) { allocator_->node_appeared(node); });
    cluster_->start([this](control::NodeInfo& self) {
      self.sessions = sessions_->count();
      self.copies = remaker_->progress();
    });
    remaker_->start();
  }

  const std::string& name() const { return core_.name; }
  /// The key of a session of a former run, if it has none.
  void sign_former(wire::SessionHello& hello) const {
    SessionId id;
    if (hello.resume_key().empty() && node::read_id(hello.resume_session(), id))
      hello.set_resume_key(sessions_->resume_key(id));
  }
  bool is_dead() const { return is_dead_; }
  /// As if it was killed: nobody hears it any more. It stays until the environment ends, for its coroutines.
  void die() {
    is_dead_ = true;
    core_.draining = true;
  }

  /// Starts the request; its reply, when it comes, is learned from and then given to `replied`.
  void ask(std::shared_ptr<node::Program> program, wire::Envelope request,
           std::function<void(const wire::Envelope&)> replied = nullptr) {
    env_.spawn(program_asks(std::move(program), std::move(request), std::move(replied)));
  }
  void ask_as_node(const std::string& node, wire::Envelope request) {
    env_.spawn(node_asks(node, std::move(request)));
  }
  control::Task<control::Reply> peer_request(std::string node, wire::Envelope request) {
    co_return co_await service_->peer_request(std::move(node), std::move(request));
  }
  /// What somebody on this host reads.
  void get(const std::string& path, uint32_t uid) { env_.spawn(reads(path, uid)); }
  void end(const std::shared_ptr<node::Program>& program) { service_->program_ended(program); }

  /// A program of another user is served.
  void check_served(uint32_t uid) {
    const auto honest = std::make_shared<node::Program>();
    honest->uid = uid;
    bool answered = false;
    wire::Envelope hello, request;
    hello.mutable_session_hello()->set_version(wire::kControlVersions.max);
    request.mutable_cluster();
    ask(honest, std::move(hello));
    env_.run(0);
    ask(honest, std::move(request), [&](const wire::Envelope& reply) { answered = reply.code() == 0; });
    env_.run(0);
    OCM_ASSERT(answered);
    end(honest);
  }
  void check_valid() const {
    OCM_ASSERT(home_->is_valid());
    OCM_ASSERT(cluster_->registry().is_valid());
    OCM_ASSERT(cluster_->quorum().voter().ledger().is_valid());
  }
  /// Nothing is left of anybody.
  void check_unused() const {
    OCM_ASSERT(sessions_->count() == 0);
    OCM_ASSERT(cluster_->names() == 0);
    OCM_ASSERT(home_->extents() == 0);
    OCM_ASSERT(home_->pool(Kind::kDram).bytes_used == 0);
  }

  node::Home& home() { return *home_; }
  const node::Cluster& cluster() const { return *cluster_; }

 private:
  static node::Config config(const Options& options) {
    node::Config out;
    out.name = options.name;
    if (!options.coordinator.empty()) out.coordinator = address_of(options.coordinator);
    out.offer(Kind::kDram, uint64_t{1} << 20);
    out.extents = 256;
    out.sessions = 16;
    out.names = 32;
    out.heartbeat_ms = kHeartbeatNs / 1'000'000;
    out.failure_deadline_ms = kDeadlineNs / 1'000'000;
    out.orphan_grace_ms = out.failure_deadline_ms;
    out.replica_again_after_ms = out.failure_deadline_ms;
    return out;
  }
  control::Task<void> program_asks(std::shared_ptr<node::Program> program, wire::Envelope request,
                                   std::function<void(const wire::Envelope&)> replied) {
    const wire::Envelope asked = request;
    const control::Reply reply = co_await service_->program_request(program, std::move(request));
    if (is_dead_) co_return;
    heard(asked, reply);
    if (replied) replied(reply.message);
  }
  control::Task<void> node_asks(std::string node, wire::Envelope request) {
    const wire::Envelope asked = request;
    const control::Reply reply = co_await service_->peer_request(node, std::move(request));
    heard(asked, reply);
  }
  control::Task<void> reads(std::string path, uint32_t uid) {
    node::HttpServer::Request request{std::move(path), false, uid};
    (void)co_await pages_->http(std::move(request));
  }
  void heard(const wire::Envelope& asked, const control::Reply& reply) {
    if (reply.message.code() == 0) reached(asked);
    known_.learn(reply.message);
  }
  /// As the copier's threads would; what comes from another home is zeros.
  Status move(node::CopyJob job) {
    const auto now = [this] { return env_.now_ns(); };
    OCM_TRY_ASSIGN(const auto piece, node::CopyPiece::begin(home_->directory(), job, job.bytes, now));
    if (!piece.source_is_here())
      std::memset(piece.target(), 0, piece.bytes());
    else
      std::memmove(piece.target(), piece.source(), piece.bytes());
    return piece.end(job, now);
  }

  Env& env_;
  Known& known_;
  fabric::Servers servers_;
  node::Core core_;
  bool is_dead_ = false;
  std::unique_ptr<node::Home> home_;
  std::unique_ptr<node::Peers> peers_;
  std::unique_ptr<node::Cluster> cluster_;
  std::unique_ptr<node::Sessions> sessions_;
  std::unique_ptr<node::Allocator> allocator_;
  std::unique_ptr<node::Holds> holds_;
  std::unique_ptr<node::Copier> copier_;
  std::unique_ptr<node::Remaker> remaker_;
  std::unique_ptr<node::Stopper> stopper_;
  std::unique_ptr<node::Pages> pages_;
  std::unique_ptr<node::Service> service_;
};

/// Root removes every name that the coordinator of `daemon` knows.
inline void remove_names(Env& env, Daemon& daemon) {
  const auto root = std::make_shared<node::Program>();
  std::vector<std::string> names;
  wire::Envelope hello, list;
  hello.mutable_session_hello()->set_version(wire::kControlVersions.max);
  list.mutable_name_list();
  daemon.ask(root, std::move(hello));
  env.run(0);
  daemon.ask(root, std::move(list), [&](const wire::Envelope& reply) {
    for (const auto& each : reply.names().allocations()) names.push_back(each.name());
  });
  env.run(kDeadlineNs);
  for (const std::string& name : names) {
    wire::Envelope remove;
    remove.mutable_name_remove()->set_name(name);
    daemon.ask(root, std::move(remove));
  }
  env.run(kDeadlineNs);
  daemon.end(root);
}

}  // namespace ocm::fuzz
