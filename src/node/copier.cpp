#include "node/copier.h"

#include <map>

#include "base/assert.h"
#include "fabric/registry/registry.h"
#include "fabric/shm/copy.h"
#include "fabric/wait.h"
#include "node/as_daemon.h"
#include "node/copy_piece.h"
#include "os/interrupt.h"

namespace ocm::node {

using control::Reply;
namespace {

constexpr uint64_t kPieceBytes = uint64_t{32} << 20;
constexpr size_t kChannelsMax = 8;  // kept open by one worker
static_assert(kPieceBytes % 8 == 0, "words are moved whole");

bool in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

Status plain_extent(const wire::ExtentDescriptor& from, wire::ExtentDescriptor& out) {
  if (from.capability().size() != sizeof(Capability))
    return Status(Code::kInvalidArgument, "the copy's capability does not have 16 bytes");
  OCM_TRY(control::check_node_name(from.node()));
  out.set_address(from.address());
  out.set_generation(from.generation());
  out.set_bytes(from.bytes());
  out.set_capability(from.capability());
  out.set_node(from.node());
  return {};
}

/// C5: what a copy needs of the request, and no byte more.
Result<wire::CopyRequest> plain_copy(const wire::CopyRequest& request) {
  wire::CopyRequest out;
  OCM_TRY(plain_extent(request.target(), *out.mutable_target()));
  OCM_TRY(plain_extent(request.source(), *out.mutable_source()));
  out.set_target_offset(request.target_offset());
  out.set_source_offset(request.source_offset());
  out.set_bytes_total(request.bytes_total());
  return out;
}

Reply failed(const Status& status, bool source_failed) {
  Reply out(status);
  out.message.set_source_failed(source_failed && !status.is_ok());
  return out;
}

}  // namespace

/// One thread's connections and its way of moving one piece.
class Copier::Worker {
 public:
  explicit Worker(Copier& copier)
      : copier_(copier),
        core_(copier.core_),
        home_(copier.home_),
        who_(credentials_of(core_, home_.directory())) {}

  Status move_piece(CopyJob& job) {
    OCM_TRY_ASSIGN(const CopyPiece piece, CopyPiece::begin(home_.directory(), job, kPieceBytes, os::now_ns));
    OCM_DASSERT(piece.bytes() <= kPieceBytes);
    const bool on_device = piece.target() == nullptr;
    if (on_device) buffer_.resize(kPieceBytes);
    std::byte* const into = on_device ? buffer_.data() : piece.target();
    if (!piece.source_is_here()) {
      OCM_TRY(pull(job, piece.source_at(), into, piece.bytes()));
    } else if (piece.source() == nullptr) {
      OCM_TRY(piece.read_source(into));
    } else {
      fabric::shm::copy_bytes(into, piece.source(), piece.bytes());
    }
    if (on_device) OCM_TRY(piece.write_target(into));
    return piece.end(job, os::now_ns);
  }

 private:
  /// Between homes; the source's checks its end.
  Status pull(CopyJob& job, uint64_t offset, std::byte* target, uint64_t bytes) {
    job.source_failed = true;  // unless all is well
    if (copier_.is_avoided(job.source_node)) return lost(job, "it did not answer a moment ago");
    const bool was_connected = channels_.contains(key_of(job));
    const uint64_t began_ns = os::now_ns();
    Status status = pull_from(job, offset, target, bytes);
    // A connection of before may be one to an earlier run of that daemon, which nobody has used since.
    const bool broke_at_once = os::now_ns() - began_ns < core_.config.failure_deadline_ns() / 2;
    if (status.code() == Code::kPeerLost && was_connected && broke_at_once) {
      channels_.erase(key_of(job));
      status = pull_from(job, offset, target, bytes);
    }
    job.source_failed = !status.is_ok();
    if (status.code() != Code::kPeerLost && status.code() != Code::kDeadline) return status;
    const auto channel = channels_.find(key_of(job));
    const bool answers = channel != channels_.end() && channel->second->health().is_ok();
    if (!answers) copier_.avoid(job.source_node);
    return lost(job, std::string(status.message()));
  }
  static Status lost(const CopyJob& job, const std::string& why) {
    return Status::of_node(Code::kPeerLost, job.source_node, ": " + why);
  }

  Status pull_from(const CopyJob& job, uint64_t offset, std::byte* target, uint64_t bytes) {
    OCM_DASSERT(!job.source_is_here && bytes <= kPieceBytes);
    OCM_DASSERT(offset >= job.source_offset && offset - job.source_offset < job.bytes);
    OCM_TRY_ASSIGN(fabric::Channel * channel, channel_to(job));
    ExtentDescriptor source;
    source.id = job.source;
    source.bytes = job.source_offset + job.bytes;
    source.capability = job.source_capability;
    source.node = job.source_node;
    OCM_TRY_ASSIGN(const uint32_t index, channel->attach(source, Access::kRead, patience()));
    const Status status = get(*channel, index, offset, target, bytes);
    channel->detach(index);
    channel->flush();
    return status;
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
    fabric::Channel* const only[] = {&channel};
    const auto is_done = [&op] { return op.done(); };
    // Ends: progress() fails what stalls, and stop() interrupts.
    if (!fabric::wait_until(only, is_done, os::Deadline::never(), core_.config.failure_deadline_ns()))
      channel.withdraw(op);
    OCM_DASSERT(op.done());
    return op.code;
  }

  Result<fabric::Channel*> channel_to(const CopyJob& job) {
    const auto known = channels_.find(key_of(job));
    if (known != channels_.end()) {
      if (known->second->is_usable()) return known->second.get();
      channels_.erase(known);
    }
    if (channels_.size() >= kChannelsMax) channels_.clear();
    OCM_DASSERT(channels_.size() < kChannelsMax && !channels_.contains(key_of(job)));
    who_.node = job.source_node;
    const fabric::Entry* entry = fabric::find_entry(job.source_address.fabric);
    fabric::Connector* connector = entry == nullptr ? nullptr : fabric::connector_of(*entry, {});
    if (connector == nullptr) {
      return Status(Code::kUnsupported, std::string("the ") + fabric_name(job.source_address.fabric) +
                                            " fabric is not available in this daemon");
    }
    OCM_TRY_ASSIGN(std::unique_ptr<fabric::Channel> channel,
                   connector->connect(job.source_address, who_, patience()));
    return channels_.emplace(key_of(job), std::move(channel)).first->second.get();
  }

  using Key = std::pair<Fabric, std::string>;
  static Key key_of(const CopyJob& job) { return {job.source_address.fabric, job.source_address.address}; }
  os::Deadline patience() const { return os::Deadline::after_ns(core_.config.failure_deadline_ns()); }

  Copier& copier_;
  const Core& core_;
  Home& home_;
  fabric::Credentials who_;
  std::map<Key, std::unique_ptr<fabric::Channel>> channels_;
  std::vector<std::byte> buffer_;  // of a piece for a device
};

Copier::Copier(Core& core, Home& home, Cluster& cluster, Mover mover)
    : core_(core), home_(home), cluster_(cluster), homes_(cluster.homes()), mover_(std::move(mover)) {}

Copier::~Copier() { stop(); }

Result<CopyJob> Copier::prepare(const wire::CopyRequest& request, bool& source_failed) const {
  CopyJob job;
  OCM_TRY_ASSIGN(const auto target, home_.find(wire::descriptor_from(request.target()), Access::kReadWrite));
  job.uid = request.uid();
  (void)read_id(request.session_id(), job.session);  // none: of no session
  job.target = target->id;
  job.target_offset = request.target_offset();
  job.source = id_of(request.source());
  job.source_offset = request.source_offset();
  job.bytes = request.bytes_total();
  if (!in_range(job.target_offset, job.bytes, target->bytes)) return Code::kOutOfRange;
  OCM_DASSERT(job.target_offset + job.bytes <= target->bytes && job.moved == 0);
  job.source_node = request.source().node();
  job.source_is_here = job.source_node == core_.name;
  source_failed = true;  // from here on
  if (job.source_is_here) {
    OCM_TRY_ASSIGN(const auto source, home_.find(wire::descriptor_from(request.source()), Access::kRead));
    if (!in_range(job.source_offset, job.bytes, source->bytes)) return Code::kOutOfRange;
    OCM_DASSERT(job.source_offset + job.bytes <= source->bytes);
    const uint64_t apart = job.source_offset > job.target_offset ? job.source_offset - job.target_offset
                                                                 : job.target_offset - job.source_offset;
    if (source == target && apart < job.bytes) {
      return Status(Code::kInvalidArgument, "the ranges of a copy overlap");
    }
    return job;
  }
  if (!in_range(job.source_offset, job.bytes, request.source().bytes())) return Code::kOutOfRange;
  if (!read_id(request.source().capability(), job.source_capability)) return Code::kInvalidArgument;
  const control::NodeInfo* from = cluster_.find(job.source_node);
  if (from == nullptr) return Status::of_node(Code::kPeerLost, job.source_node, " is not in the cluster");
  job.source_address = checked_address(from->addresses);  // C3
  if (job.source_address.fabric == Fabric::kAny)
    return Status::of_node(Code::kUnsupported, job.source_node, " serves no fabric that copies go over");
  return job;
}

control::Task<Reply> Copier::ask(std::shared_ptr<Session> session, wire::CopyRequest request) {
  auto plain = plain_copy(request);
  if (!plain.is_ok()) co_return plain.status();
  request = std::move(plain).value();
  request.set_session_id(id_field(session->id));
  request.set_uid(session->uid);
  const std::string node = request.target().node();
  if (asked_ >= kAskedMax || asked_by_uid_[session->uid] >= kUserAskedMax)
    co_return Status(Code::kQueueFull, "too many copies of this user are under way; let some end first");
  ++asked_;
  ++asked_by_uid_[session->uid];
  // C5
  OCM_DASSERT(asked_ <= kAskedMax && asked_by_uid_[session->uid] <= kUserAskedMax);
  constexpr uint64_t kBytesPerNsInverse = 20;  // 50 MB/s at the least
  const uint64_t patience_ns =
      std::min(request.bytes_total(), control::kAllocationBytesMax >> 8) * kBytesPerNsInverse;
  wire::Envelope message;
  *message.mutable_copy() = std::move(request);
  // The target's home may need one failure deadline to find that the source does not answer, and then says so.
  const uint64_t give_up_ns = core_.deadline_ns() + core_.config.failure_deadline_ns() + patience_ns;
  wire::Envelope refusal;
  const auto reply = co_await homes_.ask(node, std::move(message), give_up_ns, &refusal);
  Status status = reply.status();
  if (status.code() == Code::kDeadline && refusal.code() == 0)
    status = Status::of_node(Code::kPeerLost, node, " did not answer in time; it may still make the copy");
  OCM_DASSERT(asked_ > 0 && asked_by_uid_.contains(session->uid));
  --asked_;
  if (const auto mine = asked_by_uid_.find(session->uid); --mine->second == 0) asked_by_uid_.erase(mine);
  Reply out(status);
  out.message.set_source_failed(!status.is_ok() && refusal.source_failed());
  co_return out;
}

control::Task<Reply> Copier::copy(wire::CopyRequest request) {
  bool source_failed = false;
  auto prepared = prepare(request, source_failed);
  if (!prepared.is_ok()) co_return failed(prepared.status(), source_failed);
  if (request.bytes_total() == 0) co_return Status();
  struct Waiting {
    explicit Waiting(control::Env& env) : changed(env) {}
    control::Signal changed;
    bool done = false;
    Status status;
    bool source_failed = false;
  };
  const auto waiting = std::make_shared<Waiting>(core_.env);
  CopyJob job = std::move(prepared).value();
  job.done = [waiting, &env = core_.env](const Status& status, bool of_source) {
    env.post([waiting, status, of_source] {
      OCM_DASSERT(!waiting->done);
      waiting->done = true;
      waiting->status = status;
      waiting->source_failed = of_source;
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
  co_return failed(waiting->status, waiting->source_failed);
}

Status Copier::push(CopyJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_.load()) return Code::kDraining;
    OCM_DASSERT(job.bytes > 0 && job.done);
    OCM_TRY(queue_.push(std::move(job)));
    while (threads_.size() < core_.config.copies) threads_.emplace_back([this] { serve(); });
    OCM_DASSERT(threads_.size() <= core_.config.copies);  // C1
  }
  wake_.notify_one();
  return {};
}

void Copier::serve() {
  const os::InterruptedBy its_end(
      [](int, void* self) { return static_cast<Copier*>(self)->stopping_.load() ? 1 : 0; }, this);
  Worker worker(*this);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_.load() || !queue_.empty(); });
    if (queue_.empty()) return;
    CopyJob job = queue_.pop();
    lock.unlock();
    const Status status = stopping_.load() ? Status(Code::kCancelled) : worker.move_piece(job);
    OCM_DASSERT(job.moved <= job.bytes);
    const bool ended = !status.is_ok() || job.moved == job.bytes;
    if (ended) job.done(status, job.source_failed);
    lock.lock();
    if (!ended) queue_.push_rest(std::move(job));
  }
}

bool Copier::is_avoided(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto until = avoided_until_ns_.find(node);
  return until != avoided_until_ns_.end() && os::now_ns() < until->second;
}

void Copier::avoid(const std::string& node) {
  const std::lock_guard lock(mutex_);
  avoided_until_ns_[node] = os::now_ns() + core_.config.failure_deadline_ns() / 2;
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
