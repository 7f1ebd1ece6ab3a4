#include "node/copier.h"

#include <poll.h>

#include <unordered_map>

#include "fabric/shm/copy.h"
#include "fabric/tcp/connector.h"
#include "os/crypto.h"

namespace ocm::node {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{32} << 20;  // between two looks at `revoked` and `stopping`
constexpr size_t kChannelsMax = 8;                    // kept open by one worker
constexpr uint64_t kSpinNs = 50'000;

bool in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

Result<fabric::ExtentDescriptor> read_descriptor(const wire::ExtentDescriptor& from) {
  fabric::ExtentDescriptor out;
  out.id = extent_id(from.address(), from.generation());
  out.bytes = from.bytes();
  out.node = from.node();
  if (!read_id(from.capability(), out.capability))
    return Status(Code::kInvalidArgument, "a capability is 16 bytes");
  if (from.kind() >= kKinds) return Status(Code::kInvalidArgument, "unknown kind");
  out.kind = static_cast<Kind>(from.kind());
  for (const auto& address : from.addresses()) {
    if (address.fabric() == static_cast<uint32_t>(Fabric::kTcp)) {
      out.addresses.push_back({Fabric::kTcp, address.address(), {}});
    }
  }
  return out;
}

}  // namespace

/// One thread's connections and its way of moving one job.
class Copier::Worker {
 public:
  Worker(const Core& core, Home& home, const std::atomic<bool>& stopping) : core_(core), stopping_(stopping) {
    who_.session = os::random_id<SessionId>();
    who_.session_key = home.directory().session_key(who_.session);
    who_.tls = {core.config.tls_ca, core.config.tls_cert, core.config.tls_key};
  }

  Status run(const Job& job) {
    OCM_TRY_ASSIGN(std::byte * target, job.target->backing->data());
    target += job.target_offset;
    if (job.local_source != nullptr) {
      OCM_TRY_ASSIGN(const std::byte* source, job.local_source->backing->data());
      return pieces(job, [&](uint64_t at, uint64_t bytes) {
        fabric::shm::copy_bytes(target + at, source + job.source_offset + at, bytes);
        return job.local_source->revoked() ? Status(Code::kRevoked) : Status();
      });
    }
    OCM_TRY_ASSIGN(fabric::Channel * channel, channel_to(job.source));
    auto attached = channel->attach(job.source, Access::kRead,
                                    os::Deadline::after_ns(core_.config.failure_deadline_ns()));
    if (!attached.is_ok()) return attached.status();
    const uint32_t index = attached.value();
    const Status status = pieces(job, [&](uint64_t at, uint64_t bytes) {
      return get(*channel, index, job.source_offset + at, target + at, bytes);
    });
    channel->detach(index);
    channel->flush();
    return status;
  }

 private:
  template <class Move>
  Status pieces(const Job& job, Move move) {
    for (uint64_t at = 0; at < job.bytes; at += kPieceBytes) {
      if (stopping_.load(std::memory_order_relaxed)) return Code::kCancelled;
      if (job.target->revoked()) return Code::kRevoked;
      OCM_TRY(move(at, std::min(kPieceBytes, job.bytes - at)));
    }
    return job.target->revoked() ? Status(Code::kRevoked) : Status();
  }

  Status get(fabric::Channel& channel, uint32_t index, uint64_t offset, std::byte* target, uint64_t bytes) {
    fabric::Op op;
    op.opcode = fabric::OpCode::kGet;
    op.index = index;
    op.offset = offset;
    op.local = target;
    op.bytes = bytes;
    channel.post(op);
    channel.flush();
    uint64_t busy_ns = os::now_ns();
    uint64_t moved = 0;
    while (!op.done()) {  // ends: progress() fails what stalls
      const uint64_t now = os::now_ns();
      channel.progress(now, core_.config.failure_deadline_ns());
      if (op.bytes_done != moved) {
        moved = op.bytes_done;
        busy_ns = now;
      }
      if (op.done() || now - busy_ns < kSpinNs) continue;
      const fabric::Channel::PollOn on = channel.poll_on();
      pollfd wait{on.fd, on.events, 0};
      if (on.fd >= 0) ::poll(&wait, 1, 50);
      busy_ns = os::now_ns();
    }
    return op.code;
  }

  Result<fabric::Channel*> channel_to(const fabric::ExtentDescriptor& source) {
    const fabric::FabricAddress* address = source.address_for(Fabric::kTcp);
    if (address == nullptr)
      return Status(Code::kUnsupported, "node " + source.node + " serves no tcp fabric");
    const auto known = channels_.find(address->address);
    if (known != channels_.end()) {
      if (known->second->health().is_ok()) return known->second.get();
      channels_.erase(known);
    }
    if (channels_.size() >= kChannelsMax) channels_.clear();
    OCM_TRY_ASSIGN(
        std::unique_ptr<fabric::Channel> channel,
        connector_.connect(*address, who_, os::Deadline::after_ns(core_.config.failure_deadline_ns())));
    return channels_.emplace(address->address, std::move(channel)).first->second.get();
  }

  const Core& core_;
  const std::atomic<bool>& stopping_;
  fabric::Credentials who_;
  fabric::tcp::TcpConnector connector_;
  std::unordered_map<std::string, std::unique_ptr<fabric::Channel>> channels_;
};

Copier::Copier(Core& core, Home& home, Mover mover) : core_(core), home_(home), mover_(std::move(mover)) {}

Copier::~Copier() { stop(); }

Result<Copier::Job> Copier::prepare(const wire::CopyRequest& request) const {
  Job job;
  OCM_TRY_ASSIGN(job.target, home_.find(request.target(), Access::kReadWrite));
  OCM_TRY_ASSIGN(job.source, read_descriptor(request.source()));
  job.target_offset = request.target_offset();
  job.source_offset = request.source_offset();
  job.bytes = request.bytes_total();
  if (job.source.node == core_.name) {
    OCM_TRY_ASSIGN(job.local_source, home_.find(request.source(), Access::kRead));
    if (!in_range(job.source_offset, job.bytes, job.local_source->bytes)) return Code::kOutOfRange;
    const uint64_t apart = job.source_offset > job.target_offset ? job.source_offset - job.target_offset
                                                                 : job.target_offset - job.source_offset;
    if (job.local_source == job.target && apart < job.bytes) {
      return Status(Code::kInvalidArgument, "the ranges of a copy overlap");
    }
  }
  if (!in_range(job.target_offset, job.bytes, job.target->bytes)) return Code::kOutOfRange;
  return job;
}

control::Task<Status> Copier::copy(wire::CopyRequest request) {
  auto prepared = prepare(request);
  if (!prepared.is_ok()) co_return prepared.status();
  if (request.bytes_total() == 0) co_return Status();
  struct Waiting {
    explicit Waiting(control::Env& env) : changed(env) {}
    control::Signal changed;
    bool done = false;
    Status status;
  };
  const auto waiting = std::make_shared<Waiting>(core_.env);
  Job job = std::move(prepared).value();
  job.done = [waiting, &env = core_.env](Status status) {
    env.post([waiting, status] {
      waiting->done = true;
      waiting->status = status;
      waiting->changed.notify();
    });
  };
  if (mover_) {
    mover_(std::move(job));
  } else {
    const Status queued = push(std::move(job));
    if (!queued.is_ok()) co_return queued;
  }
  while (!waiting->done) co_await waiting->changed.wait();
  co_return waiting->status;
}

Status Copier::push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_.load()) return Code::kDraining;
    if (jobs_.size() >= kWaitingMax)
      return Status(Code::kQueueFull, "too many copies wait on node " + core_.name);
    jobs_.push_back(std::move(job));
    while (threads_.size() < core_.config.copies) {
      threads_.emplace_back([this] {
        Worker worker(core_, home_, stopping_);
        std::unique_lock hold(mutex_);
        while (true) {
          wake_.wait(hold, [this] { return stopping_.load() || !jobs_.empty(); });
          if (jobs_.empty()) return;
          const Job mine = std::move(jobs_.front());
          jobs_.pop_front();
          hold.unlock();
          const Status status = stopping_.load() ? Status(Code::kCancelled) : worker.run(mine);
          mine.done(status);
          hold.lock();
        }
      });
    }
  }
  wake_.notify_one();
  return {};
}

void Copier::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace ocm::node
