#include "fabric/ucx/server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <list>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "fabric/ucx/active_message.h"
#include "fabric/ucx/registry.h"
#include "fabric/wait.h"
#include "os/fd.h"

namespace ocm::fabric::ucx {
namespace {

constexpr int kSweepMs = 500;

/// A client as the home knows it. The least recently seen one goes when there are too many: UCX does not
/// say when a client is gone, and a client that is asked again only has to connect anew.
struct Connection {
  uint64_t name = 0;
  SessionId session;
  Nonce client_nonce{};
  Nonce server_nonce{};
  bool proved = false;
};

}  // namespace

class UcxServer::Impl {
 public:
  Impl(const ServerOptions& options, ExtentDirectory& directory, ServerStats& stats)
      : options_(options), directory_(directory), stats_(stats) {}
  ~Impl();
  Status start();
  void stop();

  void on_message(const Message& message, ucp_ep_h reply_to);
  void run();

  const ServerOptions options_;
  ExtentDirectory& directory_;
  ServerStats& stats_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Registry> registry_;
  MessageSink sink_;
  std::unique_ptr<Worker> worker_;  // the thread's, once it runs
  std::string address_;
  os::Fd stop_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;

 private:
  void on_hello(const Message& message, ucp_ep_h reply_to);
  void on_proof(const Message& message, ucp_ep_h reply_to);
  void on_attach(const Message& message, ucp_ep_h reply_to);
  void on_wake(const Message& message);
  void forget(std::list<Connection>::iterator connection);
  Connection* touch(uint64_t name);
  Result<Registration> open(const Connection& connection, const Message& message);

  std::list<Connection> connections_;  // least recently seen first
  std::unordered_map<uint64_t, std::list<Connection>::iterator> by_name_;
};

Status UcxServer::Impl::start() {
  OCM_TRY_ASSIGN(context_, Context::make(options_.settings, Context::Role::kHome));
  const bool checked = ucx::hardware_checked(options_.settings.tls);
  OCM_TRY_ASSIGN(registry_, Registry::make(context_, options_.extents_max, checked));
  OCM_TRY_ASSIGN(worker_, Worker::make(context_));
  sink_.self = this;
  sink_.handler = [](void* self, const Message& message, ucp_ep_h reply_to) {
    static_cast<Impl*>(self)->on_message(message, reply_to);
  };
  OCM_TRY(sink_.listen(*worker_));
  OCM_TRY_ASSIGN(std::string worker_address, worker_->address());
  address_ = encode_address(worker_address);
  stop_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.is_open()) return Status::from_errno(errno, "ucx: eventfd");
  if (!checked) log::warn("ucx_unchecked", {{"tls", options_.settings.tls}});
  thread_ = std::thread([this] { run(); });
  return Status::ok();
}

void UcxServer::Impl::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

UcxServer::Impl::~Impl() {
  stop();
  stats_.connections.fetch_sub(connections_.size(), std::memory_order_relaxed);
  worker_.reset();  // before what its handlers use
  registry_.reset();
}

void UcxServer::Impl::run() {
  Waiter waiter(options_.spin_ns);
  uint64_t last_sweep_ns = os::now_ns();
  while (!stopping_.load(std::memory_order_acquire)) {
    if (worker_->progress() != 0) {
      waiter.moved(os::now_ns());
      if (os::now_ns() - last_sweep_ns < kSweepMs * uint64_t{1'000'000}) continue;
    }
    const uint64_t now = os::now_ns();
    if (now - last_sweep_ns >= kSweepMs * uint64_t{1'000'000}) {
      registry_->sweep();
      last_sweep_ns = now;
    }
    if (waiter.spins(now) || !worker_->arm()) continue;
    pollfd on[2] = {{worker_->event_fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    // Asleep until traffic comes; with nothing registered there is nothing to sweep either.
    ::poll(on, 2, registry_->size() == 0 ? -1 : kSweepMs);
    if (on[0].revents != 0) waiter.moved(os::now_ns());
  }
}

void UcxServer::Impl::on_message(const Message& message, ucp_ep_h reply_to) {
  switch (message.type) {
    case MessageType::kHello: return on_hello(message, reply_to);
    case MessageType::kProof: return on_proof(message, reply_to);
    case MessageType::kAttach: return on_attach(message, reply_to);
    case MessageType::kWake: return on_wake(message);
    case MessageType::kBye:
      if (auto found = by_name_.find(message.connection); found != by_name_.end()) forget(found->second);
      return;
    default: stats_.failed(Code::kProtocol);
  }
}

void UcxServer::Impl::forget(std::list<Connection>::iterator connection) {
  OCM_ASSERT(by_name_.at(connection->name) == connection && by_name_.size() == connections_.size());
  by_name_.erase(connection->name);
  connections_.erase(connection);
  stats_.connections.fetch_sub(1, std::memory_order_relaxed);
}

Connection* UcxServer::Impl::touch(uint64_t name) {
  auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  connections_.splice(connections_.end(), connections_, found->second);
  return &*found->second;
}

void UcxServer::Impl::on_hello(const Message& message, ucp_ep_h reply_to) {
  if (reply_to == nullptr) return;
  while (connections_.size() >= options_.connections_max) forget(connections_.begin());
  Connection connection;
  do {
    os::fill_random({reinterpret_cast<std::byte*>(&connection.name), sizeof connection.name});
  } while (by_name_.contains(connection.name));
  os::fill_random(connection.server_nonce);
  connection.session = message.session;
  connection.client_nonce = message.nonce;
  const auto key = directory_.session_key(message.session);

  Message reply;
  reply.type = MessageType::kChallenge;
  reply.request = message.request;
  reply.connection = connection.name;
  reply.nonce = connection.server_nonce;
  reply.proof = session_proof(key, "server", connection.client_nonce, connection.server_nonce);
  connections_.push_back(connection);
  by_name_[connection.name] = std::prev(connections_.end());
  stats_.connections.fetch_add(1, std::memory_order_relaxed);
  stats_.connections_total.fetch_add(1, std::memory_order_relaxed);
  send_message(reply_to, reply);
}

void UcxServer::Impl::on_proof(const Message& message, ucp_ep_h reply_to) {
  if (reply_to == nullptr) return;
  Message reply;
  reply.type = MessageType::kWelcome;
  reply.request = message.request;
  reply.code = Code::kAuth;
  if (Connection* connection = touch(message.connection)) {
    const auto key = directory_.session_key(connection->session);
    connection->proved = os::equal_secrets(
        session_proof(key, "client", connection->server_nonce, connection->client_nonce), message.proof);
    if (connection->proved) {
      const Registration words = registry_->words();
      reply.code = Code::kOk;
      reply.word_address = words.word_address;
      reply.word = words.word;
      reply.rkey = words.rkey;
    } else {
      forget(by_name_.at(message.connection));
    }
  }
  if (reply.code != Code::kOk) stats_.refused.fetch_add(1, std::memory_order_relaxed);
  send_message(reply_to, reply);
}

Result<Registration> UcxServer::Impl::open(const Connection& connection, const Message& message) {
  OCM_TRY_ASSIGN(std::shared_ptr<ServedExtent> extent, directory_.open(message.extent));
  // A lease is checked at each operation by the fabrics that can; this one cannot.
  if (extent->lease_until_ns != nullptr) return Code::kUnsupported;
  const auto proves = [&](const Capability& held) {
    return os::equal_secrets(attach_proof(held, connection.server_nonce, message.extent, message.access),
                             message.proof);
  };
  const bool reading = message.access == Access::kRead;
  if (!proves(extent->capability) && !(reading && proves(os::read_capability(extent->capability)))) {
    return Code::kPermission;
  }
  return registry_->open(extent);
}

void UcxServer::Impl::on_attach(const Message& message, ucp_ep_h reply_to) {
  if (reply_to == nullptr) return;
  Message reply;
  reply.type = MessageType::kAttached;
  reply.request = message.request;
  const Connection* connection = touch(message.connection);
  if (connection == nullptr || !connection->proved) {
    reply.code = Code::kAuth;
  } else {
    Result<Registration> opened = open(*connection, message);
    reply.code = opened.status().code();
    if (opened.is_ok()) {
      reply.base = opened->base;
      reply.bytes = opened->bytes;
      reply.word_address = opened->word_address;
      reply.word = opened->word;
      reply.rkey = opened->rkey;
    }
  }
  if (reply.code != Code::kOk) stats_.failed(reply.code);
  send_message(reply_to, reply);
}

void UcxServer::Impl::on_wake(const Message& message) {
  const Connection* connection = touch(message.connection);
  if (connection == nullptr || !connection->proved) return;
  std::shared_ptr<ServedExtent> extent = registry_->find(message.extent);
  if (extent == nullptr) return;
  if (check_access(*extent, Access::kReadWrite, OpCode::kNotify, message.offset, 8) != Code::kOk) return;
  apply_notify(extent->data + message.offset, 0);  // the sender added its value already; this wakes
}

UcxServer::UcxServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UcxServer::~UcxServer() = default;

Result<std::unique_ptr<UcxServer>> UcxServer::start(const ServerOptions& options, ExtentDirectory& directory,
                                                    ServerStats& stats) {
  auto impl = std::make_unique<Impl>(options, directory, stats);
  OCM_TRY(impl->start());
  return std::unique_ptr<UcxServer>(new UcxServer(std::move(impl)));
}

const std::string& UcxServer::address() const { return impl_->address_; }

void UcxServer::stop() { impl_->stop(); }
void UcxServer::revoke(const ExtentId& id) { impl_->registry_->close(id); }
size_t UcxServer::registered_extents() const { return impl_->registry_->size(); }
bool UcxServer::hardware_checked() const { return ucx::hardware_checked(impl_->options_.settings.tls); }

}  // namespace ocm::fabric::ucx
