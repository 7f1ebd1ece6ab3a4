#include "client/grant.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "client/session.h"
#include "control.pb.h"
#include "os/interrupt.h"
#include "wire/convert.h"

namespace ocm::client {
namespace {

constexpr uint32_t kExtentsMax = 1u << 16;

/// The parts, checked: see control/parts.h for what must hold.
Status read_sequence(const wire::Allocation& message, Grant& grant) {
  const Status malformed(Code::kProtocol, "the daemon's sequence is malformed");
  const auto count = static_cast<uint32_t>(message.extents_size());
  const uint32_t most = message.replicated_parts() ? kReplicasMax : 1;
  uint32_t next = 0;
  uint64_t sum = 0;
  grant.sequence.reserve(static_cast<size_t>(message.part_bytes_size()));
  for (int part = 0; part < message.part_bytes_size(); ++part) {
    const uint64_t bytes = message.part_bytes(part);
    const uint32_t first = next;
    while (next < count && message.extents(static_cast<int>(next)).part() == static_cast<uint32_t>(part)) {
      if (message.extents(static_cast<int>(next)).bytes() < bytes) return malformed;
      ++next;
    }
    if (bytes == 0 || __builtin_add_overflow(sum, bytes, &sum) || next == first || next - first > most)
      return malformed;
    grant.sequence.add(bytes, next - first);
  }
  return next == count && sum == grant.shape.bytes ? Status() : malformed;
}

/// Checks what the daemon says before anything is computed with it.
Status read_shape(const wire::Allocation& message, Grant& grant) {
  if (message.allocation_id().size() != 16 || message.extents_size() == 0 ||
      static_cast<uint32_t>(message.extents_size()) > kExtentsMax || message.bytes_total() == 0 ||
      !is_kind(message.kind()) || message.layout() > static_cast<uint32_t>(Layout::kSequence)) {
    return Status(Code::kProtocol, "the daemon's allocation is malformed");
  }
  std::memcpy(grant.id.bytes.data(), message.allocation_id().data(), 16);
  grant.hold_id = message.hold_id();
  if (!message.name().empty()) grant.set_published({message.name(), message.owner_uid(), message.mode()});
  grant.kind = static_cast<Kind>(message.kind());
  grant.durable = message.durable();
  grant.coherent = message.coherent();
  grant.access =
      message.access() == static_cast<uint32_t>(Access::kRead) ? Access::kRead : Access::kReadWrite;
  grant.shape = {message.bytes_total(), message.chunk_bytes(), static_cast<uint32_t>(message.extents_size()),
                 static_cast<Layout>(message.layout())};
  if (grant.shape.layout == Layout::kStriped && grant.shape.chunk_bytes == 0) {
    return Status(Code::kProtocol, "a striped allocation without chunks");
  }
  if (grant.shape.layout == Layout::kSingle && grant.shape.extents != 1) {
    return Status(Code::kProtocol, "a single allocation of several extents");
  }
  if (grant.shape.layout == Layout::kReplicated && grant.shape.extents > kReplicasMax) {
    return Status(Code::kProtocol, "more replicas than an allocation can have");
  }
  const bool sequence = grant.shape.layout == Layout::kSequence;
  grant.replicated = grant.shape.layout == Layout::kReplicated || (sequence && message.replicated_parts());
  for (uint32_t i = 0; i < grant.shape.extents; ++i) {
    const wire::ExtentDescriptor& extent = message.extents(static_cast<int>(i));
    if ((!sequence && extent.bytes() < extent_bytes(grant.shape, i)) || extent.capability().size() != 16) {
      return Status(Code::kProtocol, "an extent of the allocation is malformed");
    }
  }
  return sequence ? read_sequence(message, grant) : Status();
}

/// Reads the extents of a reply, one after the other.
class ExtentReader {
 public:
  ExtentReader(Session& session, const std::shared_ptr<Daemon>& daemon, Reply reply, const Grant& grant)
      : session_(session), daemon_(daemon), reply_(std::move(reply)), grant_(grant) {
    for (const wire::HomeAddresses& home : reply_.message->allocation().homes())
      homes_.emplace(home.node(), &home);
  }

  /// The next one: `known` if that is it, else made new into `fresh`.
  Result<Extent*> next(Extent* known, Fabric wanted, std::vector<std::unique_ptr<Extent>>& fresh) {
    const wire::ExtentDescriptor& message = reply_.message->allocation().extents(next_++);
    // Descriptors that travel with the reply belong to the extents of this node, in order.
    os::Fd fd;
    if (message.node() == session_.node() && next_fd_ < reply_.fds.size())
      fd = std::move(reply_.fds[next_fd_++]);
    if (known != nullptr) return known;
    ExtentDescriptor read = descriptor_from(message);
    const auto home = homes_.find(read.node);
    if (read.addresses.empty() && home != homes_.end())
      read.addresses = addresses_from(home->second->addresses());
    const Layout life = grant_.replicated ? Layout::kReplicated : Layout::kSingle;
    OCM_TRY_ASSIGN(std::unique_ptr<Extent> extent,
                   Extent::make(session_, daemon_, std::move(read), grant_.access, wanted, life));
    if (fd.is_open() && extent->on_this_host()) OCM_TRY(extent->adopt(std::move(fd)));
    fresh.push_back(std::move(extent));
    return fresh.back().get();
  }

 private:
  Session& session_;
  const std::shared_ptr<Daemon>& daemon_;
  Reply reply_;
  const Grant& grant_;
  std::unordered_map<std::string, const wire::HomeAddresses*> homes_;
  int next_ = 0;
  size_t next_fd_ = 0;
};

Result<std::unique_ptr<Grant>> read_grant(Session& session, const std::shared_ptr<Daemon>& daemon,
                                          Reply reply, Fabric wanted) {
  if (!reply.message->has_allocation()) return Status(Code::kProtocol, "the daemon answered something else");
  const std::shared_ptr<wire::Envelope> message = reply.message;
  auto grant = std::make_unique<Grant>();
  OCM_TRY(read_shape(message->allocation(), *grant));
  grant->session = daemon->who().session;
  grant->extents.reserve(grant->shape.extents);
  std::vector<Binding::Place> places;
  places.reserve(grant->shape.extents);
  ExtentReader extents(session, daemon, std::move(reply), *grant);
  for (const wire::ExtentDescriptor& descriptor : message->allocation().extents()) {
    OCM_TRY_ASSIGN(Extent * extent, extents.next(nullptr, wanted, grant->extents));
    if (descriptor.lost()) extent->mark_lost();
    places.push_back({extent, descriptor.epoch()});
  }
  grant->bindings.push_back(std::make_unique<const Binding>(std::move(places)));
  return grant;
}

/// A grant that cannot be used here must not stay reserved.
Result<std::unique_ptr<Grant>> read_or_return(Session& session, const std::shared_ptr<Daemon>& daemon,
                                              Reply reply, Fabric wanted) {
  const std::shared_ptr<wire::Envelope> message = reply.message;
  Result<std::unique_ptr<Grant>> grant = read_grant(session, daemon, std::move(reply), wanted);
  if (grant.is_ok())
    session.keep_receipt((*grant)->id, message->allocation().receipt(), daemon, (*grant)->hold_id);
  if (!grant.is_ok() && message->has_allocation()) {
    wire::Envelope request;
    request.mutable_free()->set_allocation_id(message->allocation().allocation_id());
    request.mutable_free()->set_hold_id(message->allocation().hold_id());
    // That run alone counts this handle.
    bool sent = false;
    const Status told = session.ask(*daemon, request, &sent).status();
    if (told.code() == Code::kQueueFull || !sent)
      session.tell_later(daemon->run(), std::make_shared<wire::Envelope>(request));
  }
  return grant;
}

}  // namespace

Result<std::unique_ptr<Grant>> request_grant(Session& session, uint64_t bytes,
                                             const AllocationOptions& options) {
  wire::Envelope request;
  wire::AllocateRequest& allocate = *request.mutable_allocate();
  const Fabric wanted = options.fabric != Fabric::kAny ? options.fabric : session.fabric();
  allocate.set_bytes_total(bytes);
  allocate.set_kind(static_cast<uint32_t>(options.kind));
  allocate.set_layout(static_cast<uint32_t>(options.layout));
  allocate.set_extents(options.extents);
  allocate.set_chunk_bytes(options.chunk_bytes);
  for (const std::string& node : options.nodes) allocate.add_nodes(node);
  allocate.set_fabric(static_cast<uint32_t>(wanted));
  allocate.set_flags(options.flags);
  const Session::Growing growing(session);
  std::shared_ptr<Daemon> daemon;
  OCM_TRY_ASSIGN(Reply reply, session.call(request, &daemon));
  return read_or_return(session, daemon, std::move(reply), wanted);
}

Result<std::unique_ptr<Grant>> attach_grant(Session& session, const std::string& name, Access access,
                                            bool hold) {
  wire::Envelope request;
  request.mutable_attach()->set_name(name);
  request.mutable_attach()->set_access(static_cast<uint32_t>(access));
  request.mutable_attach()->set_hold(hold);
  const Session::Growing growing(session);
  std::shared_ptr<Daemon> daemon;
  OCM_TRY_ASSIGN(Reply reply, session.call(request, &daemon));
  OCM_TRY_ASSIGN(std::unique_ptr<Grant> grant,
                 read_or_return(session, daemon, std::move(reply), session.fabric()));
  if (grant->published() == nullptr) grant->set_published({.name = name});
  return grant;
}

Result<AllocationId> request_join(Session& session, const std::vector<AllocationId>& parts) {
  wire::Envelope request;
  for (const AllocationId& part : parts)
    request.mutable_join()->add_allocation_ids(part.bytes.data(), part.bytes.size());
  const Session::Growing growing(session);
  std::shared_ptr<Daemon> daemon;
  OCM_TRY_ASSIGN(const Reply reply, session.call(request, &daemon));
  AllocationId id;
  const std::string& field = reply.message->allocation().allocation_id();
  if (field.size() != id.bytes.size()) return Status(Code::kProtocol, "the daemon answered something else");
  std::memcpy(id.bytes.data(), field.data(), field.size());
  for (const AllocationId& part : parts) session.drop_receipt(part);
  session.keep_receipt(id, reply.message->allocation().receipt(), daemon);
  return id;
}

wire::Envelope resolve_request(const AllocationId& id, ExtentId extent, bool silent) {
  wire::Envelope request;
  wire::ResolveRequest& resolve = *request.mutable_resolve();
  resolve.set_allocation_id(id.bytes.data(), id.bytes.size());
  resolve.mutable_extent()->set_address(extent.address.bits());
  resolve.mutable_extent()->set_generation(extent.generation);
  resolve.set_silent(silent);
  return request;
}

bool ends_part(Code known) {
  const bool may_answer_again = known == Code::kOk || known == Code::kPeerLost || known == Code::kDeadline ||
                                known == Code::kNoDaemon || known == Code::kQueueFull;
  return !may_answer_again;
}

Status after_resolve(const Status& failure, Code known) {
  if (failure.code() == Code::kPeerLost && known == Code::kRevoked) {
    return failure.with_code(Code::kRevoked)
        .with_message("nothing of it is left: it was freed or removed, or its nodes restarted");
  }
  if (failure.code() != Code::kRevoked || ends_part(known)) return failure;
  return failure.with_code(Code::kPeerLost)
      .with_message(std::string(failure.message()) + "; nothing of it answers now, and it was not freed");
}

Result<bool> rebind_grant(Session& session, const std::shared_ptr<Daemon>& daemon, Reply reply,
                          Grant& grant) {
  const std::shared_ptr<wire::Envelope> message = reply.message;
  if (message == nullptr || !message->has_allocation())  // null: it was looked at before, without memory
    return Status(Code::kProtocol, "the daemon answered something else");
  Grant said;
  OCM_TRY(read_shape(message->allocation(), said));
  if (said.id != grant.id || said.shape != grant.shape || said.replicated != grant.replicated ||
      said.sequence != grant.sequence) {
    return Status(Code::kProtocol, "the daemon's allocation has another shape than before");
  }
  const auto& extents = message->allocation().extents();
  const std::vector<Binding::Place>& now = grant.bindings.back()->places();
  std::vector<Binding::Place> places = now;
  std::vector<std::unique_ptr<Extent>> fresh;
  std::vector<Extent*> lost;
  bool differs = false;
  ExtentReader reader(session, daemon, std::move(reply), grant);
  const auto count = static_cast<uint32_t>(now.size());
  for (uint32_t first = 0, end = 0; first < count; first = end) {
    end = grant.part_end(first);
    uint32_t epoch_now = 0, epoch_said = 0;
    for (uint32_t i = first; i < end; ++i) {
      epoch_now = std::max(epoch_now, now[i].epoch);
      epoch_said = std::max(epoch_said, extents[static_cast<int>(i)].epoch());
    }
    for (uint32_t i = first; i < end; ++i) {
      const wire::ExtentDescriptor& descriptor = extents[static_cast<int>(i)];
      const ExtentId id{GlobalAddress(descriptor.address()), descriptor.generation()};
      Extent* known = epoch_said < epoch_now ? now[i].extent : nullptr;  // B3
      for (uint32_t j = first; j < end && known == nullptr; ++j) {
        if (now[j].extent->descriptor().id == id) known = now[j].extent;
      }
      OCM_TRY_ASSIGN(Extent * extent, reader.next(known, now[i].extent->wanted(), fresh));
      if (epoch_said < epoch_now) continue;
      differs = differs || extent != now[i].extent;
      places[i] = {extent, descriptor.epoch()};
      if ((descriptor.lost() || descriptor.vacant()) && !extent->lost()) lost.push_back(extent);
    }
  }
  for (Extent* extent : lost) extent->mark_lost();
  session.renew_receipt(grant.id, message->allocation().receipt());
  if (!differs) return !lost.empty();
  OCM_DASSERT(places.size() == now.size());  // a binding keeps the number of places
  grant.extents.reserve(grant.extents.size() + fresh.size());
  grant.bindings.push_back(std::make_unique<const Binding>(std::move(places)));
  for (std::unique_ptr<Extent>& extent : fresh) grant.extents.push_back(std::move(extent));
  return true;
}

Status return_grant(Session& session, const ReturnedGrant& grant) {
  wire::Envelope request;
  request.mutable_free()->set_allocation_id(grant.id.bytes.data(), grant.id.bytes.size());
  request.mutable_free()->set_hold_id(grant.hold_id);
  request.mutable_free()->set_may_be_named(grant.may_be_named);
  const os::Deadline patience = os::Deadline::after_ns(session.call_deadline_ns());
  os::Interrupts interrupts;
  Status status;
  // The receipt goes last: a daemon that starts anew has to know what is freed.
  for (bool later = false; !later;) {
    Result<std::shared_ptr<Daemon>> to = session.daemon();
    if (to.is_ok() && (*to)->who().session != grant.session) return {};  // it went with its session
    bool sent = false;
    status = to.is_ok() ? session.ask(**to, request, &sent).status() : to.status();
    const bool unheard = status.code() == Code::kDeadline && !sent;
    if (status.code() == Code::kNoDaemon || !to.is_ok()) {
      later = session.free_later(grant.id, grant.hold_id);
    } else if (unheard || (status.code() == Code::kQueueFull && (patience.passed() || interrupts.came()))) {
      later = session.free_later(**to, request, grant.id, grant.hold_id);
    } else if (status.code() == Code::kQueueFull) {
      const timespec pause{0, 10'000'000};
      ::nanosleep(&pause, nullptr);
    } else {
      later = session.handle_ended(**to, grant.id, grant.hold_id);
    }
  }
  if (status.code() == Code::kNotFound) {
    for (const AllocationId& part : grant.parts) OCM_TRY(return_grant(session, {part, grant.session}));
  }
  switch (status.code()) {
    case Code::kNoDaemon:
    case Code::kNotFound:
    case Code::kRevoked: return {};
    default: return status;
  }
}

}  // namespace ocm::client
