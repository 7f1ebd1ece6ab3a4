// One daemon, the coordinator of its cluster, without sockets and threads, on time that a fuzz target moves.
//
// An input is records: who sends (1 byte), length (2 bytes, little-endian), an Envelope. What a message names
// by a short word stands for what the daemon gave out before, so that a fuzzer need not guess random numbers:
// an id of one byte is that allocation's, an address below kKnownMax that extent's with its capability.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "fuzz.h"
#include "node/allocator.h"
#include "node/copier.h"
#include "node/holds.h"
#include "node/remaker.h"
#include "node/stopper.h"
#include "node/service.h"
#include "wire/control.h"

namespace ocm::fuzz {

class Env final : public control::Env {
 public:
  uint64_t now_ns() const override { return now_ns_; }
  control::Task<void> sleep_ns(uint64_t ns) override {
    const auto signal = std::make_shared<control::Signal>(*this);
    const auto over = std::make_shared<bool>(false);
    sleepers_.emplace(now_ns_ + ns, Sleeper{signal, over});
    while (!*over) co_await signal->wait();
  }
  void fill_random(std::span<std::byte> out) override {
    for (std::byte& byte : out)
      byte = static_cast<std::byte>((random_ = random_ * 6364136223846793005u + 1) >> 56);
  }
  bool has_threads() const override { return false; }

  /// Everything that is ready, then what becomes so within this time.
  void run(uint64_t for_ns) {
    const uint64_t until_ns = now_ns_ + for_ns;
    const auto guard = asio::make_work_guard(context());
    while (true) {
      while (context().poll() > 0) {
      }
      if (sleepers_.empty() || sleepers_.begin()->first > until_ns) break;
      now_ns_ = std::max(now_ns_, sleepers_.begin()->first);
      const Sleeper next = sleepers_.begin()->second;
      sleepers_.erase(sleepers_.begin());
      *next.over = true;
      next.signal->notify();
    }
    now_ns_ = until_ns;
  }

 private:
  struct Sleeper {
    std::shared_ptr<control::Signal> signal;
    std::shared_ptr<bool> over;
  };
  uint64_t now_ns_ = 1'000'000'000'000;
  uint64_t random_ = 1;
  std::multimap<uint64_t, Sleeper> sleepers_;
};

class Daemon {
 public:
  static constexpr size_t kKnownMax = 16;

  explicit Daemon(node::Peers::Dial dial) : core_(config(), env_) {
    core_.name = "a";
    core_.incarnation = env_.random_id<control::Incarnation>();
    core_.partition = 7;
    const std::vector<std::byte> token(32, std::byte{7});
    auto secret = os::Secret::copy(token);
    OCM_ASSERT(secret.is_ok());
    core_.token = std::move(secret).value();
    core_.control_address = "127.0.0.1:1";
    core_.coordinates = true;
    auto made = node::Home::make(core_);
    OCM_ASSERT(made.is_ok());
    home_ = std::move(made).value();
    peers_ = std::make_unique<node::Peers>(core_, std::move(dial));
    cluster_ = std::make_unique<node::Cluster>(core_, *home_, *peers_);
    sessions_ = std::make_unique<node::Sessions>(core_);
    allocator_ = std::make_unique<node::Allocator>(core_, *home_, *peers_, *cluster_, *sessions_);
    holds_ = std::make_unique<node::Holds>(core_, *home_, *peers_, *cluster_);
    copier_ = std::make_unique<node::Copier>(core_, *home_, *peers_, *cluster_,
                                             [](node::CopyJob job) { job.done(Status()); });
    remaker_ = std::make_unique<node::Remaker>(core_, *home_, *peers_, *cluster_, *sessions_);
    stopper_ = std::make_unique<node::Stopper>(core_, *home_, *peers_, *cluster_, *sessions_);
    service_ = std::make_unique<node::Service>(core_, *home_, *peers_, *cluster_, *sessions_, *allocator_,
                                               *holds_, *copier_, *remaker_, *stopper_, served_);
    cluster_->on_node([this](const wire::NodeView& node) { allocator_->node_appeared(node); });
    cluster_->start([this](wire::NodeView& self) { self.set_sessions(sessions_->count()); });
    env_.run(2 * core_.config.heartbeat_ns());
  }

  /// Starts the request; its reply, when it comes, is learned from and then given to `replied`.
  void ask(std::shared_ptr<node::Program> program, wire::Envelope request,
           std::function<void(const wire::Envelope&)> replied = nullptr) {
    env_.spawn(program_asks(std::move(program), std::move(request), std::move(replied)));
  }
  void ask_as_node(const std::string& node, wire::Envelope request) {
    env_.spawn(node_asks(node, std::move(request)));
  }
  void end(const std::shared_ptr<node::Program>& program) { service_->program_ended(program); }

  /// A program that has said hello.
  std::shared_ptr<node::Program> program(uint32_t uid) {
    auto out = std::make_shared<node::Program>();
    out->uid = uid;
    wire::Envelope hello;
    hello.mutable_session_hello()->set_version(wire::kControlVersion);
    ask(out, std::move(hello));
    env_.run(0);
    OCM_ASSERT(out->session != nullptr);
    return out;
  }

  /// Replaces the short words of the message.
  void resolve(wire::Envelope& message) const {
    using wire::Envelope;
    switch (message.body_case()) {
      case Envelope::kFree: id(*message.mutable_free()->mutable_allocation_id()); break;
      case Envelope::kPublish: id(*message.mutable_publish()->mutable_allocation_id()); break;
      case Envelope::kJoin:
        for (std::string& each : *message.mutable_join()->mutable_allocation_ids()) id(each);
        break;
      case Envelope::kOpenExtent: extent(*message.mutable_open_extent()); break;
      case Envelope::kRelease: extent(*message.mutable_release()); break;
      case Envelope::kCopy:
        extent(*message.mutable_copy()->mutable_target());
        extent(*message.mutable_copy()->mutable_source());
        break;
      case Envelope::kLostReplica:
        id(*message.mutable_lost_replica()->mutable_allocation_id());
        ref(*message.mutable_lost_replica());
        break;
      case Envelope::kHold:
        for (auto& each : *message.mutable_hold()->mutable_extents()) ref(each);
        break;
      case Envelope::kPublishExtents:
        id(*message.mutable_publish_extents()->mutable_allocation()->mutable_allocation_id());
        for (auto& each : *message.mutable_publish_extents()->mutable_allocation()->mutable_extents())
          extent(each);
        break;
      case Envelope::kLoseReplica:
        for (auto& each : *message.mutable_lose_replica()->mutable_part()) ref(each);
        ref(*message.mutable_lose_replica()->mutable_replica());
        break;
      default: break;
    }
  }

  Env& env() { return env_; }
  const node::Home& home() const { return *home_; }
  size_t sessions() const { return sessions_->count(); }
  size_t names() const { return cluster_->names(); }

 private:
  static node::Config config() {
    node::Config out;
    out.name = "a";
    out.dram_bytes = uint64_t{1} << 20;
    out.extents = 256;
    out.sessions = 16;
    out.heartbeat_ms = 5000;
    out.names = 32;
    return out;
  }
  control::Task<void> program_asks(std::shared_ptr<node::Program> program, wire::Envelope request,
                                   std::function<void(const wire::Envelope&)> replied) {
    const control::Reply reply = co_await service_->program_request(program, std::move(request));
    learn(reply.message);
    if (replied) replied(reply.message);
  }
  control::Task<void> node_asks(std::string node, wire::Envelope request) {
    const control::Reply reply = co_await service_->peer_request(node, std::move(request));
    learn(reply.message);
  }
  void learn(const wire::Envelope& reply) {
    if (reply.has_reserved() && extents_.size() < kKnownMax) extents_.push_back(reply.reserved().extent());
    if (!reply.has_allocation() || allocations_.size() >= kKnownMax) return;
    allocations_.push_back(reply.allocation().allocation_id());
    for (const auto& each : reply.allocation().extents()) {
      if (extents_.size() < kKnownMax) extents_.push_back(each);
    }
  }
  void id(std::string& field) const {
    if (field.size() == 1 && static_cast<uint8_t>(field[0]) < allocations_.size())
      field = allocations_[static_cast<uint8_t>(field[0])];
  }
  template <class Message>
  bool ref(Message& message) const {  // by its address
    const uint64_t index = message.address();
    if (index >= extents_.size()) return false;
    message.set_address(extents_[index].address());
    message.set_generation(extents_[index].generation());
    return true;
  }
  template <class Message>
  void extent(Message& message) const {
    const uint64_t index = message.address();
    if (ref(message) && message.capability().empty()) message.set_capability(extents_[index].capability());
  }

  Env env_;
  node::ServedStats served_;
  node::Core core_;
  std::vector<std::string> allocations_;
  std::vector<wire::ExtentDescriptor> extents_;
  std::unique_ptr<node::Home> home_;
  std::unique_ptr<node::Peers> peers_;
  std::unique_ptr<node::Cluster> cluster_;
  std::unique_ptr<node::Sessions> sessions_;
  std::unique_ptr<node::Allocator> allocator_;
  std::unique_ptr<node::Holds> holds_;
  std::unique_ptr<node::Copier> copier_;
  std::unique_ptr<node::Remaker> remaker_;
  std::unique_ptr<node::Stopper> stopper_;
  std::unique_ptr<node::Service> service_;
};

/// One record of an input.
struct Record {
  uint8_t who = 0;
  std::span<const std::byte> bytes;
};
/// The next record; false at the end.
inline bool take(std::span<const std::byte>& input, Record& out) {
  if (input.size() < 3) return false;
  const size_t length =
      std::min(static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8, input.size() - 3);
  out = {static_cast<uint8_t>(input[0]), input.subspan(3, length)};
  input = input.subspan(3 + length);
  return true;
}
inline std::string record(uint8_t who, const wire::Envelope& message) {
  std::string framed;
  OCM_ASSERT(wire::append_control(message, framed).is_ok());
  const size_t length = framed.size() - wire::kControlHeaderBytes;
  std::string out{static_cast<char>(who), static_cast<char>(length & 255), static_cast<char>(length >> 8)};
  return out + framed.substr(wire::kControlHeaderBytes);
}

}  // namespace ocm::fuzz
