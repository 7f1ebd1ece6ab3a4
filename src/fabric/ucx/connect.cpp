// Connecting, proving the session, and attaching extents.
#include <poll.h>

#include <cstring>

#include "fabric/ucx/channel_impl.h"
#include "fabric/wait.h"

namespace ocm::fabric::ucx {
namespace {

constexpr uint64_t kSpinNs = 50'000;
/// Another thread may take the event that this one sleeps for.
constexpr int kSleepMsMax = 10;
constexpr uint32_t kTargetsMax = 1u << 20;

class UcxConnector final : public Connector {
 public:
  explicit UcxConnector(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Fabric fabric() const override { return Fabric::kUcx; }
  Result<std::unique_ptr<Channel>> connect(const FabricAddress& address, const Credentials& who,
                                           os::Deadline deadline) override {
    return UcxChannel::connect(context_, address.address, who, deadline);
  }

 private:
  const std::shared_ptr<Context> context_;
};

}  // namespace

Result<std::unique_ptr<Connector>> make_connector(const Settings& settings) {
  OCM_TRY_ASSIGN(std::shared_ptr<Context> context, Context::make(settings, Context::Role::kClient));
  return std::unique_ptr<Connector>(std::make_unique<UcxConnector>(std::move(context)));
}

Result<std::unique_ptr<Channel>> UcxChannel::connect(std::shared_ptr<Context> context,
                                                     const std::string& address, const Credentials& who,
                                                     os::Deadline deadline) {
  OCM_TRY_ASSIGN(std::string worker_address, decode_address(address));
  std::unique_ptr<UcxChannel> channel(new UcxChannel(std::move(context)));
  OCM_TRY(channel->open_endpoint(worker_address));
  OCM_TRY(channel->authenticate(who, deadline));
  return std::unique_ptr<Channel>(std::move(channel));
}

Status UcxChannel::open_endpoint(const std::string& worker_address) {
  std::lock_guard lock(mutex_);
  OCM_TRY_ASSIGN(worker_, Worker::make(context_));
  sink_.self = this;
  sink_.handler = [](void* self, const Message& message, ucp_ep_h) {
    static_cast<UcxChannel*>(self)->on_message(message);
  };
  OCM_TRY(sink_.listen(*worker_));
  ucp_ep_params_t params;
  std::memset(&params, 0, sizeof params);
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = this;
  params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    auto* channel = static_cast<UcxChannel*>(self);
    channel->broken_ = true;
    channel->broken_why_ = from_ucs(status, "the home");
  };
  const ucs_status_t status = ucp().ucp_ep_create(worker_->get(), &params, &endpoint_);
  if (status != UCS_OK) {
    endpoint_ = nullptr;
    return Status(Code::kPeerLost,
                  std::string("ucx: no transport reaches the home: ") + ucp().ucs_status_string(status));
  }
  return Status::ok();
}

void UcxChannel::on_message(const Message& message) {
  if (calls_.contains(message.request)) replies_[message.request] = message;
}

template <class Done>
bool UcxChannel::wait_until(std::unique_lock<std::mutex>& lock, os::Deadline deadline, Done done) {
  Waiter waiter(kSpinNs);
  os::Interrupts interrupts;
  for (;;) {
    pump();
    advance();
    if (worker_ == nullptr) return false;
    if (done()) return true;
    if (deadline.passed()) return false;
    if (waiter.spins(os::now_ns()) || !worker_->arm()) {
      lock.unlock();
      lock.lock();
      continue;
    }
    pollfd on{worker_->event_fd(), POLLIN, 0};
    lock.unlock();
    ::poll(&on, 1, deadline.poll_ms(kSleepMsMax));
    if (interrupts.came()) {
      lock.lock();
      return false;
    }
    lock.lock();
    waiter.moved(os::now_ns());
  }
}

Result<Message> UcxChannel::call(Message message, os::Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (worker_ == nullptr) return health_;
  message.request = next_request_++;
  message.connection = connection_;
  calls_[message.request] = true;
  send_message(endpoint_, message);
  const bool answered = wait_until(lock, deadline, [&] { return replies_.contains(message.request); });
  calls_.erase(message.request);
  if (!answered) {
    if (!health_.is_ok()) return health_;
    return Status(Code::kPeerLost, "ucx: the home did not answer within the deadline");
  }
  auto reply = replies_.extract(message.request);
  return std::move(reply.mapped());
}

Status UcxChannel::authenticate(const Credentials& who, os::Deadline deadline) {
  Message hello;
  hello.type = MessageType::kHello;
  hello.session = who.session;
  os::fill_random(hello.nonce);
  OCM_TRY_ASSIGN(Message challenge, call(hello, deadline));
  if (challenge.type != MessageType::kChallenge) return Code::kProtocol;
  const os::Digest expected = session_proof(who.session_key, "server", hello.nonce, challenge.nonce);
  if (!os::equal_secrets(expected, challenge.proof)) {
    return Status(Code::kAuth, "ucx: the home does not know this session's key");
  }
  connection_ = challenge.connection;
  server_nonce_ = challenge.nonce;
  Message proof;
  proof.type = MessageType::kProof;
  proof.proof = session_proof(who.session_key, "client", challenge.nonce, hello.nonce);
  OCM_TRY_ASSIGN(Message welcome, call(proof, deadline));
  if (welcome.type != MessageType::kWelcome) return Code::kProtocol;
  if (welcome.code != Code::kOk) return welcome.code;

  // One get at once: it finds a home that is not the one meant, and UCX's first put would take long before
  // the peer has sent anything.
  std::unique_lock lock(mutex_);
  if (worker_ == nullptr) return health_;
  words_ = std::make_shared<Target>();
  const ucs_status_t status = ucp().ucp_ep_rkey_unpack(endpoint_, welcome.rkey.data(), &words_->rkey);
  if (status != UCS_OK) return from_ucs(status, "the home's key");
  Round probe;
  probe.checks.emplace_back();
  Pending* pending = make_pending(nullptr, &probe, 0, false);
  const ucp_request_param_t param = request_param(pending);
  started(ucp().ucp_get_nbx(endpoint_, &probe.checks[0].word, sizeof(uint64_t), welcome.word_address,
                            words_->rkey, &param),
          pending);
  const bool read = wait_until(lock, deadline, [&] { return probe.sealing == 0; });
  if (!read) {
    // `probe` leaves scope: no request may be left that writes to it.
    lose(Status(Code::kPeerLost, "ucx: the home did not answer within the deadline"));
    return health_;
  }
  if (probe.checks[0].word != welcome.word) {
    return Status(Code::kPeerLost, "ucx: another process answers at the home's address");
  }
  return Status::ok();
}

Result<uint32_t> UcxChannel::attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) {
  Message request;
  request.type = MessageType::kAttach;
  request.extent = extent.id;
  request.access = access;
  request.proof = attach_proof(extent.capability, server_nonce_, extent.id, access);
  OCM_TRY_ASSIGN(Message reply, call(request, deadline));
  if (reply.type != MessageType::kAttached) return Code::kProtocol;
  if (reply.code != Code::kOk) return reply.code;

  std::lock_guard lock(mutex_);
  if (worker_ == nullptr) return health_;
  if (targets_.size() >= kTargetsMax) return Code::kLimit;
  auto target = std::make_shared<Target>();
  target->id = extent.id;
  target->access = access;
  target->base = reply.base;
  target->bytes = reply.bytes;
  target->word_address = reply.word_address;
  target->word = reply.word;
  const ucs_status_t status = ucp().ucp_ep_rkey_unpack(endpoint_, reply.rkey.data(), &target->rkey);
  if (status != UCS_OK) return from_ucs(status, "the extent's key");
  const uint32_t index = next_index_++;
  targets_.emplace(index, std::move(target));
  return index;
}

void UcxChannel::detach(uint32_t index) {
  std::lock_guard lock(mutex_);
  targets_.erase(index);  // operations under way hold the target until they complete
}

}  // namespace ocm::fabric::ucx
